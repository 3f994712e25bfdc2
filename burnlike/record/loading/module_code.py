"""Loads state that a module reads by its own code: `_load_from_state_dict`, `set_extra_state`, and load hooks.

The code runs on the module, while other tensors stand in for its own. What it does to those is then loaded like any
other values; what it does besides is undone if the load comes to nothing.
"""

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ..._torch_compat.modules import LOAD_HOOKS, STATE_METADATA
from ..._torch_compat.tensors import times_written
from ...errors import RecordError, RecordMismatchError
from ...module import Param
from ...module.identity.field_metadata import group_of
from ...module.torch_objects.lazy_parameter import is_lazy
from ...module.torch_objects.wrappers import bare_name, is_distributed, unwrap
from ...module.tree.walk import walk_of
from ..layout import join
from ..metadata import PICKLED, USUAL_VERSION, VERSIONS
from ..record import Record
from ..state_dict import module_state
from ..state_dict.module_state import OwnCode, origin
from .matching import Matching, TensorMatch

_GROUPS = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class StandIns:
    """Within it, the parameters of a module are others with the same values; `undo` takes back all that was done.

    Hooks of torch.distributed are away: they divide tensors among processes, which is done when values are loaded.
    `values` has the values for some paths, whose types the stand-ins take; those without memory are made on `device`.
    After it, `now` has what the code left at each path.
    """

    def __init__(
        self, module: nn.Module, params: Sequence[Param], values: Mapping[str, Tensor], device: torch.device
    ) -> None:
        self._parts = [*module.modules()]
        self._before = [
            (it, {**it.__dict__}, {name: copy.copy(it.__dict__[name]) for name in _GROUPS}) for it in self._parts
        ]
        self._extra = [(part, copy.deepcopy(part.get_extra_state())) for part in self._parts if _has_extra_state(part)]
        with torch.inference_mode(False):
            self._made = {it.path: _stand_in(it, values.get(it.path), device) for it in params}
        self._versions = {path: times_written(stand_in) for path, stand_in in self._made.items()}
        self._present = {parameter.path: parameter.tensor for parameter in params}
        self._found = params
        self.now: dict[str, Tensor] = {}

    def __enter__(self) -> None:
        for param in self._found:
            for owner, name in param.owners:
                group_of(owner, param.kind)[name] = self._made[param.path]
        for part in self._parts:
            for name in LOAD_HOOKS:
                hooks = part.__dict__[name]
                own_hooks = {key: hook for key, hook in hooks.items() if origin(hook) is not OwnCode.NONE}
                if len(own_hooks) < len(hooks):
                    part.__dict__[name] = type(hooks)(own_hooks)

    def __exit__(self, *_: Any) -> None:
        for param in self._found:
            stand_in = self._made[param.path]
            groups = [(group_of(owner, param.kind), name) for owner, name in param.owners]
            others = (
                other for group, name in groups if (other := group.get(name)) is not None and other is not stand_in
            )
            self.now[param.path] = next(others, stand_in).detach()
            for group, name in groups:
                if group.get(name) is not None:
                    group[name] = self._present[param.path]
        for part, attributes, _groups in self._before:
            for name in LOAD_HOOKS:
                part.__dict__[name] = attributes[name]

    def is_written(self, param: Param) -> bool:
        stand_in, now = self._made[param.path], self.now[param.path]
        return now.data_ptr() != stand_in.data_ptr() or times_written(stand_in) != self._versions[param.path]

    def has_values(self, param: Param) -> bool:
        """True if it has values to be loaded, those it had or new ones, and was more than memory."""
        return self.is_written(param) or _has_values(self._present[param.path])

    def undo(self) -> None:
        try:
            for part, state in self._extra:
                part.set_extra_state(state)
        finally:
            for part, attributes, groups in self._before:
                part.__dict__.clear()
                part.__dict__.update(attributes)
                for name, content in groups.items():
                    part.__dict__[name].clear()
                    part.__dict__[name].update(content)


def _has_extra_state(part: nn.Module) -> bool:
    cls = type(part)
    return cls.get_extra_state is not nn.Module.get_extra_state and cls.set_extra_state is not nn.Module.set_extra_state


def _has_values(tensor: Tensor) -> bool:
    return not (tensor.is_meta or is_lazy(tensor) or is_distributed(tensor))


def _stand_in(param: Param, values: Tensor | None, device: torch.device) -> Tensor:
    present: Any = param.tensor
    dtype = present.dtype if values is None else values.dtype
    if _has_values(present):
        stand_in = present.detach().to(dtype, copy=True)
    else:
        stand_in = torch.zeros(present.shape, dtype=dtype, device=device if present.is_meta else present.device)
    if param.kind == "weight":
        return nn.Parameter(stand_in, requires_grad=present.requires_grad and stand_in.is_floating_point())
    return stand_in


class GivenState:
    """The state in a record for a module's own code; `undo` gets what takes back all that the code did.

    Attributes:
        device: where tensors without memory are made.
        names: path of a parameter -> the name of its tensor in the record.
        entries: names in the record of the entries that are no tensor of a parameter.
        beside: name in the record -> its new name and what reads it, of entries and of tensors of no parameter.
        seen: those of them that a part was given.
        plain: new name -> plain value, where a file has a state dict's values as they are.
    """

    def __init__(
        self, params: Sequence[Param], record: Record, matching: Matching, device: torch.device, undo: ExitStack
    ) -> None:
        self.found, self.record, self.matching, self.device, self.undo = params, record, matching, device, undo
        self.names = {match.param.path: match.name for match in matching.matches}
        self.seen: set[str] = set()
        self.plain = {matching.rename(name): it for name, it in record.values.items() if not module_state.is_entry(it)}
        used, of_entries = {*self.names.values()}, module_state.entry_tensors(record.values)
        tensors = {name: bare_name(value) for name, value in matching.unmatched.items() if name not in of_entries}
        self._alone = tensors.values()
        self.beside = {name: (new_name, partial(self.tensor, name)) for name, new_name in tensors.items()}
        parts = {matching.rename(name) for name in of_entries if name not in used}
        self.skipped = [name for name in matching.skipped if name not in parts]
        self.entries: set[str] = set()
        for name, tree in module_state.entries_of(record.values):
            new_name = bare_name(matching.rename(name))
            if name in used:
                continue
            if matching.wants(name, new_name):
                self.beside[name] = new_name, partial(module_state.decoded, tree, name, record)
                self.entries.add(name)
            else:
                self.skipped.append(new_name)

    def tensor(self, name: str) -> Tensor:
        """A tensor that code may change; one in memory may be what another module computes with."""
        tensor = self.record.tensors[name].detach()
        return tensor.clone() if isinstance(self.record.tensors, dict) else tensor

    def below(self, prefix: str) -> dict[str, Any]:
        """New name -> tensor or entry, of what is below `prefix` and belongs to no parameter."""
        below = {name: value for name, value in self.beside.items() if value[0].startswith(prefix)}
        self.seen.update(below)
        return {new_name: read() for new_name, read in below.values()}

    @cached_property
    def versions(self) -> dict[str, dict[str, Any]] | None:
        """Path -> what torch noted about that module; None if the record doesn't say."""
        noted = module_state.versions_in(self.record)
        return None if noted is None else {self.matching.rename(f"{path}.")[:-1]: it for path, it in noted.items()}

    def is_loaded_as_it_is(self, path: str) -> bool:
        """True if the record has just the tensors of the part at `path`, and no code of its own had a share in them.

        So have records from before code was asked, and pickled modules. Where names differ, code may know why.
        """
        if VERSIONS in self.record.metadata or not (self.record.ids or PICKLED in self.record.metadata):
            return False
        return not any(it.startswith(join(path, "")) for it in (*self.matching.missing, *self._alone))


def run_own_code(parts: Sequence[tuple[str, nn.Module]], given_state: GivenState) -> tuple[Matching, list[str]]:
    """Let the parts of a module that have code of their own read what a record has for them.

    Returns what is to be loaded then, and the names of the entries that the module took.
    """
    params, matching = given_state.found, given_state.matching
    if not parts and not given_state.entries:
        return matching, []
    loaded: dict[str, TensorMatch | None] = {}
    missing: list[str] = []
    unexpected: list[str] = []
    for path, part in parts:
        if given_state.is_loaded_as_it_is(path):
            saved = module_state.assigned(module_state.state_dict_of(part), path, params)
            missing += [name for name, _, param in saved if param is None and name not in given_state.skipped]
            continue
        run = _Run(path, part, given_state)
        loaded = {**run.loaded, **loaded}
        missing += run.missing
        unexpected += run.unexpected
    match_of = {match.param.path: match for match in matching.matches}
    lacking = {path for path in (*matching.missing, *loaded) if loaded.get(path) is None}
    missing = [*(match.path for match in params if match.path in lacking), *missing]
    left = [new_name for name, (new_name, _) in given_state.beside.items() if name not in given_state.seen]
    result = replace(
        matching,
        matches=[match for param in params if (match := loaded.get(param.path, match_of.get(param.path))) is not None],
        missing=[*dict.fromkeys(missing)],
        unexpected=[*dict.fromkeys(unexpected + left)],
        skipped=given_state.skipped,
    )
    taken = [
        new_name for name, (new_name, _) in given_state.beside.items() if name in given_state.entries & given_state.seen
    ]
    return result, [name for name in taken if name not in unexpected]


def parts_to_run(module: nn.Module, matching: Matching) -> list[tuple[str, nn.Module]]:
    """The parts whose own code is to run, with their paths; none is in another."""
    root = unwrap(module)
    if _overrides_loading(root):
        return [("", root)]
    coded = module_state.own_code((root, *walk_of(root).modules))
    if not coded or (not matching.missing and OwnCode.ALWAYS not in map(itemgetter(1), coded)):
        return []
    codes = {id(part): code for part, code in coded}
    there = [*(match.param.path for match in matching.matches), *map(bare_name, matching.unexpected)]
    parts: list[tuple[str, nn.Module]] = []
    last = None
    for key, part in root.named_modules(remove_duplicate=False):
        if last is not None and f"{key}.".startswith(last):
            continue
        path = module_state.path_of(key)
        code = codes.get(id(part), OwnCode.NONE)
        prefix = join(path, "")
        is_old = code is OwnCode.OLD_NAMES and any(it.startswith(prefix) for it in matching.missing)
        if code is OwnCode.ALWAYS or (is_old and any(it.startswith(prefix) for it in there)):
            parts.append((path, part))
            last = f"{key}." if key else ""
    return parts


def _overrides_loading(root: nn.Module) -> bool:
    """True if the class has a `load_state_dict` of its own, which torch asks of the outermost module only."""
    load: Any = type(root).load_state_dict
    return load is not nn.Module.load_state_dict and module_state.origin(load) is OwnCode.ALWAYS


class _Run:
    """One part, and what its code makes of a record.

    Attributes:
        loaded: path of a parameter -> its values, None where the code misses them.
        missing: names of other things that the code misses.
        unexpected: names of what it does not know.
    """

    def __init__(self, path: str, part: nn.Module, given_state: GivenState) -> None:
        self._path, self._part, self._given = path, part, given_state
        self._prefixes: dict[int, list[str]] = {}
        for name, module in part.named_modules(remove_duplicate=False):
            self._prefixes.setdefault(id(module), []).append(join(name, ""))
        self._owned = [it for it in given_state.found if any(id(owner) in self._prefixes for owner, _ in it.owners)]
        for param in self._owned:
            if is_shapeless(param.tensor):
                raise RecordError(
                    f"'{param.path}' has no shape yet, as in torch's lazy modules; nothing was loaded; call the module"
                    " once with an input before"
                )
        items, names, values = self._state_dict()
        stand_ins = StandIns(part, self._owned, values, given_state.device)
        given_state.undo.callback(stand_ins.undo)
        try:
            with stand_ins, torch.no_grad():
                missing, unexpected = self._run(items)
        except Exception as error:  # whatever the program's code raises
            what = f"'{path}'" if path else type(part).__name__
            raise RecordMismatchError(
                f"{given_state.record.source} does not fit {what}, which reads it by code of its own; nothing was"
                f" loaded: {type(error).__name__}: {error}"
            ) from error
        skipped = {*given_state.skipped}
        self.loaded: dict[str, TensorMatch | None] = {}
        for param in self._owned:
            keys = self._keys_of(param)
            if param.path not in skipped:
                if missing.issuperset(keys) and not stand_ins.is_written(param):
                    self.loaded[param.path] = None
                elif param.path in values or stand_ins.has_values(param):
                    name = given_state.names.get(param.path, param.path)
                    self.loaded[param.path] = TensorMatch(param, name, stand_ins.now[param.path], own=True)
            missing.difference_update(keys)
        self.missing = [name for key in sorted(missing) if (name := join(path, bare_name(key))) not in skipped]
        self.unexpected = [names.get(key, join(path, key)) for key in unexpected]

    def _run(self, items: OrderedDict[str, Any]) -> tuple[set[str], list[str]]:
        """Run the code; returns what it misses and what it does not know."""
        is_own = not self._path and _overrides_loading(self._part)
        load: Any = self._part.load_state_dict if is_own else partial(nn.Module.load_state_dict, self._part)
        told = load(items, strict=False)
        if told is None:  # an override that does not say
            return {key for param in self._owned for key in self._keys_of(param) if key not in items}, []
        return {*told.missing_keys}, told.unexpected_keys

    def _state_dict(self) -> tuple[OrderedDict[str, Any], dict[str, str], dict[str, Tensor]]:
        """The state dict for the code; the name to report for each key; and path of a parameter -> its values."""
        given_state, saved = self._given, module_state.state_dict_of(self._part)
        keys: dict[int, list[str]] = {}
        for key, value in saved.items():
            keys.setdefault(id(value), []).append(key)
        items: OrderedDict[str, Any] = OrderedDict()
        names: dict[str, str] = {}
        values = {
            it.path: given_state.tensor(given_state.names[it.path])
            for it in self._owned
            if it.path in given_state.names
        }
        for param in self._owned:
            for key in (keys.get(id(param.tensor)) or self._keys_of(param)) if param.path in values else ():
                items[key], names[key] = values[param.path], param.path
        prefix = join(self._path, "")
        for name, value in given_state.below(prefix).items():
            key = name.removeprefix(prefix)
            items[key], names[key] = value, name
        for key, value in saved.items():
            name = join(self._path, bare_name(key))
            if key not in items and name in given_state.plain:
                items[key], names[key] = given_state.plain[name], name
            elif key not in items and name in given_state.skipped:
                items[key] = value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value)
        noted, prefixes = given_state.versions, chain.from_iterable(self._prefixes.values())
        paths = {name[:-1]: module_state.path_of(join(self._path, name)[:-1]) for name in prefixes}
        versions = {} if noted is None else {it: dict(noted.get(path, USUAL_VERSION)) for it, path in paths.items()}
        setattr(items, STATE_METADATA, versions)
        return items, names, values

    def _keys_of(self, param: Param) -> list[str]:
        """The names that torch has for a parameter within the part."""
        return [prefix + name for owner, name in param.owners for prefix in self._prefixes.get(id(owner), ())]
