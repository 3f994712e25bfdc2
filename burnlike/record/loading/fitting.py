"""Checks that a record's tensors fit their parameters, before anything is changed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin

from ...errors import ArgumentError, RecordError
from ...module.identity.field_metadata import meta_of
from ...module.torch_objects.wrappers import is_distributed
from ..bytes.convert import can_lose, check_kept, in_dtype
from ..dtypes import kind_of, plain, shown
from ..files.stored_tensors import LazyTensors, StoredTensors, dtype_in, shape_in
from ..state_dict.saved_forms import expected_form, map_tensor, part_names, tensor_part
from .load_options import Mismatch
from .matching import TensorMatch

_REMEDY = "nothing was loaded; give the module a wider type, or load with dtype='as_saved'"


def mismatches(
    matches: Sequence[TensorMatch], tensors: Mapping[str, Tensor], values: Mapping[str, Any], undo: ExitStack
) -> Iterator[Mismatch]:
    """The tensors of another shape or kind; and parts of another class or type, whose meaning a conversion changes.

    Parameters of torch's lazy modules get the shapes that the record has, as from `load_state_dict`; `undo` takes them.
    """
    saved = dict(part_names(values)) if values else {}
    in_file = isinstance(tensors, StoredTensors)
    for match in matches:
        path, target = match.param.path, match.param.tensor
        if isinstance(target, UninitializedTensorMixin) and not match.own:
            lazy: Any = target
            undo.callback(setattr, lazy, "__class__", type(lazy))
            undo.callback(setattr, lazy, "data", lazy.data)
            lazy.materialize(tuple(shape_in(tensors, match.name)))
        if match.own:
            dtype = match.dtype(tensors)
            if kind_of(dtype) != kind_of(target.dtype):
                yield Mismatch(path, plain(target.dtype), f"{plain(dtype)} from the module's own code")
            continue
        has_mapper = meta_of(*match.param.home).load_mapper is not None
        expected = expected_form(match.param) if has_mapper else (target.dtype, target.shape)
        dtype, shape = dtype_in(tensors, match.name), shape_in(tensors, match.name)
        if not in_file and (unreadable := _unreadable(tensors[match.name])):
            yield Mismatch(path, shown(target.dtype, target.shape), f"{shown(dtype, shape)}, {unreadable}")
        elif expected is not None and (shape != expected[1] or kind_of(dtype) != kind_of(expected[0])):
            yield Mismatch(path, shown(*expected), shown(dtype, shape))
        if part := tensor_part(match.param):
            if (found := saved.get(match.name, part.of)) != part.of:
                yield Mismatch(path, f"a part of a {part.of}", f"one of a {found}")
            elif dtype != target.dtype and kind_of(dtype) == kind_of(target.dtype):
                yield Mismatch(path, plain(target.dtype), plain(dtype))


def untied(
    matches: Sequence[TensorMatch], tensors: Mapping[str, Tensor], names: Mapping[object, str]
) -> Iterator[Mismatch]:
    """The tensors that the module ties and the record, by the `names` of paths, has with different values."""
    for match in matches:
        for alias in match.param.aliases if match.name in tensors else ():
            name = names.get(alias, "")
            if name in tensors and name != match.name and not _are_equal(tensors[match.name], tensors[name]):
                expected = f"the values of '{alias}', which the module ties to it"
                yield Mismatch(match.param.path, expected, "other values")


def in_file_order(matches: Sequence[TensorMatch], tensors: Mapping[str, Tensor]) -> list[TensorMatch]:
    """The matches as their tensors are stored: a compressed file is unpacked again for each step back."""
    if not isinstance(tensors, LazyTensors):
        return [*matches]
    return sorted(matches, key=lambda it: -1 if it.own else tensors.values_of(it.name).entry.start)


def mapped(match: TensorMatch, tensors: Mapping[str, Tensor], device: torch.device) -> TensorMatch:
    """The match of a parameter with a load mapper, with its values in the module's form."""
    target = match.param.tensor
    values = match.in_memory(tensors).detach()
    # A copy: the mapper may change what it is given, and a record in memory may be what another module computes with.
    copied = values.to(device if target.is_meta else target.device, copy=True)
    return replace(match, values=map_tensor(match.param, "load", copied))


def misfits(matches: Sequence[TensorMatch]) -> Iterator[Mismatch]:
    """Load mappers whose results are not of the module's form."""
    for match in matches:
        target, values = match.param.tensor, None if match.param.mappers.load is None else match.values
        if values is not None and (values.shape != target.shape or kind_of(values.dtype) != kind_of(target.dtype)):
            found = f"{shown(values.dtype, values.shape)} from its load mapper"
            yield Mismatch(match.param.path, shown(target.dtype, target.shape), found)


def replacing_type(match: TensorMatch, tensors: Mapping[str, Tensor], as_saved: bool) -> torch.dtype | None:
    """The type of the tensor that takes the place of the parameter's; None if that one is written to."""
    present = match.param.tensor
    dtype = match.dtype(tensors) if as_saved else present.dtype
    fits = not match.own or match.values is None or match.values.shape == present.shape
    if not fits or present.is_meta or dtype != present.dtype:
        return dtype
    return None if type(present) in (Tensor, nn.Parameter) or match.param.is_initialized() else dtype


def check_targets(
    matches: Sequence[TensorMatch], tensors: Mapping[str, Tensor], device: torch.device, as_saved: bool
) -> None:
    """Check that each parameter can take values."""
    for match in matches:
        path, present = match.param.path, match.param.tensor
        if replacing_type(match, tensors, as_saved) is not None:
            if present.is_meta and device.type == "meta":
                raise ArgumentError(
                    f"device: '{path}' can't have values on the meta device; nothing was loaded; give a device such as"
                    " 'cpu', or leave the `with torch.device('meta')` around the load"
                )
        elif present.layout != torch.strided and not is_distributed(present):
            raise RecordError(f"'{path}' is {present.layout}, only dense tensors can be loaded; nothing was loaded")
        elif 0 in present.stride() and any(
            size > 1 and stride == 0 for size, stride in zip(present.shape, present.stride(), strict=True)
        ):
            raise RecordError(
                f"elements of '{path}' share memory, as after `expand`, so they can't have values of their own; nothing"
                " was loaded; put `tensor.contiguous()` in its place"
            )


def check_values(matches: Sequence[TensorMatch], tensors: Mapping[str, Tensor]) -> None:
    """Check that each value of the record fits the module's type; reads only tensors of a wider type."""
    if isinstance(tensors, LazyTensors):
        tensors.check_length()
    wider = [it for it in matches if can_lose(it.dtype(tensors), it.param.tensor.dtype)]
    for match in in_file_order(wider, tensors) if wider else ():
        check = partial(_check, match.name, target=match.param.tensor.dtype)
        if match.values is None and isinstance(tensors, LazyTensors):
            tensors.each_piece(match.name, check)
        else:
            check(match.in_memory(tensors).detach())


def _check(name: str, values: Tensor, target: torch.dtype) -> None:
    check_kept(name, values, in_dtype(values, target), remedy=_REMEDY)


def _unreadable(tensor: Tensor) -> str:
    """The reason why a tensor in memory can't be copied, or nothing."""
    if tensor.is_meta:
        return "without values (it is on the meta device)"
    return "" if tensor.layout == torch.strided else f"{tensor.layout}; call to_dense()"


def _are_equal(one: Tensor, other: Tensor) -> bool:
    def bits(tensor: Tensor) -> Tensor:
        return tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)

    other = other.to(one.device)
    if torch.equal(one, other):
        return True
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(bits(one), bits(other))  # with nan
