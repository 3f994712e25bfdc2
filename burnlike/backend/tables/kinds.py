"""The tables of the three kinds."""

from typing import Protocol

from torch import Tensor

from .basic import BasicOps
from .ordered import OrderedOps
from .stats import StatsOps


class FloatOps(OrderedOps, StatsOps, Protocol):
    """Functions of Float tensors."""

    @staticmethod
    def detach(tensor: Tensor, /) -> Tensor:
        """The same values and storage without their history."""
        ...

    @staticmethod
    def exp(tensor: Tensor, /) -> Tensor:
        """e^x."""
        ...


class IntOps(OrderedOps, Protocol):
    """Functions of Int tensors."""


class BoolOps(BasicOps, Protocol):
    """Functions of Bool tensors."""
