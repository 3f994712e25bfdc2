"""What `fuse` did to a model, and why not more."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fused:
    """A module with native ops.

    Attributes:
        path: in the model; empty for the model itself.
        class_name: of the module.
        ops: the native ops.
    """

    path: str
    class_name: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A module that stays as it is.

    Attributes:
        path: in the model; empty for the model itself.
        class_name: of the module.
        reason: why.
    """

    path: str
    class_name: str
    reason: str


@dataclass(frozen=True, slots=True)
class FuseReport:
    """What `fuse` did: printed, a line for each class of modules and what came of it.

    Attributes:
        fused: modules with native ops.
        kept: modules that stay as they are. Containers that only call their children are not listed.
    """

    fused: tuple[Fused, ...]
    kept: tuple[Kept, ...]

    def __str__(self) -> str:
        rows = [*_rows((it.class_name, ", ".join(it.ops)) for it in self.fused)]
        kept_rows = [*_rows((it.class_name, it.reason) for it in self.kept)]
        name_width = max((len(name) for name, _, _ in rows + kept_rows), default=0)
        count_width = max((len(count) for _, count, _ in rows + kept_rows), default=0)

        def lines(table: list[tuple[str, str, str]]) -> list[str]:
            return [f"  {name:{name_width}}  {count:>{count_width}}  {what}" for name, count, what in table]

        text = [f"fused {len(self.fused)} of {len(self.fused) + len(self.kept)} modules", *lines(rows)]
        if kept_rows:
            text += ["kept as they are", *lines(kept_rows)]
        return "\n".join(text)


def _rows(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [(name, str(count), what) for (name, what), count in Counter(pairs).items()]
