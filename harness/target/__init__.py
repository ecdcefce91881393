"""What runs firmware: processes of this host, emulated machines, boards on serial ports."""
