"""What would make the slowest operators of a method cheaper on its core (docs/advice.md)."""
