"""Serial ports of other hosts whose rate can be set: rfc2217:// addresses (docs/remote.md)."""
