"""Devices: those there are, and clear words for those there are not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from burnlike import Autodiff, Cpu, Cuda, Tensor, nn
from burnlike.backend.torch_backend import find_device
from burnlike.errors import DeviceError
from burnlike.optim import GradientsParams
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


def gradients_to(device: Any) -> GradientsParams:
    module = nn.LinearConfig(d_input=1, d_output=1).init()
    module(torch.ones(1, 1)).sum().backward()
    return GradientsParams.from_module(module).to_device(device, module)


BY_NAME: dict[str, Callable[[Any], Any]] = {
    "a config": lambda device: nn.LinearConfig(d_input=1, d_output=1).init(device),
    "an initializer": lambda device: nn.Initializer.from_yaml("{type: Zeros}").init((2,), device=device),
    "a tensor": lambda device: Tensor.ones((2,), Cpu()).to_device(device),
    "a module": lambda device: nn.LinearConfig(d_input=1, d_output=1).init().to_device(device),
    "gradients": gradients_to,
}


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("device", ["cuda:99", torch.device("cuda", 99), "gpu"], ids=str)
def test_a_device_that_there_is_not_is_a_device_error(name: str, device: Any) -> None:
    message = "expected a device such as cpu" if device == "gpu" else "there is no device 'cuda:99'; this machine has"
    with pytest.raises(DeviceError, match=message):
        BY_NAME[name](device)


BY_BACKEND: dict[str, Callable[[Cuda], Any]] = {
    "ones": lambda backend: Tensor.ones((2,), backend),
    "wrapped": lambda backend: Tensor(torch.ones(2), backend),
    "moved": lambda backend: Tensor.ones((2,), Cpu()).to_device(backend),
    "moved and tracked": lambda backend: Tensor.ones((2,), Cpu()).to_device(Autodiff(backend)),
    "sync": lambda backend: backend.sync(),
    "sync of Autodiff": lambda backend: Autodiff(backend).sync(),
}


@pytest.mark.parametrize("name", BY_BACKEND)
def test_a_backend_of_a_device_that_there_is_not_is_a_device_error(name: str) -> None:
    with pytest.raises(DeviceError, match=r"Cuda\(99, .*: no such device, torch sees \d+ CUDA devices"):
        BY_BACKEND[name](Cuda(99))


@pytest.mark.parametrize("index", [-1, "0", 1.0, None])
def test_a_cuda_device_has_a_number(index: Any) -> None:
    with pytest.raises(DeviceError, match=r"Cuda: expected the number of a device, 0 or more, got "):
        Cuda(index)
