"""Matches the tensors of a record with the parameters of a module, and checks that they fit: nothing is changed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ..._patterns import compiled
from ...errors import ArgumentError, ModuleTreeError, ParamPathError, RecordError, RecordMismatchError, nearest
from ...module import Param, ParamGroup, ParamId
from ...module.groups.param_group import selected
from ...module.identity.field_metadata import meta_of
from ...module.torch_objects.wrappers import bare_name, elsewhere, is_distributed
from ...module.tree.paths import listed
from ..bytes.values import can_lose, check_kept, in_dtype
from ..files.stored_tensors import LazyTensors, dtype_in, shape_in
from ..precision import kind_of, plain, shown
from ..record import Record
from ..state_dict.module_state import expected_form, map_tensor, part_names, tensor_part
from .load_options import Filter, LoadOptions, Mismatch

_NO_ID = ParamId(0)
_AVERAGED = "n_averaged"  # how many models: the one tensor that torch's AveragedModel adds to those of its `module`


@dataclass(frozen=True, slots=True)
class TensorMatch:
    """A parameter and the name of its tensor in the record."""

    param: Param
    name: str
    values: Tensor | None = None  # what its load mapper, or code of the module's own, made of the values there
    own: bool = False  # that code did: the shape is what it says, and `name` may be no tensor of the record

    def dtype(self, tensors: Mapping[str, Tensor]) -> torch.dtype:
        return dtype_in(tensors, self.name) if self.values is None else self.values.dtype

    def in_memory(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return tensors[self.name] if self.values is None else self.values


@dataclass(frozen=True, slots=True)
class Matching:
    """The pairs of tensors and parameters, in the module's order, and those without a partner."""

    ids: dict[str, ParamId]  # name in the record -> the id that a parameter that gets its values has afterwards
    names: dict[object, str]  # path, or id -> name in the record
    rename: Callable[[str], str]  # what becomes of a name in the record
    wants: Callable[[str, str], bool]  # a tensor that the module lacks, by its name and new name
    matches: list[TensorMatch] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # paths of the module that the record lacks
    unexpected: list[str] = field(default_factory=list)  # names in the record, as renamed, that the module lacks
    unmatched: dict[str, str] = field(default_factory=dict)  # the same, by the names in the record
    skipped: list[str] = field(default_factory=list)  # paths and names that the filter leaves out


def match(params: Sequence[Param], record: Record, module: nn.Module, options: LoadOptions) -> Matching:
    """Find the tensor of each parameter."""
    if len({*record.ids.values()}) < len(record.ids):
        name_of: dict[ParamId, str] = {}
        name, twice = next(it for it in record.ids.items() if name_of.setdefault(it[1], it[0]) != it[0])
        raise RecordMismatchError(
            f"{record.source} gives both '{name_of[twice]}' and '{name}' the ParamId {twice}; nothing was loaded;"
            " Record(record.tensors) is the same without ids"
        )
    by_id = options.match == "id"
    is_averaged = _AVERAGED in record.tensors and not any(param.path == _AVERAGED for param in params)
    is_averaged = is_averaged and all(tensor == _AVERAGED or tensor.startswith("module.") for tensor in record.tensors)
    prefix = "module." if is_averaged else ""  # of torch's AveragedModel

    def rename(name: str) -> str:
        return options.renamed(name.removeprefix(prefix))

    saved = (*record.tensors, *record.aliases)
    renamed = _renamed(record, rename) if options.remap or prefix else dict(zip(saved, saved, strict=True))
    pinned, ids = _pinned(params, record, module, options) if options.remap_ids else ({}, dict(record.ids))
    if by_id and not record.ids:
        raise RecordMismatchError(
            f"{record.source} has no ids, as burnlike writes them; nothing was loaded; load it by path"
        )
    names: dict[object, str] = {it: name for name, it in ids.items()} if by_id else _names_of_paths(record, renamed)
    if pinned:
        taken = {*pinned.values()}
        names = {key: name for key, name in names.items() if name not in taken}
    wanted, name_is_wanted = None, lambda name, new_name: True
    if options.filter is not None:
        wanted, name_is_wanted = _filter(record, module, options.filter)
    matching = Matching(ids=ids, names=names, rename=rename, wants=name_is_wanted)
    used: set[str] = set()
    for param in params:
        if (name := pinned.get(param.path)) is None:
            for key in (param.id,) if by_id else (param.path, *param.aliases):
                if key in names:
                    used.add(names[key])  # a tied tensor's other names, too
                    name = names[key] if name is None else name
        else:
            used.add(name)
        if wanted is not None and not wanted(param):
            matching.skipped.append(param.path)
        elif name is None:
            matching.missing.append(param.path)
        else:
            matching.matches.append(TensorMatch(param, name))
    for name, new_name in renamed.items():
        if name not in used and name in record.tensors and new_name not in elsewhere(module):
            if name != _AVERAGED and name_is_wanted(name, new_name):
                matching.unmatched[name] = new_name
            else:
                matching.skipped.append(new_name)
    if isinstance(options.filter, str) and params and not (matching.matches or matching.missing):
        has = listed([param.path for param in params])
        raise ParamPathError(f"filter: {type(module).__name__} has no tensor at {options.filter!r}; it has {has}")
    matching.unexpected.extend(matching.unmatched.values())
    matching.skipped[:] = dict.fromkeys(matching.skipped)  # by ids, a path and a name of the record may be the same
    return matching


def _renamed(record: Record, rename: Callable[[str], str]) -> dict[str, str]:
    renamed = {name: rename(name) for name in (*record.tensors, *record.aliases)}
    first: dict[str, str] = {}
    for name, new_name in renamed.items():
        if (other := first.setdefault(new_name, name)) != name:
            raise ArgumentError(
                f"remap gives both '{other}' and '{name}' of {record.source} the name '{new_name}'; nothing was loaded"
            )
    return renamed


def _names_of_paths(record: Record, renamed: dict[str, str]) -> dict[object, str]:
    """Path -> the name of its tensor in the record: its own, that of a tied tensor, or with the prefix of a wrapper."""
    names: dict[object, str] = {}
    bare: dict[object, str] = {}
    for name in record.tensors:
        names[renamed[name]] = bare[bare_name(renamed[name])] = name
    bare = bare if len(bare) == len(names) else {}  # without the prefixes two would be one: they are no prefixes here
    for alias, name in record.aliases.items():
        names[renamed[alias]] = name
    return {**bare, **names}


def _pinned(
    params: Sequence[Param], record: Record, module: nn.Module, options: LoadOptions
) -> tuple[dict[str, str], dict[str, ParamId]]:
    """The pairs of `remap_ids`: path in the module -> name in the record; and the ids of the record's tensors then."""
    ids = dict(record.ids)
    names: dict[ParamId | None, str] = {param_id: name for name, param_id in record.ids.items()}
    paths = {path: param.path for param in params for path in (param.path, *param.aliases)}
    path_of_id = {param.id: param.path for param in params}
    pinned: dict[str, str] = {}
    for source, target in options.remap_ids.items():
        if (name := names.get(_param_id(source))) is None:
            raise ArgumentError(
                f"remap_ids: {record.source} has no tensor with the id {str(source)!r}"
                f"{nearest(str(source), [str(param_id) for param_id in names])}; nothing was loaded"
            )
        path = paths.get(target) if isinstance(target, str) else None
        if path is None and (target_id := _param_id(target)) in path_of_id:
            path, ids[name] = path_of_id[target_id], target_id
        if path is None:
            candidates = [*paths, *map(str, path_of_id)]
            raise ArgumentError(
                f"remap_ids: {str(target)!r} is neither a path nor an id of {type(module).__name__}"
                f"{nearest(str(target), candidates)}; nothing was loaded"
            )
        if path in pinned:
            raise ArgumentError(f"remap_ids gives '{path}' the values of two tensors; nothing was loaded")
        pinned[path] = name
    return pinned, ids


def _param_id(value: ParamId | str) -> ParamId | None:
    try:
        return value if isinstance(value, ParamId) else ParamId.parse(value)
    except (ValueError, TypeError, AttributeError):
        return None


def _filter(
    record: Record, module: nn.Module, chosen: Filter
) -> tuple[Callable[[Param], bool], Callable[[str, str], bool]]:
    """Functions that say if a parameter is wanted, and if a tensor that the module lacks is, by name and new name."""
    if isinstance(chosen, ParamGroup):
        paths = {param.path for param in selected(module, chosen)}

        def is_in_group(name: str, new_name: str) -> bool:
            try:
                return chosen.matches_id_path(record.ids.get(name, _NO_ID), new_name)
            except ModuleTreeError:  # it asks a function of the program, which needs a parameter of the module
                return False

        return (lambda param: param.path in paths), is_in_group
    accepts = compiled(chosen).search if isinstance(chosen, str) else chosen
    return (
        lambda param: any(accepts(path) for path in (param.path, *param.aliases)),
        lambda name, new_name: bool(accepts(new_name)),
    )


_REMEDY = "nothing was loaded; give the module a wider type, or load with dtype='as_saved'"


def mismatches(
    matches: Sequence[TensorMatch], tensors: Mapping[str, Tensor], values: Mapping[str, Any], undo: ExitStack
) -> Iterator[Mismatch]:
    """The tensors of another shape or kind; and parts of another class or type, whose meaning a conversion changes.

    Parameters of torch's lazy modules get the shapes that the record has, as from `load_state_dict`; `undo` takes them.
    """
    saved = dict(part_names(values)) if values else {}
    in_file = isinstance(tensors, LazyTensors)
    for match in matches:
        path, target = match.param.path, match.param.tensor
        if is_shapeless(target) and not match.own:
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
            if (saved_part := saved.get(match.name, part.of)) != part.of:
                yield Mismatch(path, f"a part of a {part.of}", f"one of a {saved_part}")
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
            got = f"{shown(values.dtype, values.shape)} from its load mapper"
            yield Mismatch(match.param.path, shown(target.dtype, target.shape), got)


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
    wider: list[TensorMatch] = []
    for match in matches:
        if can_lose(match.dtype(tensors), match.param.tensor.dtype):
            wider.append(match)
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
