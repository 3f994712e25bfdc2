"""The steps of an optimizer with parameters, gradients and states on two devices.

In a process of its own, because the second device stays registered with torch.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHECKS = re.findall(r"^def (check_\w+)", Path(__file__).with_name("on_second_device.py").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    command = [sys.executable, "-m", "tests.optim.step.on_second_device"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("check", CHECKS, ids=lambda name: name.removeprefix("check_"))
def test_step(outcomes: dict[str, str], check: str) -> None:
    assert not outcomes[check], outcomes[check]
