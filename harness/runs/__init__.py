"""One run: its request, steps, directory and verdict, and its replay from a recording."""
