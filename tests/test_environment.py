"""The set-up script, and the lock files that it installs."""

import subprocess
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / ".ci" / "environment.sh"


def test_without_a_fitting_python_it_says_what_is_needed() -> None:
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": "no-such-python"}
    done = subprocess.run(["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("burnlike needs Python 3.11, 3.12 or 3.13 with venv")
    assert "no-such-python" in done.stderr


def locked(file: str) -> list[str]:
    """The packages that a lock file names."""
    lines = [line for line in (ROOT / file).read_text().splitlines() if line[:1] != "#"]
    pins = [line for line in lines if not line.startswith("    --hash=sha256:")]
    assert all("==" in line and line.endswith("\\") for line in pins)
    return [line.partition("==")[0] for line in pins]


def needed(requirements: Iterable[str]) -> set[str]:
    """The packages of requirements and what those need, but torch's libraries for CUDA, which come with it."""
    found, left = set[str](), [*requirements]
    for text in left:  # grows as it goes
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if (requirement.marker and not requirement.marker.evaluate({"extra": ""})) or name in found:
            continue
        if name.startswith(("nvidia-", "cuda-", "triton")):
            continue
        found.add(name)
        left.extend(metadata.requires(name) or [])
    return found


def test_every_package_but_torch_is_pinned_once_with_hashes() -> None:
    pinned = [*locked("requirements.lock"), *locked("requirements-dev.lock")]
    assert len(pinned) == len(set(pinned))
    assert "torch" not in pinned


def test_what_training_needs_is_in_the_lock_of_training_and_nothing_else_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    pinned_torch = metadata.version("torch").partition("+")[0] in (ROOT / "requirements-torch.lock").read_text()
    of_training = needed([*project["dependencies"], *extras["train"], "setuptools"])
    if pinned_torch:  # another torch may need other packages
        assert of_training - {"torch"} == {*locked("requirements.lock")}
    of_development = {canonicalize_name(Requirement(it).name) for group in extras.values() for it in group}
    files = ("requirements.lock", "requirements-dev.lock", "requirements-docs.lock", "requirements-families.lock")
    assert of_development - {"burnlike"} <= {name for file in files for name in locked(file)}
