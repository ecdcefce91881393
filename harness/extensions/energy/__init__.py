"""Energy of runs: meters, the recording of their samples, and the joules of each event."""
