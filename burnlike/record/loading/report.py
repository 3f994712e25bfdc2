"""LoadReport: what a load did with each tensor of a module and of a record."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from ...errors import RecordMismatchError, nearest
from ...module.identity.param_id import ParamId
from ..record import Record
from .load_options import LoadOptions

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


def refuse(report: LoadReport, record: Record, module: nn.Module, options: LoadOptions) -> None:
    """Raise if there is something in the report that the options do not allow."""
    mismatched = report.mismatched if options.validate else ()
    missing = report.missing if not options.partial_is_allowed else ()
    unexpected = report.unexpected if not options.unused_is_allowed else ()
    if not mismatched and not missing and not unexpected:
        return
    name = type(module).__name__
    fitting = len(report.applied)
    wanted = fitting + len(report.missing) + len({it.path for it in report.mismatched})
    is_a_part = fitting > 0 and not report.mismatched and not report.unexpected  # as the record of a ParamGroup
    if fitting * 2 < wanted and not is_a_part:
        message = (
            f"{record.source} belongs to another model: {fitting} of the {wanted} tensors of {name} fit "
            f"({_first(report, record)}); take this model's record, or the config that the record was saved with. "
            f"Nothing was loaded{_below(report)}"
        )
    else:
        remedy = "" if mismatched else "\nload with strict=False to leave out what is missing or unexpected"
        details = str(report).partition("\n")[2]
        message = f"{record.source} does not fit {name}; nothing was loaded\n{details}{remedy}"
    error = RecordMismatchError(message)
    error.report = report
    raise error


def _first(report: LoadReport, record: Record) -> str:
    for item in report.mismatched:
        return f"'{item.path}': expected {item.expected}, got {item.found}"
    held = ", ".join(f"'{name}'" for name in list(record.tensors)[:2]) or "no tensor"
    if report.missing:
        return f"expected '{report.missing[0]}' and others, it holds {held}"
    return f"it holds {held}"


def _below(report: LoadReport) -> str:
    """A hint, where what is missing is there below another name."""
    missing = set(report.missing)
    for name in report.unexpected:
        for path in (name.partition(".")[2], name.partition(".")[2].partition(".")[2]):
            if path in missing:
                pattern = "^" + re.escape(name.removesuffix(path))
                return f". '{path}' is there as '{name}': load with remap=[({pattern!r}, '')]"
    return ""
