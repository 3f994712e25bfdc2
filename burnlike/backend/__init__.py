"""Backends: where tensors live, their element types, and the tables of functions that every operation goes through."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .autodiff import Autodiff
    from .cpu import Cpu, backend_for
    from .cuda import Cuda
    from .gradients import GradientMap, Gradients, TrackedGradients
    from .protocol import AutodiffBackend, Backend
    from .tables import ActivationOps, BoolOps, FloatOps, IntOps, ModuleOps, map_ops, missing_ops, op_names

__all__ = [
    "ActivationOps",
    "Autodiff",
    "AutodiffBackend",
    "Backend",
    "BoolOps",
    "Cpu",
    "Cuda",
    "FloatOps",
    "GradientMap",
    "Gradients",
    "IntOps",
    "ModuleOps",
    "TrackedGradients",
    "backend_for",
    "map_ops",
    "missing_ops",
    "op_names",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Autodiff": "autodiff",
        **dict.fromkeys(["Cpu", "backend_for"], "cpu"),
        "Cuda": "cuda",
        **dict.fromkeys(["GradientMap", "Gradients", "TrackedGradients"], "gradients"),
        **dict.fromkeys(["AutodiffBackend", "Backend"], "protocol"),
        **dict.fromkeys(
            ["ActivationOps", "BoolOps", "FloatOps", "IntOps", "ModuleOps", "map_ops", "missing_ops", "op_names"],
            "tables",
        ),
    },
)
