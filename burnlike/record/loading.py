"""Putting a record's tensors into a module: everything is checked before anything is changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import RecordIOError, RecordMismatchError
from ..module import Param, params
from .convert import can_lose, check_floats, check_ints
from .dtypes import kind_of, plain, shown
from .lazy_tensors import LazyTensors
from .record import Record
from .report import LoadReport, Mismatch


@dataclass(frozen=True, slots=True)
class _Match:
    param: Param
    name: str


def load_into(
    record: Record, module: nn.Module, strict: bool = True, device: torch.device | str | None = None
) -> LoadReport:
    """Put the tensors of `record` into `module`, in the module's types and devices; see `burnlike.record.load`."""
    tensors = record.tensors
    found = params(module)
    matches, missing = _match(found, record)
    used = {match.name for match in matches}
    known = {path for param in found for path in (param.path, *param.aliases)}
    unexpected = [name for name in tensors if name not in used and name not in known]
    report = LoadReport(
        applied=[match.param.path for match in matches],
        missing=missing,
        unexpected=unexpected,
        mismatched=[*_mismatches(matches, tensors), *_untied(matches, tensors)],
        converted=[
            (match.param.path, plain(source), plain(match.param.tensor.dtype))
            for match in matches
            if (source := _dtype(tensors, match.name)) != match.param.tensor.dtype
        ],
    )
    _refuse(report, record, module, strict)
    _check_values(matches, tensors)
    _apply(matches, record, device)
    return report


def _match(found: list[Param], record: Record) -> tuple[list[_Match], list[str]]:
    matches, missing = [], []
    for param in found:
        names = (param.path, *param.aliases)
        name = next(
            (record.aliases.get(path, path) for path in names if path in record.aliases or path in record.tensors), None
        )
        if name is None:
            missing.append(param.path)
        else:
            matches.append(_Match(param, name))
    return matches, missing


def _mismatches(matches: list[_Match], tensors: Mapping[str, Tensor]) -> Iterator[Mismatch]:
    for match in matches:
        target = match.param.tensor
        dtype, shape = _dtype(tensors, match.name), _shape(tensors, match.name)
        if shape != target.shape or kind_of(dtype) != kind_of(target.dtype):
            yield Mismatch(match.param.path, shown(target.dtype, target.shape), shown(dtype, shape))


def _untied(matches: list[_Match], tensors: Mapping[str, Tensor]) -> Iterator[Mismatch]:
    """Tensors that the module ties and the record holds with different values: one of them would be lost."""
    for match in matches:
        for alias in match.param.aliases:
            if alias in tensors and alias != match.name and not torch.equal(tensors[match.name], tensors[alias]):
                yield Mismatch(
                    match.param.path, f"the values of '{alias}', which the module ties to it", "other values"
                )


def _refuse(report: LoadReport, record: Record, module: nn.Module, strict: bool) -> None:
    if not report.mismatched and not (strict and (report.missing or report.unexpected)):
        return
    name = type(module).__name__
    wanted = len(report.applied) + len(report.missing)
    fitting = len(report.applied) - len(report.mismatched)
    if fitting * 2 < wanted:
        message = (
            f"{record.source} belongs to another model than {name}: of the {wanted} tensors of {name}, {fitting} fit; "
            "take the record of this model, or the config that the record was saved with"
        )
    else:
        message = f"{record.source} does not fit {name}"
    remedy = "" if report.mismatched else "\nload with strict=False to leave out what is missing or unexpected"
    error = RecordMismatchError(f"{message}; nothing was loaded\n{_without_first_line(report)}{remedy}")
    error.report = report
    raise error


def _without_first_line(report: LoadReport) -> str:
    return str(report).partition("\n")[2]


def _check_values(matches: list[_Match], tensors: Mapping[str, Tensor]) -> None:
    """Raise where a value of the record is too large for the module's type, before anything is written."""
    if isinstance(tensors, LazyTensors):
        tensors.check_length()
    for match in matches:
        target = match.param.tensor.dtype
        if not can_lose(_dtype(tensors, match.name), target):
            continue
        for values in _chunks(tensors, match.name):
            if target.is_floating_point:
                check_floats(match.name, values, values.to(target))
            else:
                check_ints(match.name, values, target)


def _apply(matches: list[_Match], record: Record, device: torch.device | str | None) -> None:
    for match in matches:
        try:
            _fill(match, record.tensors, device)
        except RecordIOError as error:
            raise RecordIOError(f"{error}; the module is partly loaded: load it again before use") from error
        if match.name in record.ids:
            match.param.adopt(record.ids[match.name])


@torch.no_grad()
def _fill(match: _Match, tensors: Mapping[str, Tensor], device: torch.device | str | None) -> None:
    target = match.param.tensor
    if target.is_meta:
        where = torch.get_default_device() if device is None else device
        target = torch.empty(target.shape, dtype=target.dtype, device=where)
    if isinstance(tensors, LazyTensors):
        tensors.copy_into(match.name, target)
    else:
        target.copy_(tensors[match.name])
    if target is not match.param.tensor and match.param.tensor.is_meta:
        match.param.assign(target)


def _dtype(tensors: Mapping[str, Tensor], name: str) -> torch.dtype:
    return tensors.dtype(name) if isinstance(tensors, LazyTensors) else tensors[name].dtype


def _shape(tensors: Mapping[str, Tensor], name: str) -> torch.Size:
    return tensors.shape(name) if isinstance(tensors, LazyTensors) else tensors[name].shape


def _chunks(tensors: Mapping[str, Tensor], name: str) -> Iterator[Tensor]:
    if isinstance(tensors, LazyTensors):
        yield from (values for values, _ in tensors.chunks(name))
    else:
        yield tensors[name].detach()
