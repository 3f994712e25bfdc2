"""Error messages for records that do not fit a module."""

import re

from torch import nn

from ...errors import RecordMismatchError
from ..record import Record
from .load_options import LoadOptions
from .report import LoadReport


def refuse(report: LoadReport, record: Record, module: nn.Module, options: LoadOptions) -> None:
    """Raise if there is something in the report that the options do not allow.

    Raises:
        RecordMismatchError: there is; the report is its `report`.
    """
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
    """One example of what differs."""
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
