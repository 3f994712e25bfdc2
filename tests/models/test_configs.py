"""The shipped configs of models alone: each builds, says its fields, and is trained by a step in a small form."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike.config import ModuleConfig
from burnlike.config.shipped import shipped_configs, shipped_jobs

CONFIGS = {name: ModuleConfig.load(path) for name, path in shipped_configs().items() if name not in shipped_jobs()}
MODELS = {name: it for name, it in CONFIGS.items() if type(it).__module__.startswith("burnlike.models.")}
MILLIONS = {
    "bert_base": 109.5,
    "convnext_tiny": 28.6,
    "gpt2_small": 124.4,
    "lstm_lm": 19.8,
    "mlp": 0.27,
    "resnet18_cifar": 11.2,
    "resnet50": 25.6,
    "t5_small": 60.5,
    "unet": 31.0,
    "vit_small": 22.1,
}
"""Parameters of some, as their papers and comments have them."""
SMALL: dict[str, list[str]] = {
    "bert_base": ["vocab_size=17", "max_sequence_length=8", "d_model=8", "n_layers=1", "n_heads=2", "d_ff=12"],
    "convnext_tiny": ["depths=[1,1]", "widths=[4,6]"],
    "gpt2_small": ["vocab_size=17", "max_sequence_length=8", "d_model=8", "n_layers=1", "n_heads=2", "d_ff=12"],
    "lstm_lm": ["vocab_size=17", "d_model=8", "d_hidden=8"],
    "mlp": ["sizes=[8,6,3]"],
    "resnet18_cifar": ["depths=[1,1]", "widths=[4,6]", "stem_channels=4"],
    "resnet50": ["depths=[1,1]", "widths=[4,8]", "stem_channels=4"],
    "t5_small": ["vocab_size=17", "d_model=8", "n_layers=1", "n_heads=2", "d_ff=12"],
    "unet": ["widths=[4,6]"],
    "vit_small": ["image_size=16", "patch_size=8", "d_model=8", "n_layers=1", "n_heads=2", "d_ff=12"],
}
"""What makes a step of each fast."""
SIZES = {"convnext_tiny": (2, 3, 16, 16), "resnet50": (2, 3, 16, 16), "resnet18_cifar": (2, 3, 8, 8)}
"""Of images that a small form takes; others take the inputs that their config implies."""


def inputs_of(name: str, config: ModuleConfig) -> list[Tensor]:
    """Inputs of the small form."""
    if name in SIZES:
        return [torch.randn(SIZES[name])]
    given = config.example_inputs().values()
    return [torch.randint(2, shape) if dtype == "int64" else torch.randn(shape) for dtype, shape in given]


def first_of(output: Any) -> Tensor:
    """The output, or the first of several."""
    return output if isinstance(output, Tensor) else output[0]


each_model = pytest.mark.parametrize("name", MODELS)


@each_model
def test_it_builds_without_memory(name: str) -> None:
    model: Any = MODELS[name].init("meta")
    if name in MILLIONS:
        assert model.num_params() / 1e6 == pytest.approx(MILLIONS[name], rel=0.01)


@each_model
def test_it_names_every_field_that_is_no_part(name: str) -> None:
    text = shipped_configs()[name].read_text()
    written = set(re.findall(r"^(\w+):", text, re.MULTILINE))
    fields = {key for key, value in MODELS[name].to_dict().items() if key != "type" and not isinstance(value, dict)}
    assert fields <= written


@each_model
def test_a_step_of_training_lowers_the_loss(name: str) -> None:
    torch.manual_seed(0)
    config = ModuleConfig.load(shipped_configs()[name], SMALL[name])
    model: Any = config.init()
    inputs = inputs_of(name, config)
    target = torch.randn_like(first_of(model(*inputs)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loss() -> Tensor:
        torch.manual_seed(1)
        return (first_of(model(*inputs)) - target).square().mean()

    before = loss()
    before.backward()
    optimizer.step()
    assert loss() < before
