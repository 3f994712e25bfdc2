"""Saving and loading take a few megabytes whatever the model's size, measured on a child process."""

import json
import subprocess
import sys
from pathlib import Path

from ..processes import HANGS_S

CHILD = """
import json, sys, torch
from benchmarks._memory import with_extra_bytes
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder

recorder = SafetensorsRecorder(BFloat16Precision)
recorder.save(Record({"warm": torch.ones(3_000_000)}), sys.argv[1])
tensors = {f"w{i}": torch.randn(5000, 1000) for i in range(9)} | {"transposed": torch.randn(5000, 1000).T}
model = torch.nn.ParameterDict(tensors)
_, save = with_extra_bytes(lambda: recorder.save(Record.from_module(model), sys.argv[1]))
_, load = with_extra_bytes(lambda: recorder.load(sys.argv[1]).load_into(model))
print(json.dumps({"save": save, "load": load}))
"""


def test_save_and_load_of_200_mb_take_less_than_32_mib(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "x")], capture_output=True, text=True, check=True, timeout=HANGS_S
    )
    extra = json.loads(result.stdout)
    assert (tmp_path / "x.safetensors").stat().st_size > 100_000_000
    assert extra["save"] < 32 << 20
    assert extra["load"] < 32 << 20
