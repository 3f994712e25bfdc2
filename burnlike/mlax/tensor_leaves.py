"""Flattens a module tree into a list of tensors, which torch's transforms take, and builds it again."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from .._torch_compat.transforms import is_batched, is_differentiated, transforming
from ..errors import TracedLeakError
from ..module.identity.field_metadata import meta_of, set_meta
from ..module.torch_objects.lazy_parameter import initialize_param
from ..module.torch_objects.wrappers import parts_of
from ..module.transforms.structural_copy import Copies, shell
from ..module.tree.param import Kind, differentiable
from ..module.tree.walk import params, weights
from .static_part import hyperparameters, own_containers

M = TypeVar("M", bound=nn.Module)


class Leaf(NamedTuple):
    """A tensor of a module tree, at the first place where it is met."""

    path: str  # dotted path of torch
    tensor: Tensor
    kind: Kind  # `weight` for a parameter, `state` for a buffer
    saved: bool  # False for a non-persistent buffer
    trainable: bool  # whether an optimizer may change it


def leaves(module: nn.Module) -> list[Leaf]:
    """The tensors of `module`, each once: its parameters, its buffers, then those of its children.

    Lazy parameters are initialized, and parameters get the ids that they lack, so that a gradient has them too. Holes
    are no leaves. Other than `burnlike.module.params` it can be traced by torch.compile for a plain `nn.Module`.
    """
    trainable: dict[Tensor, bool] = {}
    if not torch.compiler.is_compiling():
        for param in params(module):
            initialize_param(param.tensor)
            trainable[param.tensor] = param.trainable
    by_tensor: dict[Tensor, Leaf] = {}
    for prefix, part in parts_of(module):
        for name, tensor in part._parameters.items():
            if tensor is not None and tensor not in by_tensor:
                is_trainable = trainable[tensor] if tensor in trainable else meta_of(part, name).intent(tensor)
                by_tensor[tensor] = Leaf(prefix + name, tensor, "weight", True, is_trainable)
        for name, tensor in part._buffers.items():
            if tensor is not None and tensor not in by_tensor:
                saved = name not in part._non_persistent_buffers_set
                by_tensor[tensor] = Leaf(prefix + name, tensor, "state", saved, False)
    return list(by_tensor.values())


def with_leaves(module: M, value_of: Callable[[Tensor], Tensor | None]) -> M:
    """A new tree like `module`, with `value_of(tensor)` in place of each of its tensors; None makes a hole.

    Lists, dicts and sets among its plain fields are copied, so that what a forward appends to them stays within.
    """
    copies = Copies(module, lambda owner, name, kind, tensor: value_of(tensor))
    own_containers(copies.parts)
    return copies.root  # pyright: ignore[reportReturnType]


def with_detached_leaves(module: M, value_of: Callable[[Tensor], Tensor], requires_grad: bool | None = None) -> M:
    """As `with_leaves`, for the results of a transform: weights are parameters without a graph.

    Inside another transform, and in what torch.compile traces, they are plain tensors still. `value_of` gives the
    tensor outside of the transform; None leaves `requires_grad` as it was before the transform.
    """
    if transforming():
        return with_leaves(module, value_of)
    if torch.compiler.is_compiling():
        return with_leaves(module, lambda tensor: _cut(value_of(tensor)))

    def place(owner: nn.Module, name: str, kind: Kind, tensor: Tensor) -> Tensor:
        value = value_of(tensor)
        if kind == "state" or isinstance(value, nn.Parameter):
            return value if value.is_leaf else value.detach()
        flag = _required_grad(owner, name, tensor) if requires_grad is None else requires_grad
        return nn.Parameter(value.detach(), requires_grad=flag and differentiable(value))

    return shell(module, place)


def _cut(tensor: Tensor) -> Tensor:
    return tensor if isinstance(tensor, nn.Parameter) else tensor.detach()


def _required_grad(owner: nn.Module, name: str, tensor: Tensor) -> bool:
    """True if the parameter required grad that `tensor` is or stands for."""
    meta = meta_of(owner, name)
    if isinstance(tensor, nn.Parameter) or (meta.stood_for is None and meta.trainable is None):
        return tensor.requires_grad
    return bool(meta.trainable) if meta.stood_for is None else meta.stood_for


def restore_parameters(module: M) -> M:
    """Make parameters of the plain tensors that compiled code left in their places, in place; returns `module`.

    No `nn.Parameter` can be made in what is compiled, nor in the transforms of `torch.func` themselves, so weights that
    come from there are plain tensors, of which it stays known whether they are to be trained. A compiled step takes
    such a module again; call this before a module goes to `torch.optim`, is trained by `backward` or copied. All
    tensors are cut from autograd's graph. Any other module is left as it is.
    """
    parameters: dict[Tensor, nn.Parameter] = {}
    for _, part in parts_of(module):
        for name, tensor in part._parameters.items():
            flag = meta_of(part, name).stood_for
            if tensor is None or flag is None or isinstance(tensor, nn.Parameter):
                continue
            if tensor not in parameters:
                parameters[tensor] = nn.Parameter(tensor.detach(), requires_grad=flag)
            part._parameters[name] = parameters[tensor]
            trainable = meta_of(part, name).trainable
            set_meta(part, name, trainable=None if trainable is flag else trainable, stood_for=None)
        for name, tensor in part._buffers.items():
            if tensor is not None and not tensor.is_leaf:
                part._buffers[name] = tensor.detach()
    return module


def weight_places(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """The module and name that keep trainability and label of each weight."""
    if torch.compiler.is_compiling():
        for _, part in parts_of(module):
            yield from ((part, name) for name, tensor in part._parameters.items() if tensor is not None)
    else:
        yield from (param.home for param in weights(module))


def check_no_leak(module: nn.Module) -> None:
    """Refuse a module that leaves a transform with a tensor of it among its plain fields."""
    for path, part in parts_of(module):
        for name, value in hyperparameters(part).items():
            if _is_traced(value):
                raise TracedLeakError(
                    f"'{path}{name}' was set inside a transform, to a tensor that exists only there: make it a state"
                    " (register_buffer, or a Param that is not trainable), or return it beside the module"
                )


def _is_traced(value: Any) -> bool:
    if isinstance(value, Tensor):
        return is_batched(value) or is_differentiated(value)
    if isinstance(value, list | tuple | set):
        return any(_is_traced(item) for item in value)
    return isinstance(value, dict) and any(_is_traced(item) for item in value.values())
