"""Loads state that a module reads by its own code: `_load_from_state_dict`, `set_extra_state`, and load hooks.

The code runs on the module itself, while other tensors stand in for its own. What it does to those is then loaded like
any other values; what it does besides is undone if the load comes to nothing.
"""

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.modules import STATE_METADATA
from ...errors import RecordMismatchError
from ...module import Param
from ...module.torch_objects.wrappers import bare_name, unwrap
from ...module.tree.walk import walk_of
from ..layout import join
from ..metadata import PICKLED, USUAL_VERSION, VERSIONS
from ..record import Record
from ..state_dict.entries import assigned, decoded, entries_of, entry_tensors, is_entry, state_dict_of, versions_in
from ..state_dict.own_code import OwnCode, origin, own_code, path_of
from .fitting import check_has_shape
from .matching import Matching, TensorMatch
from .stand_ins import StandIns


class GivenState:
    """The state in a record for a module's own code.

    Attributes:
        names: path of a parameter -> the name of its tensor in the record.
        entries: name in the record -> its new name and tree, of entries that are no tensor of a parameter.
        skipped: paths and names that the filter leaves out.
        seen: names in the record of what a part was given.
        plain: new name -> plain value, where a file has a state dict's values as they are.
    """

    def __init__(self, record: Record, matching: Matching) -> None:
        self.record, self.matching = record, matching
        self.names = {it.param.path: it.name for it in matching.matches}
        self.entries: dict[str, tuple[str, Any]] = {}
        self.skipped: list[str] = []
        self.seen: set[str] = set()
        self.plain = {matching.rename(name): it for name, it in record.values.items() if not is_entry(it)}
        used = {*self.names.values()}
        for name, tree in entries_of(record.values):
            new_name = bare_name(matching.rename(name))
            if name in used:
                continue
            if matching.wants(name, new_name):
                self.entries[name] = new_name, tree
            else:
                self.skipped.append(new_name)
        of_entries = entry_tensors(record.values)
        self._alone = {name: bare_name(it) for name, it in matching.unmatched.items() if name not in of_entries}
        parts = {matching.rename(name) for name in of_entries if name not in used}
        self.skipped = [*(name for name in matching.skipped if name not in parts), *self.skipped]

    def tensor(self, name: str) -> Tensor:
        """A tensor that code may change; one in memory may be what another module computes with."""
        tensor = self.record.tensors[name].detach()
        return tensor.clone() if isinstance(self.record.tensors, dict) else tensor

    def below(self, prefix: str) -> dict[str, Any]:
        """New name -> tensor or entry, of what is below `prefix` and belongs to no parameter."""
        items: dict[str, Any] = {}
        for name, new_name in self._alone.items():
            if new_name.startswith(prefix):
                self.seen.add(name)
                items[new_name] = self.tensor(name)
        for name, (new_name, tree) in self.entries.items():
            if new_name.startswith(prefix):
                self.seen.add(name)
                items[new_name] = decoded(tree, name, self.record)
        return items

    @cached_property
    def versions(self) -> dict[str, dict[str, Any]] | None:
        """Path -> what torch noted about that module; None if the record doesn't say."""
        noted = versions_in(self.record.metadata, self.record.source)
        rename = self.matching.rename
        return None if noted is None else {rename(f"{path}.")[:-1]: it for path, it in noted.items()}

    def is_loaded_as_it_is(self, path: str) -> bool:
        """Whether the record has just the tensors of the part at `path`, and no code of its own had a share in them.

        So have records from before code was asked, and pickled modules. Where names differ, code may know why.
        """
        if VERSIONS in self.record.metadata or not (self.record.ids or PICKLED in self.record.metadata):
            return False
        prefix = join(path, "")
        return not any(it.startswith(prefix) for it in (*self.matching.missing, *self._alone.values()))

    def left(self) -> list[str]:
        """New names of what no part was given."""
        entries = {name: new_name for name, (new_name, _) in self.entries.items()}
        return [new_name for name, new_name in {**self._alone, **entries}.items() if name not in self.seen]

    def taken(self) -> list[str]:
        """New names of the entries that a part was given."""
        return [new_name for name, (new_name, _) in self.entries.items() if name in self.seen]


def run_own_code(
    found: Sequence[Param],
    record: Record,
    module: nn.Module,
    matching: Matching,
    device: torch.device,
    undo: ExitStack,
) -> tuple[Matching, list[str]]:
    """Let the parts of a module that have code of their own read what a record has for them.

    Tensors without memory are made on `device`; `undo` gets what takes back all that the code did. Returns what is to
    be loaded then, and the names of the entries that the module took.
    """
    given = GivenState(record, matching)
    parts = _parts_to_run(module, matching)
    if not parts and not given.entries:
        return matching, []
    loaded: dict[str, TensorMatch | None] = {}
    missing: list[str] = []
    unexpected: list[str] = []
    for path, part in parts:
        if given.is_loaded_as_it_is(path):
            saved = assigned(state_dict_of(part), path, found)
            missing += [name for name, _, param in saved if param is None and name not in given.skipped]
            continue
        run = _Run(path, part, found, given)
        run.load(device, undo)
        loaded = {**run.loaded, **loaded}
        missing += run.missing
        unexpected += run.unexpected
    known = {it.param.path: it for it in matching.matches}
    lacking = {path for path in (*matching.missing, *loaded) if loaded.get(path) is None}
    missing = [*(it.path for it in found if it.path in lacking), *missing]
    result = replace(
        matching,
        matches=[it for param in found if (it := loaded.get(param.path, known.get(param.path))) is not None],
        missing=[*dict.fromkeys(missing)],
        unexpected=[*dict.fromkeys(unexpected + given.left())],
        skipped=given.skipped,
    )
    return result, [name for name in given.taken() if name not in unexpected]


def _parts_to_run(module: nn.Module, matching: Matching) -> list[tuple[str, nn.Module]]:
    """The parts whose own code is to run, with their paths; none is in another."""
    root = unwrap(module)
    codes = {id(part): code for part, code in own_code((root, *walk_of(root).modules))}
    if _overrides_loading(root):
        return [("", root)]
    if not codes or (not matching.missing and OwnCode.ALWAYS not in codes.values()):
        return []
    there = [*(it.param.path for it in matching.matches), *map(bare_name, matching.unexpected)]
    parts: list[tuple[str, nn.Module]] = []
    last = None
    for key, part in root.named_modules(remove_duplicate=False):
        if last is not None and f"{key}.".startswith(last):
            continue
        path = path_of(key)
        code = codes.get(id(part), OwnCode.NONE)
        prefix = join(path, "")
        is_old = code is OwnCode.OLD_NAMES and any(it.startswith(prefix) for it in matching.missing)
        if code is OwnCode.ALWAYS or (is_old and any(it.startswith(prefix) for it in there)):
            parts.append((path, part))
            last = f"{key}." if key else ""
    return parts


def _overrides_loading(root: nn.Module) -> bool:
    """Whether the class has a `load_state_dict` of its own, which torch asks of the outermost module only."""
    own: Any = type(root).load_state_dict
    return own is not nn.Module.load_state_dict and origin(own) is OwnCode.ALWAYS


class _Run:
    """One part, and what its code makes of a record.

    Attributes:
        loaded: path of a parameter -> its values, None where the code misses them.
        missing: names of other things that the code misses.
        unexpected: names of what it does not know.
    """

    def __init__(self, path: str, part: nn.Module, found: Sequence[Param], given: GivenState) -> None:
        self._path, self._part, self._given = path, part, given
        self._prefixes: dict[int, list[str]] = {}
        for name, module in part.named_modules(remove_duplicate=False):
            self._prefixes.setdefault(id(module), []).append(join(name, ""))
        self._owned = [it for it in found if any(id(owner) in self._prefixes for owner, _ in it.owners)]
        self.loaded: dict[str, TensorMatch | None] = {}
        self.missing: list[str] = []
        self.unexpected: list[str] = []

    def load(self, device: torch.device, undo: ExitStack) -> None:
        """Run the code, with tensors on `device` for those that have no memory."""
        check_has_shape(self._owned)
        items, names, values = self._state_dict()
        stand_ins = StandIns(self._part, self._owned, values, device)
        undo.callback(stand_ins.undo)
        try:
            with stand_ins, torch.no_grad():
                missing, unexpected = self._run(items)
        except Exception as error:  # whatever the program's code raises
            what = f"'{self._path}'" if self._path else type(self._part).__name__
            raise RecordMismatchError(
                f"{self._given.record.source} does not fit {what}, which reads it by code of its own; nothing was"
                f" loaded: {type(error).__name__}: {error}"
            ) from error
        self._sort_out(missing, stand_ins, values)
        self.unexpected = [names.get(key, join(self._path, key)) for key in unexpected]

    def _run(self, items: OrderedDict[str, Any]) -> tuple[set[str], list[str]]:
        """Run the code; returns what it misses and what it does not know."""
        if self._path or not _overrides_loading(self._part):
            keys = nn.Module.load_state_dict(self._part, items, strict=False)
            return {*keys.missing_keys}, keys.unexpected_keys
        told: Any = self._part.load_state_dict(items, strict=False)
        if told is None:  # an override that does not say
            return {key for param in self._owned for key in self._keys_of(param) if key not in items}, []
        return {*told.missing_keys}, told.unexpected_keys

    def _state_dict(self) -> tuple[OrderedDict[str, Any], dict[str, str], dict[str, Tensor]]:
        """The state dict for the code; the name to report for each key; and path of a parameter -> its values."""
        given, part = self._given, self._part
        saved = state_dict_of(part)
        keys: dict[int, list[str]] = {}
        for key, value in saved.items():
            keys.setdefault(id(value), []).append(key)
        items: OrderedDict[str, Any] = OrderedDict()
        names: dict[str, str] = {}
        values: dict[str, Tensor] = {}
        for param in self._owned:
            if param.path in given.names:
                values[param.path] = given.tensor(given.names[param.path])
                for key in keys.get(id(param.tensor)) or self._keys_of(param):
                    items[key] = values[param.path]
                    names[key] = param.path
        prefix = join(self._path, "")
        for name, value in given.below(prefix).items():
            items[name.removeprefix(prefix)] = value
            names[name.removeprefix(prefix)] = name
        for key, value in saved.items():
            name = join(self._path, bare_name(key))
            if key not in items and name in given.plain:
                items[key], names[key] = given.plain[name], name
            elif key not in items and name in given.skipped:
                items[key] = value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value)
        setattr(items, STATE_METADATA, self._versions())
        return items, names, values

    def _versions(self) -> dict[str, dict[str, Any]]:
        noted = self._given.versions
        if noted is None:
            return {}
        names = [name for names in self._prefixes.values() for name in names]
        return {name[:-1]: dict(noted.get(path_of(join(self._path, name)[:-1]), USUAL_VERSION)) for name in names}

    def _sort_out(self, missing: set[str], stand_ins: StandIns, values: Mapping[str, Tensor]) -> None:
        given = self._given
        skipped = {*given.skipped}
        for param in self._owned:
            keys = self._keys_of(param)
            if param.path not in skipped:
                if missing.issuperset(keys) and not stand_ins.is_written(param):
                    self.loaded[param.path] = None
                elif param.path in values or stand_ins.has_values(param):
                    name = given.names.get(param.path, param.path)
                    self.loaded[param.path] = TensorMatch(param, name, stand_ins.value(param), own=True)
            missing.difference_update(keys)
        self.missing = [name for key in sorted(missing) if (name := join(self._path, bare_name(key))) not in skipped]

    def _keys_of(self, param: Param) -> list[str]:
        """The names that torch has for a parameter within the part."""
        return [prefix + name for owner, name in param.owners for prefix in self._prefixes.get(id(owner), ())]
