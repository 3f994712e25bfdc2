"""Holding another module without owning it."""

from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Constant(Generic[T]):
    """What `constant` marks; a burnlike Module unwraps it when it is assigned."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


def constant(value: T) -> T:
    """Mark `value` (a teacher, a parent, ...) so that the Module it is assigned to only refers to it.

    `self.teacher = burnlike.constant(teacher)` makes `self.teacher` the teacher itself, which is no child: not
    visited, moved, saved or optimized. A deep copy refers to the same teacher, or to its copy if that is part of what
    was copied.

    Raises:
        TypeError: later, if the attribute belongs to a module that is not burnlike's.
    """
    marked: Any = Constant(value)
    return marked
