"""Putting a record's tensors into a module: everything is checked before anything is changed."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ..errors import RecordIOError, RecordMismatchError
from ..module import Param, ParamId, params
from ..module.device import find_device
from .convert import can_lose, check_floats, check_ints
from .dtypes import kind_of, plain, shown
from .lazy_tensors import LazyTensors
from .mappers import expected_form, loaded_form
from .record import Record
from .report import LoadReport, Mismatch

_WRAPPERS = re.compile(r"(?<![^.])(?:_orig_mod|_checkpoint_wrapped_module)\.")


@dataclass(frozen=True, slots=True)
class _Match:
    """A parameter, its name in the record, and what its load mapper made of the values there, if it has one."""

    param: Param
    name: str
    values: Tensor | None = None


def load_into(
    record: Record,
    module: nn.Module,
    strict: bool = True,
    device: torch.device | str | None = None,
    by_id: bool = False,
) -> LoadReport:
    """Put the tensors of `record` into `module`, in the module's types and devices; see `burnlike.record.load`."""
    target_device = find_device(device)
    tensors = record.tensors
    found = params(module)
    matches, missing = _match(found, _names_of_ids(record) if by_id else _names_of_paths(record), by_id)
    used = {match.name for match in matches}
    known = set() if by_id else {path for param in found for path in (param.path, *param.aliases)}
    unexpected = [name for name in tensors if name not in used and name not in known]
    report = LoadReport(
        applied=[match.param.path for match in matches],
        missing=missing,
        unexpected=unexpected,
        mismatched=[*_mismatches(matches, tensors), *(() if by_id else _untied(matches, tensors))],
        converted=[
            (match.param.path, plain(source), plain(match.param.tensor.dtype))
            for match in matches
            if (source := _dtype(tensors, match.name)) != match.param.tensor.dtype
        ],
    )
    _refuse(report, record, module, strict)
    ids = _new_ids(matches, found, record)
    matches = [_mapped(match, tensors, target_device) for match in matches]
    _refuse(replace(report, mismatched=[*_misfits(matches)]), record, module, strict)
    _check_values(matches, tensors)
    _apply(matches, tensors, target_device)
    for param, param_id in ids:
        param.adopt(param_id)
    return report


def _match(found: list[Param], names: Mapping[object, str], by_id: bool) -> tuple[list[_Match], list[str]]:
    matches, missing = [], []
    for param in found:
        keys = (param.id,) if by_id else (param.path, *param.aliases)
        name = next((names[key] for key in keys if key in names), None)
        if name is None:
            missing.append(param.path)
        else:
            matches.append(_Match(param, name))
    return matches, missing


def _names_of_paths(record: Record) -> dict[object, str]:
    """Path -> the name of its tensor in the record: its own, that of a tied tensor, or one with a wrapper's prefix.

    Others save the `state_dict` of a compiled or checkpoint-wrapped module as it is, prefixes included.
    """
    names = {_WRAPPERS.sub("", name): name for name in record.tensors}
    if len(names) < len(record.tensors):  # without the prefixes two would be one: they are no prefixes here
        names = {}
    return {**names, **{name: name for name in record.tensors}, **record.aliases}


def _names_of_ids(record: Record) -> dict[object, str]:
    """ParamId -> the name of its tensor in the record."""
    if not record.ids:
        raise RecordMismatchError(
            f"{record.source} has no ids, as burnlike writes them; nothing was loaded; load it by path"
        )
    return {param_id: name for name, param_id in record.ids.items()}


def _mismatches(matches: list[_Match], tensors: Mapping[str, Tensor]) -> Iterator[Mismatch]:
    for match in matches:
        expected = expected_form(match.param)
        dtype, shape = _dtype(tensors, match.name), _shape(tensors, match.name)
        if expected is not None and (shape != expected.shape or kind_of(dtype) != kind_of(expected.dtype)):
            yield Mismatch(match.param.path, shown(*expected), shown(dtype, shape))


def _untied(matches: list[_Match], tensors: Mapping[str, Tensor]) -> Iterator[Mismatch]:
    """Tensors that the module ties and the record holds with different values: one of them would be lost."""
    for match in matches:
        for alias in match.param.aliases:
            if alias in tensors and alias != match.name and not torch.equal(tensors[match.name], tensors[alias]):
                yield Mismatch(
                    match.param.path, f"the values of '{alias}', which the module ties to it", "other values"
                )


def _mapped(match: _Match, tensors: Mapping[str, Tensor], device: torch.device) -> _Match:
    """The match with its values in the module's form, where they are in another one in the record."""
    if match.param.mappers.load is None:
        return match
    target = match.param.tensor
    values = tensors[match.name].detach().to(device if target.is_meta else target.device)
    return replace(match, values=loaded_form(match.param, values))


def _misfits(matches: list[_Match]) -> Iterator[Mismatch]:
    """Load mappers whose results are not of the module's form."""
    for match in matches:
        target, values = match.param.tensor, match.values
        if values is not None and (values.shape != target.shape or kind_of(values.dtype) != kind_of(target.dtype)):
            found = f"{shown(values.dtype, values.shape)} from its load mapper"
            yield Mismatch(match.param.path, shown(target.dtype, target.shape), found)


def _refuse(report: LoadReport, record: Record, module: nn.Module, strict: bool) -> None:
    if not report.mismatched and not (strict and (report.missing or report.unexpected)):
        return
    name = type(module).__name__
    wanted = len(report.applied) + len(report.missing)
    fitting = len(report.applied) - len(report.mismatched)
    is_a_part = fitting > 0 and not report.mismatched and not report.unexpected  # as the record of a ParamGroup
    if fitting * 2 < wanted and not is_a_part:
        message = (
            f"{record.source} belongs to another model: {fitting} of the {wanted} tensors of {name} fit "
            f"({_first(report, record)}); take this model's record, or the config that the record was saved with. "
            "Nothing was loaded"
        )
    else:
        remedy = "" if report.mismatched else "\nload with strict=False to leave out what is missing or unexpected"
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
    return f"expected '{report.missing[0]}' and others, it holds {held}"


def _check_values(matches: list[_Match], tensors: Mapping[str, Tensor]) -> None:
    """Raise where a value of the record is too large for the module's type, before anything is written."""
    if isinstance(tensors, LazyTensors):
        tensors.check_length()
    for match in matches:
        target = match.param.tensor.dtype
        if not can_lose(_dtype(tensors, match.name) if match.values is None else match.values.dtype, target):
            continue
        for values in _chunks(tensors, match.name) if match.values is None else [match.values]:
            if target.is_floating_point:
                check_floats(match.name, values, values.to(target))
            else:
                check_ints(match.name, values, target)


def _new_ids(matches: list[_Match], found: list[Param], record: Record) -> list[tuple[Param, ParamId]]:
    """The id that each parameter takes over; of two that load one tied tensor, the one of its name."""
    heir: dict[str, Param] = {}
    for match in matches:
        if match.name in record.ids and (match.name not in heir or match.param.path == match.name):
            heir[match.name] = match.param
    ids = {param.path: param.id for param in found}
    ids.update({param.path: record.ids[name] for name, param in heir.items()})
    path_of: dict[ParamId, str] = {}
    for path, param_id in ids.items():
        if param_id in path_of:
            raise RecordMismatchError(
                f"{record.source} would give '{path_of[param_id]}' and '{path}' one ParamId ({param_id});"
                " nothing was loaded; call burnlike.module.fresh_ids(module) first"
            )
        path_of[param_id] = path
    return [(param, record.ids[name]) for name, param in heir.items()]


def _apply(matches: list[_Match], tensors: Mapping[str, Tensor], device: torch.device) -> None:
    for match in matches:
        try:
            _fill(match, tensors, device)
        except RecordIOError as error:
            raise RecordIOError(f"{error}; the module is partly loaded: load it again before use") from error


@torch.no_grad()
def _fill(match: _Match, tensors: Mapping[str, Tensor], device: torch.device) -> None:
    param = match.param
    target = param.tensor
    lazy = not param.is_initialized()
    into = target
    if lazy or target.is_meta:
        into = torch.empty(target.shape, dtype=target.dtype, device=device if target.is_meta else target.device)
    if match.values is not None:
        into.copy_(match.values)
    elif isinstance(tensors, LazyTensors):
        tensors.copy_into(match.name, into)
    else:
        into.copy_(tensors[match.name])
    if lazy:
        target.data = into  # its initializer never runs
    elif into is not target:
        param.assign(into)


def _dtype(tensors: Mapping[str, Tensor], name: str) -> torch.dtype:
    return tensors.dtype(name) if isinstance(tensors, LazyTensors) else tensors[name].dtype


def _shape(tensors: Mapping[str, Tensor], name: str) -> torch.Size:
    return tensors.shape(name) if isinstance(tensors, LazyTensors) else tensors[name].shape


def _chunks(tensors: Mapping[str, Tensor], name: str) -> Iterator[Tensor]:
    if isinstance(tensors, LazyTensors):
        yield from (values for values, _ in tensors.chunks(name))
    else:
        yield tensors[name].detach()
