"""Chips at the level of their registers, for ports that no simulator has a machine for.

Unicorn executes the very image that goes onto a board. Of the chip there is what its reference
manual says of the registers that a port may use, written down again for the tests; an access to
anything else fails, and so does a write of reserved bits. Rates of the line and the counter follow
from what the port wrote into the clock tree.
"""
