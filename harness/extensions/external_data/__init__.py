"""Constants of a program that ExecuTorch keeps in ``.ptd`` files (``docs/external-data.md``)."""
