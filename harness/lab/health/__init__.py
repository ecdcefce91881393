"""Health: whether a unit is what its file says, answers, and has a line that carries.

It is asked part by part, until one fails; what comes after that cannot be told then. Whose a
failure is, the evidence says (``evidence.py``).
"""

from harness.lab.health.examination import examine
from harness.lab.health.repair import heal

__all__ = ["examine", "heal"]
