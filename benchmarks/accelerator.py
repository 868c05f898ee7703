"""What bounds an iteration on a GPU: an ESTIMATE on paper, from the traced step. Nothing is run or measured on a GPU.

python benchmarks/accelerator.py paper-accel

The step is traced as for a GPU, with abstract shapes (nothing is compiled or allocated), and its equations are counted:
operations and bytes of all matrix products, times the lengths of the scans around them, and how many products run one
after the other. From these follow three lower bounds of the time, for each device in DEVICES: arithmetic, memory
traffic (as if no operand stayed in a cache), and waiting (n products one after the other need n kernels).
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import jax
import tyro

from atlas.build import build
from atlas.presets import config_of


class Device(NamedTuple):
    """From the data sheets; dense products in TF32, memory in bytes a second."""

    operations: float
    bandwidth: float


DEVICES = {"A100 (80 GB)": Device(156e12, 2.0e12), "H100 (SXM)": Device(495e12, 3.35e12)}
KERNEL = 3e-6
"""Seconds from one kernel to the next that waits for it: an assumption; CUDA graphs may halve it."""


@dataclass
class Cost:
    """Of a part of the program."""

    operations: float = 0.0
    bytes: float = 0.0
    chain: float = 0.0
    """Products one after the other, as a device with one stream runs them."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.operations + other.operations, self.bytes + other.bytes, self.chain + other.chain)

    def times(self, n: float) -> "Cost":
        return Cost(n * self.operations, n * self.bytes, n * self.chain)


def jaxprs(value: Any) -> Iterator[Any]:
    """The programs inside a parameter of an equation."""
    if hasattr(value, "jaxpr"):
        yield value.jaxpr
    elif hasattr(value, "eqns"):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from jaxprs(one)


def count(jaxpr: Any) -> Cost:
    """The products of a program. Of the branches of a `cond` the dearest counts; a loop of unknown length counts once
    (there are none around products but the one over iterations)."""
    total = Cost()
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        inner = [count(one) for value in parameters.values() for one in jaxprs(value)]
        if name == "dot_general":
            (contracted, _), _ = parameters["dimension_numbers"]
            length = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            arrays = [*equation.invars, *equation.outvars]
            moved = sum(array.aval.size * array.aval.dtype.itemsize for array in arrays)
            total += Cost(2.0 * equation.outvars[0].aval.size * length, moved, 1.0)
        elif name == "scan":
            total += sum(inner, Cost()).times(parameters["length"])
        elif name == "cond":
            total += max(inner, key=lambda cost: cost.operations)
        elif name in ("custom_vjp_call", "custom_jvp_call"):
            total += inner[0] if inner else Cost()
        else:
            total += sum(inner, Cost())
    return total


def estimate(preset: str) -> dict[str, Any]:
    """Costs of both kinds of iteration, and the bounds that follow."""
    config = config_of(preset)
    trainer = build(config)
    kinds = {"learns": True} | ({"only scores": False} if config.plan.num_eval else {})
    told: dict[str, Any] = {"preset": preset, "an estimate, not a measurement": True, "iterations": {}}
    for words, train in kinds.items():
        traced = jax.make_jaxpr(lambda state, train=train: trainer.iterate(state, train))
        with patch.object(jax, "default_backend", return_value="gpu"):  # a CPU takes samples in chunks
            cost = count(traced(trainer.shapes).jaxpr)
        steps = config.env_steps(1, int(train))
        bounds = {}
        for name, device in DEVICES.items():
            seconds = {
                "arithmetic": cost.operations / device.operations,
                "memory": cost.bytes / device.bandwidth,
                "waiting": cost.chain * KERNEL,
            }
            bounds[name] = seconds | {"steps a second, at most": steps / max(seconds.values())}
        told["iterations"][words] = {
            "env steps": steps,
            "TFLOP": cost.operations / 1e12,
            "TB": cost.bytes / 1e12,
            "products in a chain": round(cost.chain),
            "seconds at least": bounds,
        }
    return told


@dataclass(frozen=True)
class Args:
    """Estimate what bounds a preset on a GPU."""

    preset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PRESET")] = "paper-accel"


if __name__ == "__main__":
    print(json.dumps(estimate(tyro.cli(Args, description=__doc__).preset), indent=2))
