"""Holding another module without owning it."""

import weakref
from typing import Any, Generic, NoReturn, TypeVar

from torch import nn

from ..identity.field_metadata import fields_with

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
