"""LoadReport: what a load did with each tensor of a module and of a record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...errors import nearest
from ...module.identity.param_id import ParamId

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A tensor whose shape or kind (float, int, bool, complex) differs.

    Attributes:
        path: of the module's tensor.
        expected: the module's type and shape.
        found: the record's type and shape, or what else is wrong.
    """

    path: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Says for each tensor what the load did with it.

    Attributes:
        applied: paths of the module's tensors that got values.
        missing: paths of the module's tensors that the record lacks.
        unexpected: names in the record that the module lacks.
        mismatched: tensors that do not fit; unless `validate=False` leaves them out, nothing is loaded if there is one.
        converted: (path, type in the record, type in the module) where the two differ.
        skipped: paths of the module, and names in the record that it lacks, that the filter leaves out.
        retyped: (path, type in the record, which the parameter has now, type before), by `dtype="as_saved"`.
        renamed: name in the record -> path in the module, where the two differ.
        ids: id of a tensor in the record -> id that the parameter has now.
        entries: names of what else the record has of the module's state (`get_extra_state`, entries that code of its
            own saves) that the module took.
        unset: paths of the module's tensors that are still on the meta device: no record has non-persistent buffers and
            plain attributes. A method `reset_non_persistent_buffers(device)` of the module that owns them computes
            them, and `burnlike.record.init_from` takes them from a module that is built as usual.
    """

    applied: Sequence[str] = ()
    missing: Sequence[str] = ()
    unexpected: Sequence[str] = ()
    mismatched: Sequence[Mismatch] = ()
    converted: Sequence[tuple[str, str, str]] = ()
    skipped: Sequence[str] = ()
    retyped: Sequence[tuple[str, str, str]] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[ParamId, ParamId] = field(default_factory=dict)
    entries: Sequence[str] = ()
    unset: Sequence[str] = ()

    def __str__(self) -> str:
        converted = f", {len(self.converted)} of them converted" if self.converted else ""
        retyped = f", {len(self.retyped)} of them in the record's type" if self.retyped else ""
        count = len(self.entries)
        entries = f", and {count} {'entry' if count == 1 else 'entries'} of the modules' own" if count else ""
        lines = [f"{len(self.applied)} tensors loaded{converted}{retyped}{entries}"]
        lines += _listed("missing in the record", self.missing, self.unexpected)
        lines += _listed("unexpected", self.unexpected, self.missing)
        lines += _listed(
            "mismatched", [f"{item.path}: expected {item.expected}, got {item.found}" for item in self.mismatched]
        )
        lines += _listed("skipped", self.skipped)
        lines += _listed("still on the meta device", self.unset)
        return "\n".join(lines)


def _listed(title: str, items: Sequence[str], known: Sequence[str] = ()) -> list[str]:
    own = {*items}  # loaded by ids, a name may be both missing and unexpected
    others = [name for name in known if name not in own]
    lines = [f"  {title}: {item}{nearest(item, others)}" for item in items[:_SHOWN]]
    if len(items) > _SHOWN:
        lines.append(f"  {title}: {len(items) - _SHOWN} more")
    return lines
