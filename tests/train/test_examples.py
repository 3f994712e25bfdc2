"""The examples of training run as a user would run them, and go on when they are run again."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.processes import HANGS_S

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
SMALL = {
    "classify_digits": (["--epochs", "2"], r"test loss \d\.\d+\ntest accuracy 0\.[4-9]\d+"),
    "custom_loop": (["--steps", "60"], r"step 60  error of the averaged weights 0\.\d+"),
    "gan": (["--steps", "40", "--save-every", "20"], r"step 40  distance from the origin \d\.\d+"),
    "lora_fine_tune": (["--epochs", "1"], r"validation loss 4\.\d+\nadapters: .*adapters.safetensors"),
    "byte_pair_lm": (
        ["--steps", "4", "--characters", "40000", "--vocab-size", "300"],
        r"perplexity      \d+\.\d of 300 tokens\nsample: def ",
    ),
}


def run(name: str, out: Path, *arguments: str) -> str:
    command = [sys.executable, EXAMPLES / f"{name}.py", "--out", out, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_tried() -> None:
    assert SMALL.keys() == {file.stem for file in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize(
    "name", [pytest.param(it, marks=[pytest.mark.slow] * (it in ("lora_fine_tune", "byte_pair_lm"))) for it in SMALL]
)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    arguments, expected = SMALL[name]
    printed = run(name, tmp_path / "run", *arguments)
    assert re.search(expected, printed), printed


@pytest.mark.weekly
@pytest.mark.parametrize("name", SMALL)
def test_an_example_that_is_run_again_trains_nothing(name: str, tmp_path: Path) -> None:
    arguments, expected = SMALL[name]
    first, again = (run(name, tmp_path / "run", *arguments) for _ in range(2))
    assert re.findall(expected, again) == re.findall(expected, first)


@pytest.mark.slow
def test_a_gan_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    run("gan", tmp_path / "whole", "--steps", "40", "--save-every", "10")
    for steps in ("20", "40"):
        run("gan", tmp_path / "parts", "--steps", steps, "--save-every", "10")
    for record in ("generator", "discriminator"):
        file = f"checkpoints/step-00000040/{record}.safetensors"
        whole, parts = (load_file(tmp_path / it / file) for it in ("whole", "parts"))
        assert {name: it.tolist() for name, it in whole.items()} == {name: it.tolist() for name, it in parts.items()}
