"""ConvNeXt: the authors' program with the same weights, sizes, presets, stochastic depth, and what is refused."""

from typing import Any

import pytest
import torch

from benchmarks.models.torch_convnext import NAMES, ConvNext
from burnlike.errors import ConfigError, ShapeError
from burnlike.models import ConvNextConfig

from .beside_torch import expect_same, floats, randomized

CONFIG = ConvNextConfig(num_classes=5, depths=(1, 2, 1), widths=(4, 6, 8))


def test_it_computes_what_the_authors_program_does() -> None:
    expect_same(randomized(CONFIG), ConvNext(CONFIG), NAMES, floats(2, 3, 17, 20))


@pytest.mark.parametrize(
    ("preset", "count"),
    # Liu et al. 2022, table 9: the millions of parameters, exact ones from timm's table of results.
    [
        (ConvNextConfig.tiny, 28_589_128),
        (ConvNextConfig.small, 50_223_688),
        (ConvNextConfig.base, 88_591_464),
        (ConvNextConfig.large, 197_767_336),
    ],
)
def test_presets_have_the_papers_numbers_of_parameters(preset: Any, count: int) -> None:
    assert sum(it.numel() for it in preset().init("meta").parameters()) == count


def test_features_are_those_of_each_stage() -> None:
    found = randomized(CONFIG).features(floats(2, 3, 38, 32))
    assert [list(it.shape) for it in found] == [[2, 4, 9, 8], [2, 6, 4, 4], [2, 8, 2, 2]]


def test_blocks_are_left_out_more_often_the_deeper_they_are() -> None:
    model: Any = CONFIG.replace(drop_path=0.3).init()
    rates = [block.drop_path.prob for stage in model.stages for block in stage]
    assert rates == pytest.approx([0, 0.1, 0.2, 0.3])
    x = torch.randn(4, 3, 16, 16)
    with torch.no_grad():
        for stage in model.stages:
            for block in stage:
                block.scale.gamma.fill_(1)
    assert not torch.equal(model(x), model(x))
    assert torch.equal(model.eval()(x), model(x))


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"widths: expected as many as depths \(1\), got 2"):
        ConvNextConfig(depths=(1,), widths=(4, 4))
    with pytest.raises(ShapeError, match=r"ConvNext: expected at least 16 for height and width, got \[16, 15\]"):
        CONFIG.init()(torch.zeros(1, 3, 16, 15))
    with pytest.raises(ShapeError, match=r"ConvNext: expected \[batch, 3, height, width\]"):
        CONFIG.init()(torch.zeros(1, 1, 16, 16))
