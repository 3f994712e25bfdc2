"""The base of all options: fields are checked and frozen when they are made."""

import dataclasses
from typing import Any, ClassVar, Self

from ...errors import TensorValueError, nearest
from ..core.sizes import expansions, frozen_padding, frozen_size, frozen_sizes


class Options:
    """Checks of fields, by their name; each says which class of options it is about.

    Attributes:
        expanded: number of dimensions -> the sizes, one for each dimension; what functions read.
    """

    expanded: "ClassVar[dict[int, tuple[Any, ...]]]"

    def _freeze(self, **least: int) -> None:
        for name, smallest in least.items():
            object.__setattr__(self, name, frozen_sizes(type(self).__name__, name, getattr(self, name), smallest))

    def _freeze_padding(self) -> None:
        object.__setattr__(self, "padding", frozen_padding(type(self).__name__, getattr(self, "padding")))  # noqa: B009

    def _expand(self, *names: str) -> None:
        found = expansions({name: getattr(self, name) for name in names})
        object.__setattr__(self, "expanded", found)

    def _positive(self, *names: str) -> None:
        for name in names:
            frozen_size(type(self).__name__, name, getattr(self, name), 1)

    def _one_of(self, name: str, known: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in known:
            hint = nearest(value, known) if isinstance(value, str) else ""
            raise TensorValueError(type(self).__name__, f"{name}: expected one of {list(known)}, got {value!r}{hint}")

    def _with(self, **changes: Any) -> Self:
        replace: Any = dataclasses.replace
        return replace(self, **changes)
