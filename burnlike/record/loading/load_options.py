"""LoadOptions, of a load into a module, and LoadReport, which says what it did with each tensor."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn

from ..._patterns import compiled
from ...errors import ArgumentError, BurnlikeError, RecordMismatchError, nearest
from ...module import ParamGroup, ParamId
from ..precision import check_pattern
from ..record import Record

Filter = ParamGroup | str | Callable[[str], object]  # a group, a regular expression or a function of the path
Remap = Iterable[tuple[str, str]] | Mapping[str, str]  # (regular expression, replacement) pairs
_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Options for loading a record into a module; ArgumentError names one that has a wrong value.

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
        for option, choices in (("match", ("path", "id")), ("dtype", ("module", "as_saved"))):
            if (value := getattr(self, option)) not in choices:
                hint = nearest(value, choices) if isinstance(value, str) else ""
                raise ArgumentError(f"{option}: expected {' or '.join(map(repr, choices))}, got {value!r}{hint}")
        if isinstance(self.filter, str):
            check_pattern("filter", self.filter)
        elif not (self.filter is None or isinstance(self.filter, ParamGroup) or callable(self.filter)):
            raise ArgumentError(
                f"filter: expected a ParamGroup, a regular expression or a function of the path, got {self.filter!r}"
            )
        for option in ("strict", "allow_partial", "allow_unused", "validate"):
            value = getattr(self, option)
            if not isinstance(value, bool) and not (value is None and option.startswith("allow")):
                raise ArgumentError(f"{option}: expected True or False, got {value!r}")
        pairs: Any = self.remap.items() if isinstance(self.remap, Mapping) else self.remap
        what = "remap: expected (regular expression, replacement) pairs of texts, got"
        if not isinstance(pairs, Iterable):
            raise ArgumentError(f"{what} {pairs!r}")
        object.__setattr__(self, "remap", pairs := tuple(pairs))
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise ArgumentError(f"{what} {pair!r}")
            check_pattern("remap", pair[0])
        if not isinstance(self.remap_ids, Mapping):
            raise ArgumentError(
                "remap_ids: expected a map from ids of the record to ids or paths of the module,"
                f" got {self.remap_ids!r}"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "LoadOptions":
        """The options of a call; ArgumentError names one that there is not."""
        for name in options:
            if name not in cls.__slots__:
                fields = [*cls.__slots__]
                raise ArgumentError(
                    f"expected an option among {', '.join(fields)}, got {name!r}{nearest(name, fields)}"
                )
        return cls(**options)

    def renamed(self, name: str) -> str:
        """A name in the record after `remap`; ArgumentError if a replacement names a group that is not there."""
        return renamed("remap", name, self.remap)  # pyright: ignore[reportArgumentType]


def renamed(
    option: str, name: str, rules: Iterable[tuple[str, str]], error_type: type[BurnlikeError] = ArgumentError
) -> str:
    """The name after rules, of `(regular expression, replacement)`, one after the other."""
    for pattern, replacement in rules:
        try:
            name = compiled(pattern).replaced(name, replacement)
        except (re.error, IndexError) as error:
            raise error_type(f"{option}: {replacement!r} can't replace {pattern!r}: {error}") from error
    return name


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A tensor of the module whose shape or kind (float, int, bool, complex) differs from the record's.

    `expected` and `found` are type and shape in the module and in the record, or what else is wrong.
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
        clones: paths of the module's tensors that kept their ids, since the record gives the id to another tensor with
            other values, too: Burn's clones of a module (a target network) keep its ids.
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
    clones: Sequence[str] = ()
    entries: Sequence[str] = ()
    unset: Sequence[str] = ()

    def __str__(self) -> str:
        converted = f", {len(self.converted)} of them converted" if self.converted else ""
        retyped = f", {len(self.retyped)} of them in the record's type" if self.retyped else ""
        count = len(self.entries)
        entries = f", and {count} {'entry' if count == 1 else 'entries'} of the modules' own" if count else ""
        wrong = [f"{item.path}: expected {item.expected}, got {item.found}" for item in self.mismatched]
        return "\n".join(
            (
                f"{len(self.applied)} tensors loaded{converted}{retyped}{entries}",
                *_listed("missing in the record", self.missing, self.unexpected),
                *_listed("unexpected", self.unexpected, self.missing),
                *_listed("mismatched", wrong),
                *_listed("skipped", self.skipped),
                *_listed("with an id of its own, as the record's is that of another tensor", self.clones),
                *_listed("still on the meta device", self.unset),
            )
        )


def _listed(title: str, items: Sequence[str], by_id: Sequence[str] = ()) -> list[str]:
    listed = {*items}  # loaded by ids, a name may be both missing and unexpected
    others = [name for name in by_id if name not in listed]
    lines = [f"  {title}: {item}{nearest(item, others)}" for item in items[:_SHOWN]]
    return [*lines, f"  {title}: {len(items) - _SHOWN} more"] if len(items) > _SHOWN else lines


def refuse(report: LoadReport, record: Record, module: nn.Module, options: LoadOptions) -> None:
    """Raise if there is something in the report that the options do not allow."""
    mismatched = report.mismatched if options.validate else ()
    partial = not options.strict if options.allow_partial is None else options.allow_partial
    unused = not options.strict if options.allow_unused is None else options.allow_unused
    missing, unexpected = () if partial else report.missing, () if unused else report.unexpected
    if not mismatched and not missing and not unexpected:
        return
    name, fitting = type(module).__name__, len(report.applied)
    wanted = fitting + len(report.missing) + len({it.path for it in report.mismatched})
    is_a_part = fitting > 0 and not report.mismatched and not report.unexpected  # as the record of a ParamGroup
    if fitting * 2 < wanted and not is_a_part:
        message = (
            f"{record.source} belongs to another model: {fitting} of the {wanted} tensors of {name} fit "
            f"({_first(report, record)}); take this model's record, or the config that the record was saved with. "
            f"Nothing was loaded{_below(report)}"
        )
    else:
        remedy = "\nburnlike.record.load with strict=False leaves out what is missing or unexpected"
        details = str(report).partition("\n")[2]
        message = f"{record.source} does not fit {name}; nothing was loaded\n{details}{'' if mismatched else remedy}"
    error = RecordMismatchError(message)
    error.report = report
    raise error


def _first(report: LoadReport, record: Record) -> str:
    for item in report.mismatched:
        return f"'{item.path}': expected {item.expected}, got {item.found}"
    there = ", ".join(f"'{name}'" for name in list(record.tensors)[:2]) or "no tensor"
    return f"expected '{report.missing[0]}' and others, it holds {there}" if report.missing else f"it holds {there}"


def _below(report: LoadReport) -> str:
    """A hint, where what is missing is there below another name."""
    missing = set(report.missing)
    for name in report.unexpected:
        for path in (name.partition(".")[2], name.partition(".")[2].partition(".")[2]):
            if path in missing:
                pattern = "^" + re.escape(name.removesuffix(path))
                return f". '{path}' is there as '{name}': load with remap=[({pattern!r}, '')]"
    return ""
