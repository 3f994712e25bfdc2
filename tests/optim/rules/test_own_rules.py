"""Rules of users: states of any kind come back as they were given, and mistakes are named at the first step."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike import Tensor
from burnlike.errors import ArgumentError, ConfigError
from burnlike.optim import AdamWConfig, GradientsParams, OptimizerAdaptor, SimpleOptimizer


def stepped(optimizer: OptimizerAdaptor[Any], model: nn.Module, times: int = 2, **options: Any) -> None:
    for _ in range(times):
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step(0.1, model, GradientsParams.from_module(model), **options)


def layer() -> nn.Linear:
    return nn.Linear(3, 2, bias=False)


@dataclass
class Anything:
    value: torch.Tensor
    parts: list[torch.Tensor] = field(default_factory=list)
    named: dict[str, torch.Tensor] = field(default_factory=dict)
    whole: Tensor[Any, Any] | None = None
    typed: dict[str, Tensor[Any, Any]] = field(default_factory=dict)


class Keeping(SimpleOptimizer[Anything]):
    """A rule that keeps tensors and notes what it gets back."""

    state_type = Anything

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value
        self.got: list[Anything] = []

    def step(self, lr: float, tensor: Any, grad: Any, state: Anything | None) -> Any:
        if state is not None:
            self.got.append(state)
        value = self.value
        return tensor - grad * lr, Anything(value, [value], {"a.b": value}, grad * 2.0, {"c.d": grad * 3.0})


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor(0.9),
        torch.ones(2),
        torch.ones([1] * 9),
        torch.tensor([1 + 2j]),
        torch.tensor([1.5]).to(torch.float8_e4m3fn),
        torch.tensor([2**63], dtype=torch.uint64),
        torch.empty(0, 3),
    ],
    ids=lambda value: f"{value.dtype}-{value.dim()}",
)
def test_tensors_of_a_state_come_back_as_they_are_declared(tmp_path: Path, value: torch.Tensor) -> None:
    rule, model = Keeping(value), layer()
    optimizer = OptimizerAdaptor(rule)
    stepped(optimizer, model)
    bl.record.save(optimizer, tmp_path / "state.safetensors")
    again = OptimizerAdaptor(other := Keeping(value))
    again.load(tmp_path / "state.safetensors", module=model)
    stepped(again, model, times=1)
    for state in (*rule.got, *other.got):
        for part in (state.value, state.parts[0], state.named["a.b"]):
            assert type(part) is torch.Tensor
            assert (part.dtype, part.shape) == (value.dtype, value.shape)
            assert str(part) == str(value)
        assert isinstance(state.whole, Tensor)
        assert isinstance(state.typed["c.d"], Tensor)
    assert len(rule.got) == len(other.got) == 1


@dataclass
class Kept:
    weights: Tensor[Any, Any]
    gradient: torch.Tensor


class Remembering(SimpleOptimizer[Kept]):
    """A rule whose state is what it was given."""

    state_type = Kept

    def __init__(self) -> None:
        self.got: list[Kept] = []

    def step(self, lr: float, tensor: Any, grad: Any, state: Kept | None) -> Any:
        self.got += [] if state is None else [state]
        return tensor - grad * lr, Kept(tensor, grad.inner[:1])


def test_a_state_may_keep_the_weights_and_the_gradient_that_it_was_given() -> None:
    rule, model = Remembering(), layer()
    first = model.weight.detach().clone()
    stepped(OptimizerAdaptor(rule), model, zero_grads=True)
    torch.testing.assert_close(rule.got[0].weights.inner, first, rtol=0, atol=0)
    torch.testing.assert_close(rule.got[0].gradient, torch.full((1, 3), 4.0), rtol=0, atol=0)


def test_a_complex_parameter_may_have_complex_states_of_other_shapes() -> None:
    model = nn.Module()
    model.weight = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    rule = Keeping(torch.ones(5, dtype=torch.complex64))
    optimizer = OptimizerAdaptor(rule)
    for _ in range(2):
        model.weight.abs().sum().backward()
        optimizer.step(0.1, model, GradientsParams.from_module(model))
    assert rule.got[0].value.dtype is torch.complex64
    assert rule.got[0].value.shape == (5,)


class Returning(SimpleOptimizer[Any]):
    """A rule that gives anything."""

    state_type = Anything

    def __init__(self, result: Any) -> None:
        self.result = result

    def step(self, lr: float, tensor: Any, grad: Any, state: Any) -> Any:
        return self.result(tensor)


class Stateless(Returning):
    state_type = type(None)


@dataclass
class Loose:
    things: Any


class Undeclared(Returning):
    state_type = Loose


def sparse(_: Any) -> torch.Tensor:
    return torch.eye(2).to_sparse()


@pytest.mark.parametrize(
    ("rule", "result", "error", "message"),
    [
        (Returning, lambda x: x, ArgumentError, r"Returning\.step gave Tensor, expected the pair"),
        (Returning, lambda x: (x.inner, None), ArgumentError, r"gave \['Tensor', 'NoneType'\], expected the pair"),
        (Returning, lambda x: (x, {}), ConfigError, r"gave a dict as the state, and Returning\.state_type is Anything"),
        (Stateless, lambda x: (x, Loose(1)), ConfigError, r"state_type is NoneType; write `state_type = Loose`"),
        (Undeclared, lambda x: (x, Loose([x])), ConfigError, r"whose 'things\.0' is a typed Tensor, which Loose does"),
        (Undeclared, lambda x: (x, Loose(object())), ConfigError, r"can't be saved: 'things': expected a tensor"),
        (Undeclared, lambda x: (x, Loose(sparse(x))), ConfigError, r"'things' is a sparse, quantized or nested tensor"),
        (Returning, lambda x: (x, Anything(torch.ones(1, dtype=torch.complex128))), ConfigError, r"view_as_real"),
        (
            Returning,
            lambda x: (x, Anything(torch.ones(1), whole=torch.ones(2, 3, dtype=torch.complex64))),
            ConfigError,
            r"Returning\.step gave a state whose 'whole' is declared as a typed tensor and can't be one",
        ),
    ],
)
def test_a_wrong_result_is_named_at_the_first_step(rule: Any, result: Any, error: Any, message: str) -> None:
    model = layer()
    before, optimizer = model.weight.detach().clone(), OptimizerAdaptor(rule(result))
    with pytest.raises(error, match=message):
        stepped(optimizer, model, times=1)
    assert torch.equal(model.weight.detach(), before)
    assert not optimizer.into_record().tensors


def test_a_rule_without_a_state_needs_no_state_type() -> None:
    class Plain(SimpleOptimizer[None]):
        def step(self, lr: float, tensor: Any, grad: Any, state: None) -> Any:
            return tensor - grad * lr, None

    model = layer()
    before = model.weight.detach().clone()
    stepped(OptimizerAdaptor(Plain()), model, times=1)
    torch.testing.assert_close(model.weight.detach(), before - 0.4)


def test_module_and_gradients_in_the_other_order_are_told() -> None:
    model: Any = layer()
    model(torch.ones(4, 3)).sum().backward()
    grads: Any = GradientsParams.from_module(model)
    optimizer = AdamWConfig().init()
    with pytest.raises(ArgumentError, match=r"got GradientsParams and Linear; they are in the other order"):
        optimizer.step(0.1, grads, model)
    with pytest.raises(ArgumentError, match=r"got Linear and dict; GradientsParams.from_module\(module\) gives"):
        optimizer.step(0.1, model, {})
