"""Transforms of torchvision, which `.cache/families` has: every class of it, and ours beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

from burnlike.config import Config, TransformConfig
from burnlike.errors import ConfigError

ROOT = Path(__file__).parents[2]


@pytest.mark.families
def test_every_transform_and_our_own_beside_them() -> None:
    """Arguments, draws, masks, and our numbers: `torchvision_family.py`."""
    command = [sys.executable, "-W", "error::UserWarning", "-m", "tests.data.torchvision_family"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.endswith("ok\n")


def test_mistakes_are_found_without_torchvision() -> None:
    class Holder(Config):
        it: TransformConfig

    for text, message in (
        ("{type: torchvision.RandomResizedCrp, size: [8, 8]}", r"did you mean 'torchvision.RandomResizedCrop'"),
        ("{type: torchvision.RandomResizedCrop, size: [8]}", "it.size: expected"),
        ("{type: torchvision.RandomSolarize}", "threshold"),
        ("{type: torchvision.AutoAugment, policy: imagent}", "imagenet"),
        ("{type: torchvision.Lambda}", "unknown type 'torchvision.Lambda'"),
    ):
        with pytest.raises(ConfigError, match=message):
            Holder.from_yaml(f"it: {text}")
    with pytest.raises(ConfigError, match=r"needs the package torchvision: pip install 'burnlike\[torchvision\]'"):
        Holder.from_yaml("it: {type: torchvision.TrivialAugmentWide}").it.init([])
