"""Ready models of images and blocks with torch's layers in place of burnlike's, and back."""

import pytest
import torch
from torch import nn

from burnlike.interop import from_torch, to_torch
from burnlike.models import Mlp
from burnlike.module import params

from ..nn.cases import CASES as LAYERS
from .cases import CASES

MODELS = [it for it in CASES if it.name.startswith(("ConvNext", "Mlp", "ResNet", "UNet"))]
BLOCKS = [it for it in LAYERS if type(it.config).__module__ == "burnlike.nn.blocks.configs" and not it.train]


def expect_the_same_there_and_back(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    torchs = to_torch(model)
    with_weights = [it for it in torchs.modules() if "weight" in it._parameters]
    assert all(type(it).__module__.startswith("torch.nn.") for it in with_weights)
    torch.testing.assert_close(torchs(*inputs), model(*inputs), rtol=1e-12, atol=1e-12)
    back = from_torch(torchs)
    assert {it.path: it.id for it in params(back)} == {it.path: it.id for it in params(model)}
    assert torch.equal(back(*inputs), model(*inputs))


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_a_model_of_images(case) -> None:
    model = case.model()
    expect_the_same_there_and_back(model, case.drawn())
    assert any(isinstance(it, nn.Linear if isinstance(model, Mlp) else nn.Conv2d) for it in to_torch(model).modules())


@pytest.mark.parametrize("case", BLOCKS, ids=lambda case: case.name)
def test_a_block(case) -> None:
    expect_the_same_there_and_back(case.layer(), case.drawn()[0])


def test_squeeze_and_excitation() -> None:
    (case,) = (it for it in LAYERS if it.name == "SqueezeExcite")
    expect_the_same_there_and_back(case.layer().eval(), case.drawn()[0])
