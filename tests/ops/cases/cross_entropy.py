"""Cases of `cross_entropy`."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops import cross_entropy, cross_entropy_reference

from ..hostile import Arguments, Call, both, special_values, with_gradients
from ..op_case import FLOATS, OpCase, dtype_name

LOGITS: dict[str, Callable[[torch.dtype], Tensor]] = {
    "odd": lambda dtype: torch.randn(7, 123, dtype=dtype),
    "wide": lambda dtype: torch.randn(5, 2560, dtype=dtype),
    "empty": lambda dtype: torch.randn(0, 7, dtype=dtype),
    "one": lambda dtype: torch.randn(4, 1, dtype=dtype),
    "transposed": lambda dtype: torch.randn(65, 9, dtype=dtype).t(),
    "strided": lambda dtype: torch.randn(6, 64, dtype=dtype)[::2, 1:-2:3],
    "expanded": lambda dtype: torch.randn(1, 40, dtype=dtype).expand(4, 40),
    "many": lambda dtype: torch.randn(600, 10, dtype=dtype),
    # Rows that begin at no multiple of 16 bytes, in a tensor that doesn't either.
    "unaligned": lambda dtype: torch.randn(4 * 509 + 1, dtype=dtype)[1:].view(4, 509),
}
ALL: dict[str, Any] = {"label_smoothing": 0.1, "z_loss": 0.01, "soft_cap": 2.0}


def _case(name: str, dtype: torch.dtype, make: Callable[[torch.dtype], Tensor], **options: Any) -> OpCase:
    # No row of an empty mean is NaN, which finite differences don't know.
    reduction = options.setdefault("reduction", "sum" if name == "empty" else "mean")
    weight_dtype = options.pop("weight_dtype", None)

    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        logits = make(dtype)
        targets = torch.randint(logits.shape[1], logits.shape[:1])
        targets[1:2] = -100
        return [logits, targets]

    def weight(logits: Tensor) -> Tensor | None:
        if weight_dtype is None:
            return None
        kept = weight_dtype if logits.dtype == dtype else logits.dtype
        values = torch.linspace(0.5, 2.0, logits.shape[1], dtype=torch.float64, device=logits.device)
        return values.to(weight_dtype).to(kept)

    def called(function: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], list[Tensor]]:
        return lambda logits, targets: [function(logits, targets, weight(logits), **options)]

    def raw_arguments(tensors: list[Tensor]) -> tuple[Any, ...]:
        numbers = (-100, *(options.get(key, default) for key, default in (("label_smoothing", 0.0), ("z_loss", 0.0))))
        return (*tensors, weight(tensors[0]), *numbers, options.get("soft_cap"), reduction)

    return OpCase(
        name=f"cross_entropy-{name}-{dtype_name(dtype)}",
        raw=torch.ops.burnlike.cross_entropy.default,
        native=called(cross_entropy),
        reference=called(cross_entropy_reference),
        inputs=inputs,
        raw_arguments=raw_arguments,
        differentiable=True,
        dtype=dtype,
    )


CASES = [
    *(_case(name, dtype, make) for name, make in LOGITS.items() for dtype in FLOATS),
    *(_case("options", dtype, LOGITS["odd"], **ALL, weight_dtype=dtype) for dtype in FLOATS),
    *(_case("unaligned-options", dtype, LOGITS["unaligned"], **ALL, weight_dtype=dtype) for dtype in FLOATS),
    *(_case("wide-options", dtype, LOGITS["wide"], **ALL, reduction="none") for dtype in FLOATS),
    *(_case("smoothed", dtype, LOGITS["wide"], label_smoothing=0.2, weight_dtype=torch.float32) for dtype in FLOATS),
    *(_case("z-sum", dtype, LOGITS["odd"], z_loss=0.1, reduction="sum") for dtype in FLOATS),
]


SHAPES = ((3, 5), (1, 1), (0, 4), (31, 9), (2, 1100))


def random_cross_entropy(chance: random.Random) -> Call:
    """`cross_entropy`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    rows, classes = chance.choice(SHAPES)
    values = special_values((rows, classes), dtype, chance)
    # The sum of distances to the others overflows, in another order than torch's sum of logarithms.
    is_huge = bool((values.abs() > 1e30).any())
    logits = arguments.tensor(values)
    classes_of_rows = torch.randint(classes, (rows,))
    if rows and chance.random() < 0.3:
        classes_of_rows[chance.randrange(rows)] = -100
    if rows and chance.random() < 0.1:
        classes_of_rows[chance.randrange(rows)] = chance.choice((-1, classes, 2**62, -(2**63)))
        arguments.marks.append("no class")
    targets = arguments.tensor(classes_of_rows)
    smoothing = 0.0 if is_huge else chance.choice((0.0, arguments.scalar(0.1)))
    z_loss = chance.choice((0.0, arguments.scalar(1e-3)))
    soft_cap = chance.choice((None, arguments.scalar(5.0)))
    reduction = chance.choice(("none", "mean", "sum"))
    is_weighted = chance.random() < 0.5
    weight = arguments.tensor(torch.rand(classes).to(chance.choice((dtype, torch.float32)))) if is_weighted else 0
    return both(
        arguments,
        "cross_entropy",
        with_gradients(ops.cross_entropy),
        with_gradients(ops.cross_entropy_reference),
        lambda tensors: (
            (
                *(tensors[logits], tensors[targets], tensors[weight] if is_weighted else None),
                *(-100, smoothing, z_loss, soft_cap, reduction),
            ),
            {},
        ),
    )
