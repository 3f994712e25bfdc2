"""The static part of a module, its class and fields that are not parameters or modules, and whether two trees agree."""

import math
from collections.abc import Iterable
from functools import partial
from types import MethodType
from typing import Any, NamedTuple
from weakref import ReferenceType

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .._torch_compat.modules import RNN_NOTES
from ..errors import StructureMismatchError
from ..module.attributes.constants import Above
from ..module.attributes.plain_attributes import plain_names
from ..module.containers.sequences import ModuleTuple
from ..module.torch_objects.wrappers import own_class, unwrap
from ..tensor.core.base import TensorBase
from .data import DataTree
from .guards import without_guard
from .parameter import Parameter
from .structure import awaits, places

# What containers note about themselves, parametrized tensors about their base, and a recurrent layer of its parameters.
_NOTES = {*("_burnlike_user_container", "_above", "_known", "_count", "_keys"), *("_base_name", *RNN_NOTES)}


def hyperparameters(module: nn.Module) -> dict[str, Any]:
    """The attributes of `module` that are neither parameters nor modules nor torch's own."""
    parts = without_guard(module.__dict__)
    return {name: parts[name] for name in plain_names(parts) if name not in _NOTES}


def own_containers(parts: Iterable[nn.Module]) -> None:
    """Give the modules of a new tree copies of their lists, dicts and sets, so that changes stay within."""
    for part in parts:
        for name, value in hyperparameters(part).items():
            if type(value) in (list, dict, set):
                part.__dict__[name] = _copied(value)


def _copied(value: Any) -> Any:
    """A copy of the lists, dicts and sets in `value`, of what they hold not."""
    if type(value) is list:
        return [_copied(item) for item in value]
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return set(value) if type(value) is set else value


def static_key(module: nn.Module) -> tuple[Any, ...]:
    """The static part of a tree as a key: equal for modules that a function compiled for one of them also fits.

    It has the classes, the hyperparameters with their types, and of each parameter trainability, label and kind; no
    values, and no plain tensors. It is a TypeError that names it if a hyperparameter can't be hashed.
    """
    flags = [(place.position, Parameter.at(((place.owner, place.name),))) for place in places(module)]
    return (
        _static(module, ""),
        tuple(sorted((position, it.trainable, it.name or "", it.kind) for position, it in flags)),
    )


def _static(module: nn.Module, prefix: str) -> tuple[Any, ...]:
    values = []
    for name, value in sorted(hyperparameters(module).items()):
        if not isinstance(value, Tensor):
            values.append((name, _hashable(value, prefix + name)))
    children = tuple(
        (name, child.static_key() if isinstance(child, DataTree) else _static(child, f"{prefix}{name}."))
        for name, child in module.named_children()
    )
    return own_class(module), tuple(values), children


def _hashable(value: Any, path: str) -> tuple[type, Any]:
    if type(value) is tuple:
        return tuple, tuple(_hashable(item, path) for item in value)
    if isinstance(value, float) and math.isnan(value):
        return float, "nan"
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"hyperparameter '{path}' is a {type(value).__name__}, which can't be part of a key: use a tuple or another"
            " hashable value"
        ) from None
    return type(value), value


def check_same_structure(a: nn.Module, b: nn.Module) -> None:
    """Refuse trees that can't be put or mapped together.

    A hyperparameter that refers to a part of `a` is equal to one that refers to the part of `b` in the same place.

    Raises:
        StructureMismatchError: they differ in class, fields or hyperparameters; the message has path and both values.
        TypeError: `b` is no module.
    """
    if not isinstance(b, nn.Module):
        raise TypeError(f"expected a module of the structure of {type(a).__name__}, got {type(b).__name__}")
    comparison = _Comparison()
    comparison.walk(a, b, "")
    for path, mine, yours in comparison.differing:
        if not comparison.same(mine, yours):
            raise _mismatch(path, mine, yours)


class _Comparison:
    """One comparison of two trees under way.

    Attributes:
        differing: path and values of the hyperparameters that are not the same object.
    """

    def __init__(self) -> None:
        self.differing: list[tuple[str, Any, Any]] = []
        self._twins: dict[object, nn.Module] = {}  # part of the first tree -> that of the second
        self._compiling = torch.compiler.is_compiling()  # which guards what `id` is taken of

    def walk(self, a: nn.Module, b: nn.Module, path: str) -> None:
        a, b = unwrap(a), unwrap(b)
        if a is b:
            return
        self._twins[a if self._compiling else id(a)] = b
        if type(a) is not type(b) and own_class(a) is not own_class(b):
            raise _mismatch(path, own_class(a), own_class(b))
        if isinstance(a, ModuleTuple) and isinstance(b, ModuleTuple) and len(a) != len(b):
            raise _mismatch(path, _Words(f"{len(a)} items"), _Words(f"{len(b)} items"))
        prefix = f"{path}." if path else ""
        fields, others = _fields(a), _fields(b)
        for name in fields if fields.keys() == others.keys() else {**fields, **others}:
            mine, yours = fields.get(name, _NOTHING), others.get(name, _NOTHING)
            if mine is yours:
                continue
            if isinstance(mine, _Child) and isinstance(yours, _Child):
                self.walk(mine.module, yours.module, prefix + name)
            elif isinstance(mine, _OTHERS) or isinstance(yours, _OTHERS):
                raise _mismatch(prefix + name, mine, yours)
            else:
                self.differing.append((prefix + name, mine, yours))

    def same(self, a: Any, b: Any) -> bool:
        """True if two hyperparameters are equal, of one type: 1, 1.0 and True differ, and an object equals itself."""
        if a is b:
            return True
        if type(a) is not type(b):
            return False
        if isinstance(a, nn.Module):
            return self._twins.get(a if self._compiling else id(a)) is b
        if isinstance(a, nn.Parameter | RemovableHandle):  # of the module, or of another; of a hook that each has
            return True
        if isinstance(a, Above | ReferenceType):
            return self.same(a(), b())
        if isinstance(a, MethodType):
            return a.__func__ is b.__func__ and self.same(a.__self__, b.__self__)
        if isinstance(a, partial):
            return self.same((a.func, a.args, a.keywords), (b.func, b.args, b.keywords))
        if isinstance(a, Tensor):
            if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
                return False
            return self._compiling or a.is_meta or torch.equal(a, b)
        if isinstance(a, list | tuple):
            return len(a) == len(b) and all(self.same(x, y) for x, y in zip(a, b, strict=True))
        if isinstance(a, dict):
            return len(a) == len(b) and all(key in b and self.same(value, b[key]) for key, value in a.items())
        if type(a).__module__ == "numpy":
            return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())
        if isinstance(a, TensorBase):
            return self.same(a.inner, b.inner)
        try:
            return bool(a == b)
        except (TypeError, ValueError, RuntimeError):  # values that can't be compared, as arrays of some libraries
            return False


class _Child(NamedTuple):
    """A field that is a module."""

    module: nn.Module

    def __repr__(self) -> str:
        return f"a {type(self.module).__name__}"


class _Words(NamedTuple):
    """A phrase for a field that has no value to show."""

    words: str

    def __repr__(self) -> str:
        return self.words


_HELD, _NOTHING = _Words("a parameter"), _Words("no such field")
_OTHERS = (_Child, _Words)


def _fields(module: nn.Module) -> dict[str, Any]:
    fields: dict[str, Any] = hyperparameters(module)
    for name, child in module._modules.items():
        fields[name] = None if child is None else _HELD if isinstance(child, DataTree) else _Child(child)
    for group in (module._parameters, module._buffers):
        for name, tensor in group.items():
            fields[name] = _HELD if tensor is not None or awaits(module, name) else None
    return fields


def _mismatch(path: str, a: Any, b: Any) -> StructureMismatchError:
    place = f"'{path}'" if path else "the root"
    return StructureMismatchError(f"the modules differ at {place}: {_shown(a)} and {_shown(b)}; nothing was made")


def _shown(value: Any) -> str:
    text = value.__name__ if isinstance(value, type) else repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."
