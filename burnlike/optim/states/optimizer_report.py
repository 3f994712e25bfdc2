"""OptimizerLoadReport: which parameter each state of an optimizer's record went to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...record.loading.report import Mismatch

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class OptimizerLoadReport:
    """Says for each state of a record where it went.

    Attributes:
        by_id: paths of the parameters that were found by their ids.
        by_path: paths of those that were found by their paths, since the record's ids are not in the module: it wasn't
            loaded from the file that was saved with the optimizer.
        remapped: path in the record -> path in the module, of those that followed the report of the module's load.
        orphaned: states that belong to no parameter, as `'path' (id)`; an error, or dropped if that is allowed.
        missing: paths of trainable parameters without a state; they begin anew, as at their first step.
        mismatched: states of another shape; nothing is loaded if there is one.
    """

    by_id: Sequence[str] = ()
    by_path: Sequence[str] = ()
    remapped: Mapping[str, str] = field(default_factory=dict)
    orphaned: Sequence[str] = ()
    missing: Sequence[str] = ()
    mismatched: Sequence[Mismatch] = ()

    def __str__(self) -> str:
        count = len(self.by_id) + len(self.by_path) + len(self.remapped)
        lines = [f"{count} states loaded"]
        if self.by_path:
            lines.append(
                f"  {len(self.by_path)} of them by path: their ids are not in the module, which was not loaded from the"
                " file that was saved with the optimizer"
            )
        lines += _listed("remapped", [f"{before} -> {now}" for before, now in self.remapped.items()])
        lines += _listed("dropped, of no parameter", self.orphaned)
        lines += _listed("without a state", self.missing)
        lines += _listed("mismatched", [f"{it.path}: expected {it.expected}, got {it.found}" for it in self.mismatched])
        return "\n".join(lines)


def _listed(title: str, items: Sequence[str]) -> list[str]:
    lines = [f"  {title}: {item}" for item in items[:_SHOWN]]
    return [*lines, f"  {title}: {len(items) - _SHOWN} more"] if len(items) > _SHOWN else lines
