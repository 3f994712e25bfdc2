"""Reparameterizations: a module computes with a function of a parameter (LoRA, weight normalization).

They are parametrizations of `torch.nn.utils.parametrize`, so `module.weight` is the effective tensor wherever the
module's own code reads it, and `module.parametrizations.weight.original` the one that is held.

`module.name` becomes torch's property, which computes the tensor from what torch's ParametrizationList holds. Only the
way there (`take_over` and `give_back`) is our own, since `register_parametrization` writes to the tensor and computes
with it, changes a class that copies of the module share, runs the module's `__delattr__`, and makes a class that
refuses pickling.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrize import ParametrizationList

from ...errors import ModuleTreeError
from ..attributes.plain_attributes import USER_CONTAINER
from ..identity.field_metadata import KEPT, order_fields
from ..module import Module
from ..torch_objects.lazy_parameter import is_lazy
from ..torch_objects.wrappers import is_distributed, is_sharded, own_class, parametrizations_of, reparameterization_of
from ..tree.param import Param, differentiable
from ..tree.traversal import field_names
from ..tree.walk import params, weights

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


_CHANGED = ("_parameters", "_modules", KEPT)


def restoring(module: nn.Module) -> Callable[[], None]:
    """A function that makes the module what it is, for use if something fails after `take_over`."""
    parts, cls = module.__dict__, type(module)
    before = {key: dict(parts[key]) for key in _CHANGED if key in parts}
    lists = dict(parametrizations_of(module))

    def restore() -> None:
        _set_class(module, cls)
        for key in _CHANGED:
            if key in before:
                _refill(parts[key], before[key])
            else:
                parts.pop(key, None)
        _refill(parametrizations_of(module), lists)

    return restore


def take_over(module: nn.Module, name: str, reparameterization: nn.Module) -> None:
    """Let `module.name` be what `reparameterization` makes of the parameter `name`, which stays the same object."""
    lists = parametrizations_of(module)
    computed, list_of = _torchs_parts(name)
    cls = _parametrized_class(own_class(module), _properties(module) | {name: computed})
    order_fields(module, field_names(module))  # torch's order would move the tensor behind its siblings
    list_of._modules["0"] = reparameterization.train(module.training)
    list_of._parameters["original"] = module._parameters.pop(name)
    if not lists:
        module._modules["parametrizations"] = nn.ModuleDict()
    module._modules["parametrizations"]._modules[name] = list_of  # pyright: ignore[reportOptionalMemberAccess]
    _set_class(module, cls)


def give_back(module: nn.Module, name: str) -> None:
    """Make the tensor behind `name` the parameter again, in its old place, without what `take_over` put around it."""
    order = list(field_names(module))
    lists, properties = parametrizations_of(module), _properties(module)
    tensors = module._parameters | {name: lists.pop(name)._parameters["original"]}
    del properties[name]
    if lists:
        _set_class(module, _parametrized_class(own_class(module), properties))
    else:
        _set_class(module, own_class(module))
        del module._modules["parametrizations"]
    ordered = {key: tensors[key] for key in order if key in tensors}
    _refill(module._parameters, ordered | tensors)


def _torchs_parts(name: str) -> tuple[property, Any]:
    """torch's parts of a parametrized tensor `name`: the property that computes it, and the list of its tensors."""
    module = nn.Module()
    module.register_parameter(name, nn.Parameter(torch.empty(0), requires_grad=False))
    parametrize.register_parametrization(module, name, nn.Identity(), unsafe=True)
    return vars(type(module))[name], parametrizations_of(module)[name]


def _properties(module: nn.Module) -> dict[str, property]:
    return {name: vars(type(module))[name] for name in parametrizations_of(module)}


def _parametrized_class(layer_class: Any, properties: dict[str, property]) -> Any:
    """A class like the one that torch makes, but with the name of `layer_class`, and with pickling and copying.

    Its forward is that of a parametrization which computes the layer by itself (`layer_forward`), or else the layer's.
    """

    def forward(module: Any, *arguments: Any, **keywords: Any) -> Any:
        for list_of in parametrizations_of(module).values():
            compute = getattr(list_of._modules["0"], "layer_forward", None)
            result = None if compute is None else compute(module, layer_class, *arguments, **keywords)
            if result is not None:
                return result
        return super(cls, module).forward(*arguments, **keywords)

    extras = {
        "forward": update_wrapper(forward, layer_class.forward),
        "__module__": parametrize.__name__,
        "__qualname__": layer_class.__qualname__,
        "__getstate__": layer_class.__getstate__,
        "__reduce_ex__": _reduce,
        "_burnlike_ordered": True,
    }
    cls = type(layer_class.__name__, (layer_class,), extras | properties)
    return cls


def _reduce(module: nn.Module, protocol: Any) -> tuple[Any, ...]:
    state: Any = module.__getstate__()  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(state, dict):
        # RNNs keep the tensors that they last computed with; torch copies no results.
        state = {key: _without_history(value) for key, value in state.items()}
    return _rebuild, (own_class(module), tuple(parametrizations_of(module))), state


def _without_history(value: Any) -> Any:
    if isinstance(value, list) and any(isinstance(item, Tensor) for item in value):
        return [_without_history(item) for item in value]
    return value.detach() if isinstance(value, Tensor) and not value.is_leaf else value


def _rebuild(layer_class: type[nn.Module], names: tuple[str, ...]) -> nn.Module:
    """A module with these tensors parametrized, to be filled with a state."""
    cls = _parametrized_class(layer_class, {name: _torchs_parts(name)[0] for name in names})
    return cls.__new__(cls)


def _set_class(module: nn.Module, cls: type) -> None:
    object.__setattr__(module, "__class__", cls)  # a burnlike Module takes an attribute that is set for a field


def _refill(kept: dict[str, Any], values: dict[str, Any]) -> None:
    kept.clear()
    kept.update(values)
