"""GradientsParams: the gradients of one backward pass, by ParamId."""

from collections.abc import Sequence
from typing import Self

from torch import Tensor, nn

from ..backend import GradientMap
from ..errors import ShapeError
from ..module import Param, ParamId
from ..module.registry import weights


class GradientsParams:
    """A container of gradients that belong to the parameters of a module.

    Attributes:
        params: the parameters that have a gradient.
        values: the gradient of each of them.
    """

    def __init__(self) -> None:
        self.params: Sequence[Param] = ()
        self.values: list[Tensor] = []

    @classmethod
    def from_module(cls, module: nn.Module) -> Self:
        """Take the gradients out of `module`: each `.grad` is moved here and left None.

        Frozen parameters and those that took no part have none, and are absent.
        """
        gradients = cls()
        found = weights(module)
        tensors = [param.tensor for param in found]
        grads = [tensor.grad for tensor in tensors]
        values = [grad for grad in grads if grad is not None]
        if len(values) < len(found):
            found = [param for param, grad in zip(found, grads, strict=True) if grad is not None]
        for tensor in tensors:
            tensor.grad = None
        gradients.params, gradients.values = found, values
        return gradients

    @classmethod
    def from_grads(cls, grads: GradientMap, module: nn.Module) -> Self:
        """Take the gradients of the parameters of `module` out of what a typed `loss.backward()` gave.

        Those of other leaves stay in `grads`. Frozen parameters and those that took no part are absent.
        """
        gradients = cls()
        found = [(param, grads.remove(param.tensor)) for param in weights(module)]
        taken = [(param, grad) for param, grad in found if grad is not None]
        gradients.params = [param for param, _ in taken]
        gradients.values = [grad for _, grad in taken]
        return gradients

    def get(self, param: Param) -> Tensor | None:
        """The gradient of `param`, or None."""
        index = self._index(param.id)
        return None if index is None else self.values[index]

    def remove(self, param: Param) -> Tensor | None:
        """Take the gradient of `param` out, or None."""
        index = self._index(param.id)
        if index is None:
            return None
        self.params = [*self.params[:index], *self.params[index + 1 :]]
        return self.values.pop(index)

    def register(self, param: Param, grad: Tensor) -> None:
        """Put a gradient in, in place of the one of the same parameter.

        Raises:
            ShapeError: the gradient does not have the parameter's shape.
        """
        if grad.shape != param.tensor.shape:
            expected = list(param.tensor.shape)
            raise ShapeError(f"the gradient of '{param.path}' has shape {list(grad.shape)}, expected {expected}")
        self.remove(param)
        self.params = [*self.params, param]
        self.values.append(grad)

    def _index(self, param_id: ParamId) -> int | None:
        return next((index for index, param in enumerate(self.params) if param.id == param_id), None)

    def __len__(self) -> int:
        return len(self.values)
