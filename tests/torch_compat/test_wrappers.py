"""Tensors without memory."""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from burnlike._torch_compat import wrappers


class Asked(Tensor):
    """Answers every function of torch with a text."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return "function"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch.ones(3)


def made() -> Any:
    return wrappers.tensor_without_memory(Asked, (2, 3), (3, 1), torch.bfloat16, torch.device("cpu"))


def test_tensor_without_memory() -> None:
    with wrappers.as_plain():
        tensor = made()
        assert type(tensor) is Asked
        assert (tensor.shape, tensor.stride(), tensor.dtype) == ((2, 3), (3, 1), torch.bfloat16)
        assert torch.tanh(tensor).tolist() == [1.0, 1.0, 1.0]


def test_as_plain() -> None:
    tensor = made()
    assert tensor.dim() == "function"
    with wrappers.as_plain():
        assert tensor.dim() == 2


class Counted(TorchFunctionMode):
    """Counts the functions of torch that are called."""

    calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_without_overrides() -> None:
    tensor, x = made(), torch.ones(2)
    with Counted() as counted:
        x.sin()
        assert counted.calls == 1
        with wrappers.without_overrides():
            assert (x.shape, tensor.dim()) == ((2,), 2)
        assert counted.calls == 1
        x.sin()
    assert counted.calls == 2
