"""What commands do with ExecuTorch's Inspector, and with logged values (``harness.inspector``)."""
