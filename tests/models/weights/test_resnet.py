"""Weights of ResNets: transformers' model, and torchvision's names."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from benchmarks.models.torch_resnet import ResNet
from burnlike.cli.commands import convert
from burnlike.errors import ConfigError
from burnlike.models import load_pretrained, record_from, record_to, weight_table
from tests.cli.commands import run
from tests.models.beside_torch import floats
from tests.models.test_resnet import BASIC, BOTTLENECK

from .transformers_models import expect_same_outputs, expect_saved_back, randomized, saved

SIZES: dict[str, Any] = {"embedding_size": 4, "depths": [1, 2], "num_labels": 5}


@pytest.mark.parametrize(
    "options",
    [
        {"layer_type": "basic", "hidden_sizes": [4, 6]},
        {"layer_type": "bottleneck", "hidden_sizes": [8, 16]},
    ],
    ids=["basic", "bottleneck"],
)
def test_transformers_model(options: dict[str, Any], tmp_path: Path) -> None:
    config = transformers.ResNetConfig(**SIZES, **options)
    theirs = randomized(transformers.ResNetForImageClassification(config))
    ours = expect_same_outputs(theirs, tmp_path, floats(2, 3, 33, 40), lambda found: found.logits)
    expect_saved_back(ours, tmp_path, "resnet")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"downsample_in_bottleneck": True}, "downsample_in_bottleneck: expected False, got True"),
        ({"hidden_act": "gelu"}, "hidden_act: expected 'relu', got 'gelu'"),
    ],
)
def test_what_ours_lacks_is_refused_by_name(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    config = transformers.ResNetConfig(**{**SIZES, "hidden_sizes": [8, 16], **options})
    saved(transformers.ResNetForImageClassification(config), tmp_path)
    with pytest.raises(ConfigError, match=message):
        load_pretrained(tmp_path)


@pytest.mark.parametrize("config", [BASIC, BOTTLENECK], ids=["basic", "bottleneck"])
def test_torchvisions_names(config: Any) -> None:
    theirs, ours = randomized(ResNet(config)), config.init().double().eval()
    table = weight_table("torchvision_resnet")
    record_from(table, ours, theirs.state_dict()).load_into(ours)
    x = floats(2, 3, 33, 40)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-10, atol=1e-10)
    found, expected = record_to(table, ours).tensors, theirs.state_dict()
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert name.endswith("num_batches_tracked") or torch.equal(tensor, expected[name]), name


def test_a_file_of_torchvisions_is_converted_by_the_command(tmp_path: Path) -> None:
    theirs = randomized(ResNet(BOTTLENECK)).float()
    torch.save(theirs.state_dict(), tmp_path / "resnet.pth")
    BOTTLENECK.save(tmp_path / "model.yaml")
    options = ("--from", "torchvision_resnet", "--model", tmp_path / "model.yaml")
    assert run(convert, tmp_path / "resnet.pth", tmp_path / "resnet.safetensors", *options) == 0
    ours = BOTTLENECK.init_from(tmp_path / "resnet.safetensors").eval()
    x = floats(2, 3, 33, 40).float()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
