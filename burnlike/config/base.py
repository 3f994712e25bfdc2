"""The base class of all configs."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, dataclass_transform

import msgspec

if TYPE_CHECKING:
    import os


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class ConfigMeta(type(msgspec.Struct)):
    """Hands keyword-only fields down to subclasses, and keeps a tag from being inherited."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> "ConfigMeta":
        options.setdefault("kw_only", True)
        options.setdefault("tag", False)
        return super().__new__(mcls, name, bases, namespace, **options)


class Config(msgspec.Struct, metaclass=ConfigMeta, frozen=True, forbid_unknown_fields=True):
    """A typed, frozen set of values, read from YAML and written to it."""

    def validate(self) -> Iterable[tuple[str, str]]:
        """Rules across fields: yields `(path, message)` for each that is broken; the path is relative, as in `"n_heads"`."""
        return ()

    def replace(self, **changes: Any) -> Self:
        """A copy with the fields `changes`, checked like a new one."""
        return msgspec.structs.replace(self, **changes)
