"""Calls that a common thing takes through burnlike's own functions: a way that grows is a change to look at.

A row has the thing to do and the most calls, functions and files that it may pass through. The test does it twice, as
the first time imports and fills caches, and counts the second. Lower a bar where a change makes the way shorter.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.config import ModuleConfig
from burnlike.config.shipped import config_file
from burnlike.interop import TorchOptimizer
from burnlike.optim import AdamWConfig
from burnlike.record import HalfPrecision
from burnlike.train import TrainConfig

DECODER = """
type: DecoderLm
vocab_size: 256
max_sequence_length: 32
d_model: 32
n_layers: 1
n_heads: 2
d_ff: 64
"""


class Way(NamedTuple):
    """A thing to do, made ready in a directory, and the most that it may pass through; None for no bar."""

    ready: Callable[[Path], Callable[[], object]]
    calls: int | None = None
    functions: int | None = None
    files: int | None = None


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2))


def save_ready(folder: Path) -> Callable[[], object]:
    model = two_layers()
    return lambda: bl.record.save(model, folder / "model.safetensors", HalfPrecision)


def load_ready(folder: Path) -> Callable[[], object]:
    model = two_layers()
    path = bl.record.save(model, folder / "model.safetensors", HalfPrecision)
    return lambda: bl.record.load(model, path)


def step_ready(folder: Path) -> Callable[[], object]:
    model = two_layers()
    model(torch.ones(3, 8)).sum().backward()
    return TorchOptimizer(model, AdamWConfig(), lr=0.1).step


def linear_ready(folder: Path) -> Callable[[], object]:
    layer: Any = bl.nn.LinearConfig(d_input=8, d_output=4).init()
    x = bl.Tensor(torch.ones(3, 8))
    return lambda: layer(x)


WAYS = {
    "ModuleConfig.from_yaml of 7 lines": Way(lambda _: lambda: ModuleConfig.from_yaml(DECODER), 140, 60, 15),
    "TrainConfig.load": Way(lambda _: lambda: TrainConfig.load(config_file("char_gpt_tiny")), 620, 106, 26),
    "nn.LinearConfig": Way(lambda _: lambda: bl.nn.LinearConfig(d_input=8, d_output=4), 16),
    "record.save of 4 tensors, converted": Way(save_ready, functions=81, files=20),
    "record.load of 4 tensors, converted": Way(load_ready, functions=121, files=25),
    "TorchOptimizer.step": Way(step_ready, functions=37, files=13),
    "nn.Linear on a typed tensor": Way(linear_ready, functions=9, files=5),
}


def counted(do: Callable[[], object]) -> Counter[CodeType]:
    """Each of burnlike's own functions that is called, and how often; those of torch and Python are not counted."""
    assert bl.__file__ is not None
    package, calls = str(Path(bl.__file__).parent), Counter[CodeType]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            calls[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("name", WAYS)
def test_a_way_is_no_longer_than_its_bar(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where a test before has imported these, tensors are asked whether they are divided.
    for module in ("torch.distributed.tensor", "torch.distributed.fsdp._fully_shard._fsdp_state"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    way = WAYS[name]
    do = way.ready(tmp_path)
    do()
    calls = counted(do)
    longest = ", ".join(f"{code.co_qualname} {count}" for code, count in calls.most_common(8))
    for unit, count, bar in (
        ("calls", calls.total(), way.calls),
        ("functions", len(calls), way.functions),
        ("files", len({code.co_filename for code in calls}), way.files),
    ):
        assert count, "nothing was counted"
        assert bar is None or count <= bar, f"{name} takes {count} {unit}, expected at most {bar}; the most: {longest}"
