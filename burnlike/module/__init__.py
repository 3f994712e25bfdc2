"""Modules and the identity of their parameters, over any `torch.nn.Module`."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .constants import constant
    from .containers import ModuleArray, ModuleTuple, ModuleVec
    from .display_settings import DisplaySettings
    from .displaying import Content, display
    from .held import ModuleContainer
    from .lazy import LazyParameter
    from .lora import Lora, apply_lora
    from .lora_config import LoraConfig
    from .mapping import ModuleMapper, map, map_
    from .modes import freeze, no_grad, train, unfreeze, valid
    from .module import Module
    from .moving import clone, devices, fork, initialize, num_params, to_device
    from .named_containers import ModuleDict, ModuleEnum
    from .param import Param
    from .param_group import ParamGroup
    from .param_id import ParamId, seed_param_ids
    from .param_matchers import ParamMatcher
    from .ranks import agree_ids
    from .registry import fresh_ids, params
    from .reparameterization import Reparameterization, apply_reparameterization, materialize
    from .slots import Kind
    from .visiting import ModuleVisitor, param_at, visit
    from .weight_norm import WeightNorm

__all__ = [
    "Content",
    "DisplaySettings",
    "Kind",
    "LazyParameter",
    "Lora",
    "LoraConfig",
    "Module",
    "ModuleArray",
    "ModuleContainer",
    "ModuleDict",
    "ModuleEnum",
    "ModuleMapper",
    "ModuleTuple",
    "ModuleVec",
    "ModuleVisitor",
    "Param",
    "ParamGroup",
    "ParamId",
    "ParamMatcher",
    "Reparameterization",
    "WeightNorm",
    "agree_ids",
    "apply_lora",
    "apply_reparameterization",
    "clone",
    "constant",
    "devices",
    "display",
    "fork",
    "freeze",
    "fresh_ids",
    "initialize",
    "map",
    "map_",
    "materialize",
    "no_grad",
    "num_params",
    "param_at",
    "params",
    "seed_param_ids",
    "to_device",
    "train",
    "unfreeze",
    "valid",
    "visit",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "constant": "constants",
        **dict.fromkeys(["ModuleArray", "ModuleTuple", "ModuleVec"], "containers"),
        "DisplaySettings": "display_settings",
        **dict.fromkeys(["Content", "display"], "displaying"),
        "ModuleContainer": "held",
        "LazyParameter": "lazy",
        **dict.fromkeys(["Lora", "apply_lora"], "lora"),
        "LoraConfig": "lora_config",
        **dict.fromkeys(["ModuleMapper", "map", "map_"], "mapping"),
        **dict.fromkeys(["freeze", "no_grad", "train", "unfreeze", "valid"], "modes"),
        "Module": "module",
        **dict.fromkeys(["clone", "devices", "fork", "initialize", "num_params", "to_device"], "moving"),
        **dict.fromkeys(["ModuleDict", "ModuleEnum"], "named_containers"),
        "Param": "param",
        "ParamGroup": "param_group",
        "ParamMatcher": "param_matchers",
        **dict.fromkeys(["ParamId", "seed_param_ids"], "param_id"),
        "agree_ids": "ranks",
        **dict.fromkeys(["fresh_ids", "params"], "registry"),
        **dict.fromkeys(["Reparameterization", "apply_reparameterization", "materialize"], "reparameterization"),
        "Kind": "slots",
        **dict.fromkeys(["ModuleVisitor", "param_at", "visit"], "visiting"),
        "WeightNorm": "weight_norm",
    },
)
