"""Ethos-U without an NPU: what the blob of EthosUBackend makes the hardware do (docs/npu.md)."""
