"""Exchanges of tensors between processes that gradients flow back through, and that compiled code has.

torch has no public name for them; the public `torch.distributed.nn` is neither compiled nor fast. Without these names,
context and expert parallelism raise an ImportError.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def gathered(part: Tensor, group: Any) -> Tensor:
    """`[own, ...]` of all processes one after the other; the gradient is the sum of what each has for its part."""
    from torch.distributed import _functional_collectives as functional

    named: Any = functional
    # torch 2.13 gave it another name.
    gather = getattr(named, "all_gather_single_autograd", None) or named.all_gather_tensor_autograd
    return _done(gather(part.contiguous(), 0, group))


def exchanged(rows: Tensor, received: Sequence[int], sent: Sequence[int], group: Any) -> Tensor:
    """The rows that the processes of a group have sent to this one, one process after the other.

    `sent` are the numbers of rows that go to each, in the order of `rows`, `received` those that come from each.
    Gradients take the way back.
    """
    from torch.distributed._functional_collectives import all_to_all_single_autograd

    return _done(all_to_all_single_autograd(rows.contiguous(), [*received], [*sent], group))


def _done(tensor: Tensor) -> Tensor:
    from torch.distributed._functional_collectives import AsyncCollectiveTensor

    return tensor.wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor
