"""The choice of the device."""

import pytest
import torch

from burnlike.errors import DeviceError
from burnlike.train.job.device import choose_device, describe_device


def test_auto_is_cuda_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda", 0)
    assert choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")


def test_a_cuda_device_that_is_not_there_names_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda") == torch.device("cuda", 0)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(DeviceError, match=r"there is no device 'cuda:7'; this machine has cpu, cuda:0, cuda:1"):
        choose_device("cuda:7")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_cuda_the_reason_is_given() -> None:
    with pytest.raises(DeviceError, match="there is no device 'cuda'; this machine has only cpu"):
        choose_device("cuda")


def test_description_counts_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert describe_device(torch.device("cpu")) == "cpu (1 thread)"
    torch.set_num_threads(before)
