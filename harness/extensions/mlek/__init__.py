"""Firmware that Arm has built: images of its ML evaluation kit, run as they are under QEMU."""
