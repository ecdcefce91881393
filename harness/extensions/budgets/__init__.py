"""Budgets: their rules (`etharness budget`), and first ones from runs (`check --suggest`)."""
