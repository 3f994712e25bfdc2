"""Matches the tensors of a record with the parameters of a module."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..._patterns import compiled
from ...errors import ArgumentError, ModuleTreeError, RecordMismatchError, nearest
from ...module import Param, ParamGroup, ParamId
from ...module.groups.param_group import selected
from ...module.torch_objects.wrappers import bare_name, elsewhere
from ..files.stored_tensors import dtype_in
from ..record import Record
from .load_options import Filter, LoadOptions

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


def match(found: Sequence[Param], record: Record, module: nn.Module, options: LoadOptions) -> Matching:
    """Find the tensor of each parameter."""
    if len({*record.ids.values()}) < len(record.ids):
        raise _id_twice(record)
    by_id = options.match == "id"
    is_averaged = _AVERAGED in record.tensors and not any(param.path == _AVERAGED for param in found)
    is_averaged = is_averaged and all(it == _AVERAGED or it.startswith("module.") for it in record.tensors)
    prefix = "module." if is_averaged else ""  # of torch's AveragedModel

    def rename(name: str) -> str:
        return options.renamed(name.removeprefix(prefix))

    saved = (*record.tensors, *record.aliases)
    renamed = _renamed(record, rename) if options.remap or prefix else dict(zip(saved, saved, strict=True))
    pinned, ids = _pinned(found, record, module, options) if options.remap_ids else ({}, dict(record.ids))
    if by_id and not record.ids:
        raise RecordMismatchError(
            f"{record.source} has no ids, as burnlike writes them; nothing was loaded; load it by path"
        )
    names: dict[object, str] = {it: name for name, it in ids.items()} if by_id else _names_of_paths(record, renamed)
    if pinned:
        taken = {*pinned.values()}
        names = {key: name for key, name in names.items() if name not in taken}
    wanted, name_is_wanted = (None, _any) if options.filter is None else _filter(record, module, options.filter)
    result = Matching(ids=ids, names=names, rename=rename, wants=name_is_wanted)
    used: set[str] = set()
    for param in found:
        if (name := pinned.get(param.path)) is None:
            for key in (param.id,) if by_id else (param.path, *param.aliases):
                if key in names:
                    used.add(names[key])  # a tied tensor's other names, too
                    name = names[key] if name is None else name
        else:
            used.add(name)
        if wanted is not None and not wanted(param):
            result.skipped.append(param.path)
        elif name is None:
            result.missing.append(param.path)
        else:
            result.matches.append(TensorMatch(param, name))
    for name, new_name in renamed.items():
        if name not in used and name in record.tensors and new_name not in elsewhere(module):
            if name != _AVERAGED and name_is_wanted(name, new_name):
                result.unmatched[name] = new_name
            else:
                result.skipped.append(new_name)
    result.unexpected.extend(result.unmatched.values())
    result.skipped[:] = dict.fromkeys(result.skipped)  # by ids, a path and a name of the record may be the same
    return result


def _any(name: str, new_name: str) -> bool:
    return True


def _id_twice(record: Record) -> RecordMismatchError:
    names: dict[ParamId, str] = {}
    name, param_id = next(it for it in record.ids.items() if names.setdefault(it[1], it[0]) != it[0])
    return RecordMismatchError(
        f"{record.source} gives both '{names[param_id]}' and '{name}' the ParamId {param_id}; nothing was loaded;"
        " Record(record.tensors) is the same without ids"
    )


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
    found: Sequence[Param], record: Record, module: nn.Module, options: LoadOptions
) -> tuple[dict[str, str], dict[str, ParamId]]:
    """The pairs of `remap_ids`: path in the module -> name in the record; and the ids of the record's tensors then."""
    ids = dict(record.ids)
    names: dict[ParamId | None, str] = {param_id: name for name, param_id in record.ids.items()}
    paths = {path: param.path for param in found for path in (param.path, *param.aliases)}
    path_of_id = {param.id: param.path for param in found}
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
            known = [*paths, *map(str, path_of_id)]
            raise ArgumentError(
                f"remap_ids: {str(target)!r} is neither a path nor an id of {type(module).__name__}"
                f"{nearest(str(target), known)}; nothing was loaded"
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
    """Whether a parameter is wanted; and whether a tensor is that the module lacks, by its name and new name."""
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
