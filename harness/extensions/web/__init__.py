"""Reports as HTML pages, and a static site of a history (docs/reports.md, docs/site.md)."""
