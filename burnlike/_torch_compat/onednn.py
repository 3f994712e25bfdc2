"""oneDNN's product of matrices, which torch has for compiled code; without it, float32 products on CPUs are MKL's.

And whether oneDNN multiplies 16 bits on this machine; where that can't be asked, torch's own products are taken.
"""

import platform
from functools import cache
from pathlib import Path

import torch
from torch import Tensor


def has_product() -> bool:
    """True if this torch has oneDNN's product."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def product(x: Tensor, y: Tensor, bias: Tensor | None) -> Tensor:
    """x @ y.T + bias of two float32 matrices, all of any strides.

    The op reads a bias as if it were contiguous, and fails on matrices whose rows overlap, as those of `unfold` do.
    """
    bias = None if bias is None else bias.contiguous()
    return torch.ops.mkldnn._linear_pointwise(_apart(x), _apart(y), bias, "none", [], "")


def _apart(x: Tensor) -> Tensor:
    """The matrix, or a copy of it where it is not rows, or columns, that lie one behind the other in memory."""
    (rows, columns), (down, right) = x.shape, x.stride()
    is_apart = (right == 1 and down >= columns) or (down == 1 and right >= rows)
    return x if is_apart else x.contiguous()


# Once, as it reads a file.
@cache
def is_faster() -> bool:
    """True if oneDNN multiplies float32 matrices faster than MKL on this machine, by its processor."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkl.is_available():
        return False
    if not has_product():
        return False
    try:
        return "GenuineIntel" not in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def slow_halves() -> frozenset[torch.dtype]:
    """The 16-bit dtypes that torch multiplies by loops of its own on this machine."""
    if platform.machine().lower() not in ("x86_64", "amd64") or not torch.backends.mkldnn.is_available():
        return frozenset()
    asked = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}
    questions = {
        dtype: getattr(torch.ops.mkldnn, name) for dtype, name in asked.items() if hasattr(torch.ops.mkldnn, name)
    }
    return frozenset(dtype for dtype, is_supported in questions.items() if not is_supported())


def has_amx(dtype: torch.dtype) -> bool | None:
    """True if the CPU has AMX for bfloat16 or float16; None where torch can't tell."""
    name = {torch.bfloat16: "amx_bf16", torch.float16: "amx_fp16"}[dtype]
    return getattr(torch.cpu, "get_capabilities", dict)().get(name)
