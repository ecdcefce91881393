"""A static site of all results of a history, for teams to look at (``docs/site.md``)."""
