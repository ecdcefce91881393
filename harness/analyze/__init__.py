"""Questions to a trace: clocks, statistics, call tree, memory, tensors, values, comparison."""
