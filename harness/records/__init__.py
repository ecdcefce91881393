"""Plain data that every room may import; nothing here imports another room."""
