"""Records under the names of burnpack: modules, schedulers and everything else but optimizers. Imports no torch.

Tensors have the record's names. A parameter that is tied has one id and its bytes under all its names, which need to be
in the file once only; files of Burn's that have them several times are written so again. Numbers and bools in maps are
scalars, their names joined by dots. What Burn has no place for stands in the free metadata, as in safetensors files.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from ...errors import RecordError, RecordFormatError
from ...module.identity.param_id import ParamId
from .. import metadata
from ..bytes.source import Source
from ..formats import Outline, StoredTensor
from ..layout import Layout, LayoutOf, join, known_layout, tag_of
from . import burnpack_optimizers
from .burnpack_optimizers import LEAVES, Pack, Scalar, has_tag, nested, scalar_of
from .envelope import told_states
from .record_tree import default_layout, item_of
from .state_layouts import is_optimizer_record, leaves_of, normal
from .tensor_collector import TensorCollector, same_place, with_ids_of_clones

_BARE_STATES = {"Linear", "Cosine", "Exponential", "Noam"}


def pack_of(outline: Outline) -> Pack:
    if _is_schedule_of_0_21(outline):
        raise RecordError(
            "Burn 0.22 reads the numbers of a learning rate schedule by names, which the record (of Burn 0.21 or older)"
            " lacks: it would begin anew; load it into the schedule, by scheduler.load(path), and save that"
        )
    outline = with_ids_of_clones(outline)
    made_when_asked = isinstance(outline.layout, LayoutOf)
    if made_when_asked:
        outline = replace(outline, layout=known_layout(outline.layout) if outline.values else None)
    if is_optimizer_record(outline):
        pack, rest = burnpack_optimizers.pack_of(outline)
        derived = burnpack_optimizers.layout_of(pack)
    else:
        pack, rest = _pack_of(outline)
        derived = _layout_of(pack)
    keep = not made_when_asked and not _says_the_same(outline, derived)
    told = frozenset(outline.states) == told_states(outline)
    rest = replace(
        rest,
        layout=outline.layout if keep else None,
        metadata={key: it for key, it in outline.metadata.items() if key in (metadata.VERSIONS, metadata.PICKLED)},
    )
    texts = {**metadata.foreign(outline.metadata), **metadata.own_texts(rest, states=not told), **pack.metadata}
    return replace(pack, metadata=texts)


def _is_schedule_of_0_21(outline: Outline) -> bool:
    """True if the record is a bare number, or the states of a composed schedule, as Burn 0.21 writes them."""
    values = outline.values
    if outline.entries or len(values) != 1:
        return False
    states = values.get("schedulers")
    if isinstance(states, list):
        return all(isinstance(it, Mapping) and it.keys() <= _BARE_STATES for it in states)
    return isinstance(values.get(""), int | float | list)


def _pack_of(outline: Outline) -> tuple[Pack, Outline]:
    types = dict(leaves_of(outline.layout)) if outline.layout is not None else {}
    scalars: dict[str, Scalar] = {}
    values: dict[str, Any] = {}
    for key, value in outline.values.items():
        part = _scalars({key: value}, "", types)
        scalars |= part or {}
        values |= {key: value} if part is None else {}
    copies: set[str] = set()
    if tag_of(outline.layout) == "$named":  # shows a file's arrangement, where a tied tensor may come again
        copies = {it for it, name in outline.aliases.items() if types.get(it) == "param" and name in outline.ids}
    names = [it for it in types if it in outline.entries or it in copies] if copies else []
    names = list(dict.fromkeys((*names, *outline.entries, *copies)))
    tied = {it: name for it, name in outline.aliases.items() if it not in copies and name in outline.ids}
    tensors = {it: outline.entries[outline.aliases.get(it, it)] for it in (*names, *tied)}
    ids = {it: outline.ids[entry.name].value for it, entry in tensors.items() if entry.name in outline.ids}
    pack = Pack(tensors, tied, ids, scalars=scalars)
    if burnpack_optimizers.is_optimizer(pack):  # names that only look like it
        pack, values = replace(pack, scalars={}), dict(outline.values)
    aliases = {it: name for it, name in outline.aliases.items() if it not in copies}
    return pack, replace(outline, ids={}, aliases=aliases, values=values)


def _scalars(value: Any, path: str, types: Mapping[str, str]) -> dict[str, Scalar] | None:
    """The scalars that a value is, by the names of maps joined by dots; None if it holds something else."""
    if not isinstance(value, Mapping):
        scalar = scalar_of(value, types.get(path))
        return None if scalar is None else {path: scalar}
    scalars: dict[str, Scalar] = {}
    for key, below in value.items():
        part = _scalars(below, join(path, key), types) if isinstance(key, str) and key and "." not in key else None
        if part is None:
            return None
        scalars |= part
    return scalars or None


def _layout_of(pack: Pack) -> Layout:
    """The layout that a file suggests; None where the names of the tensors say it all."""
    copies = len(set(pack.ids.values())) < len(pack.ids.keys() - pack.tied.keys())
    if (not pack.scalars and not copies) or any(has_tag(name) for name in (*pack.scalars, *pack.tensors)):
        return None
    try:
        if not pack.scalars:
            ids = {name: ParamId(value) for name, value in pack.ids.items()}
            return default_layout(Outline({it: pack.tensors[it] for it in pack.tensors if it not in pack.tied}, ids))
        leaves = {it: "param" if it in pack.ids else "tensor" for it in pack.tensors if it not in pack.tied}
        tree = nested({**leaves, **{it: LEAVES[scalar.variant] for it, scalar in pack.scalars.items()}})
        return {"$named": tree} if leaves else tree
    except (RecordError, ValueError):  # names that can't be in one tree
        return None


def _says_the_same(outline: Outline, derived: Layout) -> bool:
    """True if the layout that the file suggests is as good as the record's."""
    layout = outline.layout
    if tag_of(layout) == "$map" and tag_of(layout["$map"]) == "$state" and is_optimizer_record(outline):
        layout = {param_id: {"rank": state["rank"], **layout["$map"]} for param_id, state in derived.items()}
    if layout is None or normal(layout) == normal(derived or {}):
        return True
    if tag_of(layout) != "$named":
        return False
    try:
        return _shown(outline) == _shown(replace(outline, layout=derived))
    except RecordError:
        return False


def _shown(outline: Outline) -> Any:
    """The record's tree; maps are compared with their order, but for the one from ids to states."""
    item, _ = item_of(outline)
    if is_optimizer_record(outline):
        return {param_id: repr(state) for param_id, state in item.items()}
    return repr(item)


def outline_of_pack(pack: Pack, source: Source) -> Outline:
    path, budget = source.path, source.budget
    if burnpack_optimizers.is_optimizer(pack):
        return burnpack_optimizers.outline_of(pack, path, budget)
    declared = metadata.aliases_of(pack.metadata, path, budget)
    collector = TensorCollector(path, "the file is damaged: save or fetch it again")
    tensors = cast(Mapping[str, StoredTensor], pack.tensors)
    for name, entry in tensors.items():
        if name in declared:
            continue
        if name in pack.ids:
            collector.param(pack.ids[name], entry)
        else:
            collector.tensor(entry)
    collector.find_clones()
    for alias, name in declared.items():
        first = collector.entries.get(name)
        same_id = pack.ids.get(alias) == pack.ids.get(name)
        if alias in tensors and not (first and same_id and same_place(first, tensors[alias])):
            raise RecordFormatError(
                f"{path}: its metadata ties '{alias[:80]}' to '{name[:80]}', which the tensors contradict"
            )
    copies = {it.name for it in collector.copies}
    tied = {
        it: name for it, name in (*collector.aliases.items(), *declared.items()) if it in tensors and it not in copies
    }
    outline = replace(metadata.decode(pack.metadata, collector.entries, path, budget), ids=collector.ids)
    try:
        scalars = nested({name: scalar.value for name, scalar in pack.scalars.items()})
    except ValueError as error:
        raise RecordFormatError(f"{path}: the name of the scalar '{error}' begins with that of another one") from error
    if twice := sorted(scalars.keys() & outline.values.keys()):
        raise RecordFormatError(f"{path}: the value '{twice[0]:.80}' is there as scalars and as text")
    outline = replace(outline, values=collector.values({**scalars, **outline.values}))
    return replace(
        outline,
        states=outline.states if metadata.STATES in pack.metadata else told_states(outline),
        aliases={**collector.aliases, **outline.aliases},
        layout=_layout_of(replace(pack, tied=tied)) if outline.layout is None else outline.layout,
    )
