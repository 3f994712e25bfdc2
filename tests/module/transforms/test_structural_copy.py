"""New trees of the same modules with other tensors: map, valid and clone of what torch and its users build."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from burnlike import mlax
from burnlike.errors import ModuleTreeError
from burnlike.module import Module, Param, clone, map as map_module, params, train, valid
from burnlike.module.transforms.structural_copy import shell

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def parametrized() -> nn.Module:
    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", Twice())
    return layer


def hooked() -> nn.Module:
    class Hooked(nn.Module):
        """Adds its bias in a hook, which is a method of the module itself."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.bias = nn.Parameter(torch.ones(4))
            self.linear.register_forward_hook(self.add)
            self.register_forward_pre_hook(functools.partial(self.scale, self.bias))

        def add(self, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            return output + self.bias

        def scale(self, factor: Tensor, module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
            return inputs[0] * factor

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x)

    return Hooked()


def aliased() -> nn.Module:
    class Aliased(nn.Module):
        """Computes with what it keeps in plain attributes."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.register_buffer("shift", torch.ones(4))
            self.table = {"order": [self.second, self.first], "shift": (self.shift,), "call": self.first.forward}
            self.hidden = (self.first.weight,)

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.table["order"]:
                x = layer(x)
            return self.table["call"](x) + self.table["shift"][0] + self.hidden[0].sum()

    return Aliased()


class Branches:
    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right

    def module_children(self) -> dict[str, Any]:
        return {"left": self.left, "right": self.right}

    def with_module_children(self, children: Any) -> "Branches":
        return Branches(**children)


class Everything(Module):
    """Containers, a user's container, a lazy parameter, a tied one, and a layer in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 4), (nn.Linear(4, 4), None)]
        self.branches = Branches(nn.Linear(4, 4), [nn.Linear(4, 4)])
        self.scale = Param.uninitialized(lambda device: torch.full((4,), 3.0, device=device), [4])
        self.shared = self.layers[0]
        self.branches.left.weight = self.layers[0].weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[1][0](self.layers[0](x))
        return self.shared(self.branches.left(x) + self.branches.right[0](x)) * self.scale


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x[None], x[None], x[None])[0][0]


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module], **options: Any) -> None:
        super().__init__()
        self.cells = kind(4, 4, **options)

    def forward(self, x: Tensor) -> Tensor:
        return self.cells(x)[0]


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4, 4, padding_idx=1, max_norm=100.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.embedding(x.abs().argmax(-1)) + x


KINDS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(4, 4),
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)),
    "embedding": Embedded,
    "attention": Attention,
    "encoder": lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False
    ),
    "rnn": lambda: Recurrent(nn.RNN),
    "lstm": lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True),
    "gru": lambda: Recurrent(nn.GRU, bias=False),
    "projected lstm": lambda: Recurrent(nn.LSTM, proj_size=2),
    "parametrized": parametrized,
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(4, 4)),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(4, 4)),
    "hooked": hooked,
    "aliased": aliased,
    "everything": Everything,
}
X = torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    return KINDS[request.param]().eval()


def state(module: nn.Module) -> dict[str, Tensor]:
    return {param.path: param.tensor.detach().clone() for param in params(module)}


@torch.no_grad()
def fill(module: nn.Module, value: float) -> None:
    for param in params(module, "weight"):
        param.tensor.fill_(value)


@pytest.mark.parametrize(
    "copied", [clone, lambda m: map_module(m, lambda param: param.tensor.clone())], ids=["clone", "map"]
)
def test_a_copy_computes_the_same_and_with_its_own_tensors(model: nn.Module, copied: Callable[[Any], Any]) -> None:
    expected = model(X)
    before = state(model)
    new = copied(model)
    torch.testing.assert_close(new(X), expected)
    fill(new, 0.5)
    assert not torch.allclose(new(X), expected)
    torch.testing.assert_close(model(X), expected)
    torch.testing.assert_close(state(model), before)
    fill(model, 0.5)
    torch.testing.assert_close(new(X), model(X))


def test_mapped_values_are_what_the_new_module_computes_with(model: nn.Module) -> None:
    def changed(param: Param) -> Tensor:
        return param.tensor * 0.5 if param.kind == "weight" else param.tensor

    new = map_module(model, changed)
    by_hand = clone(model)
    with torch.no_grad():
        for param in params(by_hand, "weight"):
            param.tensor.mul_(0.5)
    torch.testing.assert_close(new(X), by_hand(X))
    assert [param.id for param in params(new)] == [param.id for param in params(model)]


def test_a_valid_view_computes_with_the_memory_of_the_original(model: nn.Module) -> None:
    view = valid(model)
    expected = model(X)
    assert not view(X).requires_grad
    torch.testing.assert_close(view(X), expected)
    fill(model, 0.25)
    torch.testing.assert_close(view(X), model(X))
    trained = train(valid(model)).eval()
    trained(X).sum().backward()
    assert any(param.tensor.grad is not None for param in params(trained))
    assert all(param.tensor.grad is None for param in params(model))


def test_gradients_reach_the_copy_and_not_the_original(model: nn.Module) -> None:
    new = map_module(model, lambda param: param.tensor.clone())
    new(X).sum().backward()
    assert any(param.tensor.grad is not None for param in params(new))
    assert all(param.tensor.grad is None for param in params(model))


def test_recurrent_layers_know_their_own_weights() -> None:
    lstm = nn.LSTM(4, 4)
    new = valid(lstm)
    assert all(a is b for a, b in zip(new._flat_weights, new.parameters(), strict=True))
    assert all(a is b for a, b in zip(lstm._flat_weights, lstm.parameters(), strict=True))
    with torch.no_grad():
        new.weight_ih_l0 = nn.Parameter(torch.zeros(16, 4))
    assert new._flat_weights[0] is new.weight_ih_l0
    assert lstm._flat_weights[0] is lstm.weight_ih_l0


def test_ties_and_shared_layers_are_kept() -> None:
    model = Everything()
    new = model.map(lambda param: param.tensor.clone())
    assert new.shared is new.layers[0]
    assert new.branches.left.weight is new.layers[0].weight
    assert new.branches is not model.branches


def test_what_is_no_part_of_the_tree_is_the_same_object() -> None:
    model: Any = nn.Linear(2, 2)
    model.names = ["a", "b"]
    model.other = nn.Linear(1, 1).weight.detach()
    model.mixed = [model.weight, model.names]
    new = valid(model)
    assert new.names is model.names
    assert new.other is model.other
    assert new.mixed[0] is new.weight
    assert new.mixed[1] is model.names
    assert model.mixed[0] is model.weight


def test_hooks_added_later_are_ones_own() -> None:
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda module, inputs, output: output * 0)
    new = valid(model)
    assert new(torch.ones(2)).sum() == 0
    handle = new.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 0,))
    new.register_buffer("passing", torch.zeros(1), persistent=False)
    assert not model._forward_pre_hooks
    assert not model._non_persistent_buffers_set
    handle.remove()


def test_place_is_asked_once_for_each_tensor_and_may_leave_a_name_empty() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model.append(model[0])
    model[1].register_buffer("passing", torch.ones(1), persistent=False)
    asked = []

    def place(owner: nn.Module, name: str, kind: str, tensor: Tensor) -> Tensor | None:
        asked.append((name, kind))
        assert getattr(owner, name) is tensor
        return None if name == "bias" else tensor

    new = shell(model, place)
    assert asked == [
        ("weight", "weight"),
        ("bias", "weight"),
        ("weight", "weight"),
        ("bias", "weight"),
        ("running_mean", "state"),
        ("running_var", "state"),
        ("num_batches_tracked", "state"),
        ("passing", "state"),
    ]
    assert new[0].bias is None
    assert new[2] is new[0]
    assert new[1].passing is model[1].passing


def test_wrappers_are_left_out_and_compiled_calls_too() -> None:
    model = nn.Sequential(torch.compile(nn.Linear(2, 2), backend="eager"), nn.DataParallel(nn.Linear(2, 2)))
    new = valid(model)
    assert [type(part) for part in new] == [nn.Linear, nn.Linear]
    compiled = nn.Linear(2, 2)
    compiled.compile(backend="eager", fullgraph=True)
    zero = map_module(compiled, lambda param: torch.zeros_like(param.tensor))
    assert torch.equal(zero(torch.ones(2)), torch.zeros(2))


def test_a_sharded_tree_is_refused() -> None:
    class FSDPModule:
        pass

    class Sharded(FSDPModule, nn.Linear):
        pass

    with pytest.raises(ModuleTreeError, match="Sharded is sharded by fully_shard and can't be copied"):
        valid(nn.Sequential(Sharded(2, 2)))


def test_a_view_of_a_parametrized_layer_shares_the_memory_of_what_it_computes_from() -> None:
    model = parametrized()
    view = valid(model)
    x = torch.ones(4)
    expected = model(x)
    assert parametrize.is_parametrized(view, "weight")
    torch.testing.assert_close(view(x), expected)
    with torch.no_grad():
        view.parametrizations["weight"].original.zero_()  # one memory
    torch.testing.assert_close(model(x), model.bias)


def test_compiled_code_of_an_older_torch_is_told_where_to_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnlike.module.transforms.structural_copy._TRACED", False)
    torch.compiler.reset()
    layer = nn.Linear(2, 2)
    params(layer)
    compiled = torch.compile(lambda m, x: mlax.map(m, lambda p: p.data)(x), fullgraph=True, backend="eager")
    with pytest.raises(Exception, match=r"with torch 2\.13 or newer.*do it outside of torch\.compile"):
        compiled(layer, torch.ones(2))
    assert mlax.map(layer, lambda p: p.data)(torch.ones(2)).shape == (2,)
