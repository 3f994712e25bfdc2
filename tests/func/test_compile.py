"""Functions of modules under `torch.compile`: how often they are compiled, and that they compute the same."""

import copy
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import burnlike as bl
from burnlike import func, mlax
from tests.func.models import assert_no_traced_tensor, assert_untouched, batch, snapshot
from tests.mlax.samples import Counter, Foo

from ..marks import slow, weekly
from ..torch_versions import copies_in_compiled_code


class Frames:
    """A backend that counts how many graphs are compiled, and hands them on."""

    def __init__(self, backend: str = "eager") -> None:
        self.count = 0
        self._backend = torch._dynamo.lookup_backend(backend)

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        self.count += 1
        return self._backend(graph, inputs)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """A compiler that knows nothing yet, and no collections of its many objects, which take a fifth of the time."""
    torch._dynamo.reset()
    gc.disable()
    yield
    gc.enable()


class Tied(bl.Module):
    """A weight at two places, one that is frozen, and a state."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(3, 3))
        self.second = self.first
        self.scale = bl.Param.from_tensor(torch.full((3,), 2.0), trainable=False)
        self.mean = bl.Param.running(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean * 0.9 + x.mean(0)
        return (torch.tanh(x @ self.first.T) @ self.second - self.mean) * self.scale


class Held(mlax.Module):
    """A sequence, and data that are several tensors."""

    def __init__(self) -> None:
        self.layers = mlax.ModuleSeq([mlax.Parameter(True, torch.randn(3, 2))])
        self.many = mlax.Parameter(True, {"scale": torch.ones(2), "shift": torch.zeros(2)}, "many")
        self.sizes = [3, 2]

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.layers[0].data * self.many.data["scale"] + self.many.data["shift"]


def held() -> Held:
    torch.manual_seed(0)
    return Held().to(torch.float64)


def tied() -> Tied:
    torch.manual_seed(0)
    return Tied().double()


def normed() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double()


def counter() -> Counter:
    return Counter().to(torch.float64)


def train_step(module: nn.Module, x: Tensor) -> tuple[nn.Module, Tensor]:
    t, n = mlax.partition(module)

    def loss(t: nn.Module, n: nn.Module) -> tuple[Tensor, nn.Module]:
        y, after = mlax.apply(mlax.combine(t, n), x)
        return y.pow(2).mean(), after

    (value, after), gradient = func.value_and_grad(loss, has_aux=True)(t, n)
    steps = func.by_id(gradient)

    def updated(p: Any) -> Any:
        return pytree.tree_map(lambda value, step: value - 0.1 * step, p.data, steps[p.id]) if p.id in steps else p

    return mlax.map(after, updated), value


def test_36_a_counter_in_a_plain_number_is_compiled_anew_and_one_in_a_parameter_is_not() -> None:
    class Counts(mlax.Module):
        def __init__(self) -> None:
            self.n = 0

        def forward(self, x: Tensor) -> Tensor:
            self.n += 1
            return x * self.n

    frames, module, x = Frames(), Counts(), torch.ones(2)
    compiled = torch.compile(lambda x: module(x), fullgraph=True, backend=frames)
    for call in range(1, 5):
        assert compiled(x).tolist() == [call, call]
    assert frames.count == 4

    frames, counter = Frames(), Counter()
    compiled = torch.compile(lambda x: counter(x)[0], fullgraph=True, backend=frames)
    for _ in range(12):
        compiled(torch.ones(1, 3))
    assert counter.seen.data.item() == 12
    assert frames.count == 1


@copies_in_compiled_code
def test_36_a_counter_in_a_state_is_compiled_once_through_apply() -> None:
    frames = Frames()
    compiled = torch.compile(mlax.apply, fullgraph=True, backend=frames)
    module, x = Counter(), torch.ones(1, 3)
    for _ in range(12):
        _, module = compiled(module, x)
    assert module.seen.data.item() == 12
    assert frames.count <= 2


@copies_in_compiled_code
def test_37_each_mode_is_compiled_once_and_a_changed_flag_once_more() -> None:
    frames, module, x = Frames(), Counter(), torch.ones(2, 3)

    def step(module: Counter, x: Tensor, inference_mode: bool) -> tuple[Tensor, Tensor]:
        t, n = module.partition()
        y, after = func.fwd(t, n, x=x, inference_mode=inference_mode)
        return y, after.seen.data

    compiled = torch.compile(step, fullgraph=True, backend=frames)
    for call in range(8):
        _, seen = compiled(module, x, call % 2 == 0)
        assert seen.item() == (0 if call % 2 == 0 else 2)
    assert frames.count == 2
    bl.module.freeze(module)
    for _ in range(3):
        compiled(module, x, True)
    assert frames.count == 3


@copies_in_compiled_code
@pytest.mark.parametrize(
    ("make", "backend"),
    [(held, "eager"), *slow((tied, "aot_eager")), *weekly((normed, "eager"))],
)
def test_53_a_train_step_is_compiled_whole_for_ever_new_modules(make: Callable[[], nn.Module], backend: str) -> None:
    module = make()
    x = batch(module)
    bl.module.params(module)
    before = snapshot(module)
    frames = Frames(backend)
    compiled = torch.compile(train_step, fullgraph=True, backend=frames)
    expected = copy.deepcopy(module)
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1)
    found = module
    for _ in range(6):
        found, loss = compiled(found, x)
        optimizer.zero_grad()
        expected_loss = expected(x).pow(2).mean()
        expected_loss.backward()
        optimizer.step()
        torch.testing.assert_close(loss, expected_loss.detach(), rtol=1e-12, atol=1e-12)
    assert frames.count <= 2
    assert type(found) is type(module)
    func.restore_parameters(found)
    for a, b in zip(mlax.leaves(found), mlax.leaves(expected), strict=True):
        assert (a.id, a.path, a.aliases, a.name, a.kind) == (b.id, b.path, b.aliases, b.name, b.kind)
        assert (a.trainable, a.requires_grad) == (b.trainable, b.requires_grad)
    for c, d in zip(found.state_dict().values(), expected.state_dict().values(), strict=True):
        torch.testing.assert_close(c, d, rtol=1e-12, atol=1e-12)
    assert_untouched(module, before)
    assert_no_traced_tensor(found)


@copies_in_compiled_code
def test_a_compiled_gradient_is_a_module_with_holes() -> None:
    module = counter()
    t, n = module.partition()
    x = batch(module)

    def gradient_of(t: nn.Module, n: nn.Module, x: Tensor) -> Any:
        return func.grad(lambda t, n: func.fwd(t, n, x=x)[0].pow(2).mean())(t, n)

    found = torch.compile(gradient_of, fullgraph=True, backend="eager")(t, n, x)
    expected = gradient_of(t, n, x)
    for a, b in zip(found.leaves(holes=True), expected.leaves(holes=True), strict=True):
        assert (a.path, a.id, a.is_hole, a.trainable) == (b.path, b.id, b.is_hole, b.trainable)
        if not a.is_hole:
            torch.testing.assert_close(a.data, b.data.detach())
    assert torch.equal(found.combine(n).seen.data, module.seen.data)


@copies_in_compiled_code
def test_compiled_ensembles_and_per_sample_gradients() -> None:
    members = [tied(), tied()]
    x = batch(members[0])
    ensemble = func.stack(members)

    def run(ensemble: nn.Module, x: Tensor) -> Tensor:
        return func.vmap(lambda m, x: m(x), in_dims=(0, None))(ensemble, x)

    frames = Frames()
    compiled = torch.compile(run, fullgraph=True, backend=frames)
    torch.testing.assert_close(compiled(ensemble, x), run(ensemble, x))
    compiled(func.stack(members), x)
    assert frames.count == 1

    def each(t: nn.Module, n: nn.Module, x: Tensor) -> Any:
        one = func.grad(lambda t, n, x: func.fwd(t, n, x=x[None])[0].pow(2).mean())
        return func.vmap(one, in_dims=(None, None, 0))(t, n, x)

    t, n = mlax.partition(members[0])
    found = torch.compile(each, fullgraph=True, backend="eager")(t, n, x)
    for a, b in zip(found.parameters(), each(t, n, x).parameters(), strict=True):
        torch.testing.assert_close(a.detach(), b.detach())


@copies_in_compiled_code
def test_restored_parameters_are_trained_by_torch_and_ties_stay() -> None:
    module = tied()
    bl.module.params(module)
    doubled = torch.compile(lambda m: mlax.map(m, lambda p: p.data * 2), fullgraph=True, backend="eager")(module)
    restored = func.restore_parameters(doubled)
    assert restored is doubled
    assert restored.first is restored.second
    flags = {param.path: param.requires_grad for param in bl.module.params(restored)}
    assert flags == {param.path: param.requires_grad for param in bl.module.params(module)}
    restored(batch(module)).sum().backward()
    assert restored.second.grad is not None
    assert restored.scale.grad is None
    again = dict(restored.named_parameters())
    assert all(a is again[name] for name, a in func.restore_parameters(restored).named_parameters())


@copies_in_compiled_code
def test_a_module_without_ids_is_refused_with_what_to_do() -> None:
    compiled = torch.compile(train_step, fullgraph=True, backend="eager")
    with pytest.raises(Exception, match=r"no ParamId yet.*burnlike\.module\.params"):
        compiled(nn.Linear(3, 1), torch.ones(2, 3))


def test_foo_is_compiled_once_for_many_modules() -> None:
    frames = Frames()
    compiled = torch.compile(lambda m, x: m(x), fullgraph=True, backend=frames)
    for _ in range(5):
        module, x = Foo(), torch.ones(3, 4)
        assert torch.equal(compiled(module, x), x @ module.w.data)
    assert frames.count == 1
