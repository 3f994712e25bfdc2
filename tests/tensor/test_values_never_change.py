"""Random programs: whatever is computed, every tensor that has a name keeps its bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings, strategies as st

from burnlike import Autodiff, Cpu, Tensor
from burnlike.tensor import activation, module

Binary = Callable[[Any, Any], Any]
ROWS, COLUMNS = 3, 4

# All keep the shape [3, 4], so that every result can be an operand of every step.
UNARY: list[Callable[[Any], Any]] = [
    lambda x: x.clone(),
    lambda x: x.detach(),
    lambda x: x + 1.5,
    lambda x: 2.0 - x,
    lambda x: x * 0.0,
    lambda x: x.neg(),
    lambda x: x.exp(),
    lambda x: x.abs().sqrt(),
    lambda x: x.clamp(-0.5, 0.5),
    lambda x: x.flip([0, 1]),
    lambda x: x.transpose().transpose(),
    lambda x: x.reshape([COLUMNS, ROWS]).reshape([ROWS, COLUMNS]),
    lambda x: x.slice([[0, 1, 1]]).expand([ROWS, COLUMNS]),
    lambda x: x.slice([[0, None, -1], [0, None, 1]]),
    lambda x: x.narrow(0, 1, 1).repeat([ROWS, 1]),
    lambda x: x.slice_fill([[0, 2], [1, 3]], 7.0),
    lambda x: x.select(0, Tensor(torch.tensor([2, 0, 1]), x.backend)),
    lambda x: x.mask_fill(x > 0.2, -3.0),
    lambda x: x.sort(1),
    lambda x: x.cumsum(0),
    lambda x: x.roll([1], [1]),
    lambda x: x.triu(0),
    lambda x: x.sum_dim(0).expand([ROWS, COLUMNS]),
    lambda x: x.cast(torch.bfloat16).cast(torch.float32),
    lambda x: activation.relu(x),
    lambda x: activation.softmax(x, 1),
    lambda x: torch.tanh(x),
    lambda x: x.inplace(lambda y: y + 1.0),
]
BINARY: list[Binary] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x.max_pair(y),
    lambda x, y: x.mask_where(x > y, y),
    lambda x, y: x.slice_assign([[1, 2], [0, COLUMNS]], y.slice([[0, 1], [0, COLUMNS]])),
    lambda x, y: x.select_assign(0, Tensor(torch.tensor([1]), x.backend), y.slice([[2, 3]]), "Add"),
    lambda x, y: x.scatter(0, Tensor(torch.zeros(ROWS, COLUMNS, dtype=torch.int64), x.backend), y, "Mul"),
    lambda x, y: Tensor.cat([x, y], 0).narrow(0, 1, ROWS),
    lambda x, y: Tensor.stack([x, y], 0).select_dim(0, 1),
    lambda x, y: x.matmul(y.transpose()).matmul(y),
    lambda x, y: module.linear(x, y.transpose().matmul(x)),
]
STEP = st.one_of(
    st.tuples(st.integers(0, len(UNARY) - 1).map(lambda index: UNARY[index]), st.integers(0, 99)),
    st.tuples(st.integers(0, len(BINARY) - 1).map(lambda index: BINARY[index]), st.integers(0, 99), st.integers(0, 99)),
)


def named_tensors(backend: Any) -> list[Any]:
    """Tensors of their own, two names of one, views of one storage, memory of NumPy's and shared memory."""
    base = torch.linspace(-1, 1, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    wide = torch.linspace(-2, 2, 2 * ROWS * COLUMNS).reshape(2 * ROWS, COLUMNS)
    numpy = torch.from_numpy(np.linspace(0, 1, ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS))
    shared = torch.full((ROWS, COLUMNS), 0.25).share_memory_()
    first = Tensor(base, backend)
    inners = [wide[:ROWS], wide[1 : ROWS + 1], wide[ROWS:], numpy, shared, base[:1].expand(ROWS, COLUMNS)]
    return [first, first, first.clone(), *(Tensor(inner, backend) for inner in inners)]


def bits(tensor: Any) -> torch.Tensor:
    return tensor.inner.detach().contiguous().view(torch.int32).clone()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(STEP, min_size=1, max_size=12), st.booleans())
def test_every_named_tensor_keeps_its_bits(program: list[Any], tracked: bool) -> None:
    named = named_tensors(Autodiff(Cpu()) if tracked else Cpu())
    if tracked:
        named.append(named[0].require_grad())
    kept = [bits(tensor) for tensor in named]
    for function, *operands in program:
        result = function(*(named[index % len(named)] for index in operands))
        named.append(result)
        kept.append(bits(result))
        for position, (tensor, before) in enumerate(zip(named, kept, strict=True)):
            assert torch.equal(bits(tensor), before), f"tensor {position} of {len(named)} has changed"
    if tracked and named[-1].is_tracked():
        named[-1].sum().backward()
        for tensor, before in zip(named, kept, strict=True):
            assert torch.equal(bits(tensor), before)
