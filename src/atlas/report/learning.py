"""Charts of learning: held-out problems, evaluations over time, losses and other signs of health."""

from collections.abc import Iterator, Sequence
from typing import Final

from atlas.report.charts import Chart, Format, Line, lines
from atlas.report.curves import Curve, at, curve, join, keys, points
from atlas.report.reading import Group

BAND: Final = "In all curves over training, lines are means over seeds, and bands reach from the lowest to the highest."
AGGREGATES: Final = {"mean": "mean", "iqm": "IQM", "median": "median"}
LOSSES: Final[dict[str, tuple[str, str, Format]]] = {
    "policy": ("Policy loss", "Mean over the minibatches of a rollout.", "number"),
    "value": ("Value loss", "Half the squared error of the values, clipped as configured.", "number"),
    "entropy": ("Entropy", "Of the policy, in nats; six equally likely actions have 1.79.", "number"),
    "kl": ("KL divergence", "Estimated divergence from the policy that acted.", "number"),
    "clipped": ("Clipped ratios", "Share of steps whose ratio left the clipping range.", "share"),
    "gradient_norm": ("Gradient norm", "Before clipping.", "number"),
    "explained_variance": (
        "Explained variance",
        "Of the targets by the values; 1 is all, 0 or less nothing.",
        "number",
    ),
}
"""Name in the records -> title, caption, form."""


def compared(groups: Sequence[Group], *path: str) -> list[Line]:
    """One line a group, of the number under a path of keys."""
    found = ((number, group, curve(group, at(*path))) for number, group in enumerate(groups))
    return [Line(group.name, line, ink=number) for number, group, line in found if line is not None]


def held_out(groups: Sequence[Group]) -> Iterator[Chart]:
    """Solve rates on problems of a run's own kind that it never trains on: of all, and by number of rooms."""
    limits = sorted({group.config.domain.step_limit for group in groups})
    within = f"within {' or '.join(map(str, limits))} steps"
    words = f"Share of held-out problems solved {within}."
    rooms = sorted({key for group in groups for key in keys(group, "held_out") if key != "all"}, key=_room_count)
    if len(groups) == 1:
        series = [Line(_rooms(key), line) for key in rooms if (line := curve(groups[0], at("held_out", key)))]
        everything = curve(groups[0], at("held_out", "all"))
        series += [Line("all", everything, dashed=True, ink=7)] if everything else []
        if series:
            yield Chart("held-out", "Held-out problems", words, lines(series, "share", 0.0))
        return
    for key in ("all", *(rooms if len(rooms) > 1 else ())):
        if series := compared(groups, "held_out", key):
            title = "Held-out problems" + (f", {_rooms(key)}" if key != "all" else "")
            yield Chart(f"held-out-{key.replace('_', '-')}", title, words, lines(series, "share", 0.0))


def _room_count(key: str) -> int:
    return int(key.rpartition("_")[2]) if key.rpartition("_")[2].isdecimal() else 0


def _rooms(key: str) -> str:
    count = _room_count(key)
    return f"{count} room{'s' * (count != 1)}"


def over_time(groups: Sequence[Group]) -> Iterator[Chart]:
    """Evaluations of the policies that were kept along the way, a chart for each set."""
    names = dict.fromkeys(name for group in groups for run in group.runs for name in run.over_time)
    for name in names:
        told = next(run.over_time[name] for group in groups for run in group.runs if name in run.over_time)
        limit = told.get("set", {}).get("step_limit", "?")
        found = [
            (number, group, kind, line)
            for number, group in enumerate(groups)
            for kind in (AGGREGATES if len(groups) == 1 else ("mean",))
            if (line := _over_time(group, name, kind)) is not None
        ]
        alone = len(groups) == 1
        series = [
            Line(AGGREGATES[kind] if alone else group.name, line, ink=None if alone else number)
            for number, group, kind, line in found
        ]
        what = "Solve rate" if alone else "Mean solve rate"
        words = f"{what} on the set {name} within {limit} steps, of policies kept on the way."
        if series:
            yield Chart(f"over-time-{name}", f"{name} over time", words, lines(series, "share", 0.0))


def _over_time(group: Group, name: str, kind: str) -> Curve | None:
    told = [run.over_time[name]["points"] for run in group.runs if name in run.over_time]
    return join([line for entry in told if (line := points(entry, at(kind))) is not None])


def diagnostics(groups: Sequence[Group]) -> Iterator[Chart]:
    """Losses, solve rates while training, the buffer and the speed."""
    for name, (title, words, form) in LOSSES.items():
        if series := compared(groups, "losses", name):
            yield Chart(f"loss-{name.replace('_', '-')}", title, words, lines(series, form))
    by_kind: tuple[tuple[str, str, Format, str], ...] = (
        ("solve_rate", "Solved while training", "share", "Share of episodes solved"),
        ("score", "Score", "number", "Mean score of the problems"),
    )
    for what, title, form, words in by_kind:
        yield from _by_kind(groups, what, title, form, words)
    if series := compared(groups, "buffer", "fill"):
        yield Chart("buffer", "Problems in the buffer", "How many problems it holds.", lines(series, "number", 0.0))
    if series := compared(groups, "steps_per_second"):
        yield Chart(
            "speed", "Speed", "Env steps a second, evaluation-only ones included.", lines(series, "number", 0.0)
        )


def _by_kind(groups: Sequence[Group], what: str, title: str, form: Format, words: str) -> Iterator[Chart]:
    """One chart with the kinds of batches as lines; of several groups one chart for each kind."""
    if len(groups) == 1:
        found = ((kind, curve(groups[0], at(what, kind))) for kind in keys(groups[0], what))
        series = [Line(kind, line) for kind, line in found if line is not None]
        caption = f"{words}, by kind of batch."
        if series:
            yield Chart(what.replace("_", "-"), title, caption, lines(series, form))
        return
    for kind in dict.fromkeys(key for group in groups for key in keys(group, what)):
        caption = f"{words}, {kind} problems."
        if series := compared(groups, what, kind):
            yield Chart(f"{what.replace('_', '-')}-{kind}", f"{title}: {kind}", caption, lines(series, form))
