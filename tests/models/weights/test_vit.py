"""Weights of vision transformers: transformers' model."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from burnlike.errors import ConfigError, RecordMismatchError
from burnlike.models import load_pretrained, pretrained_config
from tests.models.beside_torch import floats

from .transformers_models import TOLERANCE, expect_same_outputs, expect_saved_back, randomized, saved

SIZES: dict[str, Any] = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "image_size": [8, 12],
    "patch_size": 4,
    "num_labels": 5,
}


@pytest.mark.parametrize(
    "options", [{}, {"layer_norm_eps": 1e-3, "hidden_act": "gelu_new"}], ids=["default", "options"]
)
def test_transformers_model(options: dict[str, Any], tmp_path: Path) -> None:
    theirs = randomized(transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES, **options)))
    ours = expect_same_outputs(theirs, tmp_path, floats(2, 3, 8, 12), lambda found: found.logits)
    expect_saved_back(ours, tmp_path, "vit")


def test_projections_without_a_bias_are_refused(tmp_path: Path) -> None:
    saved(transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES, qkv_bias=False)), tmp_path)
    with pytest.raises(ConfigError, match="qkv_bias: expected True, got False"):
        load_pretrained(tmp_path)


@pytest.mark.parametrize("size", [(20, 16), (8, 8), (12, 24)], ids=str)
def test_positions_are_interpolated_for_the_image_size_that_is_asked_for(size: tuple[int, int], tmp_path: Path) -> None:
    theirs = randomized(transformers.ViTForImageClassification(transformers.ViTConfig(**{**SIZES, "image_size": 12})))
    config = pretrained_config(saved(theirs, tmp_path))
    ours = load_pretrained(tmp_path, config=config.replace(image_size=size)).eval()
    x = floats(2, 3, *size)
    expected = theirs(x, interpolate_pos_encoding=True).logits
    torch.testing.assert_close(ours(x), expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_positions_stay_where_the_image_size_does(tmp_path: Path) -> None:
    theirs = randomized(transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES)))
    config = pretrained_config(saved(theirs, tmp_path))
    ours: Any = load_pretrained(tmp_path, config=config.replace(dropout=0.5))
    assert torch.equal(ours.positions, theirs.vit.embeddings.position_embeddings)
    with pytest.raises(RecordMismatchError, match=r"patch_embeddings.projection.weight: expected .* got "):
        load_pretrained(tmp_path, config=config.replace(image_size=(8, 8), patch_size=2))
