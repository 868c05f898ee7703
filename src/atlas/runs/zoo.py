"""The zoo: trained policies that come with ATLAS. Each is a small run folder inside the package, so that whatever
reads runs reads it by the name `zoo:NAME` (`runs/folder.py` finds it), with a card that says how it was made and how
good it is.

A folder holds the config, the policy in half precision, its held-out problems, a thinned metrics file, evaluations,
the problems of its last snapshot, and `card.yaml`.
"""

import json
import re
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
import yaml

from atlas.config import Config
from atlas.documents import read_plain
from atlas.domains import domain_of
from atlas.errors import AtlasError
from atlas.evaluation.results import FOLDER, results_of
from atlas.evaluation.results import read_evaluation as read_result
from atlas.evaluation.sets import first_set, named_sets
from atlas.evaluation.statistics import STATISTICS
from atlas.runs import folder as places
from atlas.runs import metrics, store
from atlas.runs.demos import load_demos
from atlas.runs.folder import IN_ZOO, RunFolder, find, in_use, located
from atlas.runs.policy import Policy, load_parameters, load_policy
from atlas.runs.retention import spread
from atlas.runs.store import to_arrays, write_whole
from atlas.settings import dump
from atlas.words import command, short

Plain = dict[str, Any]
Track = Literal["blind", "informed", "coached"]
"""blind: problems are drawn without looking, no solver anywhere; informed: tasks are made for their levels, or screened
by the relaxed check; coached: the solver also helps to learn."""
CARD: Final = "card.yaml"
CHOSEN_ON: Final = "validation"
"""The set that every policy has to be evaluated on, in domains that have it."""
MOST_PROBLEMS: Final = 1000
"""Evaluations on larger sets are told in the card alone: problem by problem they would take megabytes."""
MOST_RECORDS: Final = 60
"""Most records of the metrics that are kept."""
POINTS: Final = 12
"""Points of the held-out curve on the card."""
ALPHAS: Final = (1, 5, 10, 20, 50)


@dataclass(frozen=True)
class Card:
    """How a policy was made, and how good it is."""

    title: str
    track: Track
    preset: str
    """The preset it was trained with; empty if its settings are not those of a preset."""
    changes: list[str]
    """The settings that differ from the preset's."""
    levels: str
    """The levels it was trained on, in words: `1, 2 rooms`."""
    seed: int
    minutes: float
    """Minutes of training, compilation included."""
    machine: str
    played: int
    """Env steps played in training."""
    trained: int
    """Env steps that went into updates."""
    shown: int
    """Env steps of demonstrations that it learnt from."""
    init: str
    """The policy whose weights it began with, if any, and how long that one was trained: all other counts are of what
    came afterwards."""
    parameters: int
    rounded: bool
    """Whether its weights were rounded to half precision after it was evaluated."""
    sets: dict[str, Plain]
    """By the name of the set: mean, median and IQM with intervals, CVaR by alpha, rates by tag."""
    held_out: list[Plain]
    """Its learning curve: minutes, env steps and the share of held-out problems that it solved."""


def read_card(name: str) -> Card:
    """The card of a policy in the zoo; one that is missing or was damaged is told in a sentence."""
    path = located(f"{IN_ZOO}{name}")
    card = card_in(path)
    if card is None:
        raise AtlasError(f"{path / CARD} is missing: the installation of ATLAS is damaged")
    return card


def card_in(run: Path) -> Card | None:
    """The card that lies in a folder, if there is one."""
    path = located(run) / CARD
    if not path.is_file():
        return None
    plain = read_plain(path)
    names = [field.name for field in fields(Card)]
    if not isinstance(plain, dict) or {*plain} != {*names}:
        wrong = sorted(map(str, {*names} ^ {*plain})) if isinstance(plain, dict) else names
        raise AtlasError(f"{path}: not a card ({wrong[0]} is missing or unknown)")
    for field in fields(Card):
        kinds: Any = (int, float) if field.type is float else getattr(field.type, "__origin__", field.type)
        fits = plain["track"] in get_args(Track) if field.name == "track" else isinstance(plain[field.name], kinds)
        if not fits or (field.name == "sets" and not all(map(_is_told, plain["sets"].values()))):
            raise AtlasError(f"{path}: not a card ({field.name} is not what it should be)")
    return Card(**plain)


def _is_told(told: Any) -> bool:
    """Whether the numbers of a set are all there."""
    try:
        return all(0 <= told[name]["value"] <= 1 for name in STATISTICS) and told["problems"] > 0
    except (KeyError, TypeError):
        return False


def size_of(name: str) -> int:
    """Bytes that a policy of the zoo takes in the package, with all that lies beside it."""
    return sum(file.stat().st_size for file in located(f"{IN_ZOO}{name}").rglob("*") if file.is_file())


# Adding one


def add(
    run: Path,
    name: str,
    preset: tuple[str, list[str]],
    which: Literal["last", "best"] = "last",
    overwrite: bool = False,
    *,
    title: str,
    track: Track,
    machine: str,
    shown: int = 0,
) -> Path:
    """Make a folder of the zoo from a run; written whole or not at all. Nothing is evaluated here.

    `preset`: the one that its settings come from, and what was changed.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name == "add":
        raise AtlasError(f"'{name}' is not allowed as a name: small letters, digits and hyphens are, and not 'add'")
    target = places.ZOO / name
    if target.exists() and not overwrite:
        raise AtlasError(f"{IN_ZOO}{name} is there already: --overwrite replaces it")
    source = find(run)
    if in_use(source.path):
        raise AtlasError(f"{run} is still being trained: wait until it is finished")
    if source.given_file.exists():
        raise AtlasError(f"{run} was trained with parts that were passed as values, which nobody else has")
    policy = load_policy(run, which)
    config = policy.config
    _require_track(config, track, shown)
    results = _results(run, policy)
    records = [r for r in metrics.read(source.metrics_file) if r.get("iteration", 0) <= policy.iteration]
    if not records:
        raise AtlasError(f"{source.metrics_file} has no records up to iteration {policy.iteration}: there is no curve")
    exact = to_arrays(policy.params)
    rounded = {key: _half(array) for key, array in exact.items()}
    stratum, values = domain_of(config.domain).strata
    examined = [record for record in records if isinstance(record.get("held_out"), dict)]
    card = Card(
        title=title,
        track=track,
        preset=preset[0],
        changes=preset[1],
        levels=f"{', '.join(str(value or 'no') for value in sorted(values, key=lambda v: (not v, v)))} {stratum}",
        seed=config.run.seed,
        minutes=round(policy.seconds / 60, 2),
        machine=machine,
        played=policy.steps,
        trained=config.env_steps(*[int(records[-1].get("trained", 0))] * 2),
        shown=shown,
        init=_init(source),
        parameters=sum(array.size for array in exact.values()),
        rounded=any(not np.array_equal(array, rounded[key]) for key, array in exact.items()),
        sets={stem: _told(run, stem, content) for stem, content in results.items() if "runs" in content},
        held_out=[_point(examined[i]) for i in spread(len(examined), POINTS)] if examined else [],
    )
    unfinished = target.with_name(f".{name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        folder = RunFolder(unfinished)
        write_whole(folder.config_file, dump(config))
        about = {"iteration": policy.iteration, "steps": policy.steps, "seconds": round(policy.seconds, 3)}
        store.write(folder.snapshot("policies", policy.iteration), store.PARAMETERS, rounded, about)
        chosen = [examined[i] for i in spread(len(examined), MOST_RECORDS)] if examined else []
        chosen += records[-1:] if records[-1] not in chosen else []
        write_whole(folder.metrics_file, "".join(json.dumps(record) + "\n" for record in chosen))
        snapshots = sorted(source.snapshots.glob("*.npz"))
        for path in [*snapshots[-1:], *([source.held_out_file] if source.held_out_file.exists() else [])]:
            write_whole(unfinished / path.relative_to(source.path), path.read_bytes())
        for stem, content in results.items():
            if content["set"].get("problems", 0) <= MOST_PROBLEMS:
                write_whole(unfinished / FOLDER / f"{stem}.json", json.dumps(_anonymous(content, name)) + "\n")
        write_whole(unfinished / CARD, yaml.safe_dump(asdict(card), sort_keys=False, width=100, allow_unicode=True))
        if target.exists():
            shutil.rmtree(target)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def steps_shown(run: Path) -> int:
    """Steps of the plans that the student of a run was shown."""
    folder = find(run)
    is_shown = folder.config().student.cloning.plans > 0 and folder.demonstrations_file.exists()
    return int(load_demos(folder.demonstrations_file).lengths.sum()) if is_shown else 0


def _require_track(config: Config, track: Track, shown: int) -> None:
    pairing, plan = config.pairing, config.plan
    looked = {
        f"pairing.how = {pairing.how}": pairing.how != "independent",
        "pairing.solvable = true": pairing.solvable,
        "teacher.edits.screen = true": plan.edits is not None and plan.edits.screen,
        "a score that asks the prover": plan.prove is not None,
    }
    told = [words for words, holds in looked.items() if holds]
    if track == "blind" and told:
        raise AtlasError(f"--track blind is not allowed: the run has {told[0]}, so it is informed or coached")
    if track != "coached" and config.tasks.reward == "outlook":
        raise AtlasError(f"--track {track} is not allowed: the run has tasks.reward = outlook, so it is coached")
    if track != "coached" and config.student.cloning.plans:
        words = f"student.cloning.plans = {config.student.cloning.plans}"
        raise AtlasError(f"--track {track} is not allowed: the run has {words}, so it is coached")
    if shown < 0 or (shown and track != "coached"):
        raise AtlasError(f"--shown {shown} is not allowed: a policy to which an expert showed steps is coached")


def _results(run: Path, policy: Policy) -> dict[str, Plain]:
    """The evaluations of a run. They must be of this policy, and one on the set that policies are chosen on."""
    domain = policy.config.domain.name
    needed = CHOSEN_ON if CHOSEN_ON in named_sets(domain) else first_set(domain)
    results = {stem: read_result(file) for stem, file in results_of(run).items()}
    if needed not in results:
        how = command("eval", run, "--problems", needed)
        raise AtlasError(f"{run} was not evaluated on {needed}, as every policy of the zoo has to be: `{how}` does it")
    for stem, content in results.items():
        for entry in content.get("runs", ()):
            if entry.get("iteration") != policy.iteration:
                raise AtlasError(
                    f"{run} was evaluated on {stem} at iteration {entry.get('iteration')}, and its policy is of "
                    f"iteration {policy.iteration}: evaluate it again"
                )
    return results


def _half(array: np.ndarray) -> np.ndarray:
    """In half precision, if it can be."""
    if array.dtype != np.float32:
        return array
    half = array.astype(np.float16)
    return half if np.isfinite(half).all() else array


def _init(source: RunFolder) -> str:
    """The policy whose weights a run began with, and how long that was trained, if its card still tells; a path on
    somebody's machine is of no use to others."""
    if (own := card_in(source.path)) is not None:
        return own.init
    if not source.init_file.exists():
        return ""
    about = load_parameters(source.init_file)[1]
    begun = str(about.get("from", ""))
    if not begun.startswith(IN_ZOO):
        return "another run"
    card = card_in(Path(begun)) if begun.removeprefix(IN_ZOO) in places.zoo_names() else None
    if card is None or card.played != about.get("steps"):
        return begun
    told = f"{begun} as it was after {card.minutes:.0f} minutes and {short(card.trained)} env steps trained on"
    return f"{told}, which began with {card.init}" if card.init else told


def _told(run: Path, stem: str, content: Plain) -> Plain:
    """The entry of the card for an evaluation."""
    try:
        about, together = content["set"], content["together"]
        tags = together["by_tag"].items()
        return {
            **{key: about[key] for key in ("problems", "attempts", "step_limit")},
            "fingerprint": about["hash"][:12],
            **{name: _rounded(together[name]) for name in STATISTICS},
            "cvar": {one["alpha"]: round(one["value"], 4) for one in together["cvar"] if one["alpha"] in ALPHAS},
            "by_tag": {tag: {"rate": round(one["rate"], 4), "problems": one["problems"]} for tag, one in tags},
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise AtlasError(f"the evaluation of {run} on {stem} is incomplete ({error}): evaluate it again") from None


def _rounded(estimate: Plain) -> Plain:
    return {key: None if value is None else round(value, 4) for key, value in estimate.items()}


def _point(record: Plain) -> Plain:
    return {
        "minutes": round(record["seconds"] / 60, 2),
        "env_steps": record["steps"],
        "solved": round(record["held_out"]["all"], 4),
    }


def _anonymous(content: Plain, name: str) -> Plain:
    """An evaluation without the paths of the machine that made it."""
    zoo = {"run": f"{IN_ZOO}{name}", "path": f"{IN_ZOO}{name}"}
    own = {"runs": [entry | zoo for entry in content["runs"]]} if "runs" in content else {"run": zoo["run"]}
    return content | {"set": content["set"] | {"path": ""}} | own
