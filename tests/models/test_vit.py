"""Vision transformers: torch's encoder with the same weights, presets, and what is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ConfigError, ShapeError
from burnlike.models import VisionTransformerConfig

from .beside_torch import expect_same, floats, randomized

CONFIG = VisionTransformerConfig(
    num_classes=5, image_size=(8, 12), patch_size=(4, 3), d_model=8, n_layers=2, n_heads=2, d_ff=12
)

NAMES = {
    r"^patches\.projection": "patches",
    r"^blocks\.(\d)\.attention": r"encoder.layers.\1.self_attn",
    r"^blocks\.(\d)\.norm_attention": r"encoder.layers.\1.norm1",
    r"^blocks\.(\d)\.norm_feed_forward": r"encoder.layers.\1.norm2",
    r"^blocks\.(\d)\.linear_inner": r"encoder.layers.\1.linear1",
    r"^blocks\.(\d)\.linear_outer": r"encoder.layers.\1.linear2",
    r"^norm": "encoder.norm",
}


class TorchVit(nn.Module):
    """Dosovitskiy et al. 2021, section 3.1, by torch's encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.positions = nn.Parameter(torch.zeros(1, 9, 8))
        self.patches = nn.Conv2d(3, 8, (4, 3), (4, 3))
        layer = nn.TransformerEncoderLayer(
            8, 2, 12, 0.0, activation="gelu", layer_norm_eps=1e-6, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8, 1e-6), enable_nested_tensor=False)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.class_token.expand(x.shape[0], 1, 8), tokens), 1) + self.positions
        return self.head(self.encoder(tokens)[:, 0])


def test_it_computes_what_torchs_encoder_does() -> None:
    expect_same(randomized(CONFIG), TorchVit(), NAMES, floats(2, 3, 8, 12))


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
