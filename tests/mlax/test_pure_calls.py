"""`apply`: calling a module without changing it, and torch's own functional calls."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from burnlike import mlax

from .samples import Bar, Counter, Foo, tensors, values


class InPlace(mlax.Module):
    def __init__(self) -> None:
        self.w = mlax.Parameter(True, torch.ones(3))
        self.mean = mlax.Parameter(False, torch.zeros(3), kind="state")
        self.parts = mlax.Parameter(False, {"count": 0, "sum": torch.zeros(3)}, kind="state")
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.mean.data.add_(x.mean(0))
        self.parts.data["count"].add_(1)
        self.parts.data = {"count": self.parts.data["count"], "sum": self.parts.data["sum"] + x.sum(0)}
        self.scratch.add_(1)
        return x * self.w.data + self.mean.data


def test_47_apply_leaves_the_module_as_it_is_also_where_forward_writes_in_place() -> None:
    m = InPlace()
    objects, before = tensors(m), values(m)
    _, updated = m.apply(torch.ones(2, 3))
    assert all(it is objects[name] for name, it in tensors(m).items())
    assert all(torch.equal(it, before[name]) for name, it in values(m).items())
    assert m.scratch.sum() == 0
    assert updated.mean.data.tolist() == [1, 1, 1]
    assert updated.parts.data["count"] == 1
    assert updated.parts.data["sum"].tolist() == [2, 2, 2]
    assert updated.scratch.tolist() == [1, 1, 1]
    assert updated.w.data is m.w.data


def test_47_apply_leaves_all_that_a_module_holds() -> None:
    class Changes(mlax.Module):
        def __init__(self) -> None:
            self.w = mlax.Parameter(True, torch.ones(2))
            self.f = Foo(2, 2)
            self.seen: list[Any] = [{"calls": [0]}]
            self.named, self.number = {"k": {1}}, 0

        def forward(self, x: Tensor) -> Tensor:
            self.seen[0]["calls"].append(1)
            self.named["k"].add(2)
            self.number += 1
            self.f = Foo(2, 2)
            self.w.data = self.w.data * 2
            self.extra = mlax.Parameter(True, torch.ones(1))
            return x

    m = Changes()
    f = m.f
    _, updated = m.apply(torch.ones(2))
    assert (m.seen, m.named, m.number) == ([{"calls": [0]}], {"k": {1}}, 0)
    assert m.f is f
    assert [leaf.path for leaf in m.leaves()] == ["w", "f.w"]
    assert m.w.data.tolist() == [1, 1]
    assert (updated.seen, updated.named, updated.number) == ([{"calls": [0, 1]}], {"k": {1, 2}}, 1)
    assert updated.w.data.tolist() == [2, 2]


def test_54_functional_call_sees_through_the_handles() -> None:
    m, x = Bar(), torch.randn(5, 3)
    objects, expected = tensors(m), m(x)
    zeros = {name: torch.zeros_like(it) for name, it in m.state_dict().items()}
    assert torch.func.functional_call(m, zeros, (x,)).abs().sum() == 0
    assert all(it is objects[name] for name, it in tensors(m).items())
    assert torch.equal(m(x), expected)
    assert m.get_parameter("f.w") is m.f.w.data
    assert m.get_buffer("c.1") is m.c.data[1]
    gradient = torch.func.grad(lambda a: torch.func.functional_call(m, {"a": a}, (x,)).sum())(m.a.data.detach())
    m(x).sum().backward()
    torch.testing.assert_close(gradient, m.a.data.grad)


def test_55_a_checkpointed_call_counts_once() -> None:
    m = Counter()
    x = torch.randn(4, 3, requires_grad=True)

    def call(x: Tensor) -> tuple[Tensor, Tensor]:
        y, updated = m.apply(x)
        return y, updated.seen.data

    y, seen = checkpoint(call, x, use_reentrant=False)
    y.sum().backward()
    assert seen == 4
    assert m.seen.data == 0
    assert m.w.data.grad is not None


def test_56_a_pair_with_another_module_is_refused() -> None:
    class Wrong(Foo):
        def forward(self, x: Tensor) -> Any:
            return x, Foo()

    with pytest.raises(TypeError, match="forward must return the updated self"):
        Wrong().apply(torch.zeros(1))


def test_56_state_is_right_without_returning_self() -> None:
    class Forgetful(Counter):
        def forward(self, x: Tensor, rng: object = None, inference_mode: bool = False) -> Any:
            return super().forward(x, rng, inference_mode)[0]

    m = Forgetful()
    y, updated = m.apply(torch.ones(2, 3))
    assert isinstance(y, Tensor)
    assert (m.seen.data, updated.seen.data) == (0, 2)


def test_other_tuples_are_the_output() -> None:
    class Two(Foo):
        def forward(self, x: Tensor) -> Any:
            return x, 2 * x

    y, m = Two().apply(torch.ones(1))
    assert [it.item() for it in y] == [1, 2]
    assert type(m) is Two


def test_apply_calls_plain_modules_and_hooks() -> None:
    m = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    calls: list[int] = []
    m.register_forward_hook(lambda *_: calls.append(1))
    x = torch.randn(4, 2)
    y, updated = mlax.apply(m, x)
    assert calls == [1]
    assert m[0].num_batches_tracked == 0
    assert updated[0].num_batches_tracked == 1
    assert updated[1].weight is m[1].weight
    assert torch.equal(y, updated[1](nn.functional.batch_norm(x, None, None, m[0].weight, m[0].bias, True)))


def test_inference_mode_sets_what_training_says_during_the_call() -> None:
    class Tells(mlax.Module):
        def __init__(self) -> None:
            self.drop = nn.Dropout(0.5)

        def forward(self, x: Tensor, inference_mode: bool) -> Any:
            return self.drop(x), inference_mode, self.training

    x = torch.ones(64)
    m = Tells()
    (y, mode, training), updated = m.apply(x, inference_mode=True)
    assert torch.equal(y, x)
    assert (mode, training) == (True, False)
    assert (m.training, updated.training, updated.drop.training) == (True, True, True)
    (y, mode, training), _ = m.apply(x)
    assert not torch.equal(y, x)
    assert (mode, training) == (False, True)
    (_, mode, _), _ = m.eval().apply(x)
    assert mode is True


def test_torchs_apply_still_calls_a_function_with_each_module() -> None:
    m, met = Bar(), []
    assert m.apply(lambda module: met.append(type(module).__name__)) is m
    assert met.count("Foo") == 2
    assert met[-1] == "Bar"
