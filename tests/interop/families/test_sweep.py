"""Every classifier of torchvision, and a model of each family of timm that has twins (`models.txt`), by `sweep.py`.

Without twins are timm's sequencer, which calls `nn.LSTM` as torch's, and qwen3_vit, of norms without a weight.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from .sweep import FOLDER

MODELS = Path(__file__).with_name("models.txt").read_text().split()
MEMBERS = [
    *("mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "googlenet", "swin_t", "swin_v2_t", "convnext_tiny"),
    *("timm/beit_base_patch16_224", "timm/mixnet_s", "timm/resnetv2_18", "timm/nf_seresnet26", "timm/pvt_v2_b0"),
    "timm/tnt_s_patch16_224",
]
TOGETHER = 10


def sweep(*names: str) -> str:
    """What the sweep of these models prints."""
    command = [sys.executable, "-m", "tests.interop.families.sweep", *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER.parents[1], check=False)
    assert done.returncode == 0, "\n".join(part[-4000:] for part in (done.stdout, done.stderr))
    return done.stdout


def groups() -> list[list[str]]:
    return [MODELS[begin : begin + TOGETHER] for begin in range(0, len(MODELS), TOGETHER)]


@pytest.mark.families
@pytest.mark.parametrize("names", groups(), ids=lambda names: names[0])
def test_a_step_of_training_and_back(names: list[str]) -> None:
    assert sweep(*names).count(": ok, ") == len(names)


@pytest.mark.families
def test_no_classifier_of_torchvision_is_left_out() -> None:
    assert sweep("list").split() == [name for name in MODELS if "/" not in name]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(MEMBERS[:7], marks=pytest.mark.slow, id="torchvision"),
        pytest.param(MEMBERS[7:], marks=pytest.mark.weekly, id="timm"),
    ],
)
def test_members_of_families(names: list[str]) -> None:
    assert sweep(*names).count(": ok, ") == len(names)
