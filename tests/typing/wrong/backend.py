"""A table without one of its functions, and a backend without one of its members."""

from typing import Self

import torch

from burnlike import Backend, Tensor
from burnlike.backend import ActivationOps, BoolOps, Cpu, FloatOps, IntOps, ModuleOps, TorchFloatOps, TorchIntOps


class OnlyExp:
    """A table of one function."""

    @staticmethod
    def exp(tensor: torch.Tensor, /) -> torch.Tensor:
        """e^x."""
        return torch.exp(tensor)


class IntOnly(TorchIntOps):
    """All functions of Int tensors, but not those that only Float tensors have."""


class OtherSignature(TorchFloatOps):
    """All functions, one of them with an argument more."""

    @staticmethod
    def exp(tensor: torch.Tensor, base: float, /) -> torch.Tensor:
        """base^x."""
        return torch.pow(base, tensor)


class WithoutInt:
    """A backend that has all members but `int_ops`."""

    device: torch.device = torch.device("cpu")
    float_dtype: torch.dtype = torch.float32
    int_dtype: torch.dtype = torch.int64
    name: str = "without int"
    ad_enabled: bool = False
    float_ops: FloatOps = Cpu().float_ops
    bool_ops: BoolOps = Cpu().bool_ops
    module_ops: ModuleOps = Cpu().module_ops
    activation_ops: ActivationOps = Cpu().activation_ops

    def seed(self, seed: int) -> None:
        """Nothing to seed."""

    def sync(self) -> None:
        """Nothing to wait for."""

    def full_precision(self) -> Self:
        """The same."""
        return self


class Complete(WithoutInt):
    """With the member that lacked."""

    int_ops: IntOps = Cpu().int_ops


table: FloatOps = OnlyExp()  # error
int_table: IntOps = IntOnly()
float_table: FloatOps = IntOnly()  # error
own_table: FloatOps = OtherSignature()  # error
backend: Backend = WithoutInt()  # error
Tensor.zeros((2, 3), WithoutInt())  # error
Tensor.zeros((2, 3), Complete())
