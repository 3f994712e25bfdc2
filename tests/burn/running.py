"""Burn's answers to cases: the programs of this crate, built once and asked by lines of JSON."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from ..vectors.values import DTYPES

HERE = Path(__file__).parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or HERE.parents[1] / ".cache" / "burn")
SEED = int(os.environ.get("BURN_SEED", "1"))
"""Of the cases that are drawn: `make test-burn SEED=2` draws others."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def random_of(subject: str) -> Random:
    """Draws the cases of a subject, which do not depend on those of others."""
    return Random(f"{SEED} {subject}")


def cargo(*words: str, folder: Path = HERE) -> str:
    """Run cargo, whose results are in `TARGET`; a failure with what it printed, or with what to install."""
    if shutil.which("cargo") is None:
        pytest.fail("cargo is not there: install Rust 1.92 or newer (https://rustup.rs), as `make test-burn` runs Burn")
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    done = subprocess.run(["cargo", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"cargo {' '.join(words)}:\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}")
    return done.stdout


def name_crate(crate: Path, suffix: str, source: Path = HERE) -> None:
    """Give a crate the dependencies of `source`, whose Burn is built already, and a longer name than that has.

    Programs of all crates lie in one folder and tests run side by side, so that each test has a suffix of its own.
    """
    name = _name(source)
    for file in ("Cargo.toml", "Cargo.lock"):
        text = (source / file).read_text()
        assert text.count(f'name = "{name}"\n') == 1, file
        # A longer name keeps its place in the lock file, whose packages are sorted.
        (crate / file).write_text(text.replace(f'name = "{name}"\n', f'name = "{name}_{suffix}"\n'))


def program(crate: Path) -> Path:
    """The program of a crate, once it is built."""
    return TARGET / "debug" / _name(crate)


def _name(crate: Path) -> str:
    return re.findall(r'^name = "(.*)"', (crate / "Cargo.toml").read_text(), re.MULTILINE)[0]


@cache
def _built(program: str) -> Path:
    cargo("build", "--locked", "--bin", program)
    return TARGET / "debug" / program


def ask(program: str, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The answers of `src/bin/PROGRAM.rs`; `{"refused": message}` where Burn panics, gives an error or dies."""
    path, answers = _built(program), list[dict[str, Any]]()
    while len(answers) < len(cases):
        lines = "".join(f"{json.dumps(case)}\n" for case in cases[len(answers) :])
        done = subprocess.run([path], input=lines, capture_output=True, text=True, check=False)
        answers += [json.loads(line) for line in done.stdout.splitlines()]
        if len(answers) < len(cases):
            answers.append({"refused": f"the process died: {done.returncode}"})
    return answers


def packed(tensor: torch.Tensor) -> dict[str, Any]:
    """A tensor for a case, as `data_of` in `src/lib.rs` reads it."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    content = bytes(flat.view(torch.uint8).tolist()) if flat.numel() else b""
    return {"dtype": _NAMES[tensor.dtype], "shape": [*tensor.shape], "bytes": content.hex()}


def unpacked(answer: Mapping[str, Any]) -> torch.Tensor:
    """The tensor of an answer."""
    content = bytearray.fromhex(answer["bytes"])
    dtype = DTYPES[answer["dtype"]]
    flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
    return flat.reshape(answer["shape"])
