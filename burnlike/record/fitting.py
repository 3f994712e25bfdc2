"""Whether a record's tensors fit the parameters that they belong to: found out before anything is changed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from .convert import can_lose, check_floats, check_ints
from .dtypes import kind_of, shown
from .lazy_tensors import LazyTensors, dtype_in, shape_in
from .mappers import expected_form, loaded_form
from .matching import Match
from .report import Mismatch


def mismatches(matches: Sequence[Match], tensors: Mapping[str, Tensor]) -> Iterator[Mismatch]:
    """The tensors of another shape or kind, and those that the module ties and the record has with different values."""
    for match in matches:
        expected = expected_form(match.param)
        dtype, shape = dtype_in(tensors, match.name), shape_in(tensors, match.name)
        if expected is not None and (shape != expected.shape or kind_of(dtype) != kind_of(expected.dtype)):
            yield Mismatch(match.param.path, shown(*expected), shown(dtype, shape))


def untied(matches: Sequence[Match], tensors: Mapping[str, Tensor], names: Mapping[object, str]) -> Iterator[Mismatch]:
    """The tensors that the module ties and the record holds with different values: one of them would be lost.

    Args:
        matches: what belongs together.
        tensors: of the record.
        names: path -> name in the record.
    """
    for match in matches:
        for alias in match.param.aliases:
            name = names.get(alias, "")
            if name in tensors and name != match.name and not torch.equal(tensors[match.name], tensors[name]):
                yield Mismatch(
                    match.param.path, f"the values of '{alias}', which the module ties to it", "other values"
                )


def mapped(match: Match, tensors: Mapping[str, Tensor], device: torch.device) -> Match:
    """The match with its values in the module's form, where they are in another one in the record.

    Raises:
        RecordError: the load mapper raised or gave no tensor.
    """
    if match.param.mappers.load is None:
        return match
    target = match.param.tensor
    values = tensors[match.name].detach().to(device if target.is_meta else target.device)
    return replace(match, values=loaded_form(match.param, values))


def misfits(matches: Sequence[Match]) -> Iterator[Mismatch]:
    """Load mappers whose results are not of the module's form."""
    for match in matches:
        target, values = match.param.tensor, match.values
        if values is not None and (values.shape != target.shape or kind_of(values.dtype) != kind_of(target.dtype)):
            found = f"{shown(values.dtype, values.shape)} from its load mapper"
            yield Mismatch(match.param.path, shown(target.dtype, target.shape), found)


def check_values(matches: Sequence[Match], tensors: Mapping[str, Tensor]) -> None:
    """Check that each value of the record fits the module's type; reads only tensors of a wider type.

    Raises:
        PrecisionError: one does not.
        RecordIOError: reading fails.
    """
    if isinstance(tensors, LazyTensors):
        tensors.check_length()
    for match in matches:
        target = match.param.tensor.dtype
        if match.values is not None:
            if can_lose(match.values.dtype, target):
                _check(match.name, match.values, target)
        elif can_lose(dtype_in(tensors, match.name), target):
            if isinstance(tensors, LazyTensors):
                tensors.each_piece(match.name, partial(_check, match.name, target=target))
            else:
                _check(match.name, tensors[match.name].detach(), target)


def _check(name: str, values: Tensor, target: torch.dtype) -> None:
    if target.is_floating_point:
        check_floats(name, values, values.to(target))
    else:
        check_ints(name, values, target)
