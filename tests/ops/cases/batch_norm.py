"""Cases of `batch_norm` and of the moments that it takes."""

import random
from collections.abc import Callable

import torch
from torch import Tensor

from burnlike.ops import batch_moments, batch_moments_reference, batch_norm, batch_norm_reference
from burnlike.ops.batch_norm import BatchActivation

from ..hostile import SHAPES, Arguments, Call, both, special_values, with_gradients
from ..op_case import FLOATS, ROWS, OpCase, dtype_name

EPSILON = 1e-3


def _case(
    name: str,
    dtype: torch.dtype,
    make: Callable[[torch.dtype], Tensor],
    activation: BatchActivation = "none",
    *,
    residual: bool = False,
    of_batch: bool = True,
    columns: torch.dtype | None = None,
) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        x = make(dtype)
        gamma, beta = (torch.randn(x.shape[-1], dtype=columns or dtype) for _ in range(2))
        return [x, gamma, beta, *([torch.randn_like(x)] if residual else [])]

    def moments(x: Tensor) -> tuple[Tensor, Tensor]:
        if of_batch:
            return batch_moments(x)
        wide = torch.promote_types(x.dtype, torch.float32)
        return torch.full(x.shape[-1:], 0.1, dtype=wide), torch.full(x.shape[-1:], 2.0, dtype=wide)

    def native(x: Tensor, gamma: Tensor, beta: Tensor, residual: Tensor | None = None) -> list[Tensor]:
        options = {"epsilon": EPSILON, "of_batch": of_batch}
        return [batch_norm(x, gamma, beta, *moments(x), residual, activation=activation, **options)]

    def reference(x: Tensor, gamma: Tensor, beta: Tensor, residual: Tensor | None = None) -> list[Tensor]:
        return [batch_norm_reference(x, gamma, beta, *moments(x), residual, EPSILON, activation, of_batch)]

    form = "-".join([activation, *(["residual"] if residual else []), *([] if of_batch else ["evaluation"])])
    return OpCase(
        name=f"batch_norm-{form}-{name}-{dtype_name(dtype)}-{dtype_name(columns or dtype)}",
        raw=torch.ops.burnlike.batch_norm.default,
        native=native,
        reference=reference,
        inputs=inputs,
        raw_arguments=lambda tensors: (
            *(*tensors[:3], *moments(tensors[0]), tensors[3] if residual else None),
            *(EPSILON, activation, of_batch),
        ),
        differentiable=True,
        dtype=dtype,
        distance=4.0,  # the moments are sums over rows
    )


def _moments_case(name: str, dtype: torch.dtype, make: Callable[[torch.dtype], Tensor]) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        return [make(dtype)]

    return OpCase(
        name=f"batch_moments-{name}-{dtype_name(dtype)}",
        raw=torch.ops.burnlike.batch_moments.default,
        native=batch_moments,
        reference=batch_moments_reference,
        inputs=inputs,
        raw_arguments=lambda tensors: tuple(tensors),
        dtype=dtype,
    )


def _far(dtype: torch.dtype) -> Tensor:
    return (torch.randn(700, 96, dtype=torch.float64) + 100).to(dtype)


CASES = [
    *(_case(name, dtype, make) for name, make in ROWS.items() for dtype in FLOATS),
    *(_case("odd", dtype, ROWS["odd"], "relu", residual=True) for dtype in FLOATS),
    *(_case("odd", dtype, ROWS["odd"], residual=True) for dtype in FLOATS),
    *(
        _case(name, dtype, ROWS[name], it)
        for name in ("odd", "wide")
        for it in ("silu", "hardswish")
        for dtype in FLOATS
    ),
    *(_case(name, dtype, ROWS[name], "relu") for name in ("odd", "strided", "wide") for dtype in FLOATS),
    *(_case("odd", dtype, ROWS["odd"], "relu", of_batch=False) for dtype in FLOATS),
    *(_case("wide-mixed", dtype, ROWS["wide"], columns=torch.float32) for dtype in FLOATS[1:]),
    *(_moments_case(name, dtype, ROWS[name]) for name in ("odd", "wide", "strided", "one") for dtype in FLOATS),
    *(_moments_case("far", dtype, _far) for dtype in (torch.float32, torch.float64)),
]

FORMS: tuple[tuple[BatchActivation, bool], ...] = (
    *(("none", False), ("none", True), ("relu", False), ("relu", True)),
    *(("silu", False), ("hardswish", False)),
)


def random_batch_norm(chance: random.Random) -> Call:
    """`batch_norm`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice([shape for shape in SHAPES if shape])
    wide = torch.promote_types(dtype, torch.float32)
    x = arguments.tensor(special_values(shape, dtype, chance))
    gamma, beta = (
        arguments.tensor(special_values(shape[-1:], chance.choice((dtype, torch.float32)), chance)) for _ in range(2)
    )
    mean, variance = (arguments.tensor(torch.rand(shape[-1:], dtype=wide)) for _ in range(2))
    activation, has_residual = chance.choice(FORMS)
    places = [x, gamma, beta, mean, variance]
    if has_residual:
        places.append(arguments.tensor(special_values(shape, dtype, chance)))
    # Without rows the gradient of gamma is 0, which the reference multiplies by a root of any epsilon.
    epsilon = 1e-5 if 0 in shape else arguments.scalar(1e-5)

    def native(*tensors: Tensor) -> Tensor:
        return batch_norm(*tensors, epsilon=epsilon, activation=activation, of_batch=False)

    def reference(*tensors: Tensor) -> Tensor:
        columns, residual = tensors[:5], tensors[5] if has_residual else None
        return batch_norm_reference(*columns, residual, epsilon, activation, of_batch=False)

    return both(
        arguments,
        "batch_norm",
        with_gradients(native),
        with_gradients(reference),
        lambda tensors: (tuple(tensors[it] for it in places), {}),
    )


def random_batch_moments(chance: random.Random) -> Call:
    """`batch_moments`."""
    arguments = Arguments(chance)
    shape = chance.choice([shape for shape in SHAPES if shape])
    x = arguments.tensor(special_values(shape, chance.choice(FLOATS), chance))
    return both(
        arguments,
        "batch_moments",
        batch_moments,
        batch_moments_reference,
        lambda tensors: ((tensors[x],), {}),
    )
