"""Ops that go by rows beside what torch computes in their place: values, gradients, errors, memory, shapes."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st
from torch import Tensor

from burnlike import ops
from burnlike.ops import native_status

Function = Callable[..., Any]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def added(norm: Function) -> Function:
    """A normalization of a sum, and the sum."""
    return lambda x, residual, *weights: (norm(x + residual, *weights), x + residual)


def rms_norm(x: Tensor, gamma: Tensor) -> Tensor:
    return F.rms_norm(x, gamma.shape, gamma, 1e-5)


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return F.layer_norm(x, gamma.shape, gamma, beta, 1e-5)


# Of each op, also of its form by tanh: the same in torch, and the sizes of the inputs: rows or one row.
BESIDE: dict[str, tuple[Function, Function, str]] = {
    "rms_norm": (ops.rms_norm, rms_norm, "rows row"),
    "layer_norm": (ops.layer_norm, layer_norm, "rows row row"),
    "add_rms_norm": (ops.add_rms_norm, added(rms_norm), "rows rows row"),
    "add_layer_norm": (ops.add_layer_norm, added(layer_norm), "rows rows row row"),
    "swiglu": (ops.swiglu, lambda gate, up: F.silu(gate) * up, "rows rows"),
    "geglu": (ops.geglu, lambda gate, up: F.gelu(gate) * up, "rows rows"),
    "geglu tanh": (
        lambda gate, up: ops.geglu(gate, up, "tanh"),
        lambda gate, up: F.gelu(gate, approximate="tanh") * up,
        "rows rows",
    ),
    "bias_gelu": (ops.bias_gelu, lambda x, bias: F.gelu(x + bias), "rows row"),
    "bias_gelu tanh": (
        lambda x, bias: ops.bias_gelu(x, bias, "tanh"),
        lambda x, bias: F.gelu(x + bias, approximate="tanh"),
        "rows row",
    ),
}
GATED = [name for name in BESIDE if "norm" not in name]
NORMS = ["rms_norm", "layer_norm"]


def leaves(name: str, rows: int, width: int, dtype: torch.dtype, device: str = "cpu") -> list[Tensor]:
    torch.manual_seed(0)
    sizes = {"rows": (rows, width), "row": (width,)}
    made = (torch.randn(sizes[it], dtype=torch.float64) * 2 for it in BESIDE[name][2].split())
    return [it.to(device, dtype).requires_grad_() for it in made]


def results(function: Function, inputs: Sequence[Tensor]) -> list[Tensor]:
    outputs = function(*inputs)
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def passes(function: Function, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The results, and the gradients for slopes that depend on nothing but the shapes."""
    outputs = results(function, inputs)
    torch.manual_seed(1)
    slopes = [torch.randn(it.shape, dtype=torch.float64).bfloat16().to(it.dtype) for it in outputs]
    return [*outputs, *torch.autograd.grad(outputs, inputs, slopes)]


def in_float64(inputs: Sequence[Tensor]) -> list[Tensor]:
    return [it.detach().double().requires_grad_() for it in inputs]


@pytest.mark.parametrize("name", BESIDE)
def test_values_and_gradients_are_those_of_torch_in_float64(name: str) -> None:
    ours, theirs, _ = BESIDE[name]
    inputs = leaves(name, 7, 50, torch.float64)
    torch.testing.assert_close(passes(ours, inputs), passes(theirs, inputs), rtol=1e-11, atol=1e-13)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    shape=st.lists(st.integers(0, 9), min_size=0, max_size=3),
    width=st.integers(2, 140),
    step=st.integers(1, 3),
    dtype=st.sampled_from(DTYPES),
)
@pytest.mark.parametrize("name", NORMS)
def test_any_shape_and_stride(name: str, shape: list[int], width: int, step: int, dtype: torch.dtype) -> None:
    x = torch.randn(*shape, width * step).to(dtype)[..., ::step].requires_grad_()
    inputs = [x, *leaves(name, 1, width, dtype)[1:]]
    y, *grads = passes(BESIDE[name][0], inputs)
    exact, *exact_grads = passes(BESIDE[name][1], in_float64(inputs))
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    torch.testing.assert_close(y.double(), exact, rtol=tolerance, atol=tolerance)
    for actual, expected in zip(grads, exact_grads, strict=True):
        scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
        torch.testing.assert_close(actual.double(), expected, rtol=0, atol=4 * tolerance * scale)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", GATED)
def test_errors_are_no_larger_than_those_of_torch(name: str, dtype: torch.dtype) -> None:
    ours, theirs, _ = BESIDE[name]
    inputs = leaves(name, 500, 256, dtype)
    exact = passes(theirs, in_float64(inputs))
    for one, other, expected in zip(passes(ours, inputs), passes(theirs, inputs), exact, strict=True):
        error, of_torch = ((it.double() - expected).square().mean().item() for it in (one, other))
        assert error <= 1.02 * of_torch


@pytest.mark.parametrize("name", BESIDE)
def test_native_kernels_run_forward_and_backward(name: str) -> None:
    before = native_status().calls
    passes(BESIDE[name][0], leaves(name, 3, 8, torch.float32))
    after, op = native_status().calls, name.split()[0]
    assert {it: after[it] - before[it] for it in (op, f"{op}_backward")} == {op: 1, f"{op}_backward": 1}


# The number of each input, and of results behind them, in the order in which backward gets them.
@pytest.mark.parametrize(
    ("name", "places"),
    [
        *((name, [0, 1]) for name in ("layer_norm", "swiglu", "geglu", "bias_gelu")),
        ("add_rms_norm", [4, 2]),
        ("add_layer_norm", [5, 2]),
    ],
)
def test_backward_keeps_what_was_there_anyway(name: str, places: list[int]) -> None:
    inputs = leaves(name, 30, 64, torch.float32)
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda it: saved.append(it.data_ptr()) or it, lambda it: it):
        outputs = results(BESIDE[name][0], inputs)
    there = [it.data_ptr() for it in (*inputs, *outputs)]
    assert saved == [there[place] for place in places]


@pytest.mark.parametrize("name", BESIDE)
def test_meta_tensors_give_shapes(name: str) -> None:
    for one in results(BESIDE[name][0], leaves(name, 6, 8, torch.bfloat16, "meta")):
        assert (one.shape, one.dtype, one.device.type) == ((6, 8), torch.bfloat16, "meta")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", [*NORMS, "swiglu"])
def test_compiles_for_changing_shapes(name: str, dynamic: bool) -> None:
    torch.compiler.reset()
    ours = BESIDE[name][0]
    compiled = torch.compile(ours, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (2, 5, 9):
        inputs = leaves(name, rows, 16, torch.float32)
        torch.testing.assert_close(passes(compiled, inputs), passes(ours, inputs), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_of_a_sum_has_the_bits_of_the_sum_and_of_its_norm(norm: str, dtype: torch.dtype) -> None:
    inputs = leaves(f"add_{norm}", 6, 40, dtype)
    expected = results(added(BESIDE[norm][0]), inputs)
    torch.testing.assert_close(results(BESIDE[f"add_{norm}"][0], inputs), expected, rtol=0, atol=0)


@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("name", ["add_rms_norm", "add_layer_norm"])
def test_one_result_may_be_unused(name: str, used: int) -> None:
    ours, theirs, _ = BESIDE[name]
    inputs = leaves(name, 6, 40, torch.float32)
    given = torch.autograd.grad(ours(*inputs)[used].square().sum(), inputs, allow_unused=True)
    exact = in_float64(inputs)
    expected = torch.autograd.grad(theirs(*exact)[used].square().sum(), exact, allow_unused=True)
    torch.testing.assert_close(given, tuple(None if it is None else it.float() for it in expected))
