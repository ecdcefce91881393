"""Why two programs or two runs differ: what changed, and what each change cost."""
