"""The commands of a history: what it stores, how it changed, decisions and copies."""
