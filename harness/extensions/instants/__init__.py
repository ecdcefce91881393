"""Tasks, interrupts, marks and counters of an application in reports: docs/library/contexts.md."""
