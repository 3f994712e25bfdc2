"""The history of CUDA's memory."""

from pathlib import Path

import pytest
import torch

from burnlike._torch_compat import cuda_memory


def test_memory_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "new" / "memory.pickle"
    for device, wanted in (("cpu", file), ("cuda", None)):
        with cuda_memory.memory_snapshot(torch.device(device), wanted) as found:
            assert found is None
    said: list[str] = []
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **options: said.append(repr(options)))
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", lambda name: Path(name).write_text("history"))
    with cuda_memory.memory_snapshot(torch.device("cuda"), file) as found:
        assert found == file
        assert not file.exists()
    assert file.read_text() == "history"
    assert said == ["{'max_entries': 1000000, 'device': device(type='cuda')}", "{'enabled': None}"]
    monkeypatch.delattr(torch.cuda.memory, "_dump_snapshot")
    with cuda_memory.memory_snapshot(torch.device("cuda"), file) as found:
        assert found is None
