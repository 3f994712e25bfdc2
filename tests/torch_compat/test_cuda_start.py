"""What is done when a process begins to use CUDA."""

import pytest
import torch

from burnlike._torch_compat import cuda_start


def test_when_cuda_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[bool] = []
    queued: list[object] = []
    monkeypatch.setattr(torch.cuda, "_queued_calls", queued)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    cuda_start.when_cuda_starts(lambda: called.append(True))
    assert len(queued) == 1
    assert not called
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    cuda_start.when_cuda_starts(lambda: called.append(True))
    assert called == [True]
