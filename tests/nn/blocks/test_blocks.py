"""What the configs of blocks refuse, and how the blocks start."""

import pytest
import torch

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.errors import ConfigError


@pytest.mark.parametrize(
    "make",
    [
        lambda norm: nn.ConvNorm2dConfig(channels=(4, 6), norm=norm),
        lambda norm: nn.DepthwiseSeparableConv2dConfig(channels=(4, 6), norm=norm),
        lambda norm: nn.BasicBlockConfig(channels=(4, 6), norm=norm),
        lambda norm: nn.BottleneckConfig(channels=(4, 8), reduction=1, norm=norm),
    ],
)
def test_norms_that_do_not_fit_images_are_refused(make) -> None:
    with pytest.raises(ConfigError, match=r"norm: expected a normalization of channels.*got LayerNorm"):
        make(nn.LayerNormConfig(d_model=4))
    with pytest.raises(ConfigError, match=r"norm: it has to fit . channels: .*num_groups"):
        make(nn.GroupNormConfig(num_groups=5, num_channels=5))


def test_counts_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"groups: expected a divisor of both channels \[4, 6\], got 4"):
        nn.ConvNorm2dConfig(channels=(4, 6), groups=4)
    with pytest.raises(ConfigError, match=r"reduction: expected a divisor of channels.1 \(6\), got 4"):
        nn.BottleneckConfig(channels=(4, 6))


@pytest.mark.parametrize(
    "config",
    [nn.BasicBlockConfig(channels=(4, 4), zero_last=True), nn.BottleneckConfig(channels=(4, 4), zero_last=True)],
)
def test_with_a_zero_norm_at_the_end_a_block_starts_as_its_shortcut(config) -> None:
    x = torch.randn(2, 4, 3, 3)
    assert torch.equal(config.init()(x), x.relu())
    assert not torch.equal(config.replace(zero_last=False).init()(x), x.relu())


def test_the_weights_of_convolutions_have_he_s_spread() -> None:
    torch.manual_seed(0)
    weight = nn.ConvNorm2dConfig(channels=(64, 128)).init().conv.weight
    assert weight.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.02)


def test_drop_path_keeps_or_drops_whole_items() -> None:
    torch.manual_seed(0)
    layer = nn.DropPathConfig(prob=0.25).init()
    y = layer(torch.ones(2000, 3, 2)).flatten(1)
    assert torch.equal(y, y[:, :1].expand_as(y))
    assert sorted(y.unique().tolist()) == pytest.approx([0, 4 / 3])
    assert y.mean().item() == pytest.approx(1, abs=0.05)


def test_blocks_are_put_together_in_yaml() -> None:
    text = """
    type: Sequential
    layers:
      - {type: ConvNorm2d, channels: [3, 8], norm: {type: GroupNorm, num_groups: 2, num_channels: 8}}
      - {type: BasicBlock, channels: [8, 12], stride: 2}
      - {type: Bottleneck, channels: [12, 12], reduction: 3, activation: {type: Gelu}}
      - {type: SqueezeExcite, channels: 12, d_hidden: 4}
      - {type: DepthwiseSeparableConv2d, channels: [12, 16]}
      - {type: PatchEmbedding, channels: 16, patch_size: 2, d_model: 6}
      - {type: LayerScale, d_model: 6}
      - {type: DropPath, prob: 0.1}
    """
    assert ModuleConfig.from_yaml(text).init()(torch.randn(2, 3, 8, 8)).shape == (2, 4, 6)
