"""`linear`: oneDNN's products in the place of MKL's, wherever the machine gains by them, and torch's own elsewhere."""

import importlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from burnlike.interop import fuse
from burnlike.ops import linear, native_status

MODULE = importlib.import_module("burnlike.ops.linear")
LARGE = (4, 64, 256, 192)
"""Sizes [batch, rows, d_input, d_output] of a product that is large enough for oneDNN."""
HAS_NATIVE_GRADIENTS = native_status().cpu.loaded
"""True if gradients of weights are products of a native op."""

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch is without oneDNN's product"
)


@pytest.fixture(autouse=True)
def _machine_that_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_MACHINE_GAINS", True)
    monkeypatch.setattr(MODULE.half_products, "SLOW", frozenset())


def made(*sizes: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    *batch, d_input, d_output = sizes
    generator = torch.Generator().manual_seed(0)
    shapes = ((*batch, d_input), (d_output, d_input), (d_output,))
    return tuple(torch.randn(it, generator=generator).to(dtype).requires_grad_() for it in shapes)  # type: ignore[return-value]


def products(function: Callable[[], object]) -> int:
    """How many products of oneDNN a call takes."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        function()
    return sum(it.count for it in found.key_averages() if it.key == "mkldnn::_linear_pointwise")


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_results_and_gradients_are_those_of_float64(has_bias: bool, transposed: bool) -> None:
    x, weight, bias = made(*LARGE)
    given = (x, weight, bias) if has_bias else (x, weight)
    if transposed:  # as burnlike's layers store it
        weight = weight.detach().mT.contiguous().mT.requires_grad_()
        given = (x, weight, *given[2:])
    exact = [it.detach().double().requires_grad_() for it in given]
    grad = torch.randn(*LARGE[:2], LARGE[3])
    expected = functional.linear(*exact)
    expected.backward(grad.double())

    def both() -> Tensor:
        y = linear(*given)
        y.backward(grad)
        return y

    assert products(both) == 3 - HAS_NATIVE_GRADIENTS
    y = linear(*given)
    assert y.is_contiguous()
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=2e-5)
    for one, two in zip(given, exact, strict=True):
        torch.testing.assert_close(one.grad.double(), two.grad, rtol=1e-5, atol=4e-5)


def test_the_rounding_error_is_at_most_two_and_a_half_times_that_of_mkl() -> None:
    x, weight, _ = (it.detach() for it in made(64, 2048, 256))
    exact = functional.linear(x.double(), weight.double())
    own, theirs = ((it.double() - exact).square().mean().sqrt() for it in (linear(x, weight), x @ weight.mT))
    assert own < 1e-6 * exact.std()
    assert own < 2.5 * theirs or not torch.backends.mkl.is_available()


@pytest.mark.parametrize("rows", [512, 4096])
def test_the_rounding_error_of_a_weights_gradient_does_not_grow_with_the_rows(rows: int) -> None:
    x, weight, _ = made(rows, 128, 192)
    grad = torch.randn(rows, 192, generator=torch.Generator().manual_seed(1))
    (found,) = torch.autograd.grad(linear(x, weight), weight, grad)
    exact = grad.double().mT @ x.detach().double()
    assert (found - exact).square().mean().sqrt() < (4e-7 if HAS_NATIVE_GRADIENTS else 1e-6) * exact.std()


@pytest.mark.parametrize("sizes", [(2048, 384, 96), (128, 16384, 64), (33, 517, 1029), (16, 16384, 32)])
def test_bits_do_not_depend_on_the_number_of_threads(sizes: tuple[int, ...]) -> None:
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            x, weight, bias = made(*sizes)
            y = linear(x, weight, bias)
            y.backward(torch.ones_like(y))
            found.append([y.detach(), x.grad, weight.grad, bias.grad])
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_sums_that_onednn_splits_among_threads_are_those_of_mkl() -> None:
    x, weight, _ = made(20000, 64, 384)
    y = linear(x, weight)
    assert products(lambda: y.backward(torch.ones_like(y))) == 1  # of the gradient of x alone
    assert products(lambda: linear(*made(64, 20000, 64))) == 0


def test_derivatives_of_any_order() -> None:
    x, weight, bias = made(*LARGE)
    exact = [it.detach().double().requires_grad_() for it in (x, weight, bias)]

    def second(function: Callable[..., Tensor], *given: Tensor) -> tuple[Tensor, ...]:
        (grad,) = torch.autograd.grad(function(*given).square().sum(), given[:1], create_graph=True)
        return torch.autograd.grad(grad.square().sum(), given)

    for one, two in zip(second(linear, x, weight, bias), second(functional.linear, *exact), strict=True):
        torch.testing.assert_close(one.double(), two, rtol=1e-4, atol=1e-5 * two.abs().max().item())


SMALL = made(2, 8, 8)
OTHERS: dict[str, Callable[[], tuple[Tensor, ...]]] = {
    "small": lambda: SMALL,
    "few rows": lambda: made(8, 2048, 2048),
    "no rows": lambda: made(0, 512, 512),
    "float64": lambda: made(*LARGE, dtype=torch.float64),
    "bfloat16": lambda: made(*LARGE, dtype=torch.bfloat16),
    "meta": lambda: tuple(it.detach().to("meta") for it in made(*LARGE)),
}


@pytest.mark.parametrize("given", OTHERS.values(), ids=OTHERS)
def test_all_else_is_torchs_own(given: Callable[[], tuple[Tensor, ...]]) -> None:
    tensors = given()
    y, expected = linear(*tensors), functional.linear(*tensors)
    assert (y.shape, y.dtype, y.device) == (expected.shape, expected.dtype, expected.device)
    assert y.device.type == "meta" or torch.equal(y, expected)
    assert products(lambda: linear(*tensors)) == 0


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # torch's own, of its own switch
def test_autocast_and_a_switched_off_onednn_take_torchs_own() -> None:
    given = made(*LARGE)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(linear(*given), functional.linear(*given))
    with torch.backends.mkldnn.flags(enabled=False):
        assert products(lambda: linear(*given)) == 0
    assert products(lambda: linear(*given)) == 1


def test_another_machine_takes_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_MACHINE_GAINS", False)
    given = made(*LARGE)
    assert products(lambda: linear(*given)) == 0
    assert torch.equal(linear(*given), functional.linear(*given))


def test_transforms_and_forward_mode_take_torchs_own() -> None:
    x, weight, bias = (it.detach() for it in made(*LARGE))
    mapped = torch.func.vmap(linear, (0, None, None))(x, weight, bias)
    torch.testing.assert_close(mapped, functional.linear(x, weight, bias), rtol=1e-5, atol=1e-4)
    tangent = torch.func.jvp(lambda it: linear(it, weight, bias), (x,), (x,))[1]
    torch.testing.assert_close(tangent, functional.linear(x, weight), rtol=1e-4, atol=1e-4)
    with torch.autograd.forward_ad.dual_level():
        dual = linear(torch.autograd.forward_ad.make_dual(x, x), weight)
        assert torch.autograd.forward_ad.unpack_dual(dual).tangent is not None


def test_a_compiled_graph_is_whole_and_takes_the_same_products() -> None:
    x, weight, bias = made(*LARGE)

    def step(*given: Tensor) -> Tensor:
        return linear(*given).relu().square().sum()

    compiled = torch.compile(step, fullgraph=True)
    compiled(x, weight, bias).backward()
    own = [it.grad for it in (x, weight, bias)]
    x.grad = weight.grad = bias.grad = None
    before = native_status().calls["weight_backward"] if HAS_NATIVE_GRADIENTS else 0
    taken = products(lambda: compiled(x, weight, bias).backward())
    after = native_status().calls["weight_backward"] if HAS_NATIVE_GRADIENTS else 0
    assert taken + after - before == 3  # the weight's by either, as the compiler traces with gradients on or off
    x.grad = weight.grad = bias.grad = None
    step(x, weight, bias).backward()
    for one, two in zip(own, (x.grad, weight.grad, bias.grad), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-3)


def test_an_exported_program_has_torchs_ops_alone() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor, weight: Tensor) -> Tensor:
            return linear(x, weight)

    x, weight, _ = (it.detach() for it in made(*LARGE))
    program = torch.export.export(Model(), (x, weight))
    assert not any("burnlike" in str(node.target) for node in program.graph.nodes)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [(((64, 512), (512, 511)), "512"), (((64, 512), (512, 512, 1)), "dim|2D|matrix|size")],
)
def test_shapes_that_do_not_fit_give_torchs_error(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        linear(*(torch.ones(it) for it in shapes))


def test_a_bias_of_another_dtype_is_torchs_error() -> None:
    x, weight, bias = (it.detach() for it in made(*LARGE))
    with pytest.raises(RuntimeError, match=r"dtype|same"):
        linear(x, weight, bias.double())


def test_a_bias_that_does_not_fit_gives_torchs_error() -> None:
    x, weight, _ = (it.detach() for it in made(*LARGE))
    with pytest.raises(RuntimeError):
        linear(x, weight, torch.ones(7))


def test_members_of_an_ensemble_that_lie_beside_each_other_are_called_by_their_weights() -> None:
    torch.manual_seed(0)
    net, x = (
        torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)),
        made(256, 256, 1)[0],
    )
    members = {name: torch.stack((it.detach(), it.detach() + 1), -1)[..., 0] for name, it in net.state_dict().items()}
    expected = torch.func.functional_call(net.double(), {name: it.double() for name, it in members.items()}, x.double())
    fuse(net.float())
    found = torch.func.functional_call(net, members, x)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5 * expected.abs().max().item())


@pytest.mark.parametrize("hop", [1, 2, 128])
def test_windows_over_a_series_have_gradients(hop: int) -> None:
    series, weight = torch.randn(40_000), torch.randn(64, 256, requires_grad=True)
    windows = series[: 256 * hop + 256].unfold(0, 256, hop)
    (grad,) = torch.autograd.grad(linear(windows, weight).square().sum(), weight)
    exact = weight.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(functional.linear(windows.double(), exact).square().sum(), exact)
    torch.testing.assert_close(grad.double(), expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())
