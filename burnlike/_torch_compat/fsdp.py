"""The parameters of modules under `fully_shard` (FSDP2): their sharded ones, at all times.

From a forward pass until torch reshards, `module.weight` is a gathered copy of the parameter, a plain tensor that is
dropped afterwards. Gradients, optimizers' states and saved values belong to the sharded parameter. So whatever reads a
parameter of a module reads it through this file, and whatever changes parameters calls `reshard`, so that the next
forward pass gathers them anew.

torch has no public way from the gathered copy to the sharded parameter. Without these names, reading a module under
`fully_shard` raises.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ModuleTreeError
from .dispatch import assume_constant

MANAGED = "_is_fsdp_managed_module"
"""What torch sets on the modules whose own parameters are sharded; without it, a module holds what it shows."""

_STATES = "torch.distributed.fsdp._fully_shard._fsdp_state"
"""The module of torch that `fully_shard` imports: nothing is sharded before."""
_BETWEEN_PASSES = ("IDLE", "POST_BACKWARD")
_FOUND = "_burnlike_sharded"


@assume_constant  # the compiler would walk all of sys.modules, and fails where a thread imports meanwhile
def distributed_type() -> Any:
    """The class of DTensors; None where there can be none yet, as its import is slow."""
    return getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)


def is_distributed(tensor: Tensor) -> bool:
    """True for a DTensor, of which each rank has a part."""
    dtensor = distributed_type()
    return dtensor is not None and isinstance(tensor, dtensor)


class _Found(dict[str, Any]):
    """Attribute of a module -> torch's FSDPParam of it, kept on the module. Copies and pickles start without."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def sharded(module: nn.Module, name: str, shown: Tensor) -> Tensor:
    """The sharded parameter where `shown`, which is `module.name`, is a gathered copy of it; else `shown`."""
    if MANAGED not in module.__dict__:
        return shown
    param = _fsdp_param(module, name)
    return param.sharded_param if param is not None and any(copy is shown for copy in _copies(param)) else shown


def sharded_forms() -> dict[int, Tensor]:
    """The address of each gathered copy that a module of this process shows now -> the sharded parameter."""
    forms: dict[int, Tensor] = {}
    for group in _groups():
        if not group.is_sharded:
            forms |= {id(copy): param.sharded_param for param in group.fsdp_params for copy in _copies(param)}
    return forms


def sharded_form(tensor: Tensor) -> Tensor:
    """The sharded parameter where `tensor` is a gathered copy that a module shows now; else `tensor`."""
    return sharded_forms().get(id(tensor), tensor)


def copies_and_sharded() -> Iterator[tuple[Tensor, Tensor]]:
    """Each gathered copy that there is, shown or not, with its sharded parameter."""
    for group in _groups():
        for param in group.fsdp_params:
            for copy in _copies(param):
                yield copy, param.sharded_param


def is_managed(module: nn.Module) -> bool:
    """True if parameters of `module` itself are sharded by `fully_shard`."""
    return MANAGED in module.__dict__ and any(_fsdp_param(module, name) is not None for name in module._parameters)


def reshard(changed: Iterable[Tensor]) -> None:
    """Drop the gathered copies of sharded parameters that are about to be changed, so that none goes on without that.

    It sends nothing to other ranks; the next forward pass gathers the parameters on each, so all ranks call it.

    Raises:
        ModuleTreeError: a forward or backward pass goes on.
    """
    gathered = [group for group in _groups() if not group.is_sharded]
    if not gathered:
        return
    addresses = set(map(id, changed))
    for group in gathered:
        if not any(id(param.sharded_param) in addresses for param in group.fsdp_params):
            continue
        if group._training_state.name not in _BETWEEN_PASSES:
            raise ModuleTreeError(
                f"parameters of {type(group.modules[0]).__name__}, sharded by fully_shard, can't be changed during its"
                " forward or backward pass; change them afterwards. Where an exception ended the pass, call"
                " reset_iter_state() of the outermost sharded module first"
            )
        group.reshard()


def take_over(module: nn.Module, name: str) -> None:
    """Let `fully_shard` know of another tensor in place of a sharded parameter, as `load_state_dict` does."""
    if MANAGED in module.__dict__ and (param := _fsdp_param(module, name)) is not None:
        param.reset_sharded_param()


def _copies(param: Any) -> list[Tensor]:
    # Neither attribute is there before the first pass; the second only where reshard_after_forward is a number.
    copies = getattr(param, "_unsharded_param", None), getattr(param, "_sharded_post_forward_param", None)
    return [copy for copy in copies if copy is not None]


def _fsdp_param(module: nn.Module, name: str) -> Any:
    """Torch's FSDPParam of `module.name`; None where it is not sharded."""
    param_by_name = module.__dict__.get(_FOUND)
    if param_by_name is None or name not in param_by_name:
        if _STATES in sys.modules and _names() is None:
            raise ModuleTreeError(
                f"torch {torch.__version__} keeps the parameters of fully_shard in a way that burnlike does not know;"
                " use a version of torch that burnlike was tried with"
            )
        # For all modules at once: to look for each by itself takes time that grows with the square of their number.
        for group in _groups():
            for param in group.fsdp_params:
                info = param._module_info
                tied = zip(info.shared_modules, info.shared_param_names, strict=True)
                for holder, its_name in ((info.module, info.param_name), *tied):
                    holder.__dict__.setdefault(_FOUND, _Found())[its_name] = param
        param_by_name = module.__dict__.get(_FOUND) or {}
    return param_by_name.get(name)


def _groups() -> list[Any]:
    """The groups of parameters (torch's FSDPParamGroup) that are gathered together."""
    # Asked at each step, and in most processes torch keeps no state of a module: that must cost little.
    if not getattr(sys.modules.get("torch.distributed._composable_state"), "_module_state_mapping", ()):
        return []
    states = _names() if _STATES in sys.modules else None
    if states is None:
        return []
    mapping, state_type = states
    param_groups: list[Any] = []
    for reference in list(mapping.values()):
        state = reference()
        if isinstance(state, state_type):
            # Before torch 2.12 a state had one group.
            groups = getattr(state, "_fsdp_param_groups", None)
            param_groups += [state._fsdp_param_group] if groups is None and state._fsdp_param_group else groups or ()
    return param_groups


def _names() -> tuple[Any, type] | None:
    """Module -> reference to its state, and the class of FSDP2's states; None where torch has them no more."""
    try:
        from torch.distributed._composable_state import _module_state_mapping

        return _module_state_mapping, sys.modules[_STATES].FSDPState
    except (ImportError, AttributeError):
        return None
