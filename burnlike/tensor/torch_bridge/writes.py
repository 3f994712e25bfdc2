"""Arguments that torch's functions write to, where the function's name does not say so."""

from typing import Any

from ..._torch_compat.dispatch import WRITES_TO_ARGUMENTS
from ...errors import TensorTypeError
from ..core.base import TensorBase
from ..core.spec import title

_SCRATCH = {*WRITES_TO_ARGUMENTS, "fused_moving_avg_obs_fake_quant", "rrelu_with_noise"}


def refuse_writes_by_argument(name: str, functional: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse `out=` and `inplace=`, and typed tensors where torch writes: running statistics, renormalized tables.

    Args:
        name: of torch's function.
        functional: whether it is of `torch.nn.functional`, whose arguments have another order.
        args: its arguments, with typed tensors among them.
        kwargs: its arguments by name.

    Raises:
        TensorTypeError: the call would write into a tensor.
    """
    for key in ("out", "inplace"):
        value = kwargs.get(key)
        if value is not None and value is not False:
            raise TensorTypeError(title(name), f"{key}= writes into a tensor, and a Tensor never changes; leave it out")
    if "batch_norm" in name or "instance_norm" in name:
        first = 1 if functional or name == "batch_norm_update_stats" else 3
        statistics = [*args[first : first + 2], kwargs.get("running_mean"), kwargs.get("running_var")]
        if any(isinstance(value, TensorBase) for value in statistics):
            raise TensorTypeError(title(name), "torch's running statistics are written to; pass torch tensors for them")
    elif functional and name in ("embedding", "embedding_bag") and kwargs.get("max_norm") is not None:
        if any(isinstance(value, TensorBase) for value in (*args[1:2], kwargs.get("weight"))):
            raise TensorTypeError(title(name), "max_norm= writes into the weight; pass a torch tensor for it")
    elif name in _SCRATCH:
        raise TensorTypeError(title(name), f"torch's {name} writes into its arguments; pass torch tensors to it")
