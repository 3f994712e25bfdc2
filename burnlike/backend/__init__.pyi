"""The public names of `burnlike.backend`: each is imported from where it is defined, at its first use."""

from .autodiff import Autodiff as Autodiff
from .gradients import GradientMap as GradientMap, Gradients as Gradients, TrackedGradients as TrackedGradients
from .protocol import AutodiffBackend as AutodiffBackend, Backend as Backend
from .tables import (
    ActivationOps as ActivationOps,
    BoolOps as BoolOps,
    FloatOps as FloatOps,
    IntOps as IntOps,
    ModuleOps as ModuleOps,
    TorchActivationOps as TorchActivationOps,
    TorchBoolOps as TorchBoolOps,
    TorchFloatOps as TorchFloatOps,
    TorchIntOps as TorchIntOps,
    TorchModuleOps as TorchModuleOps,
    map_ops as map_ops,
    missing_ops as missing_ops,
    op_names as op_names,
)
from .torch_backend import Cpu as Cpu, Cuda as Cuda, backend_for as backend_for
