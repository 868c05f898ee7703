"""Why a policy fails: attempts at the problems of a set, those that fail by what was in the way when they ended.

`python benchmarks/failures.py zoo:night hand` plays and prints a table by tag. A failed attempt is

- rejected: something forbidden was done;
- a dead end: time was up, and the relaxed check sees no way any more from where task and doors then stood;
- not found: time was up, and nothing that the task asked for was on the map;
- not done: time was up, and something that the task asked for was on the map.

The check knows the whole level; it judges afterwards and the policy is not told. Of tasks that call others it knows no
dead ends.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import Array

from atlas.domains.minigrid.explored import MARK, WAYS
from atlas.domains.minigrid.grid import DOOR_LOCKED, kind_of
from atlas.domains.minigrid.solver.relaxed import Relaxed
from atlas.evaluation.play import Evaluator
from atlas.evaluation.sets import open_set
from atlas.runs.policy import Policy, load_policy
from atlas.student.network import Observation, sample_action, table_rows
from atlas.types import Problem
from atlas.vocabulary import REJECTED
from atlas.world import World, restart

CAUSES: Final = ("solved", "rejected", "dead end", "not found", "not done")


@dataclass(frozen=True)
class Args:
    """Count why a policy with a map fails."""

    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    problems: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SET")] = "validation"
    attempts: int = 4
    seed: int = 0


def player(policy: Policy, world: World, problems: Problem) -> Callable[[Array], Array]:
    """A function that makes one attempt at each problem of a batch, from a key: which of CAUSES became of it."""
    doors = int((np.asarray(kind_of(problems.level.cells)) == DOOR_LOCKED).sum((-2, -1)).max())
    guide = Relaxed(max(1, doors), free_form=True)
    student, envs = policy.student, problems.level.cells.shape[0]

    @jax.jit
    def play(params: Any, key: Array, problems: Problem) -> Array:
        key_noise, key_act = jax.random.split(key)
        graphs = jax.vmap(world.formalism.graph)(problems.task)
        pools = jax.tree.map(lambda leaf: leaf[:, None], graphs)
        tables = student.embed(params, jax.random.split(key_noise, envs), pools)

        def act(now: Any, chance: Array) -> tuple[Any, None]:
            state, hidden, previous, start, over, accepted = now
            nodes = jax.vmap(world.formalism.nodes)(state.task)
            seen = Observation(
                view=jax.vmap(world.view)(problems.task, state),
                nodes=table_rows(nodes, jnp.zeros(envs, jnp.int32), tables.shape[1]),
                previous=previous,
                start=start,
            )
            hidden, logits, _ = student.step(params, tables, seen, hidden)
            action = sample_action(chance, logits)[0]
            after, step = jax.vmap(world.step)(problems, state, action)
            state = jax.vmap(restart)(over, state, after)  # what is over stays as it was
            accepted = accepted | (~over & step.accepted)
            return (state, hidden, action.astype(jnp.uint8), jnp.zeros_like(start), over | step.done, accepted), None

        state = jax.vmap(world.reset)(problems)
        over = jax.vmap(world.trivial)(problems, state)
        first = (state, student.initial_hidden(envs), jnp.zeros(envs, jnp.uint8), jnp.ones(envs, bool), over, over)
        chances = jax.random.uniform(key_act, (world.step_limit, envs))
        (state, *_, accepted), _ = jax.lax.scan(act, first, chances)
        rejected = jax.vmap(world.formalism.outcome)(problems.task, state.task) == REJECTED
        marked = jnp.any(jax.vmap(world.view)(problems.task, state)[:, : -len(WAYS), 0] >= MARK, axis=1)
        hopeless = jax.vmap(
            lambda problem, state: (
                guide.progress(guide.outlook(problem), world.formalism.nodes(state.task)[0], state.domain) <= -1.0
            )
        )(problems, state)
        return jnp.select([accepted, rejected, hopeless, ~marked], jnp.arange(4), 4)

    return lambda key: play(policy.params, key, problems)


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    policy, chosen = load_policy(args.run), open_set(args.problems)
    evaluator = Evaluator(chosen.problems, 1, chosen.step_limit)
    found = np.zeros((len(chosen.problems), args.attempts), int)
    for batch in evaluator.batches:
        play = player(policy, batch.world.with_map(True), batch.problems)
        for attempt in range(args.attempts):
            found[batch.numbers, attempt] = play(jax.random.key(1000 * args.seed + attempt))
    by_tag: dict[str, Counter[int]] = {}
    for problem, row in zip(chosen.problems, found, strict=True):
        for tag in ("all", *problem.tags):
            by_tag.setdefault(tag, Counter()).update(row.tolist())
    print("| | attempts |", *(f"{name} |" for name in CAUSES))
    print("|---" * (2 + len(CAUSES)) + "|")
    for tag, counts in sorted(by_tag.items(), key=lambda item: item[1][0] / item[1].total()):
        shares = (f"{100 * counts[number] / counts.total():.0f} % |" for number in range(len(CAUSES)))
        print(f"| `{tag}` | {counts.total()} |", *shares)
    for number, name in enumerate(CAUSES[1:], start=1):
        often = [(int((row == number).sum()), p.name) for p, row in zip(chosen.problems, found, strict=True)]
        worst = [name for count, name in sorted(often, reverse=True)[:8] if count]
        print(f"{name}: {int((found == number).sum())} attempts; most at {', '.join(worst) or 'none'}")


if __name__ == "__main__":
    main()
