"""Problems with a name: what files hold and evaluation reports on."""

from dataclasses import dataclass

from atlas.struct import static
from atlas.types import Problem


@dataclass(frozen=True)
class About:
    """What people say about a problem. Not traced: compared by value, so that JAX never mixes up two names."""

    name: str = ""
    notes: str = ""
    tags: tuple[str, ...] = ()
    source: str = ""
    """The file it came from."""


class NamedProblem(Problem):
    """A problem and what is known about it."""

    about: About = static(About())

    @property
    def name(self) -> str:
        """How reports call it."""
        return self.about.name

    @property
    def notes(self) -> str:
        """What its author wanted to say."""
        return self.about.notes

    @property
    def tags(self) -> tuple[str, ...]:
        """Words to group by."""
        return self.about.tags

    @property
    def source(self) -> str:
        """The file it came from."""
        return self.about.source

    def bare(self) -> Problem:
        """The problem alone: functions that are compiled for it serve all problems of its size."""
        return Problem(level=self.level, task=self.task)


def bare(problem: Problem) -> Problem:
    """A problem without its name, if it had one."""
    return problem.bare() if isinstance(problem, NamedProblem) else problem
