"""GradientsParams: the gradients of one backward pass, by ParamId; those of several devices, and of several batches."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from ..._torch_compat import foreach
from ...backend import GradientMap
from ...backend.torch_backend import named_device
from ...errors import ArgumentError, DeviceError, DTypeError, ModuleTreeError, ShapeError
from ...module import Param, ParamId
from ...module.tree.param import IS_GRADIENT
from ...module.tree.walk import weights, weights_and_tensors
from ..core.gradient_transform import computing_dtype
from ..core.sharded import placed_gradients

_UNDIVIDED = {Tensor, nn.Parameter}


class GradientsParams:
    """The gradients of parameters of a module; iterating gives pairs `(param, gradient)`.

    The gradient of a DTensor is sharded as the parameter. Partial gradients, as under sequence parallelism, are summed
    when they are taken, so all ranks must take them.
    """

    def __init__(self) -> None:
        self._lists: tuple[Sequence[Param], list[Tensor]] | None = ([], [])
        self._by_id: dict[ParamId, tuple[Param, Tensor]] | None = {}  # of both forms at least one is there

    @property
    def params(self) -> Sequence[Param]:
        """The parameters that have a gradient."""
        return self.lists()[0]

    @property
    def values(self) -> list[Tensor]:
        """The gradient of each of them."""
        return self.lists()[1]

    @classmethod
    def from_module(cls, module: nn.Module) -> Self:
        """Take the gradients out of `module`: each `.grad` is moved here and left None.

        Frozen parameters and those without a gradient are absent; a gradient from before a freeze is dropped. A module
        that is itself a gradient, as `burnlike.func.grad` gives it, has its parameters taken.
        """
        trained, tensors = weights_and_tensors(module)
        if trained and hasattr(tensors[0], IS_GRADIENT):
            return cls.of((param, tensor.detach()) for param, tensor in zip(trained, tensors, strict=True))
        return cls._taken(trained, tensors)

    @classmethod
    def from_grads(cls, grads: GradientMap, module: nn.Module) -> Self:
        """Take the gradients of the parameters of `module` out of the result of a typed `loss.backward()`.

        Those of other leaves stay in `grads`. Frozen parameters and those without a gradient are absent.
        """
        return cls._removed(grads, weights(module))

    @classmethod
    def from_params(cls, module: nn.Module, ids: Iterable[ParamId | str], *, grads: GradientMap | None = None) -> Self:
        """As `from_grads` or, without `grads`, `from_module`, of the parameters with these ids.

        Those without a gradient and those not in `module` are absent, as in Burn. A text that is no id: ValueError.
        """
        wanted = {it if isinstance(it, ParamId) else ParamId.parse(it) for it in ids}
        some = [param for param in weights(module) if param.id in wanted]
        return cls._removed(grads, some) if grads is not None else cls._taken(some, [it.tensor for it in some])

    @classmethod
    def of(cls, pairs: Iterable[tuple[Param, Tensor]]) -> Self:
        """The gradients of these parameters, each once."""
        both = list(pairs)
        return cls.with_params([param for param, _ in both], [grad for _, grad in both])

    @classmethod
    def with_params(cls, its_params: Sequence[Param], values: Sequence[Tensor]) -> Self:
        """The gradients of these parameters: an optimizer sees by the list of them that nothing has changed."""
        gradients = cls()
        # Gradients that are plain tensors need no look at how each parameter is divided.
        placed = list(values) if {*map(type, values)} <= _UNDIVIDED else placed_gradients(its_params, values)
        gradients._lists, gradients._by_id = (its_params, placed), None
        return gradients

    @classmethod
    def _taken(cls, params: Sequence[Param], tensors: Sequence[Tensor]) -> Self:
        grads = [tensor.grad if tensor.requires_grad else None for tensor in tensors]
        values = [grad for grad in grads if grad is not None]
        # Else the module's own list goes on: by that object a step sees that nothing has changed, and looks nothing up.
        if len(values) < len(params):
            params = [param for param, grad in zip(params, grads, strict=True) if grad is not None]
        for tensor in tensors:
            tensor.grad = None
        return cls.with_params(params, values)  # the module's own list where it is whole

    @classmethod
    def _removed(cls, grads: GradientMap, params: Sequence[Param]) -> Self:
        taken = ((param, grads.remove(param.tensor)) for param in params)
        return cls.of((param, grad) for param, grad in taken if grad is not None)

    def get(self, param: Param | ParamId) -> Tensor | None:
        pair = self._pairs_by_id().get(_id(param))
        return None if pair is None else pair[1]

    def remove(self, param: Param | ParamId) -> Tensor | None:
        """Take the gradient of a parameter out, or None."""
        pair = self._pairs_by_id().pop(_id(param), None)
        if pair is not None:
            self._lists = None
        return None if pair is None else pair[1]

    def register(self, param: Param, grad: Tensor) -> None:
        """Put in a gradient, in place of that of the same parameter; an error if it does not fit its parameter."""
        check_gradient(param, param.tensor, grad)
        self._pairs_by_id()[param.id] = param, placed_gradients([param], [grad])[0]
        self._lists = None

    def to_device(self, device: torch.device | str, module: nn.Module) -> Self:
        """Move the gradients of the parameters of `module` to `device`; returns the container.

        Move the parameters too before a step: it refuses gradients that are elsewhere. It is a DeviceError if this
        machine does not have the device.
        """
        device, pairs = named_device(device), self._pairs_by_id()
        for param in weights(module):
            if param.id in pairs:
                pairs[param.id] = param, pairs[param.id][1].to(device)
        self._lists = None
        return self

    def is_empty(self) -> bool:
        return len(self) == 0

    def lists(self) -> tuple[Sequence[Param], list[Tensor]]:
        """Both `params` and `values`."""
        if self._lists is None:
            pairs = self._pairs_by_id().values()
            self._lists = [param for param, _ in pairs], [grad for _, grad in pairs]
        return self._lists

    def _pairs_by_id(self) -> dict[ParamId, tuple[Param, Tensor]]:
        if self._by_id is None:
            self._by_id = {param.id: (param, grad) for param, grad in self}
        return self._by_id

    def __len__(self) -> int:
        return len(self.values)

    # Of a list: `remove` and `register` may be called while one iterates.
    def __iter__(self) -> Iterator[tuple[Param, Tensor]]:
        return iter(list(zip(*self.lists(), strict=True)))

    def __contains__(self, param: object) -> bool:
        return isinstance(param, Param | ParamId) and _id(param) in self._pairs_by_id()


def check_gradient(param: Param, tensor: Tensor, grad: Tensor, otherwise: str = "") -> None:
    """Raise the error of a gradient that does not fit its parameter, or is sparse; `otherwise` ends the message."""
    what = f"the gradient of '{param.path}'"
    if grad.shape != tensor.shape:
        raise ShapeError(f"{what} has shape {list(grad.shape)}, expected {list(tensor.shape)}{otherwise}")
    if grad.dtype != tensor.dtype:
        raise DTypeError(f"{what} has dtype {grad.dtype}, expected {tensor.dtype}{otherwise}")
    if grad.device != tensor.device:
        raise DeviceError(f"{what} is on '{grad.device}', expected '{tensor.device}'{otherwise}")
    if grad.layout is not torch.strided:
        raise DTypeError(
            f"{what} is sparse ({grad.layout}), expected a dense one{otherwise}; leave out sparse=True of the"
            " embedding, or register grad.to_dense()"
        )


def _id(param: Param | ParamId) -> ParamId:
    if isinstance(param, Param | ParamId):
        return param.id if isinstance(param, Param) else param
    raise ModuleTreeError(
        f"GradientsParams: expected a Param or a ParamId, as burnlike.module.params(module) gives them, got a"
        f" {type(param).__name__}"
    )


class MultiGradientsParams:
    """Gradients of replicas of a module, whose parameters have the same ids; one of `containers` for each."""

    def __init__(self) -> None:
        self.containers: list[GradientsParams] = []

    def add(self, grads: GradientsParams) -> Self:
        """Add the gradients of a replica; returns the container."""
        self.containers.append(grads)
        return self

    def remove(self, param: Param | ParamId) -> Tensor | None:
        """Take the gradients of a parameter out of all containers; returns their sum, or None.

        The sum is on the device of the first container that has one, from number `id % len(containers)` on, which
        spreads the sums over the devices (burn-optim, multi_gradients.rs).
        """
        count = len(self.containers)
        start = (param.id if isinstance(param, Param) else param).value % max(count, 1)
        total: Tensor | None = None
        for place in range(count):
            grad = self.containers[(start + place) % count].remove(param)
            if grad is not None:
                total = grad if total is None else total + grad.to(total.device)
        return total

    def summed(self, module: nn.Module) -> GradientsParams:
        """The sums for the parameters of `module`, on their devices, for a step; takes them out of the containers."""
        sums = ((param, self.remove(param)) for param in weights(module))
        return GradientsParams.of((param, grad.to(param.tensor.device)) for param, grad in sums if grad is not None)


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
        self._weight, self._count = 0.0, 0

    def __len__(self) -> int:
        """The number of micro-batches since the last `grads`."""
        return self._count

    @torch.no_grad()
    def accumulate(self, module: nn.Module, grads: GradientsParams, items: float | None = None) -> None:
        """Add the gradients of the parameters of `module`, of one micro-batch; they are not changed.

        Args:
            items: how many items its loss is a mean of. 0 adds nothing, whatever the gradients are: the mean of no
                items is NaN.

        Raises:
            ArgumentError: `items` is negative or not finite, or was given for some micro-batches only.
            ShapeError, DTypeError, DeviceError: a gradient does not fit its parameter; nothing was added.
        """
        if items is not None and not 0 <= items < math.inf:
            raise ArgumentError(f"items: expected how many items the loss is a mean of, at least 0; got {items}")
        weighted = self._first is not None
        if self._weight and weighted != (items is not None):  # what has items 0 alone says nothing about the others
            before, now = ("with", "without") if weighted else ("without", "with")
            what = f"micro-batches before were accumulated {before} items, this one {now}"
            raise ArgumentError(f"items: {what}; give them for all, or for none")
        if items == 0:
            self._count += 1
            return
        trained = weights(module)
        whole = grads.params is trained  # as from_module gives them where each parameter has one
        some = [*grads] if whole else [(param, grad) for param in trained if (grad := grads.get(param)) is not None]
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
            added = [_in(total.dtype, grad) for (_, grad), total in zip(some, sums, strict=True)]
            foreach.add_(sums, added, alpha=weight)

    @torch.no_grad()
    def grads(self) -> GradientsParams:
        """The accumulated gradients in the dtypes of the parameters; empties the accumulator."""
        sums = [total for _, total in self._sums.values()]
        if sums and self._first is not None and self._weight != 1.0:
            foreach.div_(sums, self._weight)
        gradients = GradientsParams.of(
            (param, _in(self._dtypes[param_id], total)) for param_id, (param, total) in self._sums.items()
        )
        self.reset()
        return gradients

    def reset(self) -> None:
        self._sums, self._dtypes = {}, {}
        self._first, self._weight, self._count = None, 0.0, 0


def _in(dtype: torch.dtype, tensor: Tensor) -> Tensor:
    """`tensor.to(dtype)`, which takes a microsecond also where it has nothing to do."""
    return tensor if tensor.dtype == dtype else tensor.to(dtype)
