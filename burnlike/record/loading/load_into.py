"""Loads a record into a module, an optimizer or another object: everything is checked before anything is changed.

Also fills the tensors of a module on the meta device that no record has.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from ..._lazy import resolve
from ...backend.torch_backend import find_device
from ...errors import BurnlikeError, RecordError, RecordMismatchError, RecordPathError
from ...module import Param, ParamId
from ...module.attributes.plain_attributes import DEEPEST, plain_names, with_items
from ...module.identity.field_metadata import meta_of
from ...module.module import Module
from ...module.torch_objects.wrappers import unwrap
from ...module.tree.walk import strong_steps, walk_of
from ..files.stored_tensors import dtype_in
from ..metadata import IDS, ids_of_clones
from ..nesting import part_of, without
from ..precision import plain
from ..record import KIND, OPTIMIZERS, STATE, Handling, Record, handling_of
from ..state_dict.module_state import (
    below,
    decode_tree,
    encode_tree,
    entries_of,
    in_parts,
    overrides,
    parts_with_records,
    tensor_part,
)
from .filling import fill
from .load_options import LoadOptions, LoadReport, refuse
from .matching import (
    TensorMatch,
    check_targets,
    check_values,
    in_file_order,
    mapped,
    match,
    misfits,
    mismatches,
    untied,
)
from .module_code import GivenState, parts_to_run, run_own_code

RESET = "reset_non_persistent_buffers"  # the method of a module that computes its tensors which are in no record
Places = dict[int, tuple[nn.Module, str, str, Tensor]]


def unset_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Path -> tensor on the meta device, see `all_tensors`."""
    return {path: tensor for path, tensor in all_tensors(module) if tensor.is_meta}


def all_tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Each path and tensor: parameters, buffers, and tensors in plain attributes, lists, dicts and plain objects."""
    lacking: list[tuple[str, Tensor]] = []
    replace_tensors(module, lambda path, tensor: lacking.append((path, tensor)) or tensor)
    return lacking


def replace_tensors(module: nn.Module, replacement: Callable[[str, Tensor], Tensor]) -> None:
    """Put what `replacement` makes of each path and tensor in its place, but for parameters."""
    seen: set[int] = set()
    for prefix, part in module.named_modules():
        plain = {name: part.__dict__[name] for name in plain_names(part.__dict__)}
        for name, value in [*part._parameters.items(), *part._buffers.items(), *plain.items()]:
            new = _replaced(f"{prefix}.{name}" if prefix else name, value, replacement, seen)
            if new is not value and name not in part._parameters:
                (part._buffers if name in part._buffers else part.__dict__)[name] = new


def _replaced(
    path: str, value: Any, replacement: Callable[[str, Tensor], Tensor], seen: set[int], depth: int = 0
) -> Any:
    if isinstance(value, Tensor):
        return replacement(path, value)
    if depth == DEEPEST:
        return value
    if isinstance(value, list | tuple | dict):
        keys = iter(value if isinstance(value, dict) else range(len(value)))

        def inside(item: Any) -> Any:
            return _replaced(f"{path}.{next(keys)}", item, replacement, seen, depth + 1)

        if type(value) not in (list, tuple, dict):  # can't be made again: its tensors are only shown
            for item in value.values() if isinstance(value, dict) else value:
                inside(item)
        return with_items(value, inside)
    parts: Any = getattr(value, "__dict__", None)
    is_plain = type(parts) is dict and not isinstance(value, nn.Module | type | FunctionType | ModuleType)
    if is_plain and id(value) not in seen:
        seen.add(id(value))
        for name, item in [*parts.items()]:
            if (new := _replaced(f"{path}.{name}", item, replacement, seen, depth + 1)) is not item:
                parts[name] = new
    return value


def registered(module: nn.Module) -> Places:
    """Address of each parameter and buffer -> its module, group and name, and the tensor itself."""
    return {
        id(tensor): (part, group, name, tensor)
        for part in module.modules()
        for group in ("_parameters", "_buffers")
        for name, tensor in getattr(part, group).items()
        if tensor is not None
    }


def compute_unsaved(module: nn.Module, places: Places, device: torch.device) -> list[str]:
    """Compute the tensors of a filled module that no record has, as far as the module can.

    `places` are its tensors before it was filled. Returns the paths of the tensors that still have no values.
    """

    def now(path: str, tensor: Tensor) -> Tensor:
        if not tensor.is_meta or id(tensor) not in places:
            return tensor
        part, group, name, _ = places[id(tensor)]
        return getattr(part, group).get(name, tensor)

    replace_tensors(module, now)  # plain attributes that refer to a parameter or buffer: it has been replaced
    for part in module.modules():
        reset = getattr(part, RESET, None)
        # Of its own only: what lies in a part below is computed by that one.
        if reset is not None and any("." not in path for path in unset_tensors(part)):
            with torch.device(device):
                reset(device)
    return [*unset_tensors(module)]


def load_into(record: Record, module: nn.Module, options: Mapping[str, Any]) -> LoadReport:
    """Put the tensors of `record` into `module`; see `burnlike.record.load`."""
    return prepare(record, module, LoadOptions.of(options))()


def load_own(target: Any, source: Any, **options: Any) -> Any:
    """Put a record, or that of another object, into `target`; returns what its `load_record` does."""
    record = Record.of(source)
    inner = unwrap(target) if isinstance(target, nn.Module) else target
    if isinstance(inner, Module) and not overrides(type(inner), "load_record"):
        return load_into(record, inner, options)
    loader = None if isinstance(target, type) else getattr(inner, "load_record", None)
    if callable(loader):
        return loader(record, **options)
    if isinstance(target, nn.Module):
        return load_into(record, target, options)
    if isinstance(target, torch.optim.Optimizer):
        module = options.pop("module", None)
        modules = () if module is None else (module,)
        return resolve(f"{OPTIMIZERS}:load_torch_record")(target, record, *modules, **options)
    if isinstance(target, type):
        raise RecordError(
            f"expected an object to load into, got the class {target.__name__};"
            f" burnlike.record.open_record(path).into({target.__name__}) makes an object of it"
        )
    if (handling := handling_of(target)) is None:
        raise RecordError(
            "expected a module, an optimizer, a scheduler, a TrainingState, a generator, or an object with"
            " load_record(record) or load_state_dict(state), to load into, got"
            f" {type(target).__name__}; open the record by burnlike.record.open_record(path), and load its parts:"
            " record.model.load_into(model), record.into(Type)"
        )
    return _load_foreign(target, handling, record, **options)


@dataclass(frozen=True, slots=True)
class PreparedLoad:
    """A load that fits and is done by calling it, with its report, and the ids that the parameters at some paths get.

    `undo` takes back what code of the modules' own did when it read its part; to be called if the load is not done.
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
    device, as_saved = find_device(options.device), options.dtype == "as_saved"
    parts = parts_with_records(unwrap(module))
    with ExitStack() as undo:
        params, prefixes = walk_of(module).params, tuple[str, ...]()
        loaded: list[str] = []
        missing: list[str] = []
        if parts:
            prefixes = below(parts)
            loaded, missing = _load_parts(parts, record, module, options, undo)
            record = without(record, parts)
            params = [pair for pair in params if not pair.path.startswith(prefixes)]
        tensors, params = record.tensors, in_parts(params)
        matching, entries = match(params, record, module, options), list[str]()
        own_parts = parts_to_run(module, matching)
        if own_parts or next(entries_of(record.values), None) is not None:
            matching, entries = run_own_code(own_parts, GivenState(params, record, matching, device, undo))
            matching.missing[:] = [name for name in matching.missing if not name.startswith(prefixes)]
        matches = matching.matches
        wrong = [*mismatches(matches, tensors, record.values, undo)]
        if options.match == "path":
            wrong += untied(matches, tensors, matching.names)
        if wrong:
            unfit = {pair.path for pair in wrong}
            matches = [pair for pair in matches if pair.param.path not in unfit]
        cloned = ids_of_clones(record.values) if IDS in record.values else {}
        applied: list[str] = []
        clones: list[str] = []
        with_mappers: list[TensorMatch] = []
        for pair in matches:
            applied.append(pair.param.path)
            if pair.name in cloned:
                clones.append(pair.param.path)
            if meta_of(*pair.param.home).load_mapper is not None:
                with_mappers.append(pair)
        report = LoadReport(
            applied=applied,
            missing=[*matching.missing, *missing],
            unexpected=matching.unexpected,
            mismatched=wrong,
            skipped=matching.skipped,
            clones=clones,
            entries=[*entries, *loaded],
        )
        refuse(report, record, module, options)
        if with_mappers:
            in_order = in_file_order(with_mappers, tensors)
            forms = {pair.param.path: mapped(pair, tensors, device) for pair in in_order}
            matches = [forms.get(pair.param.path, pair) for pair in matches]
            if unfit_forms := {pair.path: pair for pair in misfits(matches)}:
                matches = [pair for pair in matches if pair.param.path not in unfit_forms]
                applied = [pair.param.path for pair in matches]
                report = replace(report, applied=applied, mismatched=[*report.mismatched, *unfit_forms.values()])
                refuse(report, record, module, options)
        check_targets(matches, tensors, device, as_saved)
        # Wider tensors are read once more for this: a value that does not fit must show before anything changes.
        if not as_saved:
            check_values(matches, tensors)
        heirs = _heirs(matches)
        ids, id_of_path = _new_ids(heirs, params, matching.ids)
        renamed: dict[str, str] = {}
        for name, param in heirs.items():
            if name != param.path:
                renamed[name] = param.path
        id_now: dict[ParamId, ParamId] = {}
        for pair in matches:
            if pair.name in record.ids:
                id_now[record.ids[pair.name]] = matching.ids[pair.name]
        types = _types(matches, tensors, as_saved)
        report = replace(report, renamed=renamed, ids=id_now, **{"retyped" if as_saved else "converted": types})
        places = {}
        for param in params:
            if param.tensor.is_meta:
                places = registered(module)
                break

        def load() -> LoadReport:
            fill(matches, tensors, device, as_saved)
            for param, param_id in ids:
                if param.id != param_id:
                    # By a handle of its own: that of the walk tells others what the id was.
                    strong_steps([param])[0].adopt(param_id)
            return replace(report, unset=compute_unsaved(module, places, device)) if places else report

        return PreparedLoad(report, id_of_path, load, undo.pop_all().close)


def _load_parts(
    parts: Mapping[str, nn.Module], record: Record, module: nn.Module, options: LoadOptions, undo: ExitStack
) -> tuple[list[str], list[str]]:
    """Load the parts of a module that have a record of their own, at once; the paths of these, and of what it lacks."""
    if parts and (options.remap or options.filter is not None or options.match == "id" or options.remap_ids):
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
    return loaded, missing


def _types(matches: Sequence[TensorMatch], tensors: Mapping[str, Tensor], as_saved: bool) -> list[tuple[str, str, str]]:
    """Path, type in the record (or that a parameter gets from it) and type in the module, where they differ."""
    types = []
    for pair in matches:
        dtype = pair.dtype(tensors) if as_saved or pair.own else dtype_in(tensors, pair.name)
        if dtype != (present := pair.param.tensor.dtype):
            types.append((pair.param.path, plain(dtype), plain(present)))
    return types


def _heirs(matches: Sequence[TensorMatch]) -> dict[str, Param]:
    """Name in the record -> its parameter; of two that load one tied tensor, the one of its name."""
    heirs: dict[str, Param] = {}
    for pair in matches:
        if pair.name not in heirs or pair.name in (pair.param.path, *pair.param.aliases):
            heirs[pair.name] = pair.param
    return heirs


def _new_ids(
    heirs: Mapping[str, Param], params: Sequence[Param], ids: Mapping[str, ParamId]
) -> tuple[list[tuple[Param, ParamId]], dict[str, ParamId]]:
    """The id that each parameter takes over, by its handle and by its path."""
    new_ids: list[tuple[Param, ParamId]] = []
    new_id: dict[str, ParamId] = {}
    for name, param in heirs.items():
        if name in ids and not tensor_part(param):
            new_ids.append((param, ids[name]))
            new_id[param.path] = ids[name]
    path_of: dict[ParamId, str] = {}
    for param in params:
        if tensor_part(param):
            continue
        param_id = new_id.get(param.path, param.id)
        if path_of.setdefault(param_id, param.path) != param.path:
            raise RecordMismatchError(
                f"'{path_of[param_id]}' and '{param.path}' would both have the ParamId {param_id};"
                " nothing was loaded; call burnlike.module.fresh_ids(module) first"
            )
    return new_ids, new_id


def load_undoably(target: Any, record: Record, **options: Any) -> Callable[[], None]:
    """Let `target` load a record by its own method, or keep its state if that raises; gives what restores the state."""
    before = Record.of(target)
    # Copies: the record of the target refers to the tensors that are about to be overwritten.
    tensors = {name: before.tensors[name].detach().clone() for name in before.tensors}
    before = replace(before, tensors=tensors, values=copy.deepcopy(dict(before.values)))
    try:
        load_own(target, record, **options)
    except BaseException:
        load_own(target, before)
        raise
    return lambda: load_own(target, before)


def put_state(name: str, handling: Handling, state: Any, source: str) -> None:
    """Put back a state that `take` gave; `name` and `source` are for messages."""
    try:
        handling.put(state)
    except BurnlikeError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise RecordMismatchError(
            f"{source}: '{name}' refused its state ({type(error).__name__}: {error}); it was saved by another kind of"
            " part"
        ) from error


def _load_foreign(target: Any, handling: Handling, record: Record) -> Any:
    """Put a record that `own_record` made of the state of an object back; returns the object."""
    kind = type(target).__name__
    if record.values.get(KIND) != kind or STATE not in record.values:
        raise RecordMismatchError(
            f"expected the record of a {kind}, got {record.source}, of {record.values.get(KIND, 'something else')}"
        )
    state = decode_tree(record.values[STATE], record.tensors, record.source)
    tensors: dict[str, Tensor] = {}
    before = encode_tree(handling.take(), STATE, tensors)
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    try:
        put_state(kind, handling, state, record.source)
    except BaseException:
        handling.put(decode_tree(before, kept, "the state before"))
        raise
    return target
