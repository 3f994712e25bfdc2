"""Rotary frequencies for longer sequences, and the layouts of pairs, as `transformers` has them."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

import burnlike as bl
from burnlike import nn
from burnlike.errors import ConfigError

LONG, LLAMA, YARN = {"factor": 4.0}, {"low_freq_factor": 1.0, "high_freq_factor": 4.0}, {"beta_fast": 20.0}
ORIGINAL = {"original_max_position_embeddings": 64}
SCALINGS = [
    (nn.LinearScaling(factor=4.0), {"rope_type": "linear", **LONG}),
    (nn.Llama3Scaling(factor=4.0, original_length=64), {"rope_type": "llama3", **LONG, **LLAMA, **ORIGINAL}),
    (nn.YarnScaling(factor=4.0, original_length=64), {"rope_type": "yarn", **LONG, **ORIGINAL}),
    (
        nn.YarnScaling(factor=4.0, original_length=64, beta_fast=20.0, attention_factor=1.5, truncate=False),
        {"rope_type": "yarn", **LONG, **ORIGINAL, **YARN, "attention_factor": 1.5, "truncate": False},
    ),
]


def theirs(scaling: dict[str, Any], length: int | None = None) -> tuple[Tensor, float]:
    """The frequencies and the factor of `transformers`, for 16 values of a head."""
    rope = {"rope_theta": 1000.0, **scaling}
    config = LlamaConfig(hidden_size=32, num_attention_heads=2, max_position_embeddings=64, rope_parameters=rope)
    return ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, torch.device("cpu"), seq_len=length)


@pytest.mark.parametrize(("ours", "scaling"), SCALINGS, ids=lambda it: type(it).__name__)
def test_frequencies_and_factor_are_those_of_transformers(ours: nn.RotaryScaling, scaling: dict[str, Any]) -> None:
    frequencies, factor = theirs(scaling)
    rotary = nn.RotaryEncodingConfig(max_sequence_length=128, d_model=16, theta=1000.0, scaling=ours).init()
    torch.testing.assert_close(rotary.theta, frequencies, rtol=1e-6, atol=0)
    assert ours.magnitude == pytest.approx(factor, rel=1e-12)
    table = torch.outer(torch.arange(128.0), frequencies)
    torch.testing.assert_close(rotary.cosine, table.cos() * factor, rtol=0, atol=1e-4)
    torch.testing.assert_close(rotary.sine, table.sin() * factor, rtol=0, atol=1e-4)


@pytest.mark.parametrize("length", [3, 64, 65, 100])
def test_dynamic_frequencies_follow_the_length(length: int) -> None:
    scaling = nn.DynamicScaling(factor=4.0, original_length=64)
    rotary = nn.RotaryEncodingConfig(max_sequence_length=128, d_model=16, theta=1000.0, scaling=scaling).init()
    frequencies, _ = theirs({"rope_type": "dynamic", **LONG}, length)
    ones = torch.ones(length, 16)
    angles = torch.outer(torch.arange(length), frequencies)
    expected = torch.stack((angles.cos() - angles.sin(), angles.sin() + angles.cos()), -1).flatten(-2)
    torch.testing.assert_close(rotary(ones), expected, rtol=0, atol=1e-4)
    assert torch.equal(torch.compile(rotary, fullgraph=True, backend="eager")(ones), rotary(ones))


def test_dynamic_frequencies_are_exported_for_all_lengths() -> None:
    scaling = nn.DynamicScaling(factor=4.0, original_length=8)
    rotary = nn.RotaryEncodingConfig(max_sequence_length=32, d_model=16, scaling=scaling).init()
    sizes = ({0: torch.export.Dim("sequence", max=32)},)
    program = torch.export.export(rotary, (torch.ones(9, 16),), dynamic_shapes=sizes).module()
    for length in (4, 20):
        x = torch.randn(length, 16)
        torch.testing.assert_close(program(x), rotary(x), rtol=0, atol=0)


def test_the_ramp_of_yarn_is_that_of_the_paper() -> None:
    """Peng et al. 2023, eq. 11, 13 and 14: gamma of the number of turns r within the original length.

    The paper's ramp is linear in r, that of its authors' program and of `transformers` in the pair's number; its ends
    are the same: all kept where r > beta_fast, all divided where r < beta_slow.
    """
    scaling = nn.YarnScaling(factor=8.0, original_length=4096)
    frequencies = [10000.0 ** (-2 * pair / 128) for pair in range(64)]
    scaled = scaling.scaled(frequencies, 10000.0)
    for before, after in zip(frequencies, scaled, strict=True):
        turns = 4096 * before / (2 * math.pi)
        if turns > 1.2 * 32:
            assert after == before
        elif turns < 1 / 1.2:
            assert after == pytest.approx(before / 8)
        else:
            assert before / 8 <= after <= before


def test_halves_are_rotated_as_in_transformers() -> None:
    config = nn.RotaryEncodingConfig(max_sequence_length=8, d_model=6, theta=100.0, interleaved=False)
    rotary = config.init()
    x = torch.randn(2, 3, 5, 6, dtype=torch.float64)
    cosine, sine = rotary.cosine[:5].double().repeat(1, 2)[None], rotary.sine[:5].double().repeat(1, 2)[None]
    expected, _ = apply_rotary_pos_emb(x, x, cosine, sine)
    torch.testing.assert_close(rotary(x), expected, rtol=1e-12, atol=1e-12)


def test_the_first_values_only_are_rotated() -> None:
    part = nn.RotaryEncodingConfig(max_sequence_length=8, d_model=6, rotary_dim=4, interleaved=False).init()
    whole = nn.RotaryEncodingConfig(max_sequence_length=8, d_model=4, interleaved=False).init()
    x = torch.randn(2, 5, 6)
    assert torch.equal(part(x), torch.cat((whole(x[..., :4]), x[..., 4:]), -1))


@pytest.mark.parametrize("interleaved", [True, False])
def test_positions_pick_rows(interleaved: bool) -> None:
    rotary = nn.RotaryEncodingConfig(max_sequence_length=8, d_model=4, interleaved=interleaved).init()
    x = torch.randn(2, 3, 4, 4)
    positions = torch.tensor([[0, 0, 1, 2], [4, 5, 6, 7]])
    found = rotary(x, positions=positions)
    for row in range(2):
        for place in range(4):
            one = x[row, :, place : place + 1]
            assert torch.equal(found[row, :, place : place + 1], rotary(one, int(positions[row, place])))
    assert torch.equal(rotary(x, positions=torch.arange(2, 6)), rotary(x, 2))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rotary_dim": 10}, "rotary_dim: expected at most d_model"),
        ({"rotary_dim": 2, "scaling": nn.LinearScaling(factor=2.0)}, "scaling: expected 4 or more"),
        ({"theta": 1.0, "scaling": nn.LinearScaling(factor=2.0)}, "theta: expected more than 1"),
    ],
)
def test_what_can_not_work_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        nn.RotaryEncodingConfig(max_sequence_length=8, d_model=8, **values)
    with pytest.raises(ConfigError, match="beta_slow: expected less than"):
        nn.YarnScaling(factor=2.0, original_length=8, beta_fast=1.0, beta_slow=2.0)
    with pytest.raises(ConfigError, match="low_freq_factor: expected less than"):
        nn.Llama3Scaling(low_freq_factor=4.0)


def test_a_scaling_comes_from_yaml() -> None:
    text = "{max_sequence_length: 8, d_model: 4, scaling: {type: Llama3Scaling, factor: 2, original_length: 4}}"
    config = bl.nn.RotaryEncodingConfig.from_yaml(text)
    assert config.scaling == nn.Llama3Scaling(factor=2.0, original_length=4)
