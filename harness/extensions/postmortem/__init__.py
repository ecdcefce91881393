"""``etharness postmortem``: what a board was doing when it crashed (``docs/postmortem.md``)."""
