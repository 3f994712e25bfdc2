"""Renames the tensors of records, or gives them ids; nothing is read or copied."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import RecordError
from ...module.identity.param_id import ParamId
from ..files.stored_tensors import renamed_tensors
from ..layout import LAYOUTS, Layout, tag_of
from ..loading.load_options import renamed
from ..precision import check_pattern
from ..record import Record
from ..state_dict.module_state import is_entry, renamed_versions


def is_optimizer_record(record: Record) -> bool:
    """True if the tensors are states of an optimizer, named `<id>.<field>`."""
    return isinstance(record.values.get("states"), Mapping) and "paths" in record.values


def rename(record: Record, rules: Sequence[tuple[str, str]]) -> Record:
    """The record under other names; in an optimizer's, the paths of the parameters. Its layout goes.

    `rules` are regular expressions and what takes the place of each match (`re.sub`), one after the other.
    """
    for pattern, _ in rules:
        check_pattern("rename", pattern, RecordError)

    def new(names: Iterable[str]) -> dict[str, str]:
        new_names = {name: renamed("rename", name, rules, RecordError) for name in names}
        old_of: dict[str, str] = {}
        for name, new_name in new_names.items():
            if old_of.setdefault(new_name, name) != name:
                raise RecordError(f"rename: both '{old_of[new_name]}' and '{name}' would become '{new_name}'")
        return new_names

    if is_optimizer_record(record):
        paths = record.values["paths"]
        names = new(paths.values())
        values = {**record.values, "paths": {key: names[path] for key, path in paths.items()}}
        if isinstance(layouts := values.get(LAYOUTS), Mapping):
            values[LAYOUTS] = {key: _renamed_parts(note, new) for key, note in layouts.items()}
        return replace(record, values=values)
    entries = [name for name, value in record.values.items() if is_entry(value) and name not in record.tensors]
    names = new([*record.tensors, *record.aliases, *entries])
    if all(name == new_name for name, new_name in names.items()):
        return record
    return replace(
        record,
        tensors=renamed_tensors(record.tensors, {name: names[name] for name in record.tensors}),
        ids={names[name]: param_id for name, param_id in record.ids.items()},
        aliases={names[alias]: names[name] for alias, name in record.aliases.items()},
        states=frozenset(names[name] for name in record.states),
        values={names.get(name, name): value for name, value in record.values.items()},
        layout=None,
        metadata={**record.metadata, **renamed_versions(record, lambda name: new([f"{name}."])[f"{name}."][:-1])},
    )


def _renamed_parts(note: Any, new: Callable[[Iterable[str]], Mapping[str, str]]) -> Any:
    """The way a parameter lies, with other paths of the tensors that it is made of."""
    if not isinstance(note, Mapping):
        return note
    names = new([it["path"] for it in note["parts"]])
    return {**note, "parts": [{**it, "path": names[it["path"]]} for it in note["parts"]]}


def with_ids(record: Record) -> Record:
    """The record with new random ids for those of its tensors that have none; an optimizer's stays as it is."""
    missing = [name for name in record.tensors if name not in record.ids]
    if not missing or is_optimizer_record(record):
        return record
    ids = {**record.ids, **{name: ParamId.new(name) for name in missing}}
    return replace(record, ids=ids, layout=_with_params(record.layout))


def _with_params(layout: Layout) -> Any:
    if isinstance(layout, list | tuple):
        return [_with_params(below) for below in layout]
    if tag_of(layout) == "$enum":
        return {**layout, "$enum": [[name, _with_params(below)] for name, below in layout["$enum"]]}
    if isinstance(layout, Mapping):
        return {name: _with_params(below) for name, below in layout.items()}
    return "param" if layout == "tensor" else layout
