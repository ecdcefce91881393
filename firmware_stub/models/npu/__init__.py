"""The ahead-of-time half of the simulated NPU: what turns part of a PyTorch program into a job."""
