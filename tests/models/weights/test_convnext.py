"""Weights of ConvNeXt: transformers' model."""

from pathlib import Path
from typing import Any

import pytest
import transformers

from burnlike.errors import ConfigError
from burnlike.models import load_pretrained
from tests.models.beside_torch import floats

from .transformers_models import expect_same_outputs, expect_saved_back, randomized, saved

SIZES: dict[str, Any] = {"num_stages": 2, "hidden_sizes": [4, 6], "depths": [1, 2], "num_labels": 5}


@pytest.mark.parametrize(
    "options",
    [{}, {"layer_scale_init_value": 0.0, "layer_norm_eps": 1e-3, "hidden_act": "relu", "patch_size": 2}],
    ids=["default", "options"],
)
def test_transformers_model(options: dict[str, Any], tmp_path: Path) -> None:
    theirs = randomized(transformers.ConvNextForImageClassification(transformers.ConvNextConfig(**SIZES, **options)))
    ours = expect_same_outputs(theirs, tmp_path, floats(2, 3, 17, 20), lambda found: found.logits)
    expect_saved_back(ours, tmp_path, "convnext")


def test_another_activation_is_refused(tmp_path: Path) -> None:
    config = transformers.ConvNextConfig(**SIZES, hidden_act="quick_gelu")
    saved(transformers.ConvNextForImageClassification(config), tmp_path)
    with pytest.raises(ConfigError, match="there is no activation 'quick_gelu'"):
        load_pretrained(tmp_path)
