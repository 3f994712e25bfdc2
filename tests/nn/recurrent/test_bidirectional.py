"""The child `forward` of bidirectional layers, beside the method of this name."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

import burnlike
from burnlike import func, nn
from burnlike.module import num_params, params, valid
from burnlike.record import init_from, save

SIZES: dict[str, Any] = {"d_input": 3, "d_hidden": 2, "bias": True}
GATES = {"BiRnn": ("gate",), "BiLstm": ("input_gate", "forget_gate", "output_gate", "cell_gate")}
GATES["BiGru"] = ("update_gate", "reset_gate", "new_gate")
CONFIGS = [nn.BiRnnConfig(**SIZES), nn.BiLstmConfig(**SIZES), nn.BiGruConfig(**SIZES)]
each_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)


class Tagger(burnlike.Module):
    """A model around a bidirectional layer."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.encoder = config.init()
        self.head = nn.LinearConfig(d_input=4, d_output=5).init()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x)[0])


def paths_of(config: Any) -> list[str]:
    return [
        f"{direction}.{gate}.{transform}.{name}"
        for direction in ("forward", "reverse")
        for gate in GATES[type(config).__name__.removesuffix("Config")]
        for transform in ("input_transform", "hidden_transform")
        for name in ("weight", "bias")
    ]


@each_config
def test_paths_are_burns_everywhere(config: Any) -> None:
    layer = config.init()
    expected = paths_of(config)
    assert [param.path for param in params(layer)] == expected
    assert list(layer.state_dict()) == expected
    assert [name for name, _ in layer.named_parameters()] == expected
    assert {"forward", "reverse"} <= {name for name, _ in layer.named_modules()}
    assert [name for name, _ in layer.named_children()][:2] == ["forward", "reverse"]


@each_config
def test_the_method_and_the_child_are_both_there(config: Any) -> None:
    layer, x = config.init(), torch.randn(2, 5, 3)
    child = layer.get_submodule("forward")
    assert type(child) is type(layer.reverse)
    assert layer.get_submodule("forward").d_hidden == 2
    torch.testing.assert_close(layer.forward(x), layer(x), rtol=0, atol=0)
    model = Tagger(config)
    gate = paths_of(config)[0].split(".")[1]
    assert isinstance(model.get_submodule(f"encoder.forward.{gate}"), nn.GateController)


@each_config
def test_a_replaced_child_is_called(config: Any) -> None:
    layer, x = config.init(), torch.randn(2, 5, 3)
    other = config.init().get_submodule("forward")
    layer.forward = other
    assert layer.get_submodule("forward") is other
    assert [param.path for param in params(layer)] == paths_of(config)
    result = other(x)
    expected = result if isinstance(result, torch.Tensor) else result[0]
    torch.testing.assert_close(layer(x)[0][..., :2], expected)


@each_config
def test_models_around_it_are_copied_saved_and_built_again(config: Any, tmp_path: Path) -> None:
    model, x = Tagger(config).eval(), torch.randn(2, 5, 3)
    path = save(model, tmp_path / "model.safetensors")
    built = init_from(lambda: Tagger(config), path, "cpu").eval()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), valid(model), built):
        torch.testing.assert_close(other(x), model(x))  # MKL's sums depend on where weights lie
        assert num_params(other) == num_params(model)
    strict = Tagger(config)
    strict.load_state_dict(model.state_dict())
    torch.testing.assert_close(strict(x), model(x))


def test_gradients_by_func_and_hooks_reach_it() -> None:
    layer, x = nn.BiGruConfig(**SIZES).init(), torch.randn(2, 5, 3)
    calls: list[str] = []
    layer.register_forward_hook(lambda module, inputs, output: calls.append(type(module).__name__))
    grads = func.grad(lambda it: it(x)[0].sum())(layer)
    layer(x)[0].sum().backward()
    assert calls == ["BiGru", "BiGru"]
    for param, grad in zip(params(layer), grads.parameters(), strict=True):
        torch.testing.assert_close(grad.detach(), param.tensor.grad)


def test_both_directions_read_the_same_steps() -> None:
    config = nn.BiLstmConfig(**SIZES)
    layer, x = config.init(), torch.randn(1, 6, 3)
    longer = torch.cat((x, torch.randn(1, 1, 3)), 1)
    short, long = layer(x)[0], layer(longer)[0]
    torch.testing.assert_close(short[..., :2], long[:, :-1, :2])  # forwards: what comes later changes nothing
    assert not torch.allclose(short[..., 2:], long[:, :-1, 2:])
