"""Vision transformers: torch's encoder with the same weights, presets, and what is refused."""

from typing import Any

import pytest
import torch

from benchmarks.models.torch_vit import NAMES, VisionTransformer
from burnlike.errors import ConfigError, ShapeError
from burnlike.models import VisionTransformerConfig

from .beside_torch import expect_same, floats, randomized

CONFIG = VisionTransformerConfig(
    num_classes=5, image_size=(8, 12), patch_size=(4, 3), d_model=8, n_layers=2, n_heads=2, d_ff=12
)


def test_it_computes_what_torchs_encoder_does() -> None:
    expect_same(randomized(CONFIG), VisionTransformer(CONFIG), NAMES, floats(2, 3, 8, 12))


@pytest.mark.parametrize(
    ("preset", "count"),
    # timm's numbers of parameters of vit_*_patch16_224 with 1000 classes.
    [
        (VisionTransformerConfig.tiny, 5_717_416),
        (VisionTransformerConfig.small, 22_050_664),
        (VisionTransformerConfig.base, 86_567_656),
        (VisionTransformerConfig.large, 304_326_632),
    ],
)
def test_presets_have_the_known_numbers_of_parameters(preset: Any, count: int) -> None:
    assert sum(it.numel() for it in preset().init("meta").parameters()) == count


def test_values_and_parts_are_dropped_in_training() -> None:
    x = torch.randn(4, 3, 8, 12)
    for options in ({"dropout": 0.5}, {"attention_dropout": 0.5}, {"drop_path": 0.5}):
        torch.manual_seed(0)
        model = CONFIG.replace(**options).init()
        assert not torch.equal(model(x), model(x))
        assert torch.equal(model.eval()(x), model(x))


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"patch_size: expected a divisor of image_size \(\[8, 12\]\), got \[4, 5\]"):
        CONFIG.replace(patch_size=(4, 5))
    with pytest.raises(ConfigError, match=r"n_heads: expected a divisor of d_model \(8\), got 3"):
        CONFIG.replace(n_heads=3)
    with pytest.raises(ShapeError, match=r"VisionTransformer: expected \[batch, 3, 8, 12\], got \[1, 3, 8, 8\]"):
        CONFIG.init()(torch.zeros(1, 3, 8, 8))
