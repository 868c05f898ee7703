"""A teacher that rehearses: its settings, its row and a preset.

Nothing here needs JAX: `atlas train --help` reads it.
"""

from dataclasses import dataclass, replace
from typing import Literal

from atlas.presets import Preset, config_of
from atlas.settings import setting
from atlas.ued import Plan, Row, TeacherConfig


@dataclass(frozen=True, kw_only=True)
class RehearsalConfig(TeacherConfig):
    """New problems are scored, then the best half of them is trained on, a few times over."""

    name: Literal["rehearsal"] = "rehearsal"
    """Which teacher."""
    times: int = setting(2, at_least=1, at_most=64)
    """How often each batch is trained on."""
    score: str = "surprise"
    """What makes a problem worth training on."""

    def plan(self, num_envs: int, minimal: bool = False) -> Plan:
        return Plan(title="Rehearsal", num_train=num_envs, num_eval=2 * num_envs, score=self.score)


REHEARSAL = Row(RehearsalConfig, "atlas_example_plugin.teacher:Rehearsal")
REHEARSAL_TINY = Preset(
    replace(config_of("tiny"), teacher=RehearsalConfig()), "seconds: a teacher that rehearses, from the example package"
)
