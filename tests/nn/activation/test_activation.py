"""The role of activations in configs, and the enum that holds one as a field."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from burnlike import Cpu, Tensor as Typed, nn
from burnlike.config import Config
from burnlike.errors import ArgumentError, ConfigError
from burnlike.module import Module, display, params
from burnlike.nn import Activation, ActivationConfig
from burnlike.record import BinFileRecorder, PrettyJsonFileRecorder, load, save
from burnlike.record.state_dict.module_layout import variants_of
from tests.golden.layouts import ACTIVATIONS
from tests.nn.test_every_layer import CONFIGS

NEEDED = {
    "GLU": {"dim": 0},
    "SwiGlu": {"d_input": 4, "d_output": 3},
    "Threshold": {"threshold": 0.5, "value": 2.0},
}
BURNS = {
    *("Celu", "Elu", "GLU", "Gelu", "HardShrink", "HardSigmoid", "HardSwish", "Hardtanh", "LeakyRelu", "LogSigmoid"),
    *("Mish", "PRelu", "RRelu", "Relu", "Relu6", "Selu", "Shrink", "SiLU", "Sigmoid", "SoftShrink", "Softplus"),
    *("Softsign", "SwiGlu", "Tanh", "Tanhshrink", "Threshold", "ThresholdedRelu"),
}
"""The files of burn-nn 0.22.1's folder `activation`, one layer each."""
ALL = [config(**NEEDED.get(name, {})) for name, config in CONFIGS.items() if issubclass(config, ActivationConfig)]


class Gates(Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_activation = Activation.of(nn.SigmoidConfig())
        self.hidden_activation = Activation.of(nn.PReluConfig(num_parameters=2))

    def forward(self, x: Tensor) -> Tensor:
        return self.hidden_activation(self.gate_activation(x) - 0.5)


class Doubled(Module):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


class DoubledConfig(ActivationConfig, tag="DoubledInTests"):
    def init(self, device: torch.device | str | None = None) -> Doubled:
        return Doubled()


class UntaggedConfig(ActivationConfig):
    slope: bool = False


class Holder(Config):
    activation: ActivationConfig = nn.GeluConfig()


@pytest.mark.parametrize("config", ALL, ids=lambda config: type(config).__name__)
def test_it_computes_what_the_layer_of_the_config_does(config: ActivationConfig) -> None:
    x = torch.linspace(-3, 3, 8).reshape(2, 4)
    activation = Activation.of(config).eval()
    assert activation.variant == type(config).__name__.removesuffix("Config")
    assert torch.equal(activation(x), activation.value(x))
    typed = activation(Typed(x, Cpu()))
    assert torch.equal(typed.inner, activation(x))


def test_variants_keep_their_numbers_and_all_are_there() -> None:
    variants = variants_of(Activation)
    # Binary records hold the number: of Burn 0.21's enum, then of the layers in the order in which they were added.
    later = ["LogSigmoid", "Hardtanh", "Tanhshrink", "Mish", "SiLU", "Relu6", "RRelu", "Threshold", "GLU"]
    assert variants[: len(ACTIVATIONS) + 1 + len(later)] == [*ACTIVATIONS, "Identity", *later]
    assert sorted(variants) == sorted(type(config).__name__.removesuffix("Config") for config in ALL)


def test_records_say_which_it_is(tmp_path: Path) -> None:
    model = Gates()
    path = save(model, tmp_path / "gates.json", recorder=PrettyJsonFileRecorder())
    item = json.loads(Path(path).read_text())["item"]
    assert item["gate_activation"] == {"Sigmoid": None}
    assert list(item["hidden_activation"]) == ["PRelu"]
    binary = save(model, tmp_path / "gates.bin", recorder=BinFileRecorder())
    other = Gates()
    load(other, binary)
    assert [param.path for param in params(other)] == ["hidden_activation.PRelu.alpha"]
    assert [param.id for param in params(other)] == [param.id for param in params(model)]


def test_it_is_displayed_as_burns_enums_are() -> None:
    assert display(Gates()) == "\n".join(
        (
            "Gates {",
            "  gate_activation: Sigmoid {",
            "    _0: Sigmoid",
            "  }",
            "  hidden_activation: PRelu {",
            "    _0: PRelu {num_parameters: 2, alpha_value: 0.25, params: 2}",
            "    params: 2",
            "  }",
            "  params: 2",
            "}",
        )
    )


def test_it_is_part_of_one_compiled_graph() -> None:
    model, x = Gates(), torch.randn(3, 2)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(model, fullgraph=True, backend="eager")(x), model(x))


def test_its_parameters_are_made_on_the_device() -> None:
    assert Activation.of(nn.PReluConfig(), "meta").value.alpha.is_meta


def test_an_activation_of_ones_own() -> None:
    activation = Activation.of(DoubledConfig())
    assert activation.variant == "DoubledInTests"
    assert activation(torch.ones(2)).tolist() == [2, 2]


def test_a_config_without_a_tag_is_refused() -> None:
    with pytest.raises(ArgumentError, match="a config whose class has a tag, got UntaggedConfig"):
        Activation.of(UntaggedConfig())


def test_yaml_names_one_by_its_type() -> None:
    assert Holder.from_yaml("activation: {type: Celu, alpha: 2}").activation == nn.CeluConfig(alpha=2.0)
    with pytest.raises(ConfigError, match="Mish"):
        Holder.from_yaml("activation: {type: Mich}")
    with pytest.raises(ConfigError, match="Linear"):
        Holder.from_yaml("activation: {type: Linear, d_input: 2, d_output: 2}")
