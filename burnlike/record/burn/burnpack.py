"""Burnpack: the files of Burn 0.22, and of burn-store before. Imports no torch.

A file is `NRUB`, the version (2 bytes), the length of the metadata (4 bytes), the metadata (CBOR), zeros up to a
multiple of 256, and the tensors' bytes, each at a multiple of 256 from there; all numbers are little-endian. What the
names of optimizers mean is told in `burnpack_optimizers.py`; those of modules, schedulers and all else here.

Tensors have the record's names. A parameter that is tied has one id and its bytes under all its names, which need to be
in the file once only; files of Burn's that have them several times are written so again. Numbers and bools in maps are
scalars, their names joined by dots. What Burn has no place for stands in the free metadata, as in safetensors files.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any, cast

from ...errors import RecordError, RecordFormatError
from ...module.identity.param_id import ParamId
from .. import metadata
from ..bytes.budget import MAX_DIMENSIONS, MAX_NAME
from ..bytes.source import Source
from ..formats import Format, Outline, Payload, Segment, StoredTensor, TensorEntry, byte_count
from ..layout import Layout, LayoutOf, join, known_layout, tag_of
from . import burnpack_optimizers, cbor
from .burnpack_optimizers import LEAVES, Pack, Scalar, has_tag, nested, scalar_of
from .envelope import told_states
from .record_tree import default_layout, item_of
from .state_layouts import is_optimizer_record, leaves_of, normal
from .tensor_collector import TensorCollector, burn_dtype, read_dtype, same_place, with_ids_of_clones

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
        return all(isinstance(state, Mapping) and state.keys() <= _BARE_STATES for state in states)
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
        tree = nested({**leaves, **{key: LEAVES[scalar.variant] for key, scalar in pack.scalars.items()}})
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
    copies = {copy.name for copy in collector.copies}
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


MAGIC = b"NRUB"
VERSION = 1
"""Of the format; version 0 is read as well."""

MAX_METADATA_BYTES = 100 * 2**20
MAX_TENSORS = 100_000
MAX_TENSOR_BYTES = 10 * 2**30
MAX_FILE_BYTES = 100 * 2**30
"""Burn's readers refuse files beyond these limits."""

_HEAD = struct.Struct("<4sHI")
_ALIGNMENT = 256
_TENSOR_BYTES, _TENSOR_STEPS = 400, 220
"""What a tensor takes of memory and time beside its part of the metadata."""

_SCALARS = {
    "Int": (int, -(2**63), 2**63 - 1),
    "UInt": (int, 0, 2**64 - 1),
    "Float": (float, None, None),
    "Bool": (bool, 0, 1),
}


class Burnpack(Format):
    """See `burnlike.record.formats.Format`."""

    name, extension, compressed = "burnpack", ".bpk", False

    def segments(self, outline: Outline) -> Iterator[Segment]:
        """The metadata, then the tensors in the record's order."""
        pack = pack_of(outline)
        places = _places(pack)
        text = cbor.encode(_metadata(pack, places))
        start = _aligned(_HEAD.size + len(text))
        end = start + max((stop for _, stop in places.values()), default=0)
        for what, count, limit in (
            ("bytes of names and metadata", len(text), MAX_METADATA_BYTES),
            ("tensors", len(places), MAX_TENSORS),
            ("bytes", end, MAX_FILE_BYTES),
        ):
            if count > limit:
                raise RecordError(f"the record has {count} {what}, Burn reads at most {limit}; save it as safetensors")
        yield _HEAD.pack(MAGIC, VERSION, len(text)) + text + bytes(start - _HEAD.size - len(text))
        offset = 0
        for name, entry in pack.tensors.items():
            if name in pack.tied:
                continue
            begin, stop = places[name]
            # Burn maps the file and takes the values where they lie, so they are to be aligned.
            if begin > offset:
                yield bytes(begin - offset)
            yield Payload(entry.name)
            offset = stop

    def read(self, source: Source, layout: object = None) -> Outline:
        path = source.path
        if not source.has(0, _HEAD.size):
            raise RecordFormatError(f"{path}: too short for a burnpack file; fetch or save it again")
        magic, version, length = _HEAD.unpack(source.read(0, _HEAD.size))
        if magic != MAGIC:
            raise RecordFormatError(f"{path}: expected a burnpack file, got one that begins with {magic!r}")
        if version > VERSION:
            raise RecordFormatError(
                f"{path}: burnpack version {version}, known are those up to {VERSION}; a newer Burn wrote it: update"
                " burnlike"
            )
        if length > MAX_METADATA_BYTES:
            raise RecordFormatError(
                f"{path}: promises {length} bytes of metadata, at most {MAX_METADATA_BYTES} are allowed"
            )
        metadata = cbor.decode(source.read(_HEAD.size, length), f"{path}: the metadata", source.budget)
        outline = outline_of_pack(_pack(metadata, source, _HEAD.size + length), source)
        return replace(outline, format=self.name, version=str(version))


def _aligned(offset: int) -> int:
    return offset + -offset % _ALIGNMENT


def _places(pack: Pack) -> dict[str, tuple[int, int]]:
    """First and last offset of each tensor's bytes, from the first that a tensor can have."""
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    for name, entry in pack.tensors.items():
        if name in pack.tied:
            places[name] = places[pack.tied[name]]
            continue
        if entry.nbytes > MAX_TENSOR_BYTES:
            raise RecordError(
                f"'{name}' has {entry.nbytes} bytes, Burn reads tensors of at most {MAX_TENSOR_BYTES}; save it as"
                " safetensors"
            )
        begin = _aligned(offset)
        offset = begin + entry.nbytes
        places[name] = begin, offset
    return places


def _metadata(pack: Pack, places: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    tensors: dict[str, Any] = {}
    for name, entry in pack.tensors.items():
        dtype = burn_dtype(entry.dtype, name)
        tensors[name] = {"dtype": dtype, "shape": list(entry.shape), "data_offsets": list(places[name])}
        if name in pack.ids:
            tensors[name]["param_id"] = pack.ids[name]
    metadata = {"tensors": _sorted(tensors)}
    if pack.metadata:
        metadata["metadata"] = _sorted(pack.metadata)
    if pack.scalars:
        metadata["scalars"] = _sorted({name: {scalar.variant: scalar.value} for name, scalar in pack.scalars.items()})
    return metadata


def _sorted(entries: Mapping[str, Any]) -> dict[str, Any]:
    """By name, whose order as text is that of its UTF-8 bytes."""
    return {name: entries[name] for name in sorted(entries)}


def _pack(metadata: Any, source: Source, head_bytes: int) -> Pack:
    path = source.path
    if not isinstance(metadata, dict) or not isinstance(metadata.get("tensors"), dict):
        raise RecordFormatError(f"{path}: its metadata is no map with tensors; it is damaged or no burnpack file")
    count = len(metadata["tensors"])
    if count > MAX_TENSORS:
        raise RecordFormatError(f"{path}: has {count} tensors, at most {MAX_TENSORS} are allowed")
    source.budget.take(_TENSOR_BYTES * count, _TENSOR_STEPS * count)
    tensors = [_tensor(name, descriptor, source) for name, descriptor in metadata["tensors"].items()]
    ids = {name: value["param_id"] for name, value in metadata["tensors"].items() if value.get("param_id") is not None}
    for name, param_id in ids.items():
        if not _natural(param_id):
            raise _wrong(path, name, f"the param_id {param_id!r:.40}")
    tensors.sort(key=lambda it: (it.start, it.start + it.stored_bytes, it.name))
    for one, other in pairwise(tensors):  # only a tied tensor, which has one id under all its names, may share bytes
        same = (one.start, one.stored_bytes) == (other.start, other.stored_bytes)
        tied = same and one.name in ids and ids[one.name] == ids.get(other.name)
        if other.start < one.start + one.stored_bytes and not tied:
            raise _wrong(path, other.name, f"bytes in common with '{one.name[:80]}'")
    start = _data_start(source, head_bytes, tensors)
    placed: dict[str, TensorEntry] = {tensor.name: replace(tensor, start=tensor.start + start) for tensor in tensors}
    texts, scalars = ({} if metadata.get(key) is None else metadata[key] for key in ("metadata", "scalars"))
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise RecordFormatError(f"{path}: its free metadata is no map from text to text; it is damaged")
    if not isinstance(scalars, dict):
        raise RecordFormatError(f"{path}: its scalars are no map; it is damaged")
    return Pack(placed, {}, ids, texts, {name: _scalar(name, scalar, path) for name, scalar in scalars.items()})


def _tensor(name: str, descriptor: Any, source: Source) -> StoredTensor:
    path = source.path
    if not isinstance(descriptor, dict):
        raise _wrong(path, name, "no descriptor")
    shape, offsets = descriptor.get("shape"), descriptor.get("data_offsets")
    if not isinstance(shape, list) or not all(_natural(size, 2**63) for size in shape):
        raise _wrong(path, name, f"the shape {shape!r:.60}")
    if len(shape) > MAX_DIMENSIONS:
        raise _wrong(path, name, f"{len(shape)} dimensions, of which at most {MAX_DIMENSIONS} are read")
    if len(name) > MAX_NAME:
        raise _wrong(path, name, f"a name of {len(name)} characters, of which at most {MAX_NAME} are read")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_natural(offset) for offset in offsets):
        raise _wrong(path, name, f"the data_offsets {offsets!r:.60}")
    dtype, stored_as = read_dtype(descriptor.get("dtype"), f"{path}: '{name}'")
    begin, end = offsets
    if end - begin > MAX_TENSOR_BYTES:
        raise _wrong(path, name, f"{end - begin} bytes, at most {MAX_TENSOR_BYTES} are allowed")
    if prod(shape) > MAX_TENSOR_BYTES or byte_count(stored_as or dtype, shape) != end - begin:
        raise _wrong(path, name, f"{end - begin} bytes for {dtype} {shape[:16]}")
    return StoredTensor(name, dtype, tuple(shape), source, begin, stored_as)


def _natural(value: Any, limit: int = 2**64) -> bool:
    return type(value) is int and 0 <= value < limit


def _wrong(path: str, name: str, what: str) -> RecordFormatError:
    return RecordFormatError(f"{path}: '{name[:80]}' has {what}; the file is damaged: save or fetch it again")


def _data_start(source: Source, head_bytes: int, tensors: list[StoredTensor]) -> int:
    """The position of the first tensor, which the oldest files don't pad."""
    start, count = _aligned(head_bytes), max((tensor.start + tensor.stored_bytes for tensor in tensors), default=0)
    if start + count > MAX_FILE_BYTES:
        what = f"it takes {start + count} bytes, at most {MAX_FILE_BYTES} are allowed"
    elif not source.has(start, count):
        # In files of Burn 0.19 tensors lie close together; only the file's length tells. A padded file that was cut may
        # have the same length: it has gaps, or zeros where the other has its first values.
        whole = source.has(head_bytes, count) and not source.has(head_bytes + count, 1)
        close = all(one.start + one.stored_bytes == other.start for one, other in pairwise(tensors))
        if whole and close and any(source.read(head_bytes, min(count, start - head_bytes))):
            return head_bytes
        what = f"truncated: its tensors end at byte {start + count}, the file ends before"
    elif source.has(start + count, 1):
        what = f"bytes lie behind its last tensor, which ends at byte {start + count}"
    else:
        return start
    raise RecordFormatError(f"{source.path}: {what}; save or fetch it again")


def _scalar(name: str, encoded: Any, path: str) -> Scalar:
    if isinstance(encoded, dict) and len(encoded) == 1:
        ((variant, value),) = encoded.items()
        if variant in _SCALARS:
            kind, low, high = _SCALARS[variant]
            if type(value) is kind and (low is None or low <= value <= high):
                return Scalar(variant, value)
    raise _wrong(path, name, f"the scalar {encoded!r:.60}, not one of {', '.join(_SCALARS)}")


BURNPACK = Burnpack()
