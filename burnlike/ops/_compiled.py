"""Which ops a compiled graph takes as plain torch, because the compiler makes of it what is faster.

A native op is a wall in a graph: the compiler can't fuse what stands before and behind it. Where its kernel gains less
than that costs, the graph gets the op's reference, which the compiler fuses with its neighbours.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

_FLOAT32 = ("cpu", torch.float32)
_BFLOAT16 = ("cpu", torch.bfloat16)
_FLOAT16 = ("cpu", torch.float16)

# By device and dtype of the first argument, as `python -m benchmarks.ops.compiled` measures.
_DECOMPOSED: dict[tuple[str, torch.dtype], frozenset[str]] = {
    _FLOAT32: frozenset(),
    _BFLOAT16: frozenset(),
    _FLOAT16: frozenset(),
}

Form = Literal["native", "reference"]
_forced: list[Form] = []


def is_decomposed(name: str, x: Tensor) -> bool:
    """Whether the present code is being compiled and the op is to be its reference there."""
    if not torch.compiler.is_compiling():
        return False
    if _forced:
        return _forced[-1] == "reference"
    return name in _DECOMPOSED.get((x.device.type, x.dtype), frozenset())


@contextmanager
def force_compiled_form(form: Form) -> Iterator[None]:
    """Have graphs that are compiled within a `with` block take native ops, or their references, whatever is faster."""
    _forced.append(form)
    try:
        yield
    finally:
        _forced.pop()
