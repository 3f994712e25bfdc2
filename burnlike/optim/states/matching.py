"""Matches the states in an optimizer's record with parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn

from ..._lazy import resolve
from ...errors import RecordMismatchError, nearest
from ...module import Param, ParamId
from ...record import LoadReport, Record
from ...record.files.stored_tensors import LazyTensors
from ...record.layout import LAYOUTS, known_layout
from ...record.loading.load_options import Mismatch

_SHOWN = 10
GROUPS = "param_groups"
"""First part of the names of tensors that are no states: options of the parameter groups of torch's optimizers."""


@dataclass(slots=True)
class StateEntry:
    """The state of one parameter in a record; `path` and `rank` of the parameter are None where it doesn't say.

    `tensors` has the name in the record for each field that is a tensor, `values` the other fields.
    """

    id: ParamId
    path: str | None = None
    rank: int | None = None
    tensors: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"'{self.path}' ({self.id})" if self.path else str(self.id)


class StateOwner(NamedTuple):
    """A parameter that may have a state, and the id that it has or is about to get."""

    param: Param
    id: ParamId


class StateMatch(NamedTuple):
    """A state, and the parameter that it goes to; None where no module was given."""

    entry: StateEntry
    target: StateOwner | None


def entries_of(record: Record) -> list[StateEntry]:
    """The states in `record`, in its order; those without tensors and values too."""
    states, paths = record.values.get("states"), record.values.get("paths", {})
    if not record.tensors and not record.values and not record.ids:
        return []  # as formats that have no place for values keep the record of an optimizer before its first step
    if not isinstance(states, Mapping) or not isinstance(paths, Mapping):
        raise RecordMismatchError(
            f"expected an optimizer's record, got one without optimizer states: {record.source}; take the file that was"
            " saved from optimizer.into_record()"
        )
    entries: dict[str, StateEntry] = {}
    for name in record.tensors:
        text, _, path = name.partition(".")
        if text != GROUPS:
            _entry(entries, text, name).tensors[path] = name
    for name, value in states.items():
        text, _, path = name.partition(".")
        _entry(entries, text, name).values[path] = value
    for text, path in paths.items():
        if not isinstance(path, str):
            raise RecordMismatchError(f"{record.source}: expected the path of {text} as a text, got {path!r:.60}")
        _entry(entries, text, text).path = path
    for text, rank in _ranks(record).items():
        _entry(entries, text, text).rank = rank
    return list(entries.values())


def _entry(entries: dict[str, StateEntry], text: str, name: str) -> StateEntry:
    try:
        return entries.get(text) or entries.setdefault(text, StateEntry(ParamId.parse(text)))
    except ValueError as error:
        raise RecordMismatchError(
            f"expected names '<ParamId>.<field>' in an optimizer's record, got '{name}'"
        ) from error


def _ranks(record: Record) -> dict[str, int | None]:
    layout = known_layout(record.layout) if record.layout is not None else {}
    layout = layout.get("$named", layout) if isinstance(layout, Mapping) else {}
    if not isinstance(layout, Mapping):
        return {}
    states = {text: below for text, below in layout.items() if isinstance(below, Mapping) and "$state" in below}
    return {text: below.get("rank") for text, below in states.items() if text != "$map"}


@dataclass(frozen=True, slots=True)
class OptimizerLoadReport:
    """Says for each state of a record where it went.

    Attributes:
        by_id: paths of the parameters that were found by their ids.
        by_path: paths of those that were found by their paths: the module wasn't loaded from the file saved with it.
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
        lines = [f"{len(self.by_id) + len(self.by_path) + len(self.remapped)} states loaded"]
        if self.by_path:
            lines.append(
                f"  {len(self.by_path)} of them by path: their ids are not in the module, which was not loaded from the"
                " file that was saved with the optimizer"
            )
        for title, items in {
            "remapped": [f"{before} -> {now}" for before, now in self.remapped.items()],
            "dropped, of no parameter": self.orphaned,
            "without a state": self.missing,
            "mismatched": [f"{it.path}: expected {it.expected}, got {it.found}" for it in self.mismatched],
        }.items():
            lines += [f"  {title}: {item}" for item in items[:_SHOWN]]
            if len(items) > _SHOWN:
                lines.append(f"  {title}: {len(items) - _SHOWN} more")
        return "\n".join(lines)


def match_entries(
    entries: Sequence[StateEntry], targets: Sequence[StateOwner], report: LoadReport | None
) -> tuple[list[StateMatch], OptimizerLoadReport]:
    """Find the parameter of each state: by what `report` says, by id, then by path where no id decides."""
    by_id = {target.id: target for target in targets}
    by_path: dict[str, StateOwner | None] = {}
    for target in targets:
        for path in (target.param.path, *target.param.aliases):
            by_path[path] = None if path in by_path else target  # of two modules with one path neither is meant
    taken: dict[int, StateOwner] = {}  # by place in `entries`
    remapped: dict[str, str] = {}
    used: set[ParamId] = set()

    def take(index: int, target: StateOwner | None) -> bool:
        if index in taken or target is None or target.id in used:
            return False
        used.add(target.id)
        taken[index] = target
        return True

    # By id for all first: a path may be that of another parameter by now, as after layers were reordered.
    for index, entry in enumerate(entries):
        followed = None
        if report is not None:  # the parameter to which loading the module moved that of the state
            followed = by_id.get(report.ids[entry.id]) if entry.id in report.ids else None
            followed = followed or by_path.get(report.renamed.get(entry.path or "", ""))
        if take(index, followed or by_id.get(entry.id)) and followed and entry.path not in (None, followed.param.path):
            remapped[entry.path] = followed.param.path
    ids = [target.param.path for target in taken.values()]
    paths = [taken[index].param.path for index, it in enumerate(entries) if take(index, by_path.get(it.path or ""))]
    return [StateMatch(entries[index], taken[index]) for index in sorted(taken)], OptimizerLoadReport(
        by_id=[path for path in ids if path not in remapped.values()],
        by_path=paths,
        remapped=remapped,
        orphaned=[str(entry) for index, entry in enumerate(entries) if index not in taken],
        missing=[target.param.path for target in targets if target.param.trainable and target.id not in used],
    )


def refuse_misfits(
    entries: Sequence[StateEntry], report: OptimizerLoadReport, targets: Sequence[StateOwner], source: str, prune: bool
) -> None:
    """RecordMismatchError for states of other shapes, and, without `prune`, for those of no parameter."""
    message = ""
    if report.orphaned and not prune:
        more = f" and {len(report.orphaned) - 5} more" if report.orphaned[5:] else ""
        shown = ", ".join(report.orphaned[:5]) + more
        first = next(entry for entry in entries if str(entry) == report.orphaned[0])
        another = len(report.orphaned) == len(entries)
        message = (
            f" {'belongs to another model' if another else 'does not fit the model'}: it has states of {shown}, and no"
            f" parameter has that id or path{nearest(first.path or '', [it.param.path for it in targets])}; pass the"
            " report of the module's load if its parameters were renamed, or prune_orphans=True to drop them. The"
            " optimizer is as it was"
        )
    elif report.mismatched:
        lines = "\n".join(f"  {it.path}: expected {it.expected}, got {it.found}" for it in report.mismatched[:10])
        message = f" does not fit the model; the optimizer is as it was\n{lines}"
    if message:
        error = RecordMismatchError(source + message)
        error.report = report
        raise error


def laid_out(
    record: Record,
    targets: Sequence[StateOwner],
    modules: Sequence[nn.Module],
    report: LoadReport | None = None,
    *,
    of_torch: bool = False,
) -> Record:
    """The record with its states as `targets`, parameters of the modules, lie: of torch's layers, or of Burn's.

    `of_torch`: it was made of a state dict of torch's, which does not say how it lies.
    """
    if record.values.get(LAYOUTS) == {} and not any(map(has_layers_of_torch, modules)):
        return record
    lay_out = resolve("burnlike.interop.state_layouts:lay_out")
    return lay_out(record, targets, modules, report, of_torch=of_torch)


def noted_layouts(modules: Sequence[nn.Module]) -> dict[str, Any]:
    """The value `layouts` of the record of an optimizer of these modules."""
    some = [module for module in modules if has_layers_of_torch(module)]
    return resolve("burnlike.interop.state_layouts:noted_layouts")(some) if some else {}


def has_layers_of_torch(module: nn.Module) -> bool:
    """True if parts of it are of torch's layers, which may lie otherwise than Burn's."""
    kinds = {base for part in module.modules() for base in type(part).__mro__ if part._parameters}
    return any(kind.__module__.startswith("torch.nn.modules.") and kind is not nn.Module for kind in kinds)


def options_of_groups(
    members: Sequence[Sequence[Any]],
    group_of: Mapping[Any, int],
    options: Sequence[Mapping[str, Any]],
    source: str,
    remedy: str,
) -> list[Mapping[str, Any]]:
    """The saved options for each group of an optimizer: of the group that its parameters were in; none for new ones.

    `group_of` says in which saved group each of the `members` was. It is a RecordMismatchError if parameters of one
    group were in groups with different options.
    """
    chosen = []
    for place, some in enumerate(members):
        origins = sorted({group_of[it] for it in some if it in group_of})
        different = next((origin for origin in origins if repr(options[origin]) != repr(options[origins[0]])), None)
        if different is not None:
            raise RecordMismatchError(
                f"{source}: group {place} has parameters that were in the groups {origins[0]} and {different}, whose"
                f" options differ: {dict(options[origins[0]])} and {dict(options[different])}; {remedy}. The optimizer"
                " is as it was"
            )
        chosen.append(options[origins[0]] if origins else {})
    return chosen


def tensors_of(entry: StateEntry, record: Record) -> dict[str, Tensor]:
    """Field -> tensor, in memory of its own: an optimizer writes into its states."""
    # What a file gives is in memory of its own already.
    stored = isinstance(record.tensors, LazyTensors)
    return {
        name: record.tensors[full] if stored else record.tensors[full].detach().clone()
        for name, full in entry.tensors.items()
    }
