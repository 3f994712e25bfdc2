"""Tensors of torchao that hold rounded numbers: what they stand for."""

from torch import Tensor

from ..._torch_compat.dispatch import is_traceable_wrapper_subclass
from .wrappers import is_distributed


def is_quantized(tensor: Tensor) -> bool:
    """Whether it is made of integers and their scales, as those of torchao are."""
    return is_traceable_wrapper_subclass(tensor) and not is_distributed(tensor) and hasattr(tensor, "dequantize")


def division_problem(tensor: Tensor, count: int) -> str:
    """Why torchao can't divide one among so many processes, as `fully_shard` asks it to; empty if it can."""
    try:
        tensor.detach().chunk(count)
    except (NotImplementedError, AssertionError) as error:
        return " ".join(str(error).split())[:120] or type(error).__name__
    return ""


def dequantized(tensor: Tensor) -> Tensor:
    """The plain tensor that one of torchao stands for; any other as it is."""
    if not is_quantized(tensor):
        return tensor
    of_nf4 = getattr(tensor, "get_original_weight", None)  # the `dequantize` of NF4Tensor is for its parts
    return tensor.dequantize() if of_nf4 is None else of_nf4()
