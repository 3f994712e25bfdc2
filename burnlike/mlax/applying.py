"""Calls a module as a pure function, which returns its new state."""

import inspect
from typing import Any, TypeVar

import torch
from torch import nn

from .._torch_compat.dispatch import assume_constant
from ..errors import ArgumentError
from .guards import refuse_holes
from .static_part import own_containers, view

M = TypeVar("M", bound=nn.Module)


def apply(module: M, x: Any, rng: Any = None, inference_mode: bool | None = None) -> tuple[Any, M]:
    """Compute `module(x)` on a view of it with a state of its own: `(y, view)`; `module` is as it was.

    The view shares the weights, and has its own buffers, hyperparameters (lists, dicts and sets are copied) and
    submodules to assign to. `forward` may return `y`, or MLAX's pair `(y, self)`. Of wrappers (DDP, torch.compile) the
    inner module is called.

    Args:
        rng: a Key, a `torch.Generator`, or None; passed on if `forward` has an argument of this name.
        inference_mode: passed on if `forward` has an argument of this name, and what `training` says is the opposite
            during the call, in the whole tree; None is `not module.training`.

    Raises:
        ArgumentError: `forward` needs a key and gets none.
        TypeError: `forward` returned a pair with another module than `self`.
    """
    copies = view(module, torch.clone)
    new: Any = copies.root
    refuse_holes(new)
    own_containers(copies.parts)
    mode = not new.training if inference_mode is None else inference_mode
    options = call_options(new, rng, mode)
    changed = set_mode(new, inference_mode)
    output, updated = unpaired(new(x, **options), new)
    # Not in a `finally`: nobody gets the view after an error.
    restore_mode(changed, inference_mode)
    if updated is not new:
        raise TypeError(
            f"{type(new).__name__}.forward returned a pair with another {type(updated).__name__}, expected (y, self):"
            " forward must return the updated self"
        )
    return output, new


def set_mode(module: nn.Module, inference_mode: bool | None) -> list[nn.Module]:
    """Let the whole tree have the mode that a call is given; returns the modules that had the other one."""
    if inference_mode is None:
        return []
    changed = [module] if module.training is inference_mode else []
    if changed:
        module.__dict__["training"] = not inference_mode
    for child in module._modules.values():
        if child is not None:
            changed += set_mode(child, inference_mode)
    return changed


def restore_mode(changed: list[nn.Module], inference_mode: bool | None) -> None:
    for module in changed:
        module.__dict__["training"] = bool(inference_mode)


def call_options(module: nn.Module, rng: Any, inference_mode: bool, where: str = "") -> dict[str, Any]:
    """The options of `rng` and `inference_mode` that `module` takes; `where` begins the error of a missing key."""
    named, needs_rng = forward_arguments(module)
    if needs_rng and rng is None:
        raise ArgumentError(f"{where}{type(module).__name__} needs a key, got None: give rng=burnlike.mlax.Key(seed)")
    options = {"rng": rng, "inference_mode": inference_mode}
    return {name: options[name] for name in named}


def unpaired(output: Any, module: nn.Module) -> tuple[Any, nn.Module]:
    """The result of a forward and the updated module: from MLAX's pair, or the module that was called."""
    if type(output) is tuple and len(output) == 2 and isinstance(output[1], nn.Module):
        return output
    return output, module


def forward_arguments(module: nn.Module) -> tuple[tuple[str, ...], bool]:
    """The names of `rng` and `inference_mode` that the forward of `module` takes, and True if the key is required.

    It can't if `rng` has no default, or another one than None.
    """
    return getattr(type(module), "_forward_arguments", None) or arguments_of(type(module))


# Compiled code reads a class's `forward` from its dict, where `fuse` puts a descriptor that has no signature.
@assume_constant
def arguments_of(cls: type[nn.Module]) -> tuple[tuple[str, ...], bool]:
    """As `forward_arguments`, of the modules of a class.

    What counts is its `__call__`, in MLAX's form, or its `forward`, which torch's `__call__` hands everything to.
    """
    parameters = inspect.signature(cls.__call__).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        parameters = {**inspect.signature(cls.forward).parameters, **parameters}
    named = tuple(name for name in ("rng", "inference_mode") if name in parameters)
    return named, "rng" in named and parameters["rng"].default is not None
