"""``etharness doctor``: the tools that this host has and lacks."""
