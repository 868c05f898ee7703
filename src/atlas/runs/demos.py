"""Demonstrations: problems with plans that solve them. The world is deterministic, so a problem and a plan say it all.

They are made in pieces that are kept beside the file until it is whole (`FILE.parts`): whoever is stopped, or killed,
goes on with the same command. What is in a piece follows from its number alone, so neither the number of processes nor
where it was stopped matters.
"""

import contextlib
import io
import multiprocessing
import os
import signal
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jax
import numpy as np
from jaxtyping import Int32, UInt8

from atlas.config import Config
from atlas.domains import default_name, domain_of, name_for, settings_class, surface_for, surface_of
from atlas.errors import AtlasError, extra, nearest
from atlas.evaluation.sets import fingerprint, named_sets, one_by_one, open_set
from atlas.presets import config_of, presets
from atlas.problems import stack
from atlas.proofs import Transitions, accepted_after, transitions
from atlas.runs.folder import RunFolder, located
from atlas.runs.store import (
    DEMONSTRATIONS,
    Arrays,
    problem_arrays,
    problem_metadata,
    problems_of,
    read,
    read_header,
    write,
)
from atlas.settings import dump, to_plain
from atlas.tasks.packed import unpack
from atlas.types import About, NamedProblem, Problem

if TYPE_CHECKING:
    from atlas.evaluation.sets import Progress

PIECE: Final = 256
"""Problems that are proven at a time: what is lost at most when a process is killed."""
HOPELESS: Final = 64
"""Pieces in a row without a plan, after which no more are drawn."""
BUDGET: Final = 1500
MOST_ACTIONS: Final = 256
"""Actions are kept in bytes."""


# Reading


@dataclass(frozen=True, eq=False)
class Demos:
    """Demonstrations as arrays on the host: row i of everything is problem i and its plan."""

    problems: Problem
    """Batched: levels and tasks at one size."""
    plans: UInt8[np.ndarray, "demos steps"]
    """Actions by number; 0 behind the end of a plan."""
    lengths: Int32[np.ndarray, "demos"]
    """How many actions each plan has: the last of them completes the task."""
    names: tuple[str, ...]
    """Names of the problems, where they come from a set; empty if they were drawn."""
    tags: tuple[tuple[str, ...], ...]
    recipe: dict[str, Any]
    """How they were made, in plain values."""
    domain: str

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> tuple[NamedProblem, tuple[int, ...]]:
        """One problem, at its natural size, and its plan."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"there is no demonstration {row}: there are {len(self)}")
        row %= len(self)
        one: Problem = jax.tree.map(lambda leaf: leaf[row], self.problems)
        about = About(self.names[row], tags=self.tags[row]) if self.names else About(name=str(row))
        problem = NamedProblem(level=surface_of(self.domain).crop(one.level), task=unpack(one.task), about=about)
        return problem, tuple(self.plans[row, : self.lengths[row]].tolist())

    def transitions(self, rows: Sequence[int] | slice | np.ndarray = slice(None)) -> Transitions:
        """Views, task states, actions, rewards and ends of some demonstrations, or of all, replayed now."""
        some = np.arange(len(self))[rows]
        if some.size == 0:
            raise AtlasError("no demonstrations were chosen")
        steps = int(self.lengths[some].max())
        problems = jax.tree.map(lambda leaf: leaf[some], self.problems)
        return transitions(problems, self.plans[some, :steps], self.lengths[some])


def load_demos(path: Path | str, domain: str | None = None) -> Demos:
    """Demonstrations that `atlas demos` wrote. With a domain, those of another one are refused."""
    if not Path(path).is_file():
        raise AtlasError(f"{path}: {'is a folder' if Path(path).is_dir() else 'does not exist'}")
    header, arrays = read(path, DEMONSTRATIONS)
    plans, lengths = arrays.pop("plans", None), arrays.pop("lengths", None)
    own = header.get("domain", default_name())
    if domain is not None and own != domain:
        raise AtlasError(f"{path}: demonstrations in the domain {own}, and {domain} is needed")
    if (
        plans is None or lengths is None or plans.dtype != np.uint8 or plans.ndim != 2
        or lengths.dtype != np.int32 or lengths.shape != plans.shape[:1] or len(lengths) == 0
        or lengths.min() < 1 or lengths.max() > plans.shape[1]
    ):  # fmt: skip
        raise AtlasError(f"{path}: there is no plan for each problem in it")
    names, tags, _ = problem_metadata(path, header)
    if len(names) not in (0, len(lengths)):
        raise AtlasError(f"{path}: {len(names)} names for {len(lengths)} demonstrations")
    problems = problems_of(path, header, arrays, len(lengths))
    actions = domain_of(settings_class(own)()).actions
    if plans.max() >= len(actions):
        raise AtlasError(f"{path}: action {plans.max()} in a plan; there are {len(actions)} in the domain {own}")
    recipe = header.get("recipe")
    return Demos(problems, plans, lengths, names, tags, recipe if isinstance(recipe, dict) else {}, own)


# What is to be demonstrated


@dataclass(frozen=True)
class Order:
    """Problems to demonstrate, in pieces."""

    words: str
    """The source as the user gave it."""
    domain: str
    recipe: dict[str, Any]
    """Tells them, and how plans are looked for, from all others."""
    piece: Callable[[int], Problem]
    """Some problems as a batch, by number of the piece."""
    pieces: int | None
    """How many there are; None if there is no end to them."""
    wanted: int
    """Demonstrations, at most."""
    names: tuple[str, ...] = ()
    tags: tuple[tuple[str, ...], ...] = ()
    step_limit: int = 0


def order(
    words: str, n: int | None, seed: int = 0, budget: int = BUDGET, polish: int = 0, progress: "Progress | None" = None
) -> Order:
    """The problems of a set (by name or path), or problems drawn as a preset or a run (by its folder) draws them."""
    common = {"budget": budget, "polish": polish, "piece": PIECE, "atlas": version("atlas-ued")}
    if words in presets() and words not in named_sets() and not Path(words).exists():
        return _drawn(words, config_of(words), n, seed, common)
    if (run := RunFolder(located(words))).is_run():
        return _drawn(words, run.config(), n, seed, common)
    if words not in named_sets() and not Path(words).exists() and ":" not in words:
        known = [*named_sets(), *presets()]
        hint = nearest(words, known) or "; `atlas sets list` and `atlas presets` list them"
        raise AtlasError(f"{words} is neither the name of a set or preset nor a file or folder{hint}")
    if seed != 0:
        raise AtlasError(f"seed = {seed} is for problems that a preset draws; those of {words} are given")
    chosen = open_set(words, progress=progress or (lambda done, total: None))
    problems = chosen.problems
    if n is not None and n > len(problems):
        raise AtlasError(f"-n {n} is not allowed: {words} has {len(problems):,} problems")
    if len({name_for(problem) for problem in problems}) > 1:
        raise AtlasError(f"{words}: holds problems of several domains, and demonstrations are of one")
    problems = problems[:n]
    batch = jax.device_get(stack(problems))
    return Order(
        words=words,
        domain=name_for(batch),
        recipe={"set": chosen.name, "fingerprint": fingerprint(problems), "step_limit": chosen.step_limit, **common},
        piece=lambda number: jax.tree.map(lambda leaf: leaf[number * PIECE : (number + 1) * PIECE], batch),
        pieces=-(-len(problems) // PIECE),
        wanted=len(problems),
        names=tuple(problem.name for problem in problems),
        tags=tuple(problem.tags for problem in problems),
        step_limit=chosen.step_limit,
    )


def _drawn(words: str, config: Config, n: int | None, seed: int, common: dict[str, Any]) -> Order:
    from atlas.api import sample_batch

    if n is None:
        raise AtlasError(f"{words} draws problems without end: say with -n how many demonstrations there are to be")

    def piece(number: int) -> Problem:
        return sample_batch(config, PIECE, zlib.crc32(f"demonstrations {seed} {number}".encode()))

    settings = zlib.crc32(dump(config).encode())
    limit = config.domain.step_limit
    recipe = {"preset": words, "settings": settings, "seed": seed, "step_limit": limit, **common}
    return Order(words, config.domain.name, recipe, piece, None, n, step_limit=limit)


# Making


def plans_of_run(path: Path, config: Config, progress: "Progress") -> Demos:
    """The plans that a run shows its student, drawn as it draws its problems: those of its own file, whatever version
    has made it, else they are found now. Its file is there afterwards; a search that was stopped goes on, unless it was
    for other problems."""
    supply = {section: to_plain(config)[section] for section in ("domain", "tasks", "pairing")}
    recipe = {"settings": zlib.crc32(str(supply).encode()), "budget": BUDGET, "polish": 0, "piece": PIECE}
    asked = _drawn("the run", config, config.student.cloning.plans, config.run.seed, recipe)
    for file in parts_folder(path).glob("*.npz"):
        if read_header(file).get("recipe") != asked.recipe:  # or damaged
            file.unlink()
    make(asked, path, progress=progress)
    return load_demos(path, config.domain.name)


@dataclass(frozen=True, eq=False)
class Piece:
    """The result of one piece: rows of its problems that have a plan, the plans, and a count of everything else."""

    rows: list[int]
    plans: list[tuple[int, ...]]
    tally: dict[str, int]
    content: int
    """A checksum of its problems."""


@dataclass(frozen=True)
class Made:
    """The result of making a data set."""

    path: Path
    demos: int
    mean_length: float
    longest: int
    tally: dict[str, int]
    """Problems that were looked at, by verdict: those that are not `solvable` have no demonstration."""
    resumed: int
    """Demonstrations that were there before."""


def make(asked: Order, path: Path, workers: int = 1, progress: "Progress" = lambda done, total: None) -> Made:
    """Find, replay and check plans, and write them to a file; what an earlier call has left is used.

    More than one worker starts other Python processes, so a script must call it under `if __name__ == "__main__"`; 0
    takes one a core.
    """
    if len(domain_of(settings_class(asked.domain)()).actions) > MOST_ACTIONS:
        raise AtlasError(f"the domain {asked.domain} has more than {MOST_ACTIONS} actions")
    if (before := _finished(asked, path)) is not None:
        return before
    folder = parts_folder(path)
    kept = _kept(asked, folder)
    resumed = sum(len(piece.rows) for piece in kept.values())
    progress(min(resumed, asked.wanted), asked.wanted)
    for number, piece in _proven(asked, kept, workers or os.cpu_count() or 1):
        _keep(asked, folder, number, piece)
        kept[number] = piece
        progress(min(sum(len(piece.rows) for piece in kept.values()), asked.wanted), asked.wanted)
    made = _join(asked, path, kept, resumed)
    for file in (*folder.glob("*.npz"), *folder.glob(".*.npz.*")):  # the latter of processes that were killed
        file.unlink()
    with contextlib.suppress(OSError):  # somebody has put something else into it
        folder.rmdir()
    return made


def parts_folder(path: Path) -> Path:
    """The folder in which pieces are kept until the file is whole."""
    return path.with_name(f"{path.name}.parts")


def _finished(asked: Order, path: Path) -> Made | None:
    """The file, if these demonstrations are in it already."""
    header = read_header(path) if path.exists() else {}
    if header.get("recipe") != asked.recipe or header.get("wanted") != asked.wanted:
        return None
    with contextlib.suppress(AtlasError):  # damaged, so it is made again
        demos = load_demos(path)
        return _made(path, demos.lengths, header.get("tally", {}), len(demos))
    return None


def _made(path: Path, lengths: np.ndarray, tally: dict[str, int], resumed: int) -> Made:
    return Made(path, len(lengths), float(lengths.mean()), int(lengths.max()), tally, resumed)


def _enough(asked: Order, kept: dict[int, Piece]) -> bool:
    """Whether the pieces from the first on, without a gap, hold what is wanted."""
    if asked.pieces is not None:
        return len(kept) == asked.pieces
    found = number = 0
    while number in kept and found < asked.wanted:
        found += len(kept[number].rows)
        number += 1
    if number >= HOPELESS and found == 0:
        counts = Counter[str]()
        for piece in kept.values():
            counts.update(piece.tally)
        raise AtlasError(f"{asked.words}: none of {counts.total():,} problems has a plan ({_listed(counts)})")
    return found >= asked.wanted


def _listed(tally: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in tally.items())


def _proven(asked: Order, kept: dict[int, Piece], workers: int) -> Iterator[tuple[int, Piece]]:
    """Pieces that are missing, as they get ready; `kept` is looked at to see whether more are needed."""
    numbers = iter(range(asked.pieces)) if asked.pieces is not None else iter(range(1 << 31))
    missing = (number for number in numbers if number not in kept)
    options = (asked.step_limit, asked.recipe["budget"], asked.recipe["polish"])
    if workers == 1:
        while not _enough(asked, kept):
            number = next(missing)
            yield number, prove(asked.piece(number), *options)
        return
    # A process that is forked from one in which JAX runs may hang, so they are started afresh.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)
    under_way: dict[Future[Piece], int] = {}
    others = {*multiprocessing.active_children()}
    try:
        while not _enough(asked, kept):
            found = sum(len(piece.rows) for piece in kept.values())
            rate = (found + PIECE) / (len(kept) + 1)  # of demonstrations in a piece: no more are begun than are needed
            while len(under_way) <= workers:
                if under_way and asked.pieces is None and found + rate * len(under_way) >= asked.wanted:
                    break
                following = next(missing, None)
                if following is None:
                    break
                under_way[pool.submit(prove, asked.piece(following), *options)] = following
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield under_way.pop(future), future.result()
    finally:  # pieces that nobody waits for any more are not finished
        pool.shutdown(wait=False, cancel_futures=True)
        for process in {*multiprocessing.active_children()} - others:
            process.terminate()
        pool.shutdown(wait=True)


def _begin_worker() -> None:
    """A process of the pool: interruptions are for the main one, with which it ends."""
    from atlas.programs import keep_programs

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_programs()

    def follow() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def prove(batch: Problem, step_limit: int, budget: int, polish: int) -> Piece:
    """Plans for a batch of problems. Each is replayed in the world, and ends with the action that completes the task.

    Problems that their first label completes have nothing to show.
    """
    problems = list(one_by_one(batch))
    surface = surface_for(batch)
    found = surface.solve_many(problems, step_limit=step_limit, budget=budget, polish=polish, bound=False)
    tally = Counter("trivial" if one.trivial else one.verdict for one in found)
    rows = [row for row, one in enumerate(found) if one.plan]
    plans = [tuple(map(int, found[row].plan)) for row in rows]
    ends = accepted_after([problems[row] for row in rows], plans, step_limit).tolist() if rows else []
    good = [(row, plan[:end]) for row, plan, end in zip(rows, plans, ends, strict=True) if end]
    if len(good) < len(rows):
        tally["solvable"] -= len(rows) - len(good)
        tally["refused by the world"] += len(rows) - len(good)
    return Piece([row for row, _ in good], [plan for _, plan in good], dict(tally), checksum(batch))


def checksum(batch: Problem) -> int:
    """Tells whether problems that were drawn again are the same."""
    return zlib.crc32(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(batch)))


def _keep(asked: Order, folder: Path, number: int, piece: Piece) -> None:
    """Write a piece: the rows of its problems (they can be drawn again) and their plans."""
    arrays: Arrays = {"rows": np.array(piece.rows, np.int32), **_plan_arrays(piece.plans)}
    header = {"recipe": asked.recipe, "tally": piece.tally, "number": number, "content": piece.content}
    write(folder / f"{number:06d}.npz", DEMONSTRATIONS, arrays, header)


def _plan_arrays(plans: Sequence[Sequence[int]]) -> Arrays:
    lengths = np.array([len(plan) for plan in plans], np.int32)
    actions = np.zeros((len(plans), lengths.max(initial=1)), np.uint8)
    for row, plan in enumerate(plans):
        actions[row, : len(plan)] = plan
    return {"plans": actions, "lengths": lengths}


def _kept(asked: Order, folder: Path) -> dict[int, Piece]:
    """The pieces that an earlier call has left. Damaged ones are made again; those of others are refused."""
    found = {}
    for file in sorted(folder.glob("*.npz")):
        try:
            header, arrays = read(file, DEMONSTRATIONS)
            rows, lengths = arrays["rows"].tolist(), arrays["lengths"].tolist()
        except (AtlasError, KeyError):
            continue
        if header.get("recipe") != asked.recipe:
            raise AtlasError(
                f"{folder} holds the beginning of other demonstrations ({_told(header.get('recipe'))}): go on with "
                "those, remove the folder, or choose another --out"
            )
        plans = [tuple(plan[:length].tolist()) for plan, length in zip(arrays["plans"], lengths, strict=True)]
        found[int(header["number"])] = Piece(rows, plans, header["tally"], header["content"])
    return found


def _told(recipe: Any) -> str:
    return ", ".join(f"{key} {value}" for key, value in recipe.items()) if isinstance(recipe, dict) else "unknown"


def _join(asked: Order, path: Path, kept: dict[int, Piece], resumed: int) -> Made:
    """All pieces as one file."""
    problems: list[Problem] = []
    plans: list[tuple[int, ...]] = []
    places: list[int] = []
    tally: Counter[str] = Counter()
    for number in sorted(kept):
        piece, left = kept[number], asked.wanted - len(plans)
        if left <= 0:
            break
        rows = piece.rows[:left]
        again = asked.piece(number)
        if checksum(again) != piece.content:
            folder = parts_folder(path)
            raise AtlasError(f"{folder}: piece {number} was drawn by another ATLAS: remove the folder and begin anew")
        problems.append(jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf)[rows], again))
        plans += piece.plans[:left]
        places += [number * PIECE + row for row in rows]
        tally.update(piece.tally)
    if not plans:
        raise AtlasError(f"{asked.words}: no problem has a plan ({_listed(tally)})")
    batch = jax.tree.map(lambda *leaves: np.concatenate(leaves), *problems)
    arrays, header = problem_arrays(batch)
    header |= {"recipe": asked.recipe, "wanted": asked.wanted, "tally": dict(tally)}
    if asked.names:
        header |= {"names": [asked.names[i] for i in places], "tags": [list(asked.tags[i]) for i in places]}
    more = _plan_arrays(plans)
    write(path, DEMONSTRATIONS, arrays | more, header)
    return _made(path, more["lengths"], dict(tally), resumed)


# For others


MINARI: Final = "Minari's format"


def require_minari(dataset: str) -> None:
    """Fail unless a data set of this name can be made in Minari's folder."""
    minari = extra("minari", MINARI, "minari")
    extra("h5py", MINARI, "minari")
    match = minari.dataset.minari_dataset.DATASET_ID_RE.fullmatch(dataset)
    if match is None or match["version"] is None:
        raise AtlasError(f"'{dataset}' is no name for Minari: one such as atlas/quick-v0 is needed")
    if dataset in minari.list_local_datasets():
        raise AtlasError(f"Minari has a data set {dataset} already: choose another name, or delete it first")


def to_minari(demos: Demos, dataset: str, progress: "Progress" = lambda done, total: None) -> Any:
    """Write demonstrations, replayed, as a data set of Minari's; returns it.

    Observations have the view and the task state (`task_state`: rows of the task's graph, innermost first). The options
    of an episode have its `name`, its `mission` in English and the whole `problem` as text that `atlas.load` reads.
    """
    import warnings

    from atlas.api import explain
    from atlas.runs.problem_files import format_problem

    require_minari(dataset)
    minari, spaces = extra("minari", MINARI, "minari"), extra("gymnasium.spaces", MINARI, "minari")
    buffer = extra("minari.data_collector", MINARI, "minari").EpisodeBuffer
    actions = domain_of(settings_class(demos.domain)()).actions
    made: Any = None
    try:
        for start in range(0, len(demos), PIECE):
            rows = range(start, min(start + PIECE, len(demos)))
            played = demos.transitions(np.array(rows))
            episodes = []
            for place, row in enumerate(rows):
                problem, plan = demos[row]
                end = len(plan)
                seen = {"view": played.view[place, : end + 1], "task_state": played.nodes[place, : end + 1]}
                options = {"name": problem.name, "mission": explain(problem), "problem": format_problem(problem)}
                episodes.append(
                    buffer(
                        id=row,
                        options=options,
                        observations=seen,
                        actions=played.action[place, :end].astype(np.int64),
                        rewards=played.reward[place, :end],
                        terminations=played.done[place, :end],
                        truncations=np.zeros(end, bool),
                    )
                )
            if made is None:
                nodes = np.iinfo(np.int8).max
                space = spaces.Dict(
                    view=spaces.Box(0, 255, played.view.shape[2:], np.uint8),
                    task_state=spaces.Box(-1, nodes, played.nodes.shape[2:], np.int32),
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that there is no environment, author or address
                    made = minari.create_dataset_from_buffers(
                        dataset,
                        episodes,
                        observation_space=space,
                        action_space=spaces.Discrete(len(actions)),
                        algorithm_name="the prover of ATLAS",
                        description=f"Problems of ATLAS with plans that solve them ({_told(demos.recipe)}).",
                    )
            else:
                made.update_dataset_from_buffer(episodes)
            progress(len(made), len(demos))
    except BaseException:  # nothing is left half-written
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            minari.delete_dataset(dataset)
        raise
    return made
