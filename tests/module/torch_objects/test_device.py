"""Devices: those there are, and clear words for those there are not."""

import pytest
import torch

from burnlike import nn
from burnlike.errors import DeviceError
from burnlike.module.torch_objects.device import find_device
from burnlike.record import Record, init_from


def test_devices_that_there_are() -> None:
    assert find_device(None) == torch.get_default_device()
    assert find_device("cpu") == torch.device("cpu")
    assert find_device(torch.device("meta")).type == "meta"


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda:99", "there is no device 'cuda:99'; this machine has"),
        ("mps", "burnlike runs on cpu and cuda, not on 'mps'; this machine has"),
        ("gpu", "expected a device such as cpu, cuda or cuda:0, got 'gpu'"),
    ],
)
def test_others_are_named_before_anything_is_read(device: str, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        find_device(device)
    with pytest.raises(DeviceError, match=message):
        init_from(nn.LinearConfig(d_input=1, d_output=1), "missing.safetensors", device=device)
    module = nn.LinearConfig(d_input=1, d_output=1).init()
    with pytest.raises(DeviceError, match=message):
        Record.from_module(module).load_into(module, device=device)
