"""Reparameterizations: a module computes with a function of a parameter (LoRA, weight normalization).

They are parametrizations of `torch.nn.utils.parametrize`, so `module.weight` is the effective tensor wherever the
module's own code reads it, and `module.parametrizations.weight.original` the one that is held.
"""

from collections.abc import Callable
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from ...errors import ModuleTreeError
from ..attributes.plain_attributes import USER_CONTAINER
from ..module import Module
from ..torch_objects.lazy_parameter import is_lazy
from ..torch_objects.wrappers import is_distributed, is_sharded, own_class, parametrizations_of, reparameterization_of
from ..tree.param import Param, differentiable
from ..tree.walk import params, weights
from .parametrized import give_back, restoring, take_over

M = TypeVar("M", bound=nn.Module)
Plan = list[tuple[Param, "Reparameterization"]]


class Reparameterization(Module):
    """A function of a parameter: a subclass has a name, its own parameters, and `forward(base)`.

    Its parameters are part of the tree that it is applied to, at `<path of the parameter>.<name>`: visited, moved,
    optimized and saved as any others.

    Attributes:
        reparameterization_name: the part of the path.

    Example:
        >>> import torch
        >>> class Scaled(Reparameterization):
        ...     reparameterization_name = "scaled"
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.scale = nn.Parameter(torch.ones(1))
        ...     def forward(self, base: Tensor) -> Tensor:
        ...         return base * self.scale
        >>> layer = nn.Linear(2, 3)
        >>> layer = apply_reparameterization(layer, lambda param: Scaled() if param.path == "weight" else None)
        >>> [param.path for param in params(layer)]
        ['weight', 'weight.scaled.scale', 'bias']
    """

    reparameterization_name: ClassVar[str] = ""

    def forward(self, base: Tensor) -> Tensor:
        """The effective tensor, of the shape of `base`, which is the parameter as it is held and saved."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(base)")


def apply_reparameterization(module: M, make: Callable[[Param], Reparameterization | None]) -> M:
    """Let parameters of `module` be computed by reparameterizations, in place; returns the module.

    `make` is called with each floating-point parameter; what it returns is applied, None leaves the parameter alone.
    The parameters keep their objects, ids, paths, trainability and places in every traversal. At each place of a tied
    tensor the same reparameterization applies. Call it before the module is sharded or wrapped by DDP, whose gradients
    are of the parameters it had.

    Raises:
        ModuleTreeError: what `make` returned does not fit, the parameter is reparameterized or parametrized already, or
            the module can't be changed any more. The module is as it was.
    """
    plan: Plan = []
    for param in candidates(module):
        reparameterization = make(param)
        if reparameterization is None:
            continue
        _check_made(param, reparameterization)
        plan.append((param, reparameterization))
    attach(plan)
    return module


def materialize(module: M) -> M:
    """Fold all reparameterizations into the parameters they compute, in place; returns the module.

    The parameter then holds what was its effective tensor, and stays the same object, with its id, its mappers and its
    own trainability (what LoRA froze stays frozen). `materialize(valid(model))` folds into a view that is made for it,
    and leaves `model` as it is, to be trained on.

    It is a ModuleTreeError if the tree is sharded or wrapped by DDP, or a parametrization of torch lies above one of
    ours. The module is as it was.
    """
    _check_tree(module)
    parts = [(part, parametrizations_of(part)) for part in module.modules()]
    places = {id(list_of): (part, name) for part, lists in parts for name, list_of in lists.items()}
    folding = [param for param in weights(module) if _is_reparameterized(param)]
    for param in folding:
        _check_foldable(param)
    with torch.no_grad():
        effective_and_base = [(param.val().detach(), param.tensor) for param in folding]
        folded = [
            # A reparameterization may give its base back, or a view of it.
            value.clone() if value.untyped_storage().data_ptr() == base.untyped_storage().data_ptr() else value
            for value, base in effective_and_base
        ]
    for param, effective in zip(folding, folded, strict=True):
        base = param.tensor
        base.data, base.grad = effective, None
        for owner, _ in dict.fromkeys(param.owners):
            give_back(*places[id(owner)])
    return module


def candidates(module: nn.Module) -> list[Param]:
    """The floating-point parameters of `module` that are no part of a reparameterization."""
    _check_tree(module)
    ours = [part for part in module.modules() if isinstance(part, Reparameterization)]
    inside = {id(tensor) for part in ours for tensor in part.parameters()}
    return [it for it in params(module, "weight") if differentiable(it.tensor) and id(it.tensor) not in inside]


def attach(plan: Plan) -> None:
    """Apply each reparameterization at every place of its parameter, or none of them."""
    for param, _ in plan:
        _check_free(param)
    before = [restoring(owner) for owner in dict.fromkeys(owner for param, _ in plan for owner, _ in param.owners)]
    try:
        for param, reparameterization in plan:
            for owner, name in dict.fromkeys(param.owners):
                take_over(owner, name, reparameterization)
    except BaseException:  # also of Ctrl-C: all are applied, or none
        for restore in before:
            restore()
        raise


def _check_tree(module: nn.Module) -> None:
    for part in module.modules():
        if any(base.__name__ == "DistributedDataParallel" for base in type(part).__mro__):
            raise ModuleTreeError(
                "the module is wrapped by DistributedDataParallel, which knows the parameters that it had then: change"
                " reparameterizations before wrapping it; to fold them, materialize(valid(module))"
            )
        if is_sharded(part):
            raise ModuleTreeError(
                f"{own_class(part).__name__} is sharded by fully_shard: change reparameterizations before sharding it"
            )


def _check_made(param: Param, reparameterization: object) -> None:
    where, kind = f"the reparameterization of '{param.path}'", type(reparameterization).__name__
    if not isinstance(reparameterization, Reparameterization):
        raise ModuleTreeError(f"{where}: expected a Reparameterization or None, got {kind}")
    name = reparameterization.reparameterization_name
    if not name.isidentifier():
        raise ModuleTreeError(
            f"{where}: expected {kind}.reparameterization_name to be a name, which becomes a part of paths,"
            f" got {name!r}"
        )
    if is_lazy(param.tensor):
        return  # to compute with it would give it values that a record may be about to bring
    try:
        with torch.no_grad():
            effective = reparameterization(param.tensor)
    except Exception as error:  # from the user's class, anything
        raise ModuleTreeError(
            f"{where}: {kind} failed on {list(param.tensor.shape)} of {param.tensor.dtype}: {error};"
            " the module is as it was"
        ) from error
    if not isinstance(effective, Tensor) or effective.shape != param.tensor.shape:
        got = list(effective.shape) if isinstance(effective, Tensor) else type(effective).__name__
        raise ModuleTreeError(
            f"{where}: expected {kind}(base) to be a tensor of base's shape"
            f" {list(param.tensor.shape)}, got {got}; the module is as it was"
        )


def _check_free(param: Param) -> None:
    if _is_reparameterized(param):
        used = reparameterization_of(*param.home)
        raise ModuleTreeError(
            f"'{param.path}' is reparameterized already, by {type(used).__name__}: leave it out, or fold that in by"
            " materialize(module); nothing was changed"
        )
    if is_distributed(param.tensor):
        raise ModuleTreeError(
            f"'{param.path}' is sharded (DTensor): apply reparameterizations before sharding; nothing was changed"
        )
    for owner, name in param.owners:
        if isinstance(owner, ParametrizationList):
            raise ModuleTreeError(
                f"'{param.path}' belongs to a parametrization of torch.nn.utils.parametrize: remove that one, and"
                " register it again after this one if both are meant; nothing was changed"
            )
        if (container := owner.__dict__.get(USER_CONTAINER)) is not None:
            raise ModuleTreeError(
                f"'{param.path}' is held by a {type(container).__name__}, which would go on to use"
                f" '{name}' as it is: put the parameter into a module; nothing was changed"
            )


def _check_foldable(param: Param) -> None:
    used = {id(owner._modules.get("0")) for owner, _ in param.owners}
    if len(used) > 1 or not all(isinstance(owner, ParametrizationList) for owner, _ in param.owners):
        raise ModuleTreeError(
            f"'{param.path}' is tied to {', '.join(param.aliases)}, and is not reparameterized in the same way there:"
            " untie them before materialize; nothing was changed"
        )
    if any(len(owner._modules) > 1 for owner, _ in param.owners):
        raise ModuleTreeError(
            f"'{param.path}' has parametrizations of torch.nn.utils.parametrize on top of its reparameterization:"
            " remove them before materialize; nothing was changed"
        )


def _is_reparameterized(param: Param) -> bool:
    return isinstance(param.owners[0][0], ParametrizationList) and reparameterization_of(*param.home) is not None
