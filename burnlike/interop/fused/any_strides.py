"""Code that does the same for tensors of any strides: which modules' own code is known to.

It may call functions of torch from a list, its children, its methods and functions of its package of which the same
holds, and read its settings and the tensors it registered. Code with any other name in it, or that keeps something in
an attribute, is not known.
"""

import builtins
import dis
import types
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .forwards import is_written_in, mark_of, stock_forward
from .reading import methods_of
from .rebinding import codes_of, instructions_of, names_in, uses_of_globals

# Layers of torch that give the same numbers for any strides, and draw none by the place of a value in memory.
_LAYERS = frozenset(
    {
        *(nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm, nn.Linear, nn.Identity),
        *(nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Flatten, nn.Dropout2d),
        *(nn.ReLU, nn.ReLU6, nn.SiLU, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.GELU, nn.Sigmoid, nn.Tanh),
        *(nn.LeakyReLU, nn.ELU, nn.PReLU, nn.Mish, nn.Softmax, nn.Softplus),
        *(nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.ZeroPad2d, nn.Upsample),
    }
)
_OF_TENSORS = """
    shape size dim ndim dtype device requires_grad is_floating_point add add_ sub mul mul_ div div_ neg abs pow square
    sqrt rsqrt exp mean sum amax max cat concat stack unbind chunk split relu relu_ relu6 silu sigmoid sigmoid_
    hardsigmoid hardswish gelu tanh leaky_relu softmax clamp flatten permute transpose contiguous reshape squeeze
    unsqueeze expand narrow roll interpolate pad max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d
    layer_norm batch_norm dropout linear conv2d new_empty bernoulli_ zeros_like empty floor float to type_as clone
    detach matmul
"""
_OF_PYTHON = """
    append extend insert pop items keys values training is_scripting is_tracing jit torch nn functional Tensor tensor
    forward format lower startswith math _modules children named_children warn amp autocast is_autocast_enabled type
    is_autocast_cpu_enabled get_autocast_dtype get_autocast_cpu_dtype get_autocast_gpu_dtype
"""
_BUILTINS = """
    isinstance len range enumerate zip reversed list tuple dict int float bool str sum min max any all getattr hasattr
    RuntimeError ValueError AssertionError NotImplementedError TypeError AttributeError Exception print
"""
FLAGS = ("grad_checkpointing", "memory_efficient", "use_checkpoint")
"""Attributes by which a model computes again in backward, by functions of `_CHECKPOINTS`; see `images.py`."""
_CHECKPOINTS = {"checkpoint_seq", "checkpoint", "call_checkpoint_bottleneck", "cp", "utils", "use_reentrant"}
_HELPERS = {"_assert", "_log_api_usage_once"}
"""Functions of torch and torchvision that compute nothing."""
_TENSOR_NAMES, _BUILTIN_NAMES = frozenset(_OF_TENSORS.split()), frozenset(_BUILTINS.split())
_NAMES = _TENSOR_NAMES | frozenset(_OF_PYTHON.split()) | _CHECKPOINTS | frozenset(FLAGS)
_WRITING = frozenset(name for name in _TENSOR_NAMES if name.endswith("_"))
_COPYING, _MOVING = frozenset({"contiguous", "flatten", "reshape"}), frozenset({"permute", "transpose"})
_OF_STRIDES = frozenset({"view", "view_as", "stride", "as_strided", "data_ptr", "is_contiguous", "data", "numpy"})
_SIMPLE = (bool, int, float, str, type(None), torch.Size, torch.dtype)


def is_known(module: nn.Module) -> bool:
    """True if the module's own code, without that of its children, does not ask how tensors lie in memory."""
    if "forward" in vars(module) or isinstance(module, torch.jit.ScriptModule | torch.fx.GraphModule):
        return False
    owner, stock = stock_forward(type(module))
    # The next layer would write to a copy: of images in channels_last `flatten` makes one, of stock ones a view.
    if owner is nn.Sequential and any(
        type(one) is nn.Flatten and getattr(following, "inplace", False)
        for one, following in pairwise(module.children())
    ):
        return False
    if type(module) in _LAYERS:
        return stock is None or is_written_in(owner, stock)
    if type(module) is nn.Dropout:
        return mark_of(module) is not None  # the op draws in the order of a contiguous tensor
    if owner is nn.Sequential:
        return True
    if stock is None:
        return False
    functions = [stock, *(it for _, it in methods_of(type(module), stock))]
    names = set().union(*map(names_in, functions))
    if not _CHECKPOINTS.isdisjoint(names) and names.isdisjoint(FLAGS):
        return False  # computes again in backward, outside of the part, and no flag says when
    return all(_reads_known(function, module, set()) for function in functions)


def _reads_known(function: types.FunctionType, module: nn.Module | None, seen: set[Any]) -> bool:
    """True if a function names only what is in the lists, and attributes of the module that are no tensors' own."""
    if function in seen:
        return True
    seen.add(function)
    instructions = (it.opname for code in codes_of(function.__code__) for it in instructions_of(code))
    # A tensor that is kept is seen by code outside of the part, which may ask for its strides.
    if hasattr(function, "__wrapped__") or any(it in ("STORE_ATTR", "STORE_GLOBAL") for it in instructions):
        return False
    if _depends_on_strides(function, module):
        return False
    uses = uses_of_globals(function.__code__)
    constants = {const for code in codes_of(function.__code__) for const in code.co_consts if isinstance(const, str)}
    if not constants.isdisjoint(_OF_STRIDES) or not all(_is_known_global(function, name, seen) for name in uses):
        return False
    return all(name in _NAMES or _is_own(module, name) for name in names_in(function) - uses.keys())


def _depends_on_strides(function: types.FunctionType, module: nn.Module | None) -> bool:
    """True if code writes to what is a view or a copy by its strides, or draws for rows of another order in memory."""
    for code in codes_of(function.__code__):
        instructions = instructions_of(code)
        copies = moves = draws = writes = in_place = is_new = False
        # Twice where there is a loop, whose end comes before its begin.
        for step in instructions * (1 + any("BACKWARD" in it.opname for it in instructions)):
            name = step.argval if step.opname in ("LOAD_METHOD", "LOAD_ATTR", "LOAD_GLOBAL") else ""
            child = None if module is None else module._modules.get(name)
            copies |= name in _COPYING or type(child) is nn.Flatten
            moves |= name in _MOVING
            draws |= name == "dropout" or (type(child) is nn.Dropout and child.p > 0)
            is_new |= type(child) in (nn.Conv2d, nn.Linear)  # `F.relu(self.linear(x), inplace=True)`
            writes |= name in _WRITING or step.opname == "STORE_SUBSCR"
            writes |= step.opname == "BINARY_OP" and step.argrepr.endswith("=")
            in_place |= bool(getattr(child, "inplace", False)) or "inplace" in _keywords(code, step)
            if step.opname.startswith(("STORE_", "POP_", "RETURN_")):  # the end of a statement
                if copies and (writes or (in_place and not is_new)):
                    return True
                writes = in_place = is_new = False
        if moves and draws:
            return True
    return False


def _keywords(code: types.CodeType, instruction: dis.Instruction) -> tuple[Any, ...]:
    """The names of a call's keywords, where the instruction has them."""
    names = code.co_consts[instruction.arg or 0] if instruction.opname == "KW_NAMES" else instruction.argval
    return names if isinstance(names, tuple) else ()


def _is_known_global(function: types.FunctionType, name: str, seen: set[Any]) -> bool:
    if name not in function.__globals__:
        return name in _BUILTIN_NAMES or not hasattr(builtins, name)  # the latter is an error, if the code gets there
    value = function.__globals__[name]
    if (
        any(value is it for it in (torch, nn, F))
        or isinstance(value, _SIMPLE)
        or name in _CHECKPOINTS
        or name in _HELPERS
    ):
        return True
    if isinstance(value, types.ModuleType):
        return value.__name__ in ("math", "warnings")
    if isinstance(value, type):
        return value is Tensor or issubclass(value, nn.Module | tuple)
    if getattr(value, "__name__", "") in _TENSOR_NAMES and getattr(value, "__module__", "").startswith("torch."):
        return not isinstance(value, types.FunctionType) or value.__globals__ in (vars(torch), vars(F))
    return isinstance(value, types.FunctionType) and _reads_known(value, None, seen)


def _is_own(module: nn.Module | None, name: str) -> bool:
    """True for a child, a tensor, a method or a setting of the module; its functions are read by themselves."""
    if module is None:
        return False
    if name in module._modules or name in module._parameters or name in module._buffers:
        return True
    missing = object()
    value = vars(module).get(name, getattr(type(module), name, missing))
    if isinstance(value, tuple | list | set):
        return len(value) > 0 and all(isinstance(it, _SIMPLE) for it in value)  # an empty one may collect tensors
    is_method = isinstance(value, types.FunctionType) and name not in vars(module) and not hasattr(nn.Module, name)
    return is_method or isinstance(value, _SIMPLE)
