"""Kept during training: the parameters alone, and snapshots of the curriculum (example problems, a picture).

All of it is kept at env steps that `RetentionSchedule` decides on, so it is bounded in number and spread over the run.
"""

import io
import sys
from typing import Any, Final

import jax

from atlas.config import Config
from atlas.fit import Moment
from atlas.runs.folder import RunFolder
from atlas.runs.policy import save_parameters
from atlas.runs.retention import RetentionSchedule, spread
from atlas.runs.store import read_header, save_bulk, write_whole
from atlas.settings import to_plain
from atlas.student.network import Params
from atlas.ued.curriculum import Curriculum, Observer, ancestry, examples

EXAMPLES: Final = 48
"""Problems kept in a snapshot."""
CARDS: Final = 12
"""Problems on its picture."""


class Policies:
    """Keeps the parameters alone, at env steps."""

    def __init__(self, folder: RunFolder, marks: RetentionSchedule) -> None:
        self.folder, self.kept = folder, RetainedFiles(folder, ("policies",), marks)

    def keep(self, params: Params, iteration: int, steps: int, seconds: float) -> None:
        about = {"iteration": iteration, "steps": steps, "seconds": round(seconds, 3)}
        save_parameters(self.folder.snapshot("policies", iteration), params, about)
        self.kept.add(iteration, steps)


class RetainedFiles:
    """The files of some kinds that a run has kept, with their env steps; removes those that the schedule drops."""

    def __init__(self, folder: RunFolder, kinds: tuple[str, ...], marks: RetentionSchedule) -> None:
        self.folder, self.kinds, self.marks = folder, kinds, marks
        self.steps: dict[int, int] = {}
        for iteration in folder.iterations(kinds[0]):
            header = read_header(folder.snapshot(kinds[0], iteration))
            steps = header.get("settings", header).get("steps")
            if isinstance(steps, int):  # a file that does not say when it was made is left alone
                self.steps[iteration] = steps

    def add(self, iteration: int, steps: int) -> None:
        self.steps[iteration] = steps
        stay = self.marks.retained(self.steps.values())
        for old in [old for old, at in self.steps.items() if at not in stay]:
            del self.steps[old]
            for kind in self.kinds:
                self.folder.snapshot(kind, old).unlink(missing_ok=True)


class Snapshots:
    """Looks at the curriculum, and writes snapshots of it into a run's folder."""

    def __init__(self, folder: RunFolder, config: Config, observer: Observer, marks: RetentionSchedule) -> None:
        self.folder, self.config, self.observer = folder, config, observer
        self.kept = RetainedFiles(folder, ("snapshots", "gallery"), marks)
        self.complaint = ""

    def take(self, moment: Moment, keep: bool) -> dict[str, Any]:
        """The record for the metrics. The latest picture is drawn; the problems are kept if `keep`."""
        seen = self.observer.look(moment.state.teacher, moment.iteration)
        record = self.observer.measure(seen, moment.iteration)
        when = {"iteration": moment.iteration, "steps": moment.steps, "seconds": round(moment.seconds, 3)}
        if len(seen):
            some = examples(seen, moment.iteration, EXAMPLES)
            facts = tell(some, self.observer)
            if keep:
                settings = {**when, "config": to_plain(self.config), "examples": facts}
                names = [f"problem-{fact['number']}" for fact in facts]
                # A buffer holds a problem under one number only, but files insist that no two names are alike.
                names = [name if names.index(name) == i else f"{name}-{i}" for i, name in enumerate(names)]
                path = self.folder.snapshot("snapshots", moment.iteration)
                save_bulk(some.problems, path, settings, self.config.run.seed, names, notes=list(map(note, facts)))
            self._draw(some, facts, when, keep)
            if keep:
                self.kept.add(moment.iteration, moment.steps)
        return record

    def _draw(self, some: Curriculum, facts: list[dict[str, Any]], when: dict[str, Any], keep: bool) -> None:
        """A picture that fails is told of once, and training goes on without it."""
        try:
            from atlas.show.media import contact_sheet  # training loads no pictures before there is one to draw

            chosen = spread(len(some), CARDS)
            sheet = contact_sheet(some.rows(chosen).problems, [facts[i] for i in chosen], when)
            buffer = io.BytesIO()
            sheet.save(buffer, "PNG")  # not optimised: a quarter of a second saves two percent of the file
            kept = [self.folder.snapshot("gallery", when["iteration"])] if keep else []
            for path in (*kept, self.folder.latest_picture):
                write_whole(path, buffer.getvalue())
        except Exception as error:
            reason = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
            complaint = f"the gallery could not be drawn ({reason}); training goes on"
            if complaint != self.complaint:
                print(f"atlas: {complaint}", file=sys.stderr)
            self.complaint = complaint


def tell(some: Curriculum, observer: Observer) -> list[dict[str, Any]]:
    """The facts about each example, as plain values."""
    lineages = [jax.tree.map(lambda x, i=i: x[i], some.lineage) for i in range(len(some))]
    return [
        {
            "number": int(lineage.number),
            "probability": float(some.probability[i]),
            "score": float(some.score[i]),
            "attempts": int(some.attempts[i]),
            "solves": int(some.solves[i]),
            "generation": int(lineage.generation),
            "edits": observer.tell_edits(lineage),
            "parent": int(lineage.parent),
        }
        for i, lineage in enumerate(lineages)
    ]


def note(fact: dict[str, Any]) -> str:
    """The facts of an example in a line or two."""
    played = f"solved {fact['solves']:,} of {fact['attempts']:,}" if fact["attempts"] else "not played yet"
    return (
        f"Replayed with probability {fact['probability']:.2%}; {played}; score {fact['score']:.3g}; {ancestry(fact)}."
    )
