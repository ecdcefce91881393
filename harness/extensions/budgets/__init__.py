"""First budgets from measured runs: `etharness check --suggest` (docs/budgets.md)."""
