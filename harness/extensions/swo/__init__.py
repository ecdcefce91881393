"""Device logs in the trace that a debug probe records from the SWO pin of a Cortex-M."""
