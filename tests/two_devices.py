"""A program for a process of its own, with two devices: one run on one of them and on both, compared.

Prints what it found as JSON. The minibatch is the whole batch, so that both learn from the same ones.
"""

import dataclasses
import json
import sys
from pathlib import Path

import jax
import numpy as np

from atlas.build import build, observer, parts
from atlas.config import CloningConfig, PairingConfig, PPOConfig, StudentConfig
from atlas.devices import Layout, mesh_of
from atlas.domains.minigrid.presets import TINY
from atlas.runs import run as running
from atlas.runs.checkpoints import Checkpoints
from atlas.runs.folder import RunFolder
from atlas.runs.store import from_arrays, to_arrays
from atlas.ued import BufferConfig, DRConfig, EchoConfig, EditConfig, ScoutConfig, SFLConfig

CONFIG = dataclasses.replace(
    TINY,
    teacher=dataclasses.replace(TINY.teacher, edits=dataclasses.replace(TINY.teacher.edits, task=False)),
    student=StudentConfig(
        network=dataclasses.replace(TINY.student.network, graph_layers=1),
        ppo=PPOConfig(learning_rate=1e-3, epochs=2, minibatch_envs=8),
    ),
)
"""Without edits of tasks and with one graph layer it is compiled sooner; `accel` below has all edits."""


MORE = {
    "scout": ScoutConfig(pool=2, candidates=2),
    "sfl": SFLConfig(every=2, rounds=1, attempts=2, buffer=BufferConfig(capacity=16, min_fill=0.0)),
    "echo": EchoConfig(buffer=BufferConfig(capacity=16, min_fill=0.1)),
    "accel": dataclasses.replace(TINY.teacher, edits=EditConfig(least=1, most=2, learn=True, screen=True)),
}
"""Teachers that are only compared after a few iterations."""


def compare(name):
    """How far apart the teacher's arrays are after the first iteration and after six, on one device and on two, and
    what a look at the curriculum shows: at the buffer after the first, or at what would be proposed before it."""
    config = dataclasses.replace(CONFIG, teacher=MORE[name])
    if name == "scout":  # its candidates are screened: each device draws half of them
        config = dataclasses.replace(config, pairing=PairingConfig(how="level", solvable=True))
    tables = []
    for layout in (Layout(), Layout(mesh_of(2))):
        made = parts(config, layout)
        trainer = build(config, layout, made)
        state = trainer.compiled_init(jax.random.key(3))
        blank = jax.tree.map(np.array, layout.gather(state.teacher))  # a copy: an iteration takes the state's memory
        state, first, _ = advance(trainer, state, 1)
        has_memory = trainer.teacher.memory(blank) is not None
        seen = observer(made, trainer).look(layout.gather(state.teacher) if has_memory else blank, 0)
        _, later, _ = advance(trainer, state, 5)
        kept = [{k: v for k, v in table.items() if k.startswith(".teacher")} for table in (first, later)]
        tables.append([*kept, to_arrays(seen.problems)])
    print(json.dumps([differ(one, two) for one, two in zip(*tables, strict=True)]))


def compare_cloning(folder):
    """How far apart the parameters are on one device and on two after some plans were imitated."""
    student = dataclasses.replace(CONFIG.student, cloning=CloningConfig(plans=16))
    config = dataclasses.replace(CONFIG, teacher=DRConfig(), student=student, pairing=PairingConfig(how="level"))
    tables = []
    for layout in (Layout(), Layout(mesh_of(2))):
        trainer = build(config, layout)
        state = trainer.compiled_init(jax.random.key(3))
        shown = running._demonstrations(trainer, RunFolder(folder), config, quiet=True)
        _, table, metrics = advance(trainer, trainer.with_shown(state, shown), 3)
        tables.append({name: array for name, array in table.items() if name.startswith(".params")})
    print(json.dumps([differ(*tables), float(metrics.losses.cloning)]))


def advance(trainer, state, iterations):
    """The state some iterations later, and a table of it."""
    state, metrics = trainer.compiled(state, np.int32(iterations))
    return state, to_arrays(trainer.layout.gather(state)), jax.device_get(metrics)


def differ(one, two):
    """The arrays that are not equal bit for bit, and how far apart they are at most."""
    found = {}
    for name, array in one.items():
        if not np.array_equal(array, two[name], equal_nan=array.dtype.kind == "f"):
            apart = np.abs(array.astype(float) - two[name].astype(float))
            found[name] = float(np.nanmax(np.where(np.isfinite(apart), apart, 0.0)))
    return found


def run(layout, folder):
    """Both kinds of iterations, step by step; a checkpoint on the way."""
    trainer = build(CONFIG, layout)
    state = trainer.compiled_init(jax.random.key(3))
    tables, trained = [], 0
    while trained < 4:
        state, table, metrics = advance(trainer, state, 1)
        trained += int(metrics.trained)
        tables.append((trained, table))
    buffer = state.teacher.buffer
    shapes = {
        "problems": list(buffer.problems.level.cells.addressable_shards[0].data.shape),
        "records": list(buffer.records.score.addressable_shards[0].data.shape),
        "partial": list(state.teacher.partial.valid.addressable_shards[0].data.shape),
    }
    checkpoints = Checkpoints(folder / str(layout.shards), keep=1)
    checkpoints.save(7, trainer.layout.gather(state), {})
    checkpoints.finish()
    return trainer, tables, shapes, checkpoints


def restored(checkpoints, trainer):
    """What comes out of a checkpoint, put on the devices of a trainer, before and after one more iteration."""
    _, state, _ = checkpoints.restore_latest(trainer.shapes)
    state = trainer.place(state)
    return to_arrays(trainer.layout.gather(state)), advance(trainer, state, 1)[1]


def main(folder):
    jax.config.update("jax_num_cpu_devices", 2)
    one, tables_one, _, saved_one = run(Layout(), folder)
    two, tables_two, shapes, saved_two = run(Layout(mesh_of(2)), folder)
    first = next(i for i, (trained, _) in enumerate(tables_one) if trained)
    moved = {}
    for checkpoints, trainer in ((saved_one, two), (saved_two, one)):
        tables = tables_one if checkpoints is saved_one else tables_two
        before, _ = restored(checkpoints, trainer)
        moved[str(trainer.layout.shards)] = differ(tables[-1][1], before)
    after = differ(restored(saved_two, two)[1], restored(saved_two, two)[1])
    for checkpoints in (saved_one, saved_two):
        checkpoints.close()
    back = from_arrays(tables_one[-1][1], one.shapes)
    print(
        json.dumps(
            {
                "iterations": [len(tables_one), len(tables_two)],
                "before_the_first_update": differ(tables_one[first - 1][1], tables_two[first - 1][1]),
                "after_updates": differ(tables_one[-1][1], tables_two[-1][1]),
                "shapes": shapes,
                "moved": moved,
                "twice": after,
                "there_and_back": differ(tables_one[-1][1], to_arrays(two.layout.gather(two.place(back)))),
            }
        )
    )


if __name__ == "__main__":
    if sys.argv[1] in MORE:
        jax.config.update("jax_num_cpu_devices", 2)
        compare(sys.argv[1])
    elif Path(sys.argv[1]).name.startswith("cloning"):
        jax.config.update("jax_num_cpu_devices", 2)
        compare_cloning(Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]))
