"""The set-up script: what a user reads when Python is missing or too old."""

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / ".ci" / "environment.sh"


def test_without_a_fitting_python_it_says_what_is_needed() -> None:
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": "no-such-python"}
    done = subprocess.run(["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("burnlike needs Python 3.11, 3.12 or 3.13 with venv")
    assert "no-such-python" in done.stderr


def test_every_package_but_torch_is_pinned_with_hashes() -> None:
    lines = [line for line in (SCRIPT.parents[1] / "requirements.lock").read_text().splitlines() if line[:1] != "#"]
    packages = [line for line in lines if not line.startswith("    --hash=sha256:")]
    assert len(packages) > 100
    assert all("==" in line and line.endswith("\\") for line in packages)
    assert not any(line.startswith("torch==") for line in packages)
