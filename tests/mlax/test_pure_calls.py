"""Pure calls of modules, static fields, and keys of random numbers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from burnlike import constant, mlax
from burnlike.errors import ArgumentError, ModuleTreeError, StructureMismatchError
from burnlike.random.key import philox

from .samples import Bar, Counter, Foo, paths, tensors, values


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


class Holder(mlax.Module):
    def __init__(self, j: Any) -> None:
        self.w = mlax.Parameter(True, 1.0)
        self.j = j


def test_38_a_hyperparameter_need_not_be_hashable_until_a_key_is_asked_for() -> None:
    m = Holder([1, 2])
    assert m.filter(...).j == [1, 2]
    assert m.map(lambda p: p.data).j == [1, 2]
    with pytest.raises(TypeError, match=r"'j' is a list"):
        m.static_key()
    outer = Holder(1)
    outer.inner = m
    with pytest.raises(TypeError, match=r"'inner\.j' is a list"):
        mlax.static_key(outer)


def test_38_arrays_are_compared_by_value() -> None:
    first, second = Holder(np.arange(3)), Holder(np.arange(3))
    assert paths(first.filter(False).combine(second)) == ["w"]
    with pytest.raises(StructureMismatchError, match="'j'"):
        first.combine(Holder(np.arange(3.0)))
    with pytest.raises(StructureMismatchError, match="'j'"):
        first.combine(Holder(np.array([0, 1, 3])))


def test_38_a_key_tells_modules_apart_that_compile_differently() -> None:
    key = Bar().static_key()
    assert key == Bar().static_key()
    assert hash(key) == hash(Bar().static_key())
    changed = [Bar() for _ in range(4)]
    changed[0].h = "other"
    changed[1].freeze()
    changed[2].f = Foo(3, 3)
    changed[2].f.k = True
    changed[3] = changed[3].partition()[0]
    assert len({key, *(it.static_key() for it in changed)}) == 5
    assert len({Holder(value).static_key() for value in (1, 1.0, True)}) == 3
    assert Holder(math.nan).static_key() == Holder(float("nan")).static_key()


def test_39_equality_is_strict_about_types() -> None:
    for first, second in ((1, True), (1, 1.0), (0, False), ([1], [1.0]), ({"k": 1}, {"k": True}), ((1,), [1])):
        with pytest.raises(StructureMismatchError, match="'j'"):
            Holder(first).combine(Holder(second))
    nan = float("nan")
    Holder(nan).combine(Holder(nan))
    Holder([nan]).combine(Holder([nan]))
    with pytest.raises(StructureMismatchError, match="'j'"):
        Holder(float("nan")).combine(Holder(float("nan")))
    Holder(len).combine(Holder(len))
    with pytest.raises(StructureMismatchError, match="'j'"):
        Holder(lambda: 1).combine(Holder(lambda: 1))


def test_39_a_constant_is_a_hyperparameter() -> None:
    teacher = nn.Linear(1, 1)
    first, second = Holder(constant(teacher)), Holder(constant(teacher))
    assert paths(first) == ["w"]
    assert first.filter(False).combine(second).j is teacher
    with pytest.raises(StructureMismatchError, match="'j'"):
        first.combine(Holder(constant(nn.Linear(1, 1))))


def test_41_slots_are_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="__slots__"):

        class Slotted(mlax.Module):  # pyright: ignore[reportUnusedClass]
            __slots__ = ("k",)

    class Empty(mlax.Module):
        __slots__ = ()

    assert paths(Empty()) == []


def test_42_the_constructor_of_the_base_need_not_run() -> None:
    class Bare(mlax.Module):
        def __init__(self) -> None:
            self.w = mlax.Parameter(True, torch.ones(2, 2))
            self.f = Foo(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.f(x @ self.w.data)

    class Late(Bare):
        def __init__(self) -> None:
            self.early = mlax.Parameter(True, 1.0)
            super().__init__()
            nn.Module.__init__ and mlax.Module.__init__(self)

    m = Bare()
    assert paths(m) == ["w", "f.w"]
    assert m(torch.ones(1, 2)).shape == (1, 2)
    assert len([*m.parameters()]) == 2
    assert paths(Late()) == ["early", "w", "f.w"]


def test_43_lists_tuples_and_dicts_of_modules_are_parts() -> None:
    m = Holder([Foo(), mlax.Parameter(False, [1.0, 2.0])])
    m.pair = (Foo(), mlax.Parameter(True, 2.0), None)
    m.named = {"x": Foo(), "y": mlax.Parameter(True, 3.0)}
    m.deep = [[Foo()], Foo()]
    m.plain = [1, 2]
    found = ["w", "j.0.w", "j.1", "pair.0.w", "pair.1", "named.x.w", "named.y", "deep.0.0.w", "deep.1.w"]
    assert paths(m) == found
    assert type(m.j) is mlax.ModuleSeq
    assert m.plain == [1, 2]
    assert m.j[1].data == [1.0, 2.0]
    assert m.pair[1].data == 2
    assert m.pair[2] is None
    assert m.named["y"].data == 3
    assert {*m.state_dict()} == {*found, "j.1.0", "j.1.1"} - {"j.1"}
    assert len([*m.parameters()]) == 10
    t, n = m.partition()
    assert paths(n) == ["j.1"]
    assert paths(t.combine(n, strict=True)) == found
    assert t.combine(n).pair[1].id == m.pair[1].id


def test_43_a_list_of_a_view_is_no_list_of_the_original() -> None:
    m = Holder([1])
    view = m.combine()
    view.j = 3
    m.j.append(Foo())
    with pytest.raises(ModuleTreeError, match=r"Holder\.j was assigned before"):
        m.params()


def test_44_a_plain_tensor_is_a_constant() -> None:
    first, second = Holder(torch.arange(3.0)), Holder(torch.arange(3.0))
    assert paths(first) == ["w"]
    assert [*first.state_dict()] == ["w"]
    assert [*first.into_record().tensors] == ["w"]
    assert first.filter(False).combine(second).w.data is second.w.data
    assert first.filter(False).j is first.j
    with pytest.raises(StructureMismatchError, match="'j'"):
        first.combine(Holder(torch.arange(4.0)))
    assert first.to(torch.float64).j.dtype == torch.float64
    assert hash(second.static_key()) == hash(Holder(torch.zeros(7)).static_key())


KEYS = [mlax.Key(0), mlax.Key(-1), mlax.Key(2**40 + 1), mlax.Key(3).fold_in(2), mlax.Key(3).split(2)[1]]
# kat_vectors of Random123: counter, key, expected words.
KNOWN = [
    ((0, 0), 0, (0xFF1DAE59, 0x6CD10DF2)),
    ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, (0x2C3F628B, 0xAB4FD7AD)),
    ((0x243F6A88, 0x85A308D3), 0x13198A2E, (0xDD7CE038, 0xF62A4C12)),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_words_are_those_of_random123(counter: tuple[int, int], key: int, expected: tuple[int, int]) -> None:
    assert philox(*counter, key) == expected
    words = philox(*(torch.tensor(it) for it in (*counter, key)))
    assert tuple(word.item() for word in words) == expected


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_uniform_numbers_are_uniform(dtype: torch.dtype) -> None:
    found = mlax.Key(1).rand((100, 1000), dtype=dtype)
    assert (found.dtype, found.shape) == (dtype, (100, 1000))
    values = found.double().flatten()
    assert 0 <= values.min() < values.max() < 1
    below = torch.finfo(dtype).eps / 2
    assert torch.equal(values, (values / below).round() * below)
    counts = torch.histc(values, 32, 0, 1)
    assert (counts - 3125).square().sum() / 3125 < 80  # chi squared of 31: 80 has a probability of 4e-6
    assert torch.corrcoef(torch.stack((values[1:], values[:-1])))[0, 1].abs() < 0.02
    bits = (values / below).long() & 15 if dtype != torch.bfloat16 else (values / below / 2).long() & 7
    assert torch.bincount(bits).double().std() < 0.05 * len(values) / (bits.max() + 1)


def test_normal_numbers_are_normal() -> None:
    values = mlax.Key(1).randn((200_000,), dtype=torch.float64)
    for power, expected in {1: 0.0, 2: 1.0, 3: 0.0, 4: 3.0}.items():
        assert values.pow(power).mean().item() == pytest.approx(expected, abs=0.05)
    assert mlax.Key(1).randn((), dtype=torch.bfloat16).dtype == torch.bfloat16


def test_what_a_key_gives_depends_on_its_64_bits_alone() -> None:
    assert mlax.Key(2**64 + 5) == mlax.Key(5)
    assert mlax.Key(2**63) == mlax.Key(-(2**63))
    for key in KEYS:
        other = mlax.Key(torch.tensor(key.seed))
        assert key == other
        assert hash(key) == hash(other)
        assert key.split(3) == other.split(3)
        assert key.fold_in(7) == other.fold_in(7) == key.fold_in(torch.tensor(7))
        assert torch.equal(key.rand((5,)), other.rand((5,)))
        assert key.generator().initial_seed() == other.generator().initial_seed()
    assert torch.equal(mlax.Key(1).rand((7,))[:3], mlax.Key(1).rand((3,)))


def test_keys_and_the_numbers_that_they_draw_are_apart() -> None:
    key = mlax.Key(3)
    made = [key, *key.split(50), *(key.fold_in(index) for index in range(50)), mlax.Key(4), *mlax.Key(4).split(2)]
    assert len({*made}) == len(made)
    drawn = torch.cat([each.rand((100,), dtype=torch.float64) for each in made])
    assert len(drawn.unique()) == len(drawn)


def drawn(key: Any, x: Tensor) -> tuple[Any, ...]:
    first, second = key.split(2)
    return key.rand(x.shape), first.fold_in(3).rand(x.shape), second.randn(x.shape, dtype=torch.float64), second


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_code_draws_the_same_numbers_and_is_compiled_once_for_all_keys(backend: str) -> None:
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled, x = torch.compile(drawn, fullgraph=True, backend=counter), torch.zeros(2, 3)
    for key in KEYS:
        for found, expected in zip(compiled(key, x), drawn(key, x), strict=True):
            assert torch.equal(found, expected) if isinstance(found, Tensor) else found == expected
    assert counter.frame_count <= 2  # the second one takes the seed as a variable


def test_a_generator_can_not_be_made_in_compiled_code() -> None:
    draw: Callable[..., Any] = torch.compile(
        lambda key: torch.rand(2, generator=key.generator()), fullgraph=True, backend="eager"
    )
    with pytest.raises(Exception, match=r"compiled code can't make a torch\.Generator: draw by key\.rand"):
        draw(mlax.Key(0))
    assert issubclass(ArgumentError, ValueError)


def test_vmap_maps_over_keys() -> None:
    keys = mlax.Key(5).split(4)
    many = mlax.Key(torch.tensor([key.seed for key in keys]))
    assert many == mlax.Key(many.seed.clone())
    assert many != keys[0]
    x = torch.zeros(3)
    expected = torch.stack([drawn(key, x)[1] for key in keys])
    mapped = torch.func.vmap(lambda key: drawn(key, x)[1])
    assert torch.equal(mapped(many), expected)
    assert torch.equal(torch.compile(mapped, fullgraph=True, backend="eager")(many), expected)
    gradient = torch.func.vmap(torch.func.grad(lambda w, key: (w * key.rand((3,))).sum()), in_dims=(None, 0))
    assert torch.equal(gradient(x, many), torch.stack([key.rand((3,)) for key in keys]))


def test_a_key_is_a_pytree() -> None:
    assert pytree.tree_leaves({"key": mlax.Key(7), "x": 1}) == [7, 1]
    assert pytree.tree_map(lambda seed: seed + 1, mlax.Key(7)) == mlax.Key(8)
    assert [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(mlax.Key(7))[0]] == [".seed"]
