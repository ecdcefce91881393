"""Health: whether a unit matches its files, answers, and has a reliable line.

Parts are examined in order until one fails; the parts after it cannot be examined then.
"""

from harness.lab.health.examination import examine
from harness.lab.health.repair import heal

__all__ = ["examine", "heal"]
