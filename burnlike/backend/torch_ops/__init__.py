"""The tables in terms of torch, for any device that torch runs on."""

from .activation import TorchActivationOps
from .kinds import TorchBoolOps, TorchFloatOps, TorchIntOps, TorchModuleOps

__all__ = ["TorchActivationOps", "TorchBoolOps", "TorchFloatOps", "TorchIntOps", "TorchModuleOps"]
