"""The teachers by the name of their settings. A new one is a file beside this one and its row."""

from collections.abc import Callable

from atlas.types import Teacher
from atlas.ued.accel import ACCEL
from atlas.ued.dr import DR
from atlas.ued.plr import PLR

TEACHERS: dict[str, Callable[..., Teacher]] = {"dr": DR, "plr": PLR, "accel": ACCEL}
"""Each is made from its settings and a `Supply`."""
