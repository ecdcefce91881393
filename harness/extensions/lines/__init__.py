"""What is wrong with a line on which frames arrive damaged: docs/troubleshooting.md."""
