"""The page about a training that goes from Burn's Learner to Python and back: its Rust and its Python, in turns."""

import re
import shutil
from pathlib import Path

import pytest

from burnlike.record import open_record

from .running import HERE, cargo, name_crate

pytestmark = pytest.mark.burn_train
PAGE = HERE.parents[1] / "docs" / "how_to" / "burn_training.md"


def test_a_training_goes_from_rust_to_python_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text()
    crate = tmp_path / "crate"
    (crate / "src").mkdir(parents=True)
    (crate / "src" / "main.rs").write_text(re.findall(r"```rust\n(.*?)```", text, re.DOTALL)[0])
    name_crate(crate, "page", HERE / "train")
    features = re.findall(r"^burn = .*features = (\[.*\])", text, re.MULTILINE)
    assert features == re.findall(r"^burn = .*features = (\[.*\])", (crate / "Cargo.toml").read_text(), re.MULTILINE)
    first, second = re.findall(r"^cargo run -- (\d.*?) +#", text, re.MULTILINE)
    monkeypatch.chdir(crate)
    cargo("run", "--locked", "--", *first.split(), folder=crate)
    shutil.copytree(crate / "artifacts", tmp_path / "artifacts")
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), "page.py", "exec"), {})
    cargo("run", "--locked", "--", *second.split(), folder=crate)
    ours = open_record(crate / "artifacts" / "checkpoint" / "model-5.bpk")
    shutil.rmtree(crate / "artifacts")
    shutil.move(tmp_path / "artifacts", crate / "artifacts")
    before = open_record(crate / "artifacts" / "checkpoint" / "model-2.bpk").tensors
    before = {name: it[...].clone() for name, it in before.items()}
    (without_python,) = re.findall(r"`cargo run -- (5 2)`", text)
    cargo("run", "--locked", "--", *without_python.split(), folder=crate)
    theirs = open_record(crate / "artifacts" / "checkpoint" / "model-5.bpk")
    assert ours.ids == theirs.ids
    for name, tensor in theirs.tensors.items():
        difference = (ours.tensors[name][...] - tensor[...]).abs().max()
        assert difference <= 1e-5, (name, difference)
        assert (tensor[...] - before[name]).abs().max() > 1e-2, name
