"""The examples run as a user would run them."""

import difflib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from burnlike import record

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, EXAMPLES / script, "--steps", "20", "--backend", "eager", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_burnlike_is_dropped_into_the_stock_script_in_under_ten_lines() -> None:
    stock, drop_in = ((EXAMPLES / name).read_text() for name in ("stock.py", "drop_in.py"))
    body = [re.sub(r'^""".*?"""\n', "", text, flags=re.DOTALL).splitlines() for text in (stock, drop_in)]
    changes = [line for line in difflib.ndiff(*body) if line[0] in "+-"]
    added = [line for line in changes if line[2:].strip()]
    assert all(line.startswith("+ ") and line.endswith("# +") for line in added)
    assert len(added) < 10


@pytest.fixture(scope="module")
def drop_in(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What drop_in.py saved, without the suffix, and printed."""
    saved = tmp_path_factory.mktemp("drop_in") / "first"
    return saved, run("drop_in.py", "--out", str(saved))


@pytest.mark.slow
def test_both_train_alike_and_the_drop_in_can_be_left_again(drop_in: tuple[Path, str], tmp_path: Path) -> None:
    saved, printed = drop_in
    assert printed.endswith(run("stock.py", "--out", f"{tmp_path}/stock"))
    weights = torch.load(tmp_path / "stock.pt")["model"]
    left = load_file(saved.with_suffix(".safetensors"))  # the safetensors library alone
    assert left.keys() == weights.keys()
    for name, tensor in left.items():
        expected = weights[name].bfloat16() if weights[name].is_floating_point() else weights[name]
        assert torch.equal(tensor, expected)


@pytest.mark.slow
def test_a_run_goes_on_from_a_record_with_frozen_features_and_the_same_ids(
    drop_in: tuple[Path, str], tmp_path: Path
) -> None:
    saved, _ = drop_in
    out = run("drop_in.py", "--out", f"{tmp_path}/second", "--start", str(saved), "--freeze", "^features")
    assert "11 tensors loaded, 10 of them converted" in out
    first, second = (
        record.SafetensorsRecorder().load(path.with_suffix(".safetensors")) for path in (saved, tmp_path / "second")
    )
    assert first.ids == second.ids
    frozen = {name for name in first.tensors if name.startswith("features") and "running" not in name}
    assert all(
        torch.equal(first.tensors[name], second.tensors[name]) for name in frozen - {"features.3.num_batches_tracked"}
    )
    assert not torch.equal(first.tensors["head.weight"], second.tensors["head.weight"])
