"""Cases of `convert_`. From float64, which is the exact value here, in test_convert.py."""

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops import convert_, convert_reference

from ..hostile import SHAPES, Arguments, Call, both, pick, special_values
from ..op_case import FLOATS, LISTS, OpCase, dtype_name


def _convert_case(
    name: str, dtype: torch.dtype, target: torch.dtype, make: Callable[[torch.dtype], list[Tensor]]
) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(3)
        return make(dtype)

    def targets(sources: Sequence[Tensor], exact: bool = False) -> list[Tensor]:
        return [torch.empty(it.shape, dtype=it.dtype if exact else target, device=it.device) for it in sources]

    def flags(sources: Sequence[Tensor]) -> Tensor:
        return torch.zeros(len(sources), dtype=torch.int32, device=sources[0].device)

    def native(*sources: Tensor) -> list[Tensor]:
        made = targets(sources)
        convert_(made, list(sources), flags(sources))
        return made

    def reference(*sources: Tensor) -> list[Tensor]:
        made = targets(sources, exact=sources[0].dtype == torch.float64)
        convert_reference(made, sources, flags(sources))
        return made

    return OpCase(
        name=f"convert-{name}-{dtype_name(dtype)}-{dtype_name(target)}",
        raw=torch.ops.burnlike.convert_.default,
        native=native,
        reference=reference,
        inputs=inputs,
        raw_arguments=lambda tensors: (targets(tensors), tensors, flags(tensors)),
        dtype=dtype,
    )


CASES = [
    _convert_case(name, dtype, target, make)
    for name, make in LISTS.items()
    for dtype in (torch.float32, *FLOATS[2:])
    for target in FLOATS
]


def random_convert(chance: random.Random) -> Call:
    """`convert_`."""
    arguments = Arguments(chance)
    shapes = [chance.choice(SHAPES) for _ in range(3)]
    targets = arguments.tensors([torch.zeros(shape, dtype=chance.choice(FLOATS)) for shape in shapes])
    sources = arguments.tensors([special_values(shape, chance.choice(FLOATS), chance) for shape in shapes])
    lost = arguments.tensor(torch.zeros(3, dtype=torch.int32))
    return both(
        arguments,
        "convert_",
        ops.convert_,
        ops.convert_reference,
        lambda tensors: ((pick(tensors, targets), pick(tensors, sources), tensors[lost]), {}),
    )
