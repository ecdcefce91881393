"""Files that people write: boards and units, read into records; errors name line and column."""
