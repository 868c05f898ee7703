"""The smallest student there can be, for problems that are numbers (`atlas.testing`): learning is counting."""

import jax
import jax.numpy as jnp

from atlas.struct import Struct
from atlas.testing import is_trivial, toy_progress
from atlas.training import Play
from atlas.ued.scores import Played

STEP_LIMIT, ROLLOUT = 3, 7


class Losses(Struct):
    total: jax.Array


def student(pool=1, spoil_at=None):
    """It counts its updates and remembers what it trained on; the update `spoil_at` gives a loss that is no number."""

    def init_student(key):
        return {"updates": jnp.int32(0), "noise": jax.random.normal(key, (3,))}, {"seen": jnp.uint32(0)}

    def play(key, params, problems, resume):
        number = problems.level[::pool]
        shape = (ROLLOUT, len(number))
        step = jnp.arange(1, ROLLOUT + 1)[:, None]
        done = jnp.broadcast_to(step % STEP_LIMIT == 0, shape)
        accepted = done & (jax.random.uniform(key, shape) < 0.5)
        value = jax.random.normal(key, shape) + params["noise"][0]
        played = Played(value=value, advantage=-value, reward=accepted * 1.0, done=done, accepted=accepted)
        return Play(
            rollout=number,
            played=played,
            trivial=is_trivial(number),
            partial=toy_progress(len(number)),
            resume=resume,
        )

    def learn(key, params, optimiser, rollout, rate, lesson):
        updates = params["updates"] + 1
        loss = jnp.where(updates == (spoil_at or -1), jnp.nan, 1.0)
        noise = params["noise"] + 0.01 * (1.0 if rate is None else rate) * jax.random.normal(key, (3,))
        return {"updates": updates, "noise": noise}, {"seen": rollout[0]}, Losses(total=loss)

    return {"init_student": init_student, "play": play, "learn": learn, "no_losses": Losses(total=jnp.zeros(()))}
