"""The operators and attributes of a handle: those of its tensor."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor


class Operators:
    """Base of a handle: `m.b * 2`, `m.b[0]`, `m.b.shape` are those of its data.

    `==` compares handles, which are equal if they stand for one attribute.
    """

    __slots__ = ()
    __array_priority__ = 1000  # as Tensor's: NumPy leaves operators to it

    def __getattr__(self, name: str) -> Any:
        """The tensor's attribute `name`; an error for a hole, as any use."""
        if name.startswith("__") or not hasattr(Tensor, name) or hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.tensor, name)

    def __getitem__(self, index: Any) -> Any:
        return self.val()[index]

    def __len__(self) -> int:
        return len(self.val())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.val())

    def __contains__(self, item: Any) -> bool:
        return item in self.val()

    def __array__(self, *args: Any, **options: Any) -> Any:
        return self.tensor.__array__(*args, **options)


def _operand(value: Any) -> Any:
    if not isinstance(value, Operators):
        return value
    value.tensor  # refuses what is no single tensor  # noqa: B018
    return value.val()


def _add(name: str, function: Callable[..., Any], reflected: bool = False) -> None:
    def method(handle: Operators, *others: Any) -> Any:
        operands = [_operand(it) for it in (handle, *others)]
        return function(*(reversed(operands) if reflected else operands))

    setattr(Operators, f"__{name}__", method)


for _name in ("neg", "pos", "abs", "invert", "index", "lt", "le", "gt", "ge"):
    _add(_name, getattr(operator, _name))
for _type in (bool, int, float, complex):
    _add(_type.__name__, _type)
for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
]:
    _add(_name.rstrip("_"), getattr(operator, _name))
    _add(f"r{_name.rstrip('_')}", getattr(operator, _name), reflected=True)
