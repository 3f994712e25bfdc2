"""GradientsAccumulator: the gradients of several micro-batches as those of one batch."""

import math

import torch
from torch import Tensor, nn

from ..._torch_compat import foreach
from ...errors import ArgumentError
from ...module import Param, ParamId
from ...module.tree.walk import weights
from ..core.gradient_transform import computing_dtype
from .gradients import GradientsParams, check_gradient


class GradientsAccumulator:
    """Adds gradients up, in place; those of float16 and bfloat16 in float32, rounded once at the end.

    Without `items` the result is the sum, as in Burn. With them it is what one batch of all the items would have given,
    where each loss is a mean over its own items (tokens, images): sum(items_i * gradient_i) / sum(items_i). A parameter
    without gradient in some micro-batch counts as 0 there.

    Example:
        >>> import torch
        >>> from burnlike.optim import GradientsParams
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> accumulator = GradientsAccumulator()
        >>> for batch in (torch.ones(3, 2), torch.zeros(1, 2)):
        ...     model(batch).mean().backward()
        ...     accumulator.accumulate(model, GradientsParams.from_module(model), items=len(batch))
        >>> accumulator.grads().values
        [tensor([[0.7500, 0.7500]])]
    """

    def __init__(self) -> None:
        self._sums: dict[ParamId, tuple[Param, Tensor]] = {}
        self._dtypes: dict[ParamId, torch.dtype] = {}
        self._first: float | None = None  # items of the first micro-batch
        self._weight = 0.0
        self._count = 0

    def __len__(self) -> int:
        """The number of micro-batches since the last `grads`."""
        return self._count

    @torch.no_grad()
    def accumulate(self, module: nn.Module, grads: GradientsParams, items: float | None = None) -> None:
        """Add the gradients of the parameters of `module`.

        Args:
            module: that was differentiated; gradients of parameters that it does not have are left out.
            grads: of one micro-batch; not changed.
            items: how many items its loss is a mean of. 0 adds nothing, whatever the gradients are: the mean of no
                items is NaN.

        Raises:
            ArgumentError: `items` is negative or not finite, or was given for some micro-batches only.
            ShapeError, DTypeError, DeviceError: a gradient does not fit its parameter; nothing was added.
        """
        self._check_items(items)
        if items == 0:
            self._count += 1
            return
        own = weights(module)
        if grads.params is own:  # as from_module gives them where each parameter has one
            some = list(grads)
        else:
            some = [(param, grad) for param in own if (grad := grads.get(param)) is not None]
        for param, grad in some:
            check_gradient(param, param.tensor, grad, "; it was not added")
        if items is not None and self._first is None:
            self._first = items
        # Relative to the first, so that equal micro-batches are added as they are, and large counts don't overflow.
        weight = 1.0 if items is None or self._first is None else items / self._first
        self._count += 1
        self._weight += weight
        for param, grad in some:
            if param.id not in self._sums:
                self._dtypes[param.id] = grad.dtype
                self._sums[param.id] = param, torch.zeros_like(grad, dtype=computing_dtype(grad.dtype))
        if some:
            sums = [self._sums[param.id][1] for param, _ in some]
            foreach.add_(
                sums, [_in(total.dtype, grad) for (_, grad), total in zip(some, sums, strict=True)], alpha=weight
            )

    @torch.no_grad()
    def grads(self) -> GradientsParams:
        """The accumulated gradients in the dtypes of the parameters; empties the accumulator."""
        sums = [total for _, total in self._sums.values()]
        if sums and self._first is not None and self._weight != 1.0:
            foreach.div_(sums, self._weight)
        found = GradientsParams.of(
            (param, _in(self._dtypes[param_id], total)) for param_id, (param, total) in self._sums.items()
        )
        self.reset()
        return found

    def reset(self) -> None:
        self._sums, self._dtypes = {}, {}
        self._first, self._weight, self._count = None, 0.0, 0

    def _check_items(self, items: float | None) -> None:
        if items is not None and not (math.isfinite(items) and items >= 0):
            raise ArgumentError(f"items: expected how many items the loss is a mean of, at least 0; got {items}")
        weighted = self._first is not None
        # What has items 0 alone says nothing about the others.
        if self._weight and weighted != (items is not None):
            given, now = ("with", "without") if weighted else ("without", "with")
            raise ArgumentError(
                f"items: micro-batches before were accumulated {given} items, this one {now}; give them for all, or for"
                " none"
            )


def _in(dtype: torch.dtype, tensor: Tensor) -> Tensor:
    """`tensor.to(dtype)`, which takes a microsecond also where it has nothing to do."""
    return tensor if tensor.dtype == dtype else tensor.to(dtype)
