"""Fills the tensors of a module with a record's values, converted while they are read, by several threads.

Into tensors of a GPU: read into pinned memory, and while that is copied by a side stream and converted there, the next.
Of a tensor that is divided among processes, each reads the part of the file that it has.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._torch_compat.fsdp import reshard
from ...errors import RecordFormatError, RecordIOError
from ...module.torch_objects.wrappers import is_distributed, part_of, storage_of
from ...ops import can_read_values, read_values_
from ..bytes.source import FileSource, Source
from ..bytes.values import BLOCK_BYTES, MAX_WORKERS, CudaSideStream, bytes_at, copy_converted, pieces, run_steps
from ..files.stored_tensors import FileValues, LazyTensors, read_box
from ..formats import StoredTensor
from .matching import TensorMatch, replacing_type


class Box(NamedTuple):
    """A part of a tensor that this process has: where it begins in the whole and in its own part, and its sizes."""

    offsets: tuple[int, ...]
    own_offsets: tuple[int, ...]
    sizes: tuple[int, ...]


class _Run(NamedTuple):
    """Consecutive indices of one dimension: the first in the whole, the first in the own part, how many."""

    first: int
    own_first: int
    length: int


def boxes_of(tensor: Any) -> Iterator[Box]:
    """The boxes of a DTensor that this process has; nearly always one, and none where its part is empty."""
    for runs in product(*(_runs(tensor, dim) for dim in range(tensor.ndim))):
        yield Box(tuple(it.first for it in runs), tuple(it.own_first for it in runs), tuple(it.length for it in runs))


def _runs(tensor: Any, dim: int) -> list[_Run]:
    """The indices of a dimension that this process has: torch itself divides a tensor of all of them."""
    length = tensor.shape[dim]
    if not any(_divides(placement, dim) for placement in tensor.placements):
        return [_Run(0, 0, length)] if length else []
    from torch.distributed.tensor import DTensor, Replicate

    shape = [1] * tensor.ndim
    shape[dim] = length
    indices: Any = torch.arange(length).view(shape)
    placements = [placement if _divides(placement, dim) else Replicate() for placement in tensor.placements]
    like = DTensor.from_local(indices, tensor.device_mesh, placements, run_check=False)
    own_indices = part_of(indices, like).to_local().flatten().cpu()
    if not len(own_indices):
        return []
    starts = [0, *((own_indices.diff() != 1).nonzero().flatten() + 1).tolist(), len(own_indices)]
    return [_Run(int(own_indices[start]), start, stop - start) for start, stop in pairwise(starts)]


def _divides(placement: Any, dim: int) -> bool:
    """True if it divides a dimension: of FSDP's parts of a divided one, torch's `is_shard` says no."""
    return getattr(placement, "dim", None) == dim


def read_own_part(values: FileValues, into: Any) -> None:
    """Read this process's part of the DTensor `into`, converted to its type; nothing else is read."""
    local = into.to_local()
    for box in boxes_of(into):
        target = local
        for dim, (start, length) in enumerate(zip(box.own_offsets, box.sizes, strict=True)):
            target = target.narrow(dim, start, length)
        read_box(values, box, target)
    torch.autograd.graph.increment_version(local)


_LEAST_BYTES = 4 << 20  # less is read faster than threads start
_PIECE_BYTES = 512 << 10  # stays in a core's cache from being read to being converted
_NATIVE_PIECE_BYTES = 8 << 20  # is cut further in native code
_DEVICE_BUFFERS = 2  # how many pieces are on their way to a device at a time

_Step = tuple[FileValues, Tensor, int, int]
"""Values, the tensor that they go into, and which of its elements: from one index to another."""


class Destination(NamedTuple):
    """The memory that gets the values of a parameter; if it is new, it takes the place of the parameter's tensor."""

    match: TensorMatch
    into: Tensor
    is_new: bool


@torch.no_grad()
def fill(matches: Sequence[TensorMatch], tensors: Mapping[str, Tensor], device: torch.device, as_saved: bool) -> None:
    """Give each parameter its values: on the meta device on `device`, and with `as_saved` in the record's types."""
    targets: list[Destination] = []
    inference = torch.is_inference_mode_enabled()
    for match in matches:
        targets.append(target := _target(match, tensors, device, as_saved))
        # A tensor that was made in inference mode can be changed only there.
        inference = inference or target.into.is_inference()
    if not isinstance(tensors, LazyTensors):
        # A record in memory may refer to the module's own tensors, which others would overwrite before they are read.
        targets = _apart(targets, tensors)
    else:
        _check(targets, tensors)
    # Gathered weights of FSDP would keep the old values until they are dropped.
    reshard(match.param.tensor for match in matches)
    try:
        with torch.inference_mode(inference):
            _copy(targets, tensors)
    except BaseException as error:
        nothing = all(target.is_new for target in targets)
        state = "nothing was loaded" if nothing else "the module is partly loaded: load it again before use"
        if isinstance(error, RecordIOError | RecordFormatError):
            raise type(error)(f"{error}; {state}") from error
        error.add_note(state)
        raise
    for match, into, is_new in targets:
        if is_new and (match.param.is_initialized() or match.param.tensor.dtype != into.dtype):
            match.param.assign(into)
        elif is_new:
            match.param.tensor.data = into  # its initializer never runs


def _target(match: TensorMatch, tensors: Mapping[str, Tensor], device: torch.device, as_saved: bool) -> Destination:
    present = match.param.tensor
    if (dtype := replacing_type(match, tensors, as_saved)) is None:
        return Destination(match, present, is_new=False)
    place = device if present.is_meta else present.device
    # In small pages: huge ones are slower to get, several times where the system has to make room for them.
    shape = match.values.shape if match.own and match.values is not None else present.shape
    like = partial(torch.empty_like, present) if is_distributed(present) else partial(torch.empty, shape)
    return Destination(match, like(dtype=dtype, device=place), is_new=True)


def _apart(targets: list[Destination], tensors: Mapping[str, Tensor]) -> list[Destination]:
    """The targets, with copies of the values that lie in memory of the module, where writing changes them."""
    written = {address for target in targets if (address := storage_of(target.into))}

    def apart(match: TensorMatch, into: Tensor, is_new: bool) -> Destination:
        values = match.in_memory(tensors)
        if storage_of(values) in written and (values.data_ptr(), values.stride()) != (into.data_ptr(), into.stride()):
            match = replace(match, values=values.clone())
        return Destination(match, into, is_new)

    return [apart(*target) for target in targets]


def _check(targets: Sequence[Destination], tensors: LazyTensors) -> None:
    """Compare the checksums that reading whole tensors does, so that a damaged file changes nothing."""
    sources = dict[Source, None]()
    for match, into, _ in targets:
        if match.values is None and not is_distributed(into):
            source = tensors.values_of(match.name).entry.source
            if source.parts:  # a plain file has none
                sources[source] = None
    if sources:
        run_steps([*sources], lambda source, _: source.check(), 1)


def _copy(targets: Sequence[Destination], tensors: Mapping[str, Tensor]) -> None:
    readings: dict[torch.device, list[tuple[FileValues, Tensor]]] = {}
    for target in targets:
        match, into = target.match, target.into.detach()
        divided = type(into) is not Tensor and is_distributed(into)
        if match.values is not None or not isinstance(tensors, LazyTensors):
            values = match.in_memory(tensors)
            copy_converted(into, part_of(values, into) if divided else values)
        elif divided:
            read_own_part(tensors.values_of(match.name), into)
        elif into.is_conj() or into.is_neg():  # what its bytes are is not what it is
            copy_converted(into, tensors[match.name])
        elif type(into) is Tensor and into.layout == torch.strided and into.device.type in ("cpu", "cuda"):
            readings.setdefault(into.device, []).append((tensors.values_of(match.name), into))
        else:
            tensors.copy_into(match.name, into)
    for device, from_file in readings.items():
        # By their places in the file: a disk and a compressed file are read forwards.
        from_file.sort(key=lambda it: it[0].entry.start)
        if device.type == "cpu":
            read_all(from_file)
        else:
            fill_device(from_file, device)


def read_all(readings: Sequence[tuple[FileValues, Tensor]]) -> None:
    """Read values, in the order of the file, into memory of the CPU, in its types and strides."""
    total_bytes, sequential = 0, False
    steps: list[_Step] = []
    for values, into in readings:
        total_bytes += values.entry.stored_bytes
        sequential = sequential or values.entry.sequential
        count = (_NATIVE_PIECE_BYTES if _is_native(values, into) else _PIECE_BYTES) // values.stored.itemsize
        for at in range(0, into.numel(), count):
            steps.append((values, into, at, min(at + count, into.numel())))
    inference = torch.is_inference_mode_enabled()  # counts for the thread, as `no_grad` does
    workers = 1 if sequential or total_bytes < _LEAST_BYTES else MAX_WORKERS
    run_steps(steps, partial(_read, inference), _PIECE_BYTES, workers)
    for _, into in readings:
        if not into.is_inference():
            # Written from native code or through an address, of which autograd knows nothing.
            torch.autograd.graph.increment_version(into)


def _read(inference: bool, step: _Step, buffer: Tensor) -> None:
    values, into, start, stop = step
    size = values.stored.itemsize
    # The bytes are the values: they go where they belong without a buffer. Bools may be any byte in a hostile file.
    if values.stored == values.dtype == into.dtype != torch.bool and into.is_contiguous():
        values.entry.read_into(start * size, bytes_at(into.data_ptr() + start * size, (stop - start) * size))
        return
    with torch.inference_mode(inference):
        if _is_native(values, into):
            offset = values.entry.start + start * size
            # What a file lacks, or does not give, is left to who can say it.
            source: Any = values.entry.source
            with contextlib.suppress(OSError), source.opened() as descriptor:
                part = into.view(-1)[start:stop]
                if read_values_(part, descriptor, offset, values.stored) == part.numel() * size:
                    return
        _put(values.read(start, stop, buffer), into, start)


def _put(values: Tensor, into: Tensor, start: int) -> None:
    """Put values, flat, where the elements from index `start` on are."""
    for piece, before in pieces(into, start, start + values.numel()):
        copy_converted(piece, values[before : before + piece.numel()].view(piece.shape))


def _is_native(values: FileValues, into: Tensor) -> bool:
    # A subclass knows of another way to its bytes.
    plain = type(values.entry) is StoredTensor and isinstance(values.entry.source, FileSource)
    return plain and can_read_values(into, values.dtype)


def fill_device(
    readings: Sequence[tuple[FileValues, Tensor]], device: torch.device, stream: CudaSideStream | None = None
) -> None:
    """Read values, in the order of the file, into tensors of `device`, by its queue of copies; None is one of CUDA."""
    stream = stream or CudaSideStream(device)
    slots: list[tuple[Tensor, Any]] = [(stream.buffer(BLOCK_BYTES), None) for _ in range(_DEVICE_BUFFERS)]
    done = 0
    try:
        for values, into in readings:
            count = BLOCK_BYTES // values.stored.itemsize
            for start in range(0, into.numel(), count):
                buffer, mark = slots[done % _DEVICE_BUFFERS]
                if mark is not None:
                    stream.wait(mark)
                read = values.read(start, min(start + count, into.numel()), buffer)
                with stream.queue():
                    _put(read.to(device, non_blocking=True), into, start)
                    slots[done % _DEVICE_BUFFERS] = (buffer, stream.mark())
                done += 1
    finally:
        for _, mark in slots:
            if mark is not None:
                stream.wait(mark)
        stream.finish()
