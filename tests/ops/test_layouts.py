"""Every tensor argument of every op in every layout: what is computed is that of the values in order, or refused.

Expected values are those of plain torch in float64, of contiguous copies.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from burnlike import ops
from burnlike.errors import BurnlikeError
from burnlike.ops.attention import attention_native
from burnlike.ops.join_gates import join_gates_reference

from .hostile import misaligned, negative_view, overlapping

LINEAR, HALVES = (importlib.import_module(f"burnlike.ops.{name}") for name in ("linear", "half_products"))


def _reversed(x: Tensor) -> Tensor:
    return x.permute(tuple(reversed(range(x.dim()))))


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "a column of a table": lambda x: torch.stack((x, x.roll(1)), -1)[..., 0],
    "every second row": lambda x: torch.stack((x, x.flip(0)), 1).flatten(0, 1)[::2],
    "transposed": lambda x: _reversed(_reversed(x).contiguous()),
    "behind others": lambda x: torch.cat((x.flatten()[:1].repeat(3), x.flatten()))[3:].view(x.shape),
    "a row for all": lambda x: x[:1].clone().expand_as(x),
    "a value for all": lambda x: x.flatten()[0].clone().expand(x.shape),
    "windows": lambda x: overlapping(x) if x.is_floating_point() else x.clone().as_strided(x.shape, (1,) * x.dim()),
    "negated lazily": lambda x: x if x.dtype == torch.bool else negative_view(x),
    "not aligned": misaligned,
}

Floats = Callable[..., Tensor]


def _matrix_product(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    return torch.ops.burnlike.matrix_product(x, y, bias) if x.dtype == torch.float32 else F.linear(x, y, bias)


def _convolved(x: Tensor, weight: Tensor, bias: Tensor, function: Callable[..., Tensor] = ops.convolution) -> Tensor:
    return function(x, weight, bias, [1, 1], [1, 1], [1, 1], 1)


def _rotated(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, function: Any = ops.rotary) -> tuple[Tensor, ...]:
    return function(query, key, cos.detach(), sin.detach(), interleaved=True)


def _integers(*sizes: int, below: int) -> Callable[[Floats], Tensor]:
    return lambda randn: torch.arange(torch.Size(sizes).numel()).view(sizes) % below


def _bools(*sizes: int) -> Callable[[Floats], Tensor]:
    return lambda randn: torch.arange(torch.Size(sizes).numel()).view(sizes) % 3 == 0


def _of(*sizes: int) -> Callable[[Floats], Tensor]:
    return lambda randn: randn(*sizes)


def _attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, mask.detach())


def _attended_with(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, noise: Tensor) -> Tensor:
    scores = 2.0 * torch.tanh(query @ key.mT * query.shape[-1] ** -0.5 / 2.0) + mask.detach()
    return scores.softmax(-1) * noise.detach() @ value


def _with_noise(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, noise: Tensor) -> Tensor:
    noise = noise.detach().to(torch.promote_types(query.dtype, torch.float32))
    return ops.attention(query, key, value, mask.detach(), soft_cap=2.0, noise=noise)


HEADS = (_of(2, 3, 5, 8), _of(2, 3, 7, 8), _of(2, 3, 7, 8))
MASKED = (*HEADS, _of(2, 3, 5, 7))
NORM = (_of(6, 40), _of(6, 40), _of(40), _of(40))

# The op, the same in plain torch, and the makers of the tensors.
Case = tuple[Callable[..., Any], Callable[..., Any], Sequence[Callable[[Floats], Tensor]]]
CASES: dict[str, Case] = {
    "linear": (ops.linear, F.linear, (_of(3, 2, 5), _of(4, 5), _of(4))),
    "linear, large": (ops.linear, F.linear, (_of(256, 256), _of(128, 256), _of(128))),
    "matrix_product": (_matrix_product, F.linear, (_of(5, 7), _of(4, 7), _of(4))),
    "matmul": (ops.matmul, torch.matmul, (_of(2, 17, 20), _of(2, 20, 18))),
    "convolution": (
        _convolved,
        partial(_convolved, function=F.conv2d),
        (_of(2, 3, 6, 5), _of(4, 3, 3, 3), _of(4)),
    ),
    "lora_linear": (
        lambda x, weight, *rest: ops.lora_linear(x, weight.detach(), *rest, 0.5),
        lambda x, weight, *rest: ops.lora_linear_reference(x, weight.detach(), *rest, 0.5),
        (_of(3, 2, 5), _of(5, 4), _of(5, 2), _of(2, 4), _of(4)),
    ),
    "linear_cross_entropy": (
        lambda x, weight, targets, bias: ops.linear_cross_entropy(x, weight, targets, bias),
        lambda x, weight, targets, bias: F.cross_entropy(F.linear(x, weight, bias), targets),
        (_of(40, 6), _of(5, 6), _integers(40, below=5), _of(5)),
    ),
    "cross_entropy": (
        lambda logits, targets, weight: ops.cross_entropy(logits, targets, weight.detach().abs() + 1),
        lambda logits, targets, weight: F.cross_entropy(logits, targets, weight.detach().abs() + 1),
        (_of(9, 5), _integers(9, below=5), _of(5)),
    ),
    "attention": (lambda q, k, v, mask: attention_native(q, k, v, mask.detach()), _attended, MASKED),
    "attention with a cap and noise": (_with_noise, _attended_with, (*MASKED, _of(2, 3, 5, 7))),
    "masked_softmax": (
        lambda scores, mask: ops.masked_softmax(scores, mask, 0.5),
        lambda scores, mask: ops.masked_softmax_reference(scores, mask, 0.5),
        (_of(2, 3, 5, 7), _bools(2, 1, 5, 7)),
    ),
    "rotary": (
        _rotated,
        partial(_rotated, function=ops.rotary_reference),
        (_of(2, 3, 5, 8), _of(2, 1, 5, 8), _of(5, 4), _of(5, 4)),
    ),
    "rms_norm": (ops.rms_norm, ops.rms_norm_reference, (_of(6, 40), _of(40))),
    "layer_norm": (ops.layer_norm, ops.layer_norm_reference, (_of(6, 40), _of(40), _of(40))),
    "add_rms_norm": (ops.add_rms_norm, ops.add_rms_norm_reference, NORM[:3]),
    "add_layer_norm": (ops.add_layer_norm, ops.add_layer_norm_reference, NORM),
    "swiglu": (ops.swiglu, ops.swiglu_reference, (_of(6, 20), _of(6, 20))),
    "swiglu of one": (ops.swiglu, ops.swiglu_reference, (_of(6, 20),)),
    "geglu": (ops.geglu, ops.geglu_reference, (_of(6, 20), _of(6, 20))),
    "bias_gelu": (ops.bias_gelu, ops.bias_gelu_reference, (_of(6, 20), _of(20))),
    "dropout_add": (
        lambda x, residual: ops.dropout_add(x, residual, 0.3, seed=torch.tensor(5)),
        lambda x, residual: ops.dropout_add_reference(x, residual, 0.3, torch.tensor(5)),
        (_of(6, 20), _of(6, 20)),
    ),
    "join_gates": (
        lambda *parts: ops.join_gates(parts, 2),
        lambda *parts: join_gates_reference(parts, 2),
        (_of(5, 7), _of(5, 7), _of(7), _of(7)),
    ),
}
DTYPES = {torch.float32: 3e-5, torch.bfloat16: 3e-2, torch.float16: 5e-3}
OF_PRODUCTS = [name for name in CASES if name.startswith(("linear", "lora", "mat", "conv"))]


@contextmanager
def slow_products() -> Iterator[None]:
    """As on machines that multiply no 16 bits, and with oneDNN's products in float32 of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HALVES, "SLOW", frozenset((torch.bfloat16, torch.float16)))
        patch.setattr(LINEAR, "_MACHINE_GAINS", LINEAR.onednn.has_product())
        patch.setattr(LINEAR, "_FEWEST_PRODUCTS", 1)
        patch.setattr(LINEAR, "_SMALLEST_SIZE", 1)
        yield


def results(function: Callable[..., Any], tensors: Sequence[Tensor], grads: Sequence[Tensor] = ()) -> list[Tensor]:
    """What a function gives, and the gradients of its arguments."""
    given = [it.detach().requires_grad_(it.is_floating_point()) for it in tensors]
    found = function(*given)
    found = [found] if isinstance(found, Tensor) else [*found]
    leaves = [it for it in given if it.requires_grad]
    grads = grads or [(torch.arange(it.numel()) % 17 / 8 - 1).view(it.shape).to(it.dtype) for it in found]
    gradients = torch.autograd.grad(found, leaves, [*grads], allow_unused=True)
    return [it.detach() for it in (*found, *gradients) if it is not None]


def exact(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [it.detach().double().contiguous() if it.is_floating_point() else it.contiguous() for it in tensors]


def arranged(tensors: Sequence[Tensor]) -> Iterator[tuple[str, list[Tensor]]]:
    """The tensors with each of them, and with all, in each layout."""
    for layout, arrange in LAYOUTS.items():
        for place in range(len(tensors)):
            yield f"{layout}, {place}", [arrange(it) if place == at else it for at, it in enumerate(tensors)]
        yield layout, [arrange(it) for it in tensors]


def assert_near(found: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float, what: str) -> None:
    assert len(found) == len(expected), what
    for one, other in zip(found, expected, strict=True):
        distance = (one.double() - other).abs().max().item()
        assert distance <= tolerance * (1 + other.abs().max().item()), f"{what}: {distance}"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("name", "slow"),
    [
        *(pytest.param(name, False, marks=[pytest.mark.slow] * ("large" in name)) for name in CASES),
        *((name, True) for name in OF_PRODUCTS if "large" not in name),
    ],
)
def test_an_argument_is_read_as_its_values_whatever_its_layout(name: str, slow: bool, dtype: torch.dtype) -> None:
    with slow_products() if slow else nullcontext():
        check(name, dtype)


def check(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    function, reference, makers = CASES[name]
    scale = 0.1 if "large" in name else 1.0
    tensors = [make(lambda *sizes: (torch.randn(sizes) * scale).to(dtype)) for make in makers]
    taken = 0
    for what, given in arranged(tensors):
        expected = results(reference, exact(given))
        with suppress(BurnlikeError):  # refused in words
            assert_near(results(function, given), expected, DTYPES[dtype], what)
            taken += 1
    assert taken > 5 * len(tensors)
    outputs = results(function, tensors)
    with torch.no_grad():
        shapes = function(*tensors)
    shapes = [shapes] if isinstance(shapes, Tensor) else [*shapes]
    for what, grads in arranged([torch.randn(it.shape).to(it.dtype) for it in shapes if it.dim()]):
        expected = results(reference, exact(tensors), exact(grads))
        found = results(function, tensors, grads)
        assert len(found) == len(outputs)
        assert_near(found, expected, DTYPES[dtype], f"gradient {what}")
