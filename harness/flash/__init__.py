"""Brings firmware onto boards: one small class per flashing tool, behind one interface."""
