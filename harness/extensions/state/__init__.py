"""Models with a state: sequences of inputs, and mutable buffers that begin anew."""
