"""What is a backend to a type checker: any object with the members, and tables with all functions."""

from collections.abc import Callable
from typing import Any, assert_type

import torch

from burnlike import D2, Autodiff, AutodiffBackend, Backend, Cpu, Cuda, Float, Int, Tensor
from burnlike.backend import (
    BoolOps,
    FloatOps,
    IntOps,
    ModuleOps,
    TorchBoolOps,
    TorchFloatOps,
    TorchIntOps,
    TorchModuleOps,
    map_ops,
)
from examples.recording_backend import Recording


class MyFloatOps(TorchFloatOps):
    """Torch's functions but one."""

    @staticmethod
    def exp(tensor: torch.Tensor, /) -> torch.Tensor:
        """e^x."""
        return torch.exp2(tensor * 1.4426950408889634)


def same(_name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return function


own: FloatOps = MyFloatOps()
tables: tuple[FloatOps, IntOps, BoolOps, ModuleOps] = (
    TorchFloatOps(),
    TorchIntOps(),
    TorchBoolOps(),
    TorchModuleOps(),
)
backends: list[Backend] = [Cpu(), Cuda(), Autodiff(Cpu()), Recording(Cpu()), Autodiff(Recording(Cpu()))]
tracking: list[AutodiffBackend] = [Autodiff(Cpu()), Autodiff(Recording(Cpu()))]

assert_type(map_ops(Cpu().float_ops, same), FloatOps)
assert_type(Autodiff(Recording(Cpu())).inner_backend, Recording)
assert_type(Tensor.zeros((2, 3), Recording(Cpu()), kind=Int), Tensor[Recording, D2, Int])
assert_type(Tensor.zeros((2, 3), Autodiff(Recording(Cpu()))), Tensor[Autodiff[Recording], D2, Float])
assert_type(Cpu().full_precision(), Cpu)
