"""Modules and the identity of their parameters, over any `torch.nn.Module`."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .device import find_device
    from .module import Module
    from .param import Kind, Param
    from .param_id import ParamId, seed_param_ids
    from .registry import fresh_ids, params, visit, weights

__all__ = [
    "Kind",
    "Module",
    "Param",
    "ParamId",
    "find_device",
    "fresh_ids",
    "params",
    "seed_param_ids",
    "visit",
    "weights",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "find_device": "device",
        "Module": "module",
        **dict.fromkeys(["Kind", "Param"], "param"),
        **dict.fromkeys(["ParamId", "seed_param_ids"], "param_id"),
        **dict.fromkeys(["fresh_ids", "params", "visit", "weights"], "registry"),
    },
)
