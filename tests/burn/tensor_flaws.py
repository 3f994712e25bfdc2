"""Where Burn 0.22.1 is not to be followed: its own flaws, and the rows of docs/deviations that cases meet."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .tensor_cases import Answer, Case

Flaw = Callable[["Case", "Answer", "Answer"], bool]
FLAWS: dict[str, Flaw] = {
    "integers that overflow panic in a debug build, and wrap in a release": lambda case, ours, theirs: (
        ours.refused is None
        and "with overflow" in (theirs.refused or "")
        and (case.kind == "Int" or case.op in ("t", "transpose"))
    ),
    "argtopk refuses k of the whole dimension": lambda case, ours, theirs: (
        case.op == "argtopk" and "self.shape()[dim] > k" in (theirs.refused or "")
    ),
    "flex has no NearestExact, and grid_sample_2d only bilinear": lambda case, ours, theirs: (
        "unsupported mode NearestExact" in (theirs.refused or "") or "unimplemented" in (theirs.refused or "")
    ),
    "a bound that is NaN counts with gradients off only": lambda case, ours, theirs: (
        case.op.startswith("clamp") and any(isinstance(it, float) and math.isnan(it) for it in case.args)
    ),
    "clamp of crossed bounds panics without gradients": lambda case, ours, theirs: (
        case.op in ("clamp", "activation.hardtanh") and ours.refused is None and "min > max" in (theirs.refused or "")
    ),
    "an Int power with a negative exponent": lambda case, ours, theirs: (
        case.op.startswith("powi") and case.kind == "Int" and _is_negative(case.args[1])
    ),
    "`Tolerance.strict`": lambda case, ours, theirs: "strict" in case.args and case.args[0].dtype is torch.float16,
    "torch's kernel of float32 gives NaN for gelu(inf)": lambda case, ours, theirs: (
        case.op == "activation.gelu" and bool(case.args[0].isinf().any())
    ),
    "tensors without elements make any_dim, all_dim, var, log_softmax and others panic": lambda case, ours, theirs: (
        ours.refused is None and theirs.refused is not None and any(_is_empty(it) for it in case.args)
    ),
    "the gradient of selu at 100 is NaN": lambda case, ours, theirs: (
        case.op == "activation.selu" and case.grad and bool((case.args[0] > 88).any())
    ),
    "powf_scalar of 1e30 and more panics": lambda case, ours, theirs: (
        case.op == "powf_scalar" and abs(case.args[1]) >= 1e30 and theirs.refused is not None
    ),
    "acosh, asinh and gelu_approximate overflow": lambda case, ours, theirs: (
        case.op in ("acosh", "asinh", "activation.gelu_approximate") and bool((case.args[0].abs() > 1e38).any())
    ),
    "gelu_approximate rounds 1 + tanh in 16 bits": lambda case, ours, theirs: (
        case.op == "activation.gelu_approximate"
        and case.args[0].dtype in (torch.float16, torch.bfloat16)
        and bool(
            (ours.outs[0].double() - theirs.outs[0].double()).abs().max()
            <= torch.finfo(case.args[0].dtype).eps * case.args[0].double().abs().max()
        )
    ),
    "conv1d's gradient of weights in groups is wrong where a rest of the input is unused": lambda case, ours, theirs: (
        case.op == "module.conv1d" and case.grad and case.args[3]["groups"] == 2 and case.args[3]["stride"] == [3]
    ),
    "the mean of small integers wraps": lambda case, ours, theirs: (
        case.op.startswith("mean") and case.kind == "Int" and case.args[0].dtype is not torch.int64
    ),
}


def _is_empty(value: object) -> bool:
    return isinstance(value, torch.Tensor) and not value.numel()


def _is_negative(value: object) -> bool:
    return bool((value < 0).any()) if isinstance(value, torch.Tensor) else isinstance(value, int) and value < 0


def flaw_of(case: "Case", ours: "Answer", theirs: "Answer") -> str | None:
    """The name of the flaw or row that explains a difference; None if none does."""
    return next((name for name, is_met in FLAWS.items() if is_met(case, ours, theirs)), None)
