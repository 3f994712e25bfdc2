"""LoadOptions: which tensors a load may leave out, rename and convert."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import torch

from ...errors import ArgumentError, nearest
from ...module import ParamGroup, ParamId

Filter = ParamGroup | str | Callable[[str], object]
"""Which parameters are meant: a group, a regular expression found in the path, or a function of the path."""


Remap = Iterable[tuple[str, str]] | Mapping[str, str]
"""(Regular expression, replacement) pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Options for loading a record into a module.

    Attributes:
        strict: whether missing and unexpected tensors are errors; the two below say it one by one.
        allow_partial: whether the record may lack tensors of the module; None is `not strict`.
        allow_unused: whether the record may have tensors that the module lacks; None is `not strict`.
        validate: whether a tensor of another shape or kind (float, int, bool, complex) is an error; if not, it is left
            out and reported.
        match: `path` finds a parameter's tensor by its path, `id` by its id: for a module whose layers were moved or
            renamed since it was saved.
        filter: which parameters are loaded: a ParamGroup, a regular expression found in the path, or a function of the
            path. The others are reported as skipped, and are neither missing nor unexpected.
        remap: (regular expression, replacement) pairs, applied one after the other to the names in the record, as
            `re.sub` does.
        remap_ids: id in the record -> path in the module that gets its values, or id: then the parameter with that id
            gets them, and keeps its id. The rest goes by `match`.
        dtype: `module` converts to the module's types; `as_saved` gives the parameters the types of the record, which
            makes new tensors, so that an optimizer of torch has to be made afterwards.
        device: for tensors on the meta device; None is torch's default device.

    Raises:
        ArgumentError: an option has a value that it can't have.
    """

    strict: bool = True
    allow_partial: bool | None = None
    allow_unused: bool | None = None
    validate: bool = True
    match: Literal["path", "id"] = "path"
    filter: Filter | None = None
    remap: Remap = ()
    remap_ids: Mapping[ParamId | str, ParamId | str] = field(default_factory=dict)
    dtype: Literal["module", "as_saved"] = "module"
    device: torch.device | str | None = None

    def __post_init__(self) -> None:
        _one_of("match", self.match, ("path", "id"))
        _one_of("dtype", self.dtype, ("module", "as_saved"))
        if isinstance(self.filter, str):
            _pattern("filter", self.filter)
        elif not (self.filter is None or isinstance(self.filter, ParamGroup) or callable(self.filter)):
            raise ArgumentError(
                f"filter: expected a ParamGroup, a regular expression or a function of the path, got {self.filter!r}"
            )
        for option in ("strict", "allow_partial", "allow_unused", "validate"):
            value = getattr(self, option)
            if not isinstance(value, bool) and not (value is None and option.startswith("allow")):
                raise ArgumentError(f"{option}: expected True or False, got {value!r}")
        pairs = self.remap.items() if isinstance(self.remap, Mapping) else self.remap
        if not isinstance(pairs, Iterable):
            raise ArgumentError(f"remap: expected (regular expression, replacement) pairs of texts, got {pairs!r}")
        object.__setattr__(self, "remap", tuple(_pair(pair) for pair in pairs))
        if not isinstance(self.remap_ids, Mapping):
            raise ArgumentError(
                "remap_ids: expected a map from ids of the record to ids or paths of the module,"
                f" got {self.remap_ids!r}"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "LoadOptions":
        """The options of a call.

        Raises:
            ArgumentError: there is no such option, or it has a value that it can't have.
        """
        known = [it.name for it in fields(cls)]
        for name in options:
            if name not in known:
                raise ArgumentError(f"expected an option among {', '.join(known)}, got {name!r}{nearest(name, known)}")
        return cls(**options)

    @property
    def partial_is_allowed(self) -> bool:
        return not self.strict if self.allow_partial is None else self.allow_partial

    @property
    def unused_is_allowed(self) -> bool:
        return not self.strict if self.allow_unused is None else self.allow_unused

    def renamed(self, name: str) -> str:
        """A name in the record after `remap`.

        Raises:
            ArgumentError: a replacement refers to a group that its expression lacks.
        """
        for pattern, replacement in self.remap:
            try:
                name = re.sub(pattern, replacement, name)
            except (re.error, IndexError) as error:
                raise ArgumentError(f"remap: {replacement!r} can't replace {pattern!r}: {error}") from error
        return name


def _one_of(option: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        hint = nearest(value, known) if isinstance(value, str) else ""
        raise ArgumentError(f"{option}: expected {' or '.join(map(repr, known))}, got {value!r}{hint}")


def _pair(pair: object) -> tuple[str, str]:
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise ArgumentError(f"remap: expected (regular expression, replacement) pairs of texts, got {pair!r}")
    _pattern("remap", pair[0])
    return pair[0], pair[1]


def _pattern(option: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ArgumentError(f"{option}: {pattern!r} is no regular expression: {error}") from error
