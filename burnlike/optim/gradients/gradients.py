"""GradientsParams: the gradients of one backward pass, by ParamId; MultiGradientsParams: those of several devices."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from ...backend import GradientMap
from ...errors import DeviceError, DTypeError, ModuleTreeError, ShapeError
from ...module import Param, ParamId
from ...module.tree.param_values import IS_GRADIENT
from ...module.tree.walk import weights
from ..core.sharded import placed_gradients


class GradientsParams:
    """A container of gradients that belong to the parameters of a module.

    The gradient of a DTensor is sharded as the parameter. Partial gradients, as under sequence parallelism, are summed
    when they are taken, so all ranks must take them.

    Iterating gives pairs `(param, gradient)`.
    """

    def __init__(self) -> None:
        self._lists: tuple[Sequence[Param], list[Tensor]] | None = ([], [])
        self._by_id: dict[ParamId, tuple[Param, Tensor]] | None = {}  # of both forms at least one is there

    @property
    def params(self) -> Sequence[Param]:
        """The parameters that have a gradient."""
        return self._listed()[0]

    @property
    def values(self) -> list[Tensor]:
        """The gradient of each of them."""
        return self._listed()[1]

    @classmethod
    def from_module(cls, module: nn.Module) -> Self:
        """Take the gradients out of `module`: each `.grad` is moved here and left None.

        Frozen parameters and those without a gradient are absent; a gradient from before a freeze is dropped. A module
        that is itself a gradient, as `burnlike.func.grad` gives it, has its parameters taken.
        """
        found = weights(module)
        if found and hasattr(found[0].tensor, IS_GRADIENT):
            return cls.of((param, param.tensor.detach()) for param in found)
        return cls._taken(found)

    @classmethod
    def from_grads(cls, grads: GradientMap, module: nn.Module) -> Self:
        """Take the gradients of the parameters of `module` out of the result of a typed `loss.backward()`.

        Those of other leaves stay in `grads`. Frozen parameters and those without a gradient are absent.
        """
        return cls._removed(grads, weights(module))

    @classmethod
    def from_params(cls, module: nn.Module, ids: Iterable[ParamId | str], *, grads: GradientMap | None = None) -> Self:
        """Take the gradients of some parameters, as `from_grads` or `from_module` take those of all.

        Args:
            module: that the parameters are in.
            ids: of the parameters. Those without a gradient and those not in `module` are absent, as in Burn.
            grads: the result of a typed `loss.backward()`; None takes them from the parameters' `.grad`.

        Raises:
            ValueError: a text is no id.
        """
        wanted = {it if isinstance(it, ParamId) else ParamId.parse(it) for it in ids}
        found = [param for param in weights(module) if param.id in wanted]
        return cls._taken(found) if grads is None else cls._removed(grads, found)

    @classmethod
    def of(cls, pairs: Iterable[tuple[Param, Tensor]]) -> Self:
        """The gradients of these parameters, each once."""
        gradients = cls()
        both = list(pairs)
        its_params = [param for param, _ in both]
        gradients._lists, gradients._by_id = (
            (its_params, placed_gradients(its_params, [grad for _, grad in both])),
            None,
        )
        return gradients

    @classmethod
    def _taken(cls, found: Sequence[Param]) -> Self:
        gradients = cls()
        tensors = [param.tensor for param in found]
        grads = [tensor.grad if tensor.requires_grad else None for tensor in tensors]
        values = [grad for grad in grads if grad is not None]
        if len(values) < len(found):
            found = [param for param, grad in zip(found, grads, strict=True) if grad is not None]
        for tensor in tensors:
            tensor.grad = None
        # The module's own list where it is whole: an optimizer sees by it that nothing has changed.
        gradients._lists, gradients._by_id = (found, placed_gradients(found, values)), None
        return gradients

    @classmethod
    def _removed(cls, grads: GradientMap, found: Sequence[Param]) -> Self:
        taken = ((param, grads.remove(param.tensor)) for param in found)
        return cls.of((param, grad) for param, grad in taken if grad is not None)

    def get(self, param: Param | ParamId) -> Tensor | None:
        found = self._known().get(_id(param))
        return None if found is None else found[1]

    def remove(self, param: Param | ParamId) -> Tensor | None:
        """Take the gradient of a parameter out, or None."""
        found = self._known().pop(_id(param), None)
        if found is None:
            return None
        self._lists = None
        return found[1]

    def register(self, param: Param, grad: Tensor) -> None:
        """Put in a gradient; it replaces that of the same parameter.

        Raises:
            ShapeError, DTypeError, DeviceError: the gradient is not of the parameter's shape, dtype or device.
        """
        check_gradient(param, param.tensor, grad)
        self._known()[param.id] = param, placed_gradients([param], [grad])[0]
        self._lists = None

    def to_device(self, device: torch.device | str, module: nn.Module) -> Self:
        """Move the gradients of the parameters of `module` to `device`; returns the container.

        Move the parameters too before a step: it refuses gradients that are elsewhere.
        """
        known = self._known()
        for param in weights(module):
            if param.id in known:
                known[param.id] = param, known[param.id][1].to(device)
        self._lists = None
        return self

    def is_empty(self) -> bool:
        return len(self) == 0

    def _listed(self) -> tuple[Sequence[Param], list[Tensor]]:
        if self._lists is None:
            pairs = self._known().values()
            self._lists = [param for param, _ in pairs], [grad for _, grad in pairs]
        return self._lists

    def _known(self) -> dict[ParamId, tuple[Param, Tensor]]:
        if self._by_id is None:
            self._by_id = {param.id: (param, grad) for param, grad in self}
        return self._by_id

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[Param, Tensor]]:
        return iter(list(zip(*self._listed(), strict=True)))

    def __contains__(self, param: object) -> bool:
        return isinstance(param, Param | ParamId) and _id(param) in self._known()


def check_gradient(param: Param, tensor: Tensor, grad: Tensor, otherwise: str = "") -> None:
    """Raise the error of a gradient that does not fit its parameter, or is sparse; `otherwise` ends the message."""
    if grad.shape != tensor.shape:
        raise ShapeError(
            f"the gradient of '{param.path}' has shape {list(grad.shape)}, expected {list(tensor.shape)}{otherwise}"
        )
    if grad.dtype != tensor.dtype:
        raise DTypeError(f"the gradient of '{param.path}' has dtype {grad.dtype}, expected {tensor.dtype}{otherwise}")
    if grad.device != tensor.device:
        raise DeviceError(
            f"the gradient of '{param.path}' is on '{grad.device}', expected '{tensor.device}'{otherwise}"
        )
    if grad.layout is not torch.strided:
        raise DTypeError(
            f"the gradient of '{param.path}' is sparse ({grad.layout}), expected a dense one{otherwise}; leave out"
            " sparse=True of the embedding, or register grad.to_dense()"
        )


def _id(param: Param | ParamId) -> ParamId:
    if isinstance(param, Param):
        return param.id
    if isinstance(param, ParamId):
        return param
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

        The sum is on the device of the first container that has one, from number `id % len(containers)` on, so that
        the sums of many parameters are spread over the devices (burn-optim, multi_gradients.rs).
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
        found = ((param, self.remove(param)) for param in weights(module))
        return GradientsParams.of((param, grad.to(param.tensor.device)) for param, grad in found if grad is not None)
