"""Training scripts as PyTorch's users write them, stock and with burnlike: the same losses, and resumed to the bit."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from .processes import HANGS_S, wait_until

EXAMPLES = Path(__file__).parent.parent / "examples"
WITH = ["--burnlike"]

# The arguments of a whole run, of one that ends early, and of the one that goes on.
GPT = ["--steps", "24", "--save-every", "5"]
RUNS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "gpt": (GPT, ["--steps", "12", "--save-every", "5"], [*GPT, "--resume"]),
    "digits": (["--epochs", "2", "--images", "640"], ["--epochs", "1", "--images", "640"], []),
    "word_lm": (["--epochs", "2", "--words", "4000"], ["--epochs", "1", "--words", "4000"], []),
    "fine_tune": (["--steps", "10", "--save-every", "4"], ["--steps", "10", "--save-every", "4", "--stop", "6"], []),
}


def script(name: str) -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def losses(folder: Path) -> list[float]:
    """The loss of each step."""
    return [json.loads(line)["loss"] for line in (folder / "losses.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def _random_state() -> object:
    """The scripts seed torch for the whole process."""
    before = torch.get_rng_state()
    yield
    torch.set_rng_state(before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], list[float]]:
    """The losses of an example's whole run, stock or with burnlike; each is run once."""
    folder = tmp_path_factory.mktemp("examples")

    def run(name: str, with_burnlike: bool) -> list[float]:
        out = folder / f"{name}-{with_burnlike}"
        if not out.exists():
            script(name).main([*RUNS[name][0], "--out", str(out), *(WITH if with_burnlike else [])])
        return losses(out)

    return run


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # what transformers and its Trainer warn of is theirs
@pytest.mark.parametrize("name", RUNS)
def test_stock_and_burnlike_have_the_same_losses_at_every_step(
    name: str, whole: Callable[[str, bool], list[float]]
) -> None:
    stock, ours = whole(name, False), whole(name, True)
    assert len(stock) == len(ours) >= 10
    torch.testing.assert_close(ours, stock, rtol=1e-4, atol=0)
    assert len(set(stock)) > len(stock) / 2, "a loss that does not change shows nothing"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("with_burnlike", [False, True], ids=["stock", "burnlike"])
@pytest.mark.parametrize("name", RUNS)
def test_stopped_and_resumed_it_has_the_losses_of_one_run(
    name: str, with_burnlike: bool, whole: Callable[[str, bool], list[float]], tmp_path: Path
) -> None:
    first, begun, rest = RUNS[name]
    options = ["--out", str(tmp_path / "out"), *(WITH if with_burnlike else [])]
    script(name).main([*begun, *options])
    begun_losses = losses(tmp_path / "out")
    script(name).main([*(rest or [*first, "--resume"]), *options])
    resumed = losses(tmp_path / "out")
    assert len(begun_losses) < len(resumed)
    assert resumed == whole(name, with_burnlike)


@pytest.mark.weekly
def test_killed_in_the_middle_and_resumed_it_has_the_losses_of_one_run(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # sums of several threads may differ from process to process

    def command(folder: str, *more: str) -> list[str]:
        return [sys.executable, str(EXAMPLES / "gpt.py"), *GPT, "--out", str(tmp_path / folder), *WITH, *more]

    subprocess.run(command("whole"), check=True, stdout=subprocess.DEVNULL, env=environment)
    killed = subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL, env=environment)
    log = tmp_path / "killed" / "losses.jsonl"
    wait_until(lambda: log.exists() and log.read_text().count("\n") >= 8, killed)
    killed.kill()
    killed.wait(HANGS_S)
    assert len(losses(tmp_path / "killed")) < len(losses(tmp_path / "whole"))
    subprocess.run(command("killed", "--resume"), check=True, stdout=subprocess.DEVNULL, env=environment)
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")
