"""Attributes of an `nn.Module` beside its parameters, and where tools of torch move them."""

import re
from typing import Any

from torch import _VF as recurrent_kernels, nn
from torch.nn.modules.module import (
    _global_buffer_registration_hooks as buffer_registration_hooks,
    _has_any_global_hook as has_global_hooks,
)

__all__ = ["buffer_registration_hooks", "has_global_hooks", "recurrent_kernels"]
# The namespace by which `nn.LSTM` calls `torch.lstm`. Without it, `fuse` would leave `nn.LSTM` as it is.
# Functions that a program has torch call when a buffer is registered. While there are none, a tensor is put into the
# dict of buffers directly; without it, each assignment to a buffer would take the time of `nn.Module.__setattr__`.
# Whether there are hooks for the calls of all modules. Without it, such hooks would miss the activation of a fused MLP.

BUFFER_MARK = "_is_buffer"
"""The attribute of an `nn.Buffer`; `isinstance(tensor, nn.Buffer)` asks for it too, and takes half a microsecond more.

Without it, an `nn.Buffer` that is assigned to a plain attribute would be a plain attribute.
"""

STATE_METADATA = "_metadata"
"""What a state dict notes of the versions of its modules; `load_state_dict` hands it to them.

Without it, modules read what older versions of themselves saved as if it were new.
"""

HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
"""Where a module keeps its hooks: dicts of number -> function.

Without them, hooks of a copied tree would work on the original.
"""

HOOK_FLAGS = ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")
"""Which of the hooks take keyword arguments, or run after errors too: dicts of number -> True; as `HOOKS`."""

LOAD_HOOKS = ("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")
"""The hooks that a load runs; those of torch.distributed are taken out while code of a module loads.

Without them, values would be divided among ranks twice.
"""

STATE_HOOKS = ("_state_dict_pre_hooks", "_state_dict_hooks", *LOAD_HOOKS)
"""The hooks that `state_dict` and `load_state_dict` run.

Without them, every module's `state_dict` would have to be called to know whether it saves more than its tensors.
"""

CALL_HOOKS = HOOKS[:4]
"""The hooks that a call of the module runs.

Without them, a layer that computes with the parts of an adapter would pass over those that want to see its sum.
"""

FORWARD_PRE_HOOKS = "_forward_pre_hooks"
"""As `HOOKS`; tools of torch that replace a tensor before each call have a hook there."""

TOOLS = ("torch.distributed.", "torch._dynamo.")
"""Where hooks of torch come from that change where tensors lie, and not which there are.

Without them, each module under `fully_shard` would count as one that saves more than its tensors.
"""

COMPILED_CALL = "_compiled_call_impl"
"""What `module.compile()` puts there. Without it, a copied module would compute with the original's tensors."""

WRAPPERS = {
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper": "_checkpoint_wrapped_module",
}
"""Wrapper class -> the attribute that holds the wrapped module. Named, not imported: most programs load none of them.

Without it, paths would have the wrapper's name in them, and records of a compiled model would not fit the plain one.
"""

WRAPPED = tuple(dict.fromkeys(WRAPPERS.values()))
"""The attributes of `WRAPPERS`, each once."""

INFIX = re.compile(r"(?<![^.])(?:_orig_mod|_checkpoint_wrapped_module)\.")
"""What these wrappers put into the names of state dicts; "module." may as well be the program's own."""

RNN_NOTES = frozenset({"_flat_weights", "_flat_weight_refs"})
"""What a recurrent layer keeps of its parameters a second time: no fields of its own."""


def has_call_hooks(module: nn.Module) -> bool:
    """True if a call of the module runs hooks, its own or those of all modules."""
    return bool(has_global_hooks()) or any(map(module.__dict__.get, CALL_HOOKS))


def function_of(hook: Any) -> Any:
    """The function of a hook, which torch puts into an object where it is given the module; else the hook itself.

    Without it, nothing would be known of the hooks that `register_load_state_dict_pre_hook` makes.
    """
    return hook.hook if hasattr(hook, "with_module") else hook


def with_function(hook: Any, function: Any, module: nn.Module) -> Any:
    """A hook of `module` as `hook` is one, with another function; as `HOOKS`."""
    if not hasattr(hook, "with_module"):
        return function
    return type(hook)(function, module if hook.with_module else None)


def refresh_rnn(layer: nn.RNNBase) -> None:
    """Let a recurrent layer compute with the tensors it has now; without it, it goes on with those it had.

    `setattr(layer, name, parameter)` does it too, but not for the plain tensors of `torch.func`.
    """
    layer.__dict__["_flat_weights"] = [layer._parameters.get(name) for name in layer._flat_weights_names]


def moved_names(module: nn.Module) -> dict[str, str]:
    """Name of a tensor -> the name it had before a hook of torch took it over (pruning, the older norms).

    Without it, a pruned parameter would have another path and another id.
    """
    names: dict[str, str] = {}
    for hook in module._forward_pre_hooks.values():
        if (cls := type(hook)).__module__.startswith("torch.nn.utils"):
            name: Any = getattr(hook, "_tensor_name", None) or getattr(hook, "name", None)
            if isinstance(name, str):
                names[f"{name}_v" if cls.__name__ == "WeightNorm" else f"{name}_orig"] = name
    return names


def is_compiled(module: Any) -> bool:
    """True if calls of a module run through `torch.compile`, which wrapped it or its calls."""
    return type(module).__name__ == "OptimizedModule" or vars(module).get(COMPILED_CALL) is not None


_CONVOLUTION_CODE = {(it.forward, it._conv_forward) for it in (nn.Conv1d, nn.Conv2d, nn.Conv3d)}


def is_stock_convolution(module: nn.Module) -> bool:
    """True if a layer computes as torch's convolutions do: by their forward, and by what this calls."""
    return (type(module).forward, getattr(type(module), "_conv_forward", None)) in _CONVOLUTION_CODE
