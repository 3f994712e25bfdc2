"""torch.compile where all that inductor names lies below a folder with a space in its name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAM = """
import torch
from burnlike._torch_compat.inductor import quote_paths

quote_paths()
x = torch.arange(6.0)
assert " " in torch.__file__
torch.testing.assert_close(torch.compile(lambda x: x.sin() + x.sum())(x), x.sin() + x.sum())
"""


@pytest.mark.weekly
def test_quote_paths(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    (folder / "tmp").mkdir(parents=True)
    (folder / "packages").symlink_to(Path(torch.__file__).parents[1])
    paths = {"PYTHONPATH": f"{folder / 'packages'}:{os.getcwd()}", "TMPDIR": str(folder / "tmp")}
    environment = {**os.environ, **paths, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment, timeout=600)
