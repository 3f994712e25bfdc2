"""A linear layer with an adapter: its values, what it saves and multiplies, and that layers compute by it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from burnlike.errors import ShapeError
from burnlike.module import Lora, LoraConfig, Module, apply_lora, param_at
from burnlike.nn import LinearConfig
from burnlike.ops import lora_linear

Inputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]

SCALE = 1.5
D_INPUT, RANK, D_OUTPUT = 6, 2, 5


def tensors(dtype: torch.dtype = torch.float64, *shape: int, times: int = 1) -> Inputs:
    """x, weight, a, b and bias; all but the weight are trained."""
    torch.manual_seed(0)
    d_input, rank, d_output = D_INPUT * times, RANK * times, D_OUTPUT * times
    sizes = [(*(shape or (3, 4)), d_input), (d_input, d_output), (d_input, rank), (rank, d_output), (d_output,)]
    x, weight, a, b, bias = (torch.randn(size).to(dtype).requires_grad_() for size in sizes)
    return x, weight.requires_grad_(False), a, b, bias


def formula(x: Tensor, weight: Tensor, a: Tensor, b: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """Hu et al. 2021, eq. 3, as it is written."""
    y = x @ weight + scale * ((x @ a) @ b)
    return y if bias is None else y + bias


def gradients(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    output = function(*inputs, SCALE)
    leaves = [tensor for tensor in inputs if tensor.requires_grad]
    seed = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output.dtype)
    return [output.detach(), *torch.autograd.grad(output, leaves, seed)]


@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 4), (0,), (1,)])
def test_values_and_gradients_are_those_of_the_formula(shape: tuple[int, ...]) -> None:
    inputs = tensors(torch.float64, *shape)
    for ours, expected in zip(gradients(lora_linear, inputs), gradients(formula, inputs), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def test_one_row_and_no_bias() -> None:
    x, weight, a, b, _ = tensors()
    y = lora_linear(x[0, 0], weight, a, b, None, SCALE)
    torch.testing.assert_close(y, formula(x[0, 0], weight, a, b, None, SCALE), rtol=1e-12, atol=1e-12)


def test_first_and_second_derivatives_are_those_of_the_values() -> None:
    x, weight, a, b, bias = tensors()

    def output(x: Tensor, a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
        return lora_linear(x, weight, a, b, bias, SCALE)

    assert torch.autograd.gradcheck(output, (x, a, b, bias))
    assert torch.autograd.gradgradcheck(output, (x, a, b, bias))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_errors_are_no_larger_than_those_of_torch(dtype: torch.dtype) -> None:
    inputs = tensors(dtype, 200, times=16)
    doubles = [tensor.detach().double().requires_grad_(tensor.requires_grad) for tensor in inputs]
    exact, ours, theirs = gradients(formula, doubles), gradients(lora_linear, inputs), gradients(formula, inputs)
    for value, our, their in zip(exact, ours, theirs, strict=True):
        error, expected = ((it.double() - value).norm() / value.norm() for it in (our, their))
        assert error <= 1.1 * expected + 1e-7


def test_a_trained_weight_gets_its_gradient() -> None:
    inputs = [tensor.requires_grad_() for tensor in tensors()]
    for ours, expected in zip(gradients(lora_linear, inputs), gradients(formula, inputs), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def saved_by(run: Callable[[], Tensor], known: Sequence[Tensor]) -> int:
    """The bytes of the tensors saved for backward whose memory is not that of known ones."""
    memory = {tensor.untyped_storage().data_ptr() for tensor in known}
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in memory:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(saved.values())


def test_nothing_is_saved_besides_x_and_the_parameters() -> None:
    x, weight, a, b, bias = inputs = tensors()
    assert saved_by(lambda: lora_linear(*inputs, SCALE), inputs) == 0
    # And no converted copy of a weight in fewer bits.
    weight = weight.bfloat16()
    assert saved_by(lambda: lora_linear(x, weight, a, b, bias, SCALE), [*inputs, weight]) == 0


def test_products_as_large_as_the_layer_are_two() -> None:
    """The gradient of a frozen weight is the third."""
    x, weight, a, b = torch.randn(64, 32), torch.randn(32, 32), torch.randn(32, 2), torch.randn(2, 32)
    leaves = [x.requires_grad_(), a.requires_grad_(), b.requires_grad_()]
    with FlopCounterMode(display=False) as counter:
        lora_linear(x, weight, a, b, None, SCALE).sum().backward(inputs=leaves)
    layer, low_rank = 2 * 64 * 32 * 32, 2 * 64 * 32 * 2
    sum_of_weights = 2 * 32 * 32 * 2
    assert counter.get_total_flops() == 2 * layer + 4 * low_rank + 2 * sum_of_weights


def test_autocast_computes_in_its_type_as_torch_does() -> None:
    inputs = tensors(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y = lora_linear(*inputs, SCALE)
        expected = formula(*inputs, SCALE)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), expected.float(), rtol=0.03, atol=0.05)
    grad = torch.autograd.grad(y.float().sum(), inputs[2])[0]
    assert grad.dtype == torch.float32
    torch.testing.assert_close(grad, torch.autograd.grad(expected.float().sum(), inputs[2])[0], rtol=0.03, atol=0.3)


def test_autocast_converts_neither_float64_nor_what_is_on_the_meta_device() -> None:
    inputs = tensors()
    with torch.autocast("cpu", torch.bfloat16):
        exact = lora_linear(*inputs, SCALE)
        shapes = lora_linear(*(tensor.float().to("meta") for tensor in inputs), SCALE)
    torch.testing.assert_close(exact, formula(*inputs, SCALE), rtol=1e-12, atol=1e-12)
    assert shapes.is_meta
    assert shapes.shape == (3, 4, 5)
    assert shapes.dtype == torch.float32


def test_compiled_within_autocast() -> None:
    inputs = tensors(torch.float32)
    compiled = torch.compile(lora_linear, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        results, expected = gradients(compiled, inputs), gradients(lora_linear, inputs)
    assert results[0].dtype == torch.bfloat16
    for ours, eager in zip(results, expected, strict=True):
        assert torch.equal(ours, eager)


def test_compiled_in_one_graph() -> None:
    inputs = tensors()
    compiled = torch.compile(lora_linear, fullgraph=True, backend="aot_eager")
    for ours, expected in zip(gradients(compiled, inputs), gradients(formula, inputs), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def test_differentiated_by_torch_func() -> None:
    x, *others = tensors()

    def gradients_of_rows(function: Callable[..., Tensor]) -> Tensor:
        return torch.func.vmap(torch.func.grad(lambda row: function(row, *others, SCALE).square().sum()))(x)

    torch.testing.assert_close(gradients_of_rows(lora_linear), gradients_of_rows(formula), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("compiles", [False, True])
def test_differentiated_in_forward_mode(compiles: bool) -> None:
    x, *others = (tensor.detach() for tensor in tensors())

    def tangent(function: Callable[..., Tensor]) -> Tensor:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(function(forward_ad.make_dual(x, x.flip(0)), *others, SCALE)).tangent

    ours = torch.compile(tangent, backend="aot_eager") if compiles else tangent
    torch.testing.assert_close(ours(lora_linear), tangent(formula), rtol=1e-12, atol=1e-12)


def test_shapes_that_do_not_fit_are_told() -> None:
    x, weight, a, b, bias = tensors()
    with pytest.raises(ShapeError, match=r"lora_linear: expected x of shape \[\.\.\., 6\], got \[3, 4, 5\]"):
        lora_linear(x[..., :5], weight, a, b, bias, SCALE)
    with pytest.raises(ShapeError, match=r"expected a of shape \[6, 2\], got \[5, 2\]"):
        lora_linear(x, weight, a[:5], b, bias, SCALE)
    with pytest.raises(ShapeError, match=r"expected b of shape \[2, 5\], got \[1, 5\]"):
        lora_linear(x, weight, a, b[:1], bias, SCALE)
    with pytest.raises(ShapeError, match=r"expected bias of shape \[5\], got \[4\]"):
        lora_linear(x, weight, a, b, bias[:4], SCALE)
    with pytest.raises(ShapeError, match=r"expected weight of shape \[d_input, d_output\]"):
        lora_linear(x, weight[0], a, b, bias, SCALE)


def adapted_layer() -> Module:
    layer = apply_lora(LinearConfig(d_input=6, d_output=5).init(), LoraConfig(rank=2, alpha=3.0))
    with torch.no_grad():
        param_at(layer, "weight.lora.b").tensor.normal_()
    return layer


def test_a_linear_layer_with_an_adapter_saves_no_sum_of_weights() -> None:
    layer, x = adapted_layer(), torch.randn(4, 6, requires_grad=True)
    assert saved_by(lambda: layer(x), [x, *layer.parameters()]) == 0
    lora = param_at(layer, "weight").reparameterization()
    assert isinstance(lora, Lora)
    expected = functional.linear(x, param_at(layer, "weight").val().mT, param_at(layer, "bias").tensor)
    assert torch.equal(layer(x), expected)


def test_hooks_of_an_adapter_see_the_sum() -> None:
    layer, x = adapted_layer(), torch.randn(4, 6)
    sums: list[Any] = []
    lora = param_at(layer, "weight").reparameterization()
    assert lora is not None
    lora.register_forward_hook(lambda module, inputs, output: sums.append(output))
    layer(x)
    assert [it.shape for it in sums] == [(6, 5)]


def test_a_parametrization_on_top_of_an_adapter_applies() -> None:
    class Doubled(torch.nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return 2 * weight

    layer, x = adapted_layer(), torch.randn(4, 6)
    bias = param_at(layer, "bias").tensor
    before = (layer(x) - bias).detach()
    torch.nn.utils.parametrize.register_parametrization(layer, "weight", Doubled())
    torch.testing.assert_close((layer(x) - bias).detach(), 2 * before)


@pytest.mark.parametrize("sizes", [(3, 0, 2, 5), (3, 4, 2, 0), (3, 4, 0, 5), (0, 4, 2, 5)], ids=str)
def test_sizes_of_zero(sizes: tuple[int, ...]) -> None:
    rows, d_input, rank, d_output = sizes
    shapes = ((rows, d_input), (d_input, d_output), (d_input, rank), (rank, d_output), (d_output,))
    x, weight, *others = (torch.randn(shape) for shape in shapes)
    results = []
    for function in (lora_linear, formula):
        leaves = [it.clone().requires_grad_() for it in (x, *others)]
        y = function(leaves[0], weight, *leaves[1:], SCALE)
        results.append([y, *torch.autograd.grad(y.sum(), leaves)])
    torch.testing.assert_close(results[0], results[1])
