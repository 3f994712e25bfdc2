"""The plain attributes of a module: those that are not its parameters, buffers and modules.

Here are their names, the tensors among them, the lists that came to hold modules unnoticed, users' containers, and
items: objects with `into_item` and `from_item`, which are saved as what `into_item` gives.
"""

import dataclasses
import weakref
from collections import UserDict, UserList, deque
from collections.abc import Callable, Container, Iterable, Iterator, MutableMapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, Generic, NoReturn, TypeVar

import torch
from torch import Tensor, nn

from ..._lazy import resolve
from ..._torch_compat.modules import COMPILED_CALL
from ...backend import Autodiff, backend_for
from ...errors import BackendError, BurnlikeError, ModuleTreeError
from ...tensor.core.base import TensorBase, wrap
from ...tensor.core.spec import family_of
from ..identity.field_metadata import KEPT, fields_with

T = TypeVar("T")

# Where a deep copy notes, in its memo, which references are to be resolved when all is copied.
_LATE: Any = "burnlike.constants"


class MarkedConstant(Generic[T]):
    """The mark that `constant` puts on a value; a burnlike Module removes it when the value is assigned."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __call__(self, *args: object, **options: object) -> NoReturn:
        raise TypeError(_advice(self, "called"))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(name if name.startswith("__") or name == "value" else _advice(self, f"asked for '{name}'"))

    def __repr__(self) -> str:
        return f"constant({type(self.value).__name__})"


def _advice(marked: MarkedConstant[Any], asked: str) -> str:
    return (
        f"{marked!r} was {asked}, but only marks the {type(marked.value).__name__}: assign it to an attribute of a"
        " burnlike Module, which unwraps it; in a plain nn.Module keep the module in a list or tuple instead"
    )


def constant(value: T) -> T:
    """Mark `value` (a teacher, a parent, ...) so that the Module it is assigned to only refers to it.

    `self.teacher = burnlike.constant(teacher)` makes `self.teacher` the teacher itself, which is not a child: not
    visited, moved, saved or optimized. Also an item of a list, tuple or dict can be one. A copy (`copy.deepcopy`,
    `clone`, `map`, `valid`) refers to the same teacher, or to its copy if that is part of what is copied;
    `copy.deepcopy` of a plain `nn.Module` sees that only for what it copies before the reference, `clone` for all. A
    pickle holds the teacher too, as `torch.save(module)` does for any attribute.

    On an `nn.Module` that is not burnlike's the mark stays in the way: using the attribute raises, and says so.
    """
    marked: Any = MarkedConstant(value)
    return marked


def references_of(module: nn.Module) -> dict[str, None]:
    """The names of attributes of `module` that only refer to what belongs elsewhere."""
    upward: tuple[str, ...] = getattr(type(module), "_burnlike_upward", ())
    return dict.fromkeys([*fields_with(module, "holds", "constant"), *upward])


class Above:
    """A reference to a module around another one; unlike an attribute that is the module, it forms no cycle.

    Torch frees a module as soon as nobody holds it; with a cycle its memory would wait for the garbage collector.
    """

    __slots__ = ("_module",)

    def __init__(self, module: nn.Module) -> None:
        self._module = weakref.ref(module)

    def module(self) -> Any:
        return self._module()

    __call__ = module

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        module = self.module()
        return (type(None), ()) if module is None else (type(self), (module,))


def begin_references(memo: dict[int, Any]) -> bool:
    """Prepare a deep copy's memo for `refer`; whether this is the outermost copy, which calls `resolve_references`."""
    if _LATE in memo:
        return False
    memo[_LATE] = []
    return True


def refer(memo: dict[int, Any], parts: dict[str, Any], name: str) -> None:
    """Note that `parts[name]` is a reference: to the original, unless that turns out to be copied too."""
    memo[_LATE].append((parts, name, parts[name]))


def resolve_references(memo: dict[int, Any]) -> None:
    """Let the references refer to the copies, where there are some."""
    for parts, name, value in memo.pop(_LATE):
        if isinstance(value, Above):
            copied = memo.get(id(value()))
            parts[name] = value if copied is None else Above(copied)
        else:
            parts[name] = memo.get(id(value), value)


USER_CONTAINER = "_burnlike_user_container"
"""Where the module that stands for a user's container in the tree has that container."""


def refresh_container(module: nn.Module) -> None:
    """Take over what the program has changed in the user's container that `module` stands for, if it does."""
    if USER_CONTAINER in module.__dict__:
        module.refresh()  # pyright: ignore[reportCallIssue]


_ITEM_TREE = "burnlike.record.pytree:item_tree"
_ITEM_OF_TREE = "burnlike.record.pytree:item_of_tree"
_TORCHS = tuple(nn.Module().__dict__)
_OURS = frozenset({KEPT, "_burnlike_stack_members", COMPILED_CALL})


def plain_names(parts: dict[str, Any]) -> list[str]:
    """The names in `parts`, the `__dict__` of a module, under which neither tensors nor modules are registered.

    What containers note about themselves is among them, and so are references to other modules.
    """
    names = list(parts)
    if names[len(_TORCHS) - 1] == _TORCHS[-1]:  # all before it are torch's too, as `nn.Module.__init__` makes them
        return [name for name in names[len(_TORCHS) :] if name not in _OURS]
    return [name for name in names if name not in _TORCHS and name not in _OURS]


DEEPEST = 8
"""How deep to look, so that a list which holds itself comes to an end."""


_SEQUENCES = (list, tuple, deque, set, frozenset, UserList)
_MAPPINGS = (dict, UserDict, MappingProxyType)
COLLECTIONS = (*_SEQUENCES, *_MAPPINGS, SimpleNamespace)
"""Python's own classes of collections; a dataclass is one too."""


def is_collection(value: Any) -> bool:
    """True if `items_of` knows items of `value`."""
    if isinstance(value, COLLECTIONS):
        return True
    record = dataclasses.is_dataclass(value) and not isinstance(value, type | TensorBase | Tensor | nn.Module)
    return record and not is_item(value)


def items_of(value: Any) -> list[Any]:
    """The items of a list, dict, deque, set and the like, and the fields of a namespace or dataclass."""
    if isinstance(value, _SEQUENCES):
        return list(value)
    if isinstance(value, _MAPPINGS):
        return list(value.values())
    if isinstance(value, SimpleNamespace):
        return list(vars(value).values())
    fields = dataclasses.fields(value) if is_collection(value) else ()
    return [getattr(value, field.name, None) for field in fields]


def item_count(value: Any) -> int | None:
    """The number of items of a collection, without None in fields; None for anything else."""
    if isinstance(value, (*_SEQUENCES, *_MAPPINGS)):
        return len(value)
    return sum(item is not None for item in items_of(value)) if is_collection(value) else None


def with_items(value: Any, function: Callable[[Any], Any]) -> Any:
    """A list, tuple or dict like `value`, with `function(item)` in place of each item.

    It is `value` itself if each item stays the same object; so is anything else, subclasses included.
    """
    kind = type(value)
    if kind is not list and kind is not tuple and kind is not dict:
        return value
    before = list(value.values()) if kind is dict else value
    items, changed = [], False
    for item in before:
        items.append(new := function(item))
        changed = changed or new is not item
    if not changed:
        return value
    return dict(zip(value, items, strict=True)) if kind is dict else kind(items)


def apply_plain(module: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
    """Replace each plain tensor in the attributes of `module`, also in lists, by `function` of it; constants stay."""
    for name, value in _candidates(module):
        module.__dict__[name] = _applied(value, function)


def untrack_plain(module: nn.Module) -> None:
    """Detach each plain tensor that autograd tracks; see `apply_plain`."""
    for name, value in _candidates(module):
        module.__dict__[name] = _applied(value, lambda it: it.detach() if it.requires_grad else it, True)


def _candidates(module: nn.Module) -> list[tuple[str, Any]]:
    parts, kinds = module.__dict__, (Tensor, TensorBase, list, tuple, dict)
    fields = [(name, parts[name]) for name in plain_names(parts) if isinstance(parts[name], kinds)]
    references = references_of(module) if fields else ()
    return [field for field in fields if field[0] not in references]


def _applied(value: Any, function: Callable[[Tensor], Tensor], untrack: bool = False, depth: int = 0) -> Any:
    if isinstance(value, Tensor):
        return _applied_tensor(value, function, untrack)
    if isinstance(value, TensorBase):
        return value.without_autodiff() if untrack else _applied_typed(value, function)  # pyright: ignore
    if depth == DEEPEST:
        return value
    return with_items(value, lambda item: _applied(item, function, untrack, depth + 1))


def _applied_tensor(tensor: Tensor, function: Callable[[Tensor], Tensor], untrack: bool) -> Tensor:
    if isinstance(tensor, nn.Parameter):  # of another module, or hidden on purpose: torch leaves it alone too
        return tensor
    if untrack or not (tensor.requires_grad and tensor.is_leaf):
        return function(tensor)
    # A leaf stays one: moved under autograd it would be computed from the old tensor, and get no gradient of its own.
    with torch.no_grad():
        moved = function(tensor)
    return tensor if moved is tensor else moved.detach().requires_grad_()


def _applied_typed(tensor: Any, function: Callable[[Tensor], Tensor]) -> Any:
    moved, backend = _applied_tensor(tensor.inner, function, False), tensor.spec.backend
    if moved is tensor.inner:
        return tensor
    if moved.device != backend.device:
        try:
            target = backend_for(moved.device)
        except BackendError:  # torch's `meta` and others: a typed tensor can't be there
            return tensor
        backend = Autodiff(target) if backend.ad_enabled else target
    return wrap(moved, family_of(backend)[moved.dtype][moved.ndim])


def check_loose_parts(fields: Iterable[tuple[nn.Module, str, Any]], in_tree: Container[int]) -> None:
    """Raise ModuleTreeError if a plain collection has a part that is none of those `in_tree`, which are addresses."""
    for module, name, value in fields:
        for part in _parts_in(value):
            if id(part) not in in_tree:
                raise ModuleTreeError(
                    f"{type(module).__name__}.{name} was assigned before it held the {type(part).__name__} that it"
                    " holds now, which is no part of the module: it would be neither trained nor saved. Assign a"
                    " list when it is filled, or begin with burnlike.module.ModuleVec(); if it only refers to the"
                    f" {type(part).__name__}, assign burnlike.constant(...)"
                )


def _parts_in(value: object, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, nn.Module | nn.Parameter):
        yield value
    elif depth < DEEPEST:
        for item in items_of(value):
            yield from _parts_in(item, depth + 1)


def is_item(value: Any) -> bool:
    return hasattr(type(value), "into_item") and hasattr(type(value), "from_item")


def save_items(module: nn.Module, destination: MutableMapping[str, Any], prefix: str) -> None:
    for name in fields_with(module, "holds", "item"):
        destination[prefix + name] = resolve(_ITEM_TREE)(getattr(module, name), name)


def load_items(
    module: nn.Module,
    state_dict: MutableMapping[str, Any],
    prefix: str,
    local_metadata: Any,
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Take the fields out of a state dict, as `nn.Module._load_from_state_dict` does its tensors."""
    for name in fields_with(module, "holds", "item"):
        key = prefix + name
        if key not in state_dict:
            missing_keys.append(key)
            continue
        try:
            value = resolve(_ITEM_OF_TREE)(type(getattr(module, name)), state_dict.pop(key), name)
        except (BurnlikeError, LookupError, ValueError, TypeError) as error:
            error_msgs.append(f"{prefix and f'in {prefix[:-1]}: '}{error}")
            continue
        setattr(module, name, value)
