"""Renames the tensors of records, or gives them ids; nothing is read or copied."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import RecordError
from ...module.identity.param_id import ParamId
from ..files.stored_tensors import renamed_tensors
from ..layout import Layout, tag_of
from ..record import Record
from ..state_dict.entries import is_entry, renamed_versions


def is_optimizer_record(record: Record) -> bool:
    """Whether the tensors are states of an optimizer, named `<id>.<field>`."""
    return isinstance(record.values.get("states"), Mapping) and "paths" in record.values


def rename(record: Record, rules: Sequence[tuple[str, str]]) -> Record:
    """The record under other names; in an optimizer's, the paths of the parameters. Its layout goes.

    `rules` are regular expressions and what takes the place of each match (`re.sub`), one after the other.
    """
    compiled = []
    for pattern, replacement in rules:
        try:
            compiled.append((re.compile(pattern), replacement))
        except re.error as error:
            raise RecordError(f"rename: {pattern!r} is no regular expression: {error}") from error

    def new(names: Iterable[str]) -> dict[str, str]:
        return _new_names(names, compiled)

    if is_optimizer_record(record):
        paths = record.values["paths"]
        renamed = new(paths.values())
        return replace(record, values={**record.values, "paths": {key: renamed[it] for key, it in paths.items()}})
    entries = [name for name, it in record.values.items() if is_entry(it) and name not in record.tensors]
    names = new([*record.tensors, *record.aliases, *entries])
    if all(name == renamed for name, renamed in names.items()):
        return record
    return replace(
        record,
        tensors=renamed_tensors(record.tensors, {name: names[name] for name in record.tensors}),
        ids={names[name]: param_id for name, param_id in record.ids.items()},
        aliases={names[alias]: names[name] for alias, name in record.aliases.items()},
        states=frozenset(names[name] for name in record.states),
        values={names.get(name, name): it for name, it in record.values.items()},
        layout=None,
        metadata={
            **record.metadata,
            **renamed_versions(record.metadata, record.source, lambda name: new([f"{name}."])[f"{name}."][:-1]),
        },
    )


def _new_names(names: Iterable[str], rules: Sequence[tuple[re.Pattern[str], str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    old_of: dict[str, str] = {}
    for name in names:
        renamed = name
        for pattern, replacement in rules:
            try:
                renamed = pattern.sub(replacement, renamed)
            except (re.error, IndexError) as error:
                raise RecordError(f"rename: {replacement!r} can't replace {pattern.pattern!r}: {error}") from error
        if old_of.setdefault(renamed, name) != name:
            raise RecordError(f"rename: both '{old_of[renamed]}' and '{name}' would become '{renamed}'")
        found[name] = renamed
    return found


def with_ids(record: Record) -> Record:
    """The record with new random ids for those of its tensors that have none; an optimizer's stays as it is."""
    missing = [name for name in record.tensors if name not in record.ids]
    if not missing or is_optimizer_record(record):
        return record
    ids = {**record.ids, **{name: ParamId.new(name) for name in missing}}
    return replace(record, ids=ids, layout=_with_params(record.layout))


def _with_params(layout: Layout) -> Any:
    if layout == "tensor":
        return "param"
    if isinstance(layout, list | tuple):
        return [_with_params(below) for below in layout]
    if tag_of(layout) == "$enum":
        return {**layout, "$enum": [[name, _with_params(below)] for name, below in layout["$enum"]]}
    if isinstance(layout, Mapping):
        return {name: _with_params(below) for name, below in layout.items()}
    return layout
