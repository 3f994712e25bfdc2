"""The ops in other libraries, where these are installed: Liger's Triton kernels and Quack's CuTe kernels, on a GPU.

    pip install liger-kernel quack-kernels

As of liger-kernel 0.8.5 and quack-kernels 0.6.5.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

Function = Callable[..., Any]

EPSILON = 1e-5


def _liger() -> Mapping[str, Function]:
    its: Any = import_module("liger_kernel.transformers.functional")
    # Not in place: a gradient that is used again would change from call to call.
    return {
        "rms_norm": lambda x, gamma: its.liger_rms_norm(x, gamma, EPSILON, in_place=False),
        "layer_norm": lambda x, gamma, beta: its.liger_layer_norm(x, gamma, beta, EPSILON),
        "add_rms_norm": lambda x, residual, gamma: its.liger_fused_add_rms_norm(
            x, residual, gamma, EPSILON, in_place=False
        ),
        "swiglu": its.liger_swiglu,
        "softmax": its.liger_softmax,
        "cross_entropy": its.liger_cross_entropy,  # the gradient is made forward, in the logits' place
        "linear_cross_entropy": its.liger_fused_linear_cross_entropy,
    }


def _quack() -> Mapping[str, Function]:
    its: Any = import_module("quack")
    return {
        "rms_norm": lambda x, gamma: its.rmsnorm(x, gamma, eps=EPSILON),
        "add_rms_norm": lambda x, residual, gamma: its.rmsnorm(x, gamma, residual=residual, eps=EPSILON, prenorm=True),
        "softmax": its.softmax,
        "cross_entropy": its.cross_entropy,
    }


_LIBRARIES = {"Liger": ("liger_kernel", _liger), "Quack": ("quack", _quack)}


@cache
def _found() -> dict[str, Mapping[str, Function]]:
    found: dict[str, Mapping[str, Function]] = {}
    for name, (package, functions) in _LIBRARIES.items():
        if find_spec(package) is None:
            print(f"{name} is not installed: not compared with")
            continue
        try:
            found[name] = functions()
        except Exception as error:  # of whatever it needs besides, and of GPUs that it has no kernels for
            print(f"{name} can't be imported: {type(error).__name__}: {error}")
    return found


def rivals(op: str) -> Iterator[tuple[str, Function]]:
    """Each library's name and its function of the same arguments; what is not installed is said once."""
    for name, functions in _found().items():
        if op in functions:
            yield name, functions[op]
