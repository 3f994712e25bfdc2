"""Loads a record's tensors into a module: everything is checked before anything is changed."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch import nn

from ...errors import RecordMismatchError, RecordPathError
from ...module import Param, ParamId, params
from ...module.torch_objects.device import find_device
from ..dtypes import plain
from ..files.stored_tensors import dtype_in
from ..nesting import part_of, without
from ..record import Record
from ..state_dict.own_code import below, parts_with_records
from ..state_dict.wrapper_subclasses import in_parts, tensor_part
from ..stateful import load_undoably
from .filling import fill
from .fitting import (
    check_targets,
    check_values,
    give_shapes,
    in_file_order,
    mapped,
    misfits,
    mismatches,
    other_parts,
    untied,
)
from .load_options import LoadOptions
from .matching import TensorMatch, match
from .meta_modules import compute_unsaved, registered
from .module_code import run_own_code
from .report import LoadReport, Mismatch, refuse


def load_into(record: Record, module: nn.Module, options: Mapping[str, Any]) -> LoadReport:
    """Put the tensors of `record` into `module`; see `burnlike.record.load`."""
    return prepare(record, module, LoadOptions.of(options))()


@dataclass(frozen=True, slots=True)
class PreparedLoad:
    """A load that fits and is to be done by calling it.

    Attributes:
        report: what becomes of each tensor.
        ids: path -> id that the parameter gets, for those that get one.
        undo: takes back what code of the modules' own did when it read its part; to be called if the load is not done.
    """

    report: LoadReport
    ids: Mapping[str, ParamId]
    _load: Callable[[], LoadReport]
    undo: Callable[[], None]

    def __call__(self) -> LoadReport:
        try:
            return self._load()
        except BaseException:
            self.undo()
            raise


def prepare(record: Record, module: nn.Module, options: LoadOptions) -> PreparedLoad:
    """Check everything, and give what does the load: for loads of several things that happen together or not at all."""
    with ExitStack() as undo:
        prepared = _prepare(record, module, options, undo)
        return replace(prepared, undo=undo.pop_all().close)


def _prepare(record: Record, module: nn.Module, options: LoadOptions, undo: ExitStack) -> PreparedLoad:
    device = find_device(options.device)
    record, own = _load_parts(record, module, options, undo)
    found = in_parts(param for param in params(module) if not param.path.startswith(own.below))
    matching = match(found, record, module, options)
    matching, entries = run_own_code(found, record, module, matching, device, undo)
    missing = [name for name in matching.missing if not name.startswith(own.below)]
    matching, entries = replace(matching, missing=[*missing, *own.missing]), [*entries, *own.loaded]
    tensors = record.tensors
    give_shapes(matching.matches, tensors, undo)
    wrong = [*mismatches(matching.matches, tensors), *other_parts(matching.matches, tensors, record.values)]
    if options.match == "path":
        wrong += untied(matching.matches, tensors, matching.names)
    report = LoadReport(
        missing=matching.missing,
        unexpected=matching.unexpected,
        mismatched=wrong,
        skipped=matching.skipped,
        entries=entries,
    )
    matches, report = _without(wrong, matching.matches, report)
    refuse(report, record, module, options)
    _new_ids(matches, found, matching.ids)
    forms = {it.param.path: mapped(it, tensors, device) for it in in_file_order(matches, tensors)}
    matches = [forms[it.param.path] for it in matches]
    wrong = [*misfits(matches)]
    matches, report = _without(wrong, matches, replace(report, mismatched=[*report.mismatched, *wrong]))
    refuse(report, record, module, options)
    as_saved = options.dtype == "as_saved"
    check_targets(matches, tensors, device, as_saved)
    if not as_saved:
        check_values(matches, tensors)
    types = _types(matches, record, as_saved)
    ids = _new_ids(matches, found, matching.ids)
    report = replace(
        report,
        renamed={name: param.path for name, param in _heirs(matches).items() if name != param.path},
        ids={record.ids[it.name]: matching.ids[it.name] for it in matches if it.name in record.ids},
        **{"retyped" if as_saved else "converted": types},
    )

    places = registered(module) if any(param.tensor.is_meta for param in found) else {}

    def load() -> LoadReport:
        fill(matches, tensors, device, as_saved)
        for param, param_id in ids:
            param.adopt(param_id)
        return replace(report, unset=compute_unsaved(module, places, device)) if places else report

    return PreparedLoad(report, {param.path: param_id for param, param_id in ids}, load, undo.close)


class _OwnParts(NamedTuple):
    """The parts of a module that have a record of their own: the beginnings of names in them (`below`), and the
    paths of those that were loaded and of those that the record lacks.
    """

    below: tuple[str, ...] = ()
    loaded: Sequence[str] = ()
    missing: Sequence[str] = ()


def _load_parts(record: Record, module: nn.Module, options: LoadOptions, undo: ExitStack) -> tuple[Record, _OwnParts]:
    """Load the parts of a module that have a record of their own, at once; and the record without them."""
    parts = parts_with_records(module)
    if not parts:
        return record, _OwnParts()
    if options.remap or options.filter is not None or options.match == "id" or options.remap_ids:
        raise RecordMismatchError(
            f"'{next(iter(parts))}' of {type(module).__name__} has a load_record of its own, which gets its part of the"
            " record by its path: load the parts of a renamed or filtered record one by one, record.part.load_into(...)"
        )
    loaded, missing = [], []
    for path, part in parts.items():
        try:
            its_record = part_of(record, path)
        except RecordPathError:
            missing.append(path)
            continue
        undo.callback(load_undoably(part, its_record))
        loaded.append(path)
    return without(record, parts), _OwnParts(below(parts), loaded, missing)


def _without(
    wrong: Sequence[Mismatch], matches: Sequence[TensorMatch], report: LoadReport
) -> tuple[list[TensorMatch], LoadReport]:
    paths = {it.path for it in wrong}
    fitting = [it for it in matches if it.param.path not in paths]
    return fitting, replace(report, applied=[it.param.path for it in fitting])


def _types(matches: Sequence[TensorMatch], record: Record, as_saved: bool) -> list[tuple[str, str, str]]:
    """Path, type in the record (or that a parameter gets from it) and type in the module, where they differ."""
    pairs = [
        (it.param, it.dtype(record.tensors) if as_saved or it.own else dtype_in(record.tensors, it.name))
        for it in matches
    ]
    return [
        (param.path, plain(source), plain(param.tensor.dtype))
        for param, source in pairs
        if source != param.tensor.dtype
    ]


def _heirs(matches: Sequence[TensorMatch]) -> dict[str, Param]:
    """Name in the record -> its parameter; of two that load one tied tensor, the one of its name."""
    heirs: dict[str, Param] = {}
    for it in matches:
        if it.name not in heirs or it.name in (it.param.path, *it.param.aliases):
            heirs[it.name] = it.param
    return heirs


def _new_ids(
    matches: Sequence[TensorMatch], found: Sequence[Param], ids: Mapping[str, ParamId]
) -> list[tuple[Param, ParamId]]:
    """The id that each parameter takes over."""
    heir = {name: param for name, param in _heirs(matches).items() if name in ids and not tensor_part(param)}
    new_id = {param.path: ids[name] for name, param in heir.items()}
    path_of: dict[ParamId, str] = {}
    for param in found:
        if tensor_part(param):
            continue
        param_id = new_id.get(param.path, param.id)
        if param_id in path_of:
            raise RecordMismatchError(
                f"'{path_of[param_id]}' and '{param.path}' would both have the ParamId {param_id};"
                " nothing was loaded; call burnlike.module.fresh_ids(module) first"
            )
        path_of[param_id] = param.path
    return [(param, ids[name]) for name, param in heir.items()]
