"""What runs beside the user's script: `Session`, the elastic group, gradients, reports.

May import the core and torch; never kopf or kubernetes.
"""

from .managed import UnsuitableError
from .session import Session

__all__ = ["Session", "UnsuitableError"]
