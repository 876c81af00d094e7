"""A cluster in memory and in virtual time, around the real operator: what histories are made of.

`store` keeps objects as an API server does, `nodes` runs pods as kubelets do, `front` is the API as one operator meets
it (late, away, refusing, or losing an answer), `watching` what reaches it of the changes, `training` who trains,
`operators` the real parts of an operator, `witness` what must always be true, `world` all of it together.
"""

from .witness import Witness
from .world import World

__all__ = ["Witness", "World"]
