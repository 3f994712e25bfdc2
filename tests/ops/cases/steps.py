"""Cases of the optimizers' steps, and random calls of them."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops import StepOptions

from ..hostile import SHAPES, Arguments, Call, both, pick, special_values
from ..op_case import FLOATS
from ..step_cases import STEP_CASES

CASES = STEP_CASES

STEPS: dict[str, tuple[Callable, Callable, tuple[str, ...], dict[str, float]]] = {
    "adamw_step_": (
        ops.adamw_step_,
        ops.adamw_step_reference,
        ("moments_1", "moments_2"),
        {"lr": 0.1, "beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-6, "weight_decay": 0.1},
    ),
    "sgd_step_": (
        ops.sgd_step_,
        ops.sgd_step_reference,
        ("velocities",),
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1},
    ),
    "lion_step_": (
        ops.lion_step_,
        ops.lion_step_reference,
        ("moments",),
        {"lr": 0.1, "beta_1": 0.9, "beta_2": 0.99, "weight_decay": 0.1},
    ),
}


def random_steps(chance: random.Random) -> Call:
    """A step of any rule with any options."""
    op = chance.choice(list(STEPS))
    native, reference, keys, usual = STEPS[op]
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shapes = [chance.choice(SHAPES) for _ in range(chance.choice((0, 1, 3)))]

    def values(dtype: torch.dtype) -> list[Tensor]:
        return [special_values(shape, dtype, chance) for shape in shapes]

    moment_dtype = chance.choice((dtype, torch.float32, torch.bfloat16))
    if op == "sgd_step_" and chance.random() < 0.2:
        keys = ()
    lists = {
        "params": arguments.tensors(values(dtype)),
        "grads": arguments.tensors(values(dtype)),
        **{key: arguments.tensors([value.abs() for value in values(moment_dtype)]) for key in keys},
    }
    keywords: dict[str, Any] = {key: arguments.scalar(value) for key, value in usual.items()}
    if op != "lion_step_":
        keywords["times"] = [chance.choice((1, 2, 3, 1000, 2**62)) for _ in shapes]
        if chance.random() < 0.05 and shapes:
            keywords["times"][0] = chance.choice((0, -1))
            arguments.marks.append("time")
    if op == "sgd_step_":
        keywords["nesterov"] = bool(keys) and chance.random() < 0.3
    if op == "adamw_step_":
        keywords |= {"coupled": chance.random() < 0.3, "cautious": chance.random() < 0.3}
        if chance.random() < 0.2:
            lists["max_moments_2"] = arguments.tensors(values(moment_dtype))

    def sometimes(tensor: Tensor, how_often: float = 0.2) -> int | None:
        return arguments.tensor(tensor) if shapes and chance.random() < how_often else None

    factors = sometimes(torch.rand(chance.choice([(), (1,), (len(shapes),)]), dtype=torch.float64))
    skip, skipped = sometimes(torch.zeros(())), sometimes(torch.ones(1, dtype=torch.float64))
    copies = arguments.tensors(values(chance.choice((torch.bfloat16, torch.float32)))) if chance.random() < 0.2 else []
    scalars = {"grad_scale": arguments.scalar(1.0), "clip_value": arguments.scalar(float("inf"))}
    flags = {"zero_grads": chance.random() < 0.2, "seed": chance.choice((None, None, 7, -1, 2**62))}

    def build(tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = {"factors": factors, "skip": skip, "skipped": skipped}
        options = StepOptions(
            **scalars,
            **flags,
            **{key: None if number is None else tensors[number] for key, number in given.items()},
            copies=pick(tensors, copies),
        )
        picked = {key: pick(tensors, numbers) for key, numbers in lists.items()}
        return (), picked | keywords | {"options": options}

    return both(arguments, op, native, reference, build)
