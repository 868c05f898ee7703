"""What `atlas eval` finds out, as plain values, as files (`RUN/evaluations/<set>.json`) and as people read it.

A file holds the set, the result of each run (its problems one by one, and over all), and all runs together. One
written with `--over-time` holds a point for each policy that a run has kept.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from rich.markup import escape
from rich.table import Table

from atlas.documents import parse_json, read_text
from atlas.domains import domain_for
from atlas.errors import AtlasError
from atlas.evaluation.play import Attempts
from atlas.evaluation.sets import ProblemSet
from atlas.evaluation.statistics import (
    ALPHAS,
    STATISTICS,
    TOO_FEW_FOR_CVAR,
    WORTH_SHOWING,
    Estimate,
    bootstrap,
    cvar,
    cvar_over_runs,
    cvar_protocol,
    resampling_unit,
    wilson,
)
from atlas.runs.folder import called, is_in_zoo
from atlas.runs.policy import Policy, run_of
from atlas.runs.screen import Screen
from atlas.runs.store import write_whole
from atlas.tasks.machine import Task, machine_name
from atlas.tasks.packed import unpack
from atlas.vocabulary import RUNNING
from atlas.words import plural

FOLDER: Final = "evaluations"
OVER_TIME: Final = "-over-time"
GREEDY: Final = "-greedy"
ENOUGH: Final = 2
"""CVaR needs so many attempts: some to rank by, others to average."""

Plain = dict[str, Any]


@dataclass(frozen=True)
class Terms:
    """How a set was put to policies."""

    attempts: int
    greedy: bool
    seed: int
    step_limit: int


def describe_set(chosen: ProblemSet, terms: Terms) -> Plain:
    """The set and the terms."""
    return {
        "name": chosen.name,
        "path": str(chosen.path),
        "hash": chosen.fingerprint,
        "problems": len(chosen.problems),
        **asdict(terms),
        "skipped": chosen.bad,
    }


def evaluation(
    chosen: ProblemSet, plan_lengths: Sequence[int | None], terms: Terms, results: Sequence[tuple[Policy, Attempts]]
) -> Plain:
    """All that is known about some runs on a set."""
    about = _about_problems(chosen, plan_lengths, results[0][1].trivial)
    tasks = [unpack(problem.task) for problem in chosen.problems]
    runs = [_of_run(policy, attempts, about, tasks, terms) for policy, attempts in results]
    solved = np.stack([attempts.solved for _, attempts in results])
    return {"set": describe_set(chosen, terms), "runs": runs, "together": _together(solved, about, terms)}


def by_experiment(results: Sequence[tuple[Policy, Attempts]]) -> list[list[tuple[Policy, Attempts]]]:
    """The results that are repetitions of each other: of equal settings and different seeds. Only such are averaged."""
    groups: list[list[tuple[Policy, Attempts]]] = []
    for one in results:
        config = one[0].config
        for group in groups:
            seeds = {policy.config.run.seed for policy, _ in group}
            if group[0][0].config.experiment == config.experiment and config.run.seed not in seeds:
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _about_problems(chosen: ProblemSet, plan_lengths: Sequence[int | None], trivial: np.ndarray) -> list[Plain]:
    """Facts about the problems that do not depend on who plays."""
    domain = domain_for(chosen.problems[0])
    stratum, _ = domain.strata
    return [
        {
            "name": problem.name,
            "tags": list(problem.tags),
            stratum: int(domain.measure(jax.tree.map(jnp.asarray, problem.level))[stratum]),
            "states": _count_states(unpack(problem.task)),
            "plan_length": length,
            "trivial": bool(done),
        }
        for problem, length, done in zip(chosen.problems, plan_lengths, trivial, strict=True)
    ]


def _count_states(task: Task) -> int:
    """States of all machines of a task, unused numbers left out."""
    return sum(
        len({*one.states, *(u for u, outcome in enumerate(one.outcomes) if outcome != RUNNING)})
        for one in task.machines
    )


def _of_run(policy: Policy, attempts: Attempts, about: list[Plain], tasks: Sequence[Task], terms: Terms) -> Plain:
    solved = attempts.solved
    rates = solved.mean(1)
    rows = [
        _of_problem(one, solved[n], attempts.steps[n], terms.greedy)
        | _failures(task, solved[n], attempts.timed_out[n], attempts.place[n])
        for n, (one, task) in enumerate(zip(about, tasks, strict=True))
    ]
    ranked = solved[~attempts.trivial]
    curve = cvar(ranked) if _has_cvar(ranked) else ()
    return {
        "run": called(policy.run),
        "path": policy.name,
        "iteration": policy.iteration,
        "steps": policy.steps,
        "seconds": policy.seconds,
        **{name: of(rates) for name, of in STATISTICS.items()},
        "trivial": int(attempts.trivial.sum()),
        **_against_plans(rows),
        "by_tag": {tag: _pooled(solved[members]) for tag, members in _tags(about).items()},
        "cvar": [{"alpha": alpha, "value": float(value)} for alpha, value in zip(ALPHAS, curve, strict=False)],
        "problems": rows,
    }


def _has_cvar(solved: np.ndarray) -> bool:
    """Whether there are problems (trivial ones left out), and attempts at each to rank by and others to average."""
    return solved.shape[-1] >= ENOUGH and solved.shape[-2] > 0


def _of_problem(about: Plain, solved: np.ndarray, steps: np.ndarray, greedy: bool) -> Plain:
    """One problem. Steps are those of attempts that succeeded. A greedy attempt leaves nothing to chance."""
    estimate = wilson(int(solved.sum()), len(solved))
    if greedy:
        estimate = Estimate(estimate.value, None, None)
    return {
        **about,
        "attempts": len(solved),
        "solved": int(solved.sum()),
        "rate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "mean_steps": float(steps[solved].mean()) if solved.any() else None,
    }


def _failures(task: Task, solved: np.ndarray, timed_out: np.ndarray, places: np.ndarray) -> Plain:
    """How many attempts were rejected, how many ran out of time, and in which states of the task the latter stood."""
    stood = Counter(
        ("" if task.is_flat else f"{machine_name(m)}:") + task.machines[m].name(u)
        for m, u in places[timed_out].tolist()
    )
    return {
        "rejected": int((~solved & ~timed_out).sum()),
        "timed_out": int(timed_out.sum()),
        "stalled": dict(stood.most_common()),
    }


def _against_plans(rows: list[Plain]) -> Plain:
    """Mean steps of success and mean length of the prover's plans, both over the problems that were ever solved."""
    both = [(row["mean_steps"], row["plan_length"]) for row in rows if row["solved"] and row["plan_length"]]
    steps, plans = np.mean(both, axis=0).tolist() if both else (None, None)
    return {"mean_steps": steps, "mean_plan_length": plans}


def _tags(about: list[Plain]) -> dict[str, list[int]]:
    """The numbers of the problems that carry each tag."""
    found: dict[str, list[int]] = {}
    for number, one in enumerate(about):
        for tag in one["tags"]:
            found.setdefault(tag, []).append(number)
    return dict(sorted(found.items()))


def _pooled(solved: np.ndarray) -> Plain:
    """The share of attempts that succeeded."""
    estimate = wilson(int(solved.sum()), solved.size)
    return {"rate": estimate.value, "low": estimate.low, "high": estimate.high, "problems": len(solved)}


def _together(solved: np.ndarray, about: list[Plain], terms: Terms) -> Plain:
    """Over all runs; `solved[runs, problems, attempts]`."""
    rates = solved.mean(2)
    estimates = bootstrap(STATISTICS, rates, terms.attempts, terms.seed)
    trivial = np.array([one["trivial"] for one in about])
    ranked = solved[:, ~trivial]
    curve = cvar_over_runs(ranked, seed=terms.seed) if _has_cvar(ranked) else []
    return {
        "runs": len(solved),
        "interval": resampling_unit(len(solved), terms.attempts),
        **{name: asdict(estimate) for name, estimate in estimates.items()},
        "trivial": int(trivial.sum()),
        "cvar_protocol": cvar_protocol(terms.attempts) if curve else None,
        "by_tag": {tag: _tag_together(solved[:, members], terms) for tag, members in _tags(about).items()},
        "cvar": [{"alpha": alpha, **asdict(point)} for alpha, point in zip(ALPHAS, curve, strict=False)],
    }


def _tag_together(solved: np.ndarray, terms: Terms) -> Plain:
    if len(solved) == 1:
        return _pooled(solved[0])
    found: Estimate = bootstrap({"mean": STATISTICS["mean"]}, solved.mean(2), terms.attempts, terms.seed)["mean"]
    return {"rate": found.value, "low": found.low, "high": found.high, "problems": solved.shape[1]}


def over_time(chosen: ProblemSet, terms: Terms, run: Path, results: Sequence[tuple[Policy, Attempts]]) -> Plain:
    """A run's policies through time on a set: rates over all and by problem, in the order of `problems`."""
    points = [
        {
            "iteration": policy.iteration,
            "steps": policy.steps,
            "seconds": policy.seconds,
            **{name: of(rates) for name, of in STATISTICS.items()},
            "rates": [round(float(rate), 6) for rate in rates],
        }
        for policy, attempts in results
        for rates in [attempts.solved.mean(1)]
    ]
    names = [problem.name for problem in chosen.problems]
    return {"set": describe_set(chosen, terms), "run": called(run), "problems": names, "points": points}


def results_folder(given: Path) -> Path:
    """The folder for the results of a policy: in its run, or below the current folder if it is one of the zoo."""
    return Path(FOLDER) / str(given).replace(":", "-") if is_in_zoo(given) else run_of(given) / FOLDER


def results_of(given: Path) -> dict[str, Path]:
    """The files of results that there are of a run or a policy of the zoo, by the set's name."""
    folders = (run_of(given) / FOLDER, results_folder(given))
    return {file.stem: file for folder in folders for file in sorted(folder.glob("*.json"))}


def evaluation_file(policy: Policy, name: str, given: Path, greedy: bool = False) -> Path:
    """The file for a result. That of a certain checkpoint, given by its path, is not what the run came to: it is kept
    apart, and so are greedy attempts."""
    folder = results_folder(given)
    folder = folder / f"at-{policy.iteration:09d}" if policy.path == given else folder
    return folder / f"{name}{GREEDY * greedy}.json"


def over_time_file(given: Path, name: str, greedy: bool = False) -> Path:
    """The file for a curve over training."""
    return results_folder(given) / f"{name}{GREEDY * greedy}{OVER_TIME}.json"


def write_evaluation(path: Path, content: Plain) -> None:
    """Write a file whole."""
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_evaluation(path: Path) -> Plain:
    """Read one back, of either kind."""
    try:
        content = parse_json(read_text(path))
    except (ValueError, OSError) as error:
        raise AtlasError(f"{path}: not a readable evaluation ({error})") from None
    if not isinstance(content, dict) or "set" not in content or not (content.get("runs") or content.get("points")):
        raise AtlasError(f"{path}: not an evaluation")
    try:
        rows = [row for run in content.get("runs", ()) for row in run.get("problems") or ()]
        sound = all(isinstance(row["name"], str) and 0 <= row["rate"] <= 1 for row in rows)
        sound &= all(isinstance(tag, str) for row in rows for tag in row.get("tags", ()))
        sound &= (
            all(point["steps"] >= 0 for point in content.get("points", ())) and content["set"].get("attempts", 1) > 0
        )
    except (AttributeError, KeyError, TypeError):
        sound = False
    if not sound:
        raise AtlasError(f"{path}: not an evaluation: something in it is missing or of the wrong kind")
    return content


# An evaluation as people read it in a terminal.

WORST: Final = 15
"""Problems that are shown unless all are asked for."""
SHOWN_ALPHAS: Final = (1, 5, 10, 20, 50)
ONE_ALPHA: Final = 10
WIDE: Final = 110
"""Columns of a terminal that has room for tags."""
AGGREGATES: Final = {"iqm": "IQM", "mean": "mean", "median": "median"}


def print_evaluation(content: Plain, everything: bool) -> None:
    """The set and the terms, the problems (worst first), the tags, and over all."""
    console = Screen()
    rows = _over_runs(content["runs"])
    console.print(_headline(content))
    console.print(_problems(rows if everything else rows[:WORST], console.width >= WIDE))
    if not everything and len(rows) > WORST:
        left = rows[WORST:]
        console.print(f"… and {len(left)} more, solved at {_span(left)} (--all shows them)")
    if content["together"]["by_tag"]:
        console.print("", _tag_table(content["together"]["by_tag"]), sep="\n")
    console.print("", _overall(content), "", _runs(content), sep="\n")
    console.print("", _notes(content), sep="\n")


def _headline(content: Plain) -> str:
    about = content["set"]
    how = "greedy" if about["greedy"] else "sampled actions"
    tries = f"{plural(about['problems'], 'problem')} x {plural(about['attempts'], 'attempt')}"
    return (
        f"[bold]{escape(about['name'])}[/]: {tries}, solved within "
        f"[bold]{about['step_limit']} steps[/], {how}, seed {about['seed']}, fingerprint {about['hash'][:12]}\n"
    )


def _over_runs(runs: list[Plain]) -> list[Plain]:
    """The problems, worst first, with the attempts of all runs."""
    rows = []
    for same in zip(*(run["problems"] for run in runs), strict=True):
        if len(same) == 1:
            rows.append(same[0])
            continue
        solved, attempts = (sum(row[key] for row in same) for key in ("solved", "attempts"))
        found = wilson(solved, attempts)
        steps = [row["mean_steps"] for row in same if row["mean_steps"] is not None]
        mean_steps = float(np.mean(steps)) if steps else None
        rows.append({**same[0], "rate": found.value, "low": found.low, "high": found.high, "mean_steps": mean_steps})
    return sorted(rows, key=lambda row: row["rate"])


def _span(rows: list[Plain]) -> str:
    low, high = _percent(rows[0]["rate"]), _percent(rows[-1]["rate"])
    return low if low == high else f"{low} to {high}"


def _percent(rate: float) -> str:
    return f"{100 * rate:.0f} %"


def _interval(low: float | None, high: float | None, scale: float = 100, digits: int = 0) -> str:
    return "" if low is None or high is None else f"[dim]{scale * low:.{digits}f} – {scale * high:.{digits}f}[/]"


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        left = heading in ("problem", "tags", "tag", "run", "over all", "")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True, overflow="ellipsis")
    return table


def _problems(rows: list[Plain], wide: bool) -> Table:
    """A row for each problem; its tags where there is room for them."""
    stratum = stratum_of(rows[0])
    headings = ("problem", "solved", "95 %", stratum, "states", "steps", "plan", "tags")
    table = _table(*headings[: None if wide else -1])
    for row in rows:
        colour = "red" if row["rate"] < 0.25 else "yellow" if row["rate"] < 0.75 else "green"
        cells = (
            escape(row["name"]) + (" [dim](trivial)[/]" if row.get("trivial") else ""),
            f"[{colour}]{_percent(row['rate'])}[/]",
            _interval(row["low"], row["high"]),
            str(row.get(stratum) or "–"),
            str(row["states"]),
            "–" if row["mean_steps"] is None else f"{row['mean_steps']:.0f}",
            str(row["plan_length"] or "–"),
            f"[dim]{escape(' '.join(t for t in row['tags'] if not t.startswith((f'{stratum}-', 'states-'))))}[/]",
        )
        table.add_row(*cells[: len(table.columns)])
    return table


def stratum_of(row: Plain) -> str:
    """The name of the column that tells levels apart: it stands between the tags and the states."""
    names = list(row)
    return names[names.index("states") - 1] if "states" in names else "rooms"


def _tag_table(by_tag: Plain) -> Table:
    table = _table("tag", "problems", "solved", "95 %")
    for tag, found in sorted(by_tag.items(), key=lambda item: item[1]["rate"]):
        rate, between = _percent(found["rate"]), _interval(found["low"], found["high"])
        table.add_row(escape(tag), str(found["problems"]), rate, between)
    return table


def _shows_cvar(content: Plain) -> bool:
    return int(content["set"]["attempts"]) >= WORTH_SHOWING


def _overall(content: Plain) -> Table:
    """Every number over all problems and runs, with its interval."""
    together = content["together"]
    curve = {point["alpha"]: point for point in together["cvar"] if _shows_cvar(content)}
    rows = {words: together[name] for name, words in AGGREGATES.items()}
    rows |= {f"worst {alpha} %": curve[alpha] for alpha in SHOWN_ALPHAS if alpha in curve}
    table = _table("over all", "solved", "95 %")
    for words, found in rows.items():
        between = _interval(found["low"], found["high"], scale=1, digits=3)
        table.add_row(words, f"[bold]{found['value']:.3f}[/]", between)
    return table


def _runs(content: Plain) -> Table:
    """A row for each run."""
    shown = _shows_cvar(content)
    table = _table("run", *AGGREGATES.values(), *[f"worst {ONE_ALPHA} %"] * shown, "steps", "plan")
    for run in content["runs"]:
        worst = [f"{point['value']:.3f}" for point in run["cvar"] if point["alpha"] == ONE_ALPHA]
        name = f"{Path(run['run']).name}, iteration {run['iteration']}"
        steps = (run["mean_steps"], run["mean_plan_length"])
        table.add_row(
            escape(name),
            *(f"{run[name]:.3f}" for name in AGGREGATES),
            *(worst or ["–"]) * shown,
            *("–" if number is None else f"{number:.1f}" for number in steps),
        )
    return table


def _notes(content: Plain) -> str:
    together = content["together"]
    drawn = together["interval"]
    parts = [f"Intervals: of single problems Wilson's, over all from {drawn}; none where that tells nothing."]
    if content["set"]["greedy"]:
        parts = [f"Intervals: from {drawn}. Greedy attempts at a problem are all the same, so there is one."]
    if not _shows_cvar(content) and not content["set"]["greedy"]:
        parts.append(TOO_FEW_FOR_CVAR)
    elif together["cvar_protocol"]:
        parts.append(f"Worst: CVaR, {together['cvar_protocol']}.")
    if skipped := content["set"].get("skipped"):
        parts.append(skipped_words(skipped))
    if trivial := together["trivial"]:
        are = "is" if trivial == 1 else "are"
        parts.append(
            f"{trivial} of {plural(content['set']['problems'], 'problem')} {are} trivial (completed by the first "
            "label): solved in IQM, mean and median, left out of CVaR."
        )
    parts.append("Steps: of attempts that succeeded, beside the prover's plans for the same problems.")
    return f"[dim]{' '.join(parts)}[/]"


def skipped_words(sentences: Sequence[str]) -> str:
    """What `--skip-bad` left out."""
    return f"Left out, since it could not be read: {'; '.join(map(str, sentences))}."


def print_curve(curve: Plain) -> None:
    """How a run did on a set through time."""
    console = Screen()
    about = curve["set"]
    console.print(
        f"[bold]{escape(curve['run'])}[/] on [bold]{escape(about['name'])}[/]: "
        f"{plural(about['problems'], 'problem')} x {plural(about['attempts'], 'attempt')}, "
        f"solved within [bold]{about['step_limit']} steps[/]"
    )
    table = _table("iteration", "env steps", "minutes", *AGGREGATES.values(), "")
    for point in curve["points"]:
        table.add_row(
            str(point["iteration"]),
            f"{point['steps']:,}",
            f"{point['seconds'] / 60:.1f}",
            *(f"{point[name]:.3f}" for name in AGGREGATES),
            "█" * round(30 * point["mean"]),
        )
    console.print(table, "", sep="\n")
