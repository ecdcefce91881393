"""The lab: its units, their leases, flashing, health and power."""
