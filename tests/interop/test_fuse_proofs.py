"""A forward is replaced by an op only where it is proved to compute the same, now and later."""

import copy
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import activations

import burnlike as bl
from burnlike.interop import fuse, unfuse
from burnlike.ops import native_status

READS_MORE = "its activation has hooks, or reads more than settings"
OTHER = "its forward gives other results than the fused op"
LIMIT = 1e9


class RmsNorm(nn.Module):
    """As Llama's, which multiplies what is rounded to the input's dtype."""

    def __init__(self, epsilon: float = 1e-6, **settings: Any) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), epsilon
        vars(self).update(settings)

    def normalized(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x.float()).to(x.dtype)


class RmsNormOfHiddenStates(RmsNorm):
    def forward(self, hidden_states: Tensor, residual: Tensor | None = None) -> Tensor:
        if residual is not None:
            hidden_states = hidden_states + residual
        return (self.weight * self.normalized(hidden_states.float())).type_as(hidden_states)


class GemmaRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return (self.normalized(x.float()) * (1.0 + self.weight.float())).type_as(x)


class CohereLayerNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        dtype, x = x.dtype, x.to(torch.float32)
        x = x - x.mean(-1, keepdim=True)
        return (self.weight.to(torch.float32) * self.normalized(x)).to(dtype)


class ShiftedRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return self.normalized(x) * (1 + self.weight)


class OutsideRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True).sqrt() + self.eps) * self.weight


class ClampedRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        return self.weight * (y / y.square().mean(-1, keepdim=True).sqrt().clamp(min=self.eps)).to(x.dtype)


class NoisyRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x.float() + 0 * torch.rand(1)).to(x.dtype)


class LotteryRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return self.drawn(x)

    def drawn(self, x: Tensor) -> Tensor:
        random.random()
        return self.weight * self.normalized(x.float()).to(x.dtype)


class FloatRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x.float())


class HalfRmsNorm(RmsNorm):
    """Overflows in float16."""

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x)


class DetachedRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        scale = torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps).detach()
        return self.weight * (y * scale).to(x.dtype)


class InPlaceRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return x.copy_(self.weight * self.normalized(x.float()).to(x.dtype))


class LongRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        y = x[..., :100, :] if x.shape[-2] > 100 else x
        return self.weight * self.normalized(y.float()).to(y.dtype)


class AskingRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x.float() * getattr(self, "scale", 1.0)).to(x.dtype)


class ImportingRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        import operator

        return self.weight * self.normalized(x.float() * operator.neg(-1.0)).to(x.dtype)


class CountingRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return self.weight * self.normalized(x.float()).to(x.dtype)


class LookedUpRmsNorm(RmsNorm):
    """Has `scale` without having it in a dict."""

    def __getattr__(self, name: str) -> Any:
        return LIMIT / 1e9 if name == "scale" else super().__getattr__(name)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x.float() * self.scale).to(x.dtype)


READ_MORE: list[tuple[Callable[[], nn.Module], str]] = [
    (AskingRmsNorm, "`getattr`"),
    (ImportingRmsNorm, "`neg`"),
    (CountingRmsNorm, "`seen`"),
    (LookedUpRmsNorm, "`scale`"),
]


class TrainedRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x.float() + 0 * self.training).to(x.dtype)


class GlobalRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x.float()).clamp(max=LIMIT).to(x.dtype)


class LimitedRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x.float()).clamp(max=self.limit).to(x.dtype)


class ScaledRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x.float() * self.scale).to(x.dtype)


class WrongRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normalized(x) + "eps"  # pyright: ignore[reportOperatorIssue]


class LimitedSiLU(nn.SiLU):
    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input).clamp(max=1e9)


class DerivedRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class RaisingRmsNorm(RmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("not now")


class TwoRmsNorm(RmsNorm):
    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        return super().forward(x * gate)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (ShiftedRmsNorm(), OTHER),
        (OutsideRmsNorm(1e-2), OTHER),
        (OutsideRmsNorm(1e-10), OTHER),
        (ClampedRmsNorm(1e-10), "its code reads `clamp`"),
        (NoisyRmsNorm(), "its code reads `rand`"),
        (LotteryRmsNorm(), "its code reads the global `random`"),
        (FloatRmsNorm(), OTHER),
        (HalfRmsNorm(), OTHER),
        (DetachedRmsNorm(), "its code reads `detach`"),
        (InPlaceRmsNorm(), "its code reads `copy_`"),
        (LongRmsNorm(), "its code compares sizes or values"),
        (TrainedRmsNorm(), "its code reads `training`"),
        *((it(), f"its code reads {what}") for it, what in READ_MORE),
        (GlobalRmsNorm(), "its code reads the global `LIMIT`"),
        (LimitedRmsNorm(limit=1e9), "its code reads `clamp`"),
        (ScaledRmsNorm(scale=1.0), "its code reads `scale`"),
        (DerivedRmsNorm(), "its code reads `super`"),
        (RaisingRmsNorm(), "its code reads `RuntimeError`"),
        (WrongRmsNorm(), "it could not be tried: TypeError: unsupported operand type(s) for +: 'Tensor' and 'str'"),
        (TwoRmsNorm(), "its forward requires several arguments"),
        (nn.LayerNorm((2, 4)), "it normalizes 2 dimensions, the native op the last one"),
        (nn.LayerNorm(4, elementwise_affine=False), "it has no weight, which the native op needs"),
        (bl.nn.LinearConfig(d_input=4, d_output=4).init(), "burnlike's layers call native ops by themselves"),
    ],
    ids=lambda it: type(it).__name__ if isinstance(it, nn.Module) else "",
)
def test_what_computes_something_else_is_kept_with_the_reason(module: nn.Module, reason: str) -> None:
    report = fuse(module)
    assert not report.fused
    assert report.kept[0].reason == reason


def test_code_that_reads_what_is_around_it_is_kept() -> None:
    scales = [1.0]

    class AroundRmsNorm(RmsNorm):
        def forward(self, x: Tensor) -> Tensor:
            return self.weight * self.normalized(x.float() * scales[0]).to(x.dtype)

    class DefaultRmsNorm(RmsNorm):
        def forward(self, x: Tensor, scales: list[float] = scales) -> Tensor:
            return self.weight * self.normalized(x.float() * scales[0]).to(x.dtype)

    assert fuse(AroundRmsNorm()).kept[0].reason == "its code reads `scales` of the function around it"
    assert fuse(DefaultRmsNorm()).kept[0].reason == "its code has an object as the default of an argument"


def test_a_method_that_is_replaced_later_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    module, own, x = RmsNorm(), RmsNorm(), torch.randn(2, 8)
    fuse(module)
    fuse(own)
    own.normalized = lambda x: 3 * x
    torch.testing.assert_close(own(x), 3 * x)
    monkeypatch.setattr(RmsNorm, "normalized", lambda self, x: 2 * x)
    torch.testing.assert_close(module(x), 2 * x)


@pytest.mark.parametrize("change", [{"eps": None}, {"weight": None}, {"eps": "1e-6"}])
def test_what_a_norm_can_t_compute_with_later_is_an_error_of_its_own_code(change: dict[str, Any]) -> None:
    module = RmsNorm()
    fuse(module)
    for name, value in change.items():
        setattr(module, name, value)
    with pytest.raises(TypeError, match="unsupported operand"):
        module(torch.ones(2, 8))


def test_a_norm_without_its_weight_yet_is_kept() -> None:
    module = RmsNorm()
    module.weight = nn.UninitializedParameter()
    assert not fuse(module).fused


NORMS = {
    RmsNorm: "rms_norm",
    RmsNormOfHiddenStates: "rms_norm",
    GemmaRmsNorm: "rms_norm",
    CohereLayerNorm: "layer_norm",
}


@pytest.mark.parametrize(("norm", "op"), NORMS.items())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("weight_dtype", [None, torch.float32])
def test_a_fused_norm_gives_the_stock_dtype_and_values(
    norm: Any, op: str, dtype: torch.dtype, weight_dtype: Any
) -> None:
    module = norm().to(weight_dtype or dtype)
    module.weight.data += torch.randn(8).to(module.weight.dtype)
    x = torch.randn(3, 8).to(dtype).requires_grad_()
    expected = module(x)
    of_weight = torch.autograd.grad(expected.float().sin().sum(), module.weight)[0]
    assert fuse(module).fused[0].ops == (op,)
    got = module(x)
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected)
    found = torch.autograd.grad(got.float().sin().sum(), module.weight)[0]
    near = 1e-5 if dtype.itemsize > 2 else 2e-2
    torch.testing.assert_close(found, of_weight, rtol=near, atol=near)


def test_other_arguments_pass_through() -> None:
    module, x = RmsNormOfHiddenStates(), torch.randn(2, 8)
    expected = module(x), module(x, residual=x)
    fuse(module)
    for got in (module(hidden_states=x), module(x, None), module(x, residual=None)):
        torch.testing.assert_close(got, expected[0])
    for got in (module(x, x), module(x, residual=x), module(hidden_states=x, residual=x)):
        torch.testing.assert_close(got, expected[1])
    with pytest.raises(TypeError, match="hidden_states"):
        module()


class Gated(nn.Module):
    def __init__(self, activation: Any = None, **settings: Any) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 4)
        self.act_fn = activation
        vars(self).update(settings)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class PackedGated(nn.Module):
    """Gate and up are halves of one product; in Phi-3 the gate is the first."""

    def __init__(self, activation: Any) -> None:
        super().__init__()
        self.gate_up_proj, self.down_proj, self.act_fn = nn.Linear(4, 12), nn.Linear(6, 4), activation

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(up * self.act_fn(gate))


class UpFirstGated(PackedGated):
    def forward(self, x: Tensor) -> Tensor:
        up, gate = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(up * self.act_fn(gate))


class LimitedGated(Gated):
    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x).clamp(max=50.0)) * self.up_proj(x))


class DroppedGated(Gated):
    def forward(self, x: Tensor) -> Tensor:
        return F.alpha_dropout(self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)), self.rate)


class NewNorm(nn.Module):
    """Of which nothing was proved before."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(4)), 1e-6

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class NewRmsNorm(NewNorm):
    pass


def test_among_fake_tensors_is_proved_what_is_elsewhere() -> None:
    """As a forecast of a training does it: what was proved is kept with the class."""

    def ops() -> list[tuple[str, tuple[str, ...]]]:
        found = fuse(nn.Sequential(NewRmsNorm(), Gated(nn.SiLU()))).fused
        return [(it.path, it.ops) for it in found if "linear" not in it.ops]

    with FakeTensorMode():
        among_fakes = ops()
    assert among_fakes == ops() == [("0", ("rms_norm",)), ("1", ("swiglu",))]


class OtherOrderGated(Gated):
    def forward(self, x: Tensor) -> Tensor:
        up = self.up_proj(x)
        return self.down_proj(self.act_fn(self.gate_proj(x)) * up)


class WeightsGated(Gated):
    """Calls none of its layers, so that their hooks are not called."""

    def forward(self, x: Tensor) -> Tensor:
        gate, up = F.linear(x, self.gate_proj.weight), F.linear(x, self.up_proj.weight)
        return F.linear(self.act_fn(gate) * up, self.down_proj.weight)


def hooked(module: nn.Module) -> nn.Module:
    module.register_forward_hook(lambda *_: None)
    return module


class GatedWithDropout(Gated):
    def __init__(self) -> None:
        super().__init__(nn.SiLU())
        self.dropout = nn.Dropout(0.0)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Gated(nn.ReLU()), OTHER),
        (Gated(F.relu), OTHER),
        (LimitedGated(), "its code reads `clamp`"),
        (DroppedGated(nn.SiLU(), rate=0.0), "its code reads `alpha_dropout`"),
        (OtherOrderGated(nn.SiLU()), OTHER),
        (Gated(lambda x: x * torch.sigmoid(LIMIT * x)), READS_MORE),
        (Gated(LimitedSiLU()), READS_MORE),
        (Gated(hooked(nn.SiLU())), READS_MORE),
        (Gated(nn.PReLU()), READS_MORE),
        (UpFirstGated(nn.SiLU()), OTHER),
        (GatedWithDropout(), "it has `dropout` beside its products and activation"),
    ],
    ids=lambda it: type(it).__name__ if isinstance(it, nn.Module) else "",
)
def test_a_gated_feed_forward_with_more_to_it_is_kept(module: nn.Module, reason: str) -> None:
    assert {it.path: it.reason for it in fuse(module).kept}[""] == reason


def test_a_gated_feed_forward_that_calls_none_of_its_layers_has_faster_products_at_most() -> None:
    ops = [it.ops for it in fuse(WeightsGated(nn.SiLU())).fused if not it.path]
    assert ops in ([], [("linear",)])


ACTIVATIONS: list[tuple[Callable[[], Any], str]] = [
    (nn.SiLU, "swiglu"),
    (lambda: F.silu, "swiglu"),
    (nn.GELU, "geglu"),
    (lambda: nn.GELU("tanh"), "geglu"),
]


@pytest.mark.parametrize("gated", [Gated, PackedGated])
@pytest.mark.parametrize(("activation", "op"), ACTIVATIONS)
def test_an_activation_that_changes_later_is_called(activation: Callable[[], Any], op: str, gated: Any) -> None:
    x = torch.randn(2, 3, 4)

    def check(change: Callable[[Any], None]) -> None:
        module = gated(activation())
        assert fuse(module).fused[0].ops == (op,)
        change(module)
        got = module(x)
        unfuse(module)
        torch.testing.assert_close(got, module(x))

    def assign(module: Any) -> None:
        del module.act_fn
        module.act_fn = nn.ReLU()

    check(lambda module: None)
    check(assign)
    if isinstance(activation(), nn.Module):
        check(lambda module: module.act_fn.register_forward_hook(lambda module, inputs, output: output * 0))
    if isinstance(activation(), nn.GELU):
        check(lambda module: setattr(module.act_fn, "approximate", "tanh"))


def test_hooks_for_all_modules_see_the_activation() -> None:
    module, x = Gated(nn.SiLU()), torch.randn(2, 3, 4)
    assert fuse(module).fused[0].ops == ("swiglu",)
    hook = nn.modules.module.register_module_forward_hook(
        lambda module, inputs, output: output * 0 if isinstance(module, nn.SiLU) else None
    )
    try:
        got = module(x)
        unfuse(module)
        assert torch.equal(got, module(x))
    finally:
        hook.remove()


class CallsGelu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh")


GELUS = {
    "GELU": lambda: nn.GELU("tanh"),
    "CallsGelu": CallsGelu,
    **{it: lambda it=it: getattr(activations, it)() for it in ("GELUTanh", "NewGELUActivation", "FastGELUActivation")},
    "AccurateGELUActivation": activations.AccurateGELUActivation,
    "QuickGELUActivation": activations.QuickGELUActivation,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("make", GELUS.values(), ids=list(GELUS))
def test_an_approximated_gelu_is_native_also_in_copies(make: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    stock, module = make(), make()
    assert [it.ops for it in fuse(module).fused] == [("bias_gelu",)]
    x = torch.randn(64, 256, dtype=dtype, requires_grad=True)
    precise = x.detach().double().requires_grad_()
    exact = stock(precise)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-2
    grad = torch.randn_like(x)
    (expected,) = torch.autograd.grad(exact, precise, grad.double())
    for copied in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        before = native_status().calls.get("bias_gelu", 0)
        result = copied(x)
        assert native_status().calls["bias_gelu"] == before + 1
        (gradient,) = torch.autograd.grad(result, x, grad)
        for one, other in ((result, exact), (gradient, expected)):
            torch.testing.assert_close(one, other.to(dtype), rtol=tolerance, atol=tolerance)
    assert unfuse(module) == 1
    assert torch.equal(module(x), stock(x))


@pytest.mark.parametrize("make", [nn.GELU, activations.GELUActivation, lambda: activations.GELUTanh(True)])
def test_another_gelu_is_kept(make: Callable[[], nn.Module]) -> None:
    assert not fuse(make()).fused


CHANGED_GELUS: list[tuple[Callable[[], nn.Module], Callable[[Any], None]]] = [
    (lambda: nn.GELU("tanh"), lambda module: setattr(module, "approximate", "none")),
    (activations.GELUTanh, lambda module: setattr(module, "act", F.relu)),
    (activations.AccurateGELUActivation, lambda module: setattr(module, "precomputed_constant", 2.0)),
    (activations.NewGELUActivation, lambda module: module.register_forward_hook(lambda module, inputs, y: y * 0)),
]


@pytest.mark.parametrize(("make", "change"), CHANGED_GELUS)
def test_a_gelu_that_changes_later_computes_as_it_says(
    make: Callable[[], nn.Module], change: Callable[[Any], None]
) -> None:
    module, x = make(), torch.randn(64, 256)
    assert fuse(module).fused
    change(module)
    got = module(x)
    unfuse(module)
    assert torch.equal(got, module(x))


def test_a_trial_runs_no_hooks_and_draws_no_numbers() -> None:
    seen: list[int] = []
    model = nn.Sequential(Gated(nn.SiLU()), RmsNorm(), NoisyRmsNorm())
    for module in model.modules():
        module.register_forward_hook(lambda *_: seen.append(1))
    model[0].log = []
    states = torch.get_rng_state(), random.getstate()
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        fuse(model)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert seen == []
    assert model[0].log == []
