"""Models whose larger, frozen part can be read again elsewhere: their checkpoints have the rest.

What it leaves out is proved to be the same by a digest of it.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from ...errors import RecordMismatchError
from ...module import ParamGroup, params
from ...module.torch_objects.wrappers import elsewhere
from ...record import LoadReport, Record
from ...record.bytes.values import bytes_at
from ...record.loading.load_into import PreparedLoad, prepare
from ...record.loading.load_options import LoadOptions

_NOTE, _DIGEST = "_burnlike_frozen_base", "frozen_base"
_THREADS = 8


def digests_of(tensors: Mapping[str, Tensor]) -> Iterator[bytes]:
    """The digests of the values of tensors, in their order."""
    # Threads hash at the same time: hashlib lets go of the interpreter for large data.
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(digest_of, tensors.values())


def note_base(model: nn.Module, digests: Callable[[Mapping[str, Tensor]], Iterator[bytes]] = digests_of) -> None:
    """Remember that the model's frozen weights can be read again, so that checkpoints can leave them out.

    Not so if it has running statistics, which a training changes. `digests` gives those of tensors that may have no
    values yet, of a model that is divided later.
    """
    if any(getattr(it, "running_mean", None) is not None for it in model.modules()):
        return
    kept = kept_paths(model)
    vars(model)[_NOTE] = (kept, base_digest(model, kept, digests))


def has_base(model: nn.Module) -> bool:
    return _NOTE in vars(model)


def noted_digest(model: nn.Module) -> str | None:
    """The digest of the frozen weights of a model with a note."""
    return vars(model)[_NOTE][1] if has_base(model) else None


def kept_paths(model: nn.Module) -> frozenset[str]:
    """The paths of the trained parameters."""
    return frozenset(it.path for it in params(model, "weight") if it.tensor.requires_grad)


def base_digest(
    model: nn.Module,
    kept: Collection[str],
    digests: Callable[[Mapping[str, Tensor]], Iterator[bytes]] = digests_of,
) -> str:
    """A digest of the names, types and values of all tensors of a model but for those at some paths."""
    tensors = {name: it for name, it in sorted(Record.from_module(model).tensors.items()) if name not in kept}
    digest = hashlib.sha256()
    for (name, tensor), value_digest in zip(tensors.items(), digests(tensors), strict=True):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode() + value_digest)
    return digest.hexdigest()


def digest_of(tensor: Tensor) -> bytes:
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return hashlib.sha256(bytes_at(plain.data_ptr(), plain.nbytes) if plain.nbytes else b"").digest()


def record_of(model: nn.Module) -> Record:
    """The record of a model; without its frozen base, if that is noted and still frozen."""
    if not has_base(model):
        return Record.of(model)
    kept, digest = vars(model)[_NOTE]
    if kept_paths(model) | (kept & elsewhere(model)) != kept:
        return Record.of(model)
    record = Record.from_module(model, ParamGroup.from_predicate(lambda it: it.path in kept))
    return replace(record, values={_DIGEST: digest})


def prepared_load(record: Record, model: nn.Module, **options: Any) -> PreparedLoad:
    """As `prepare`, of a record that `record_of` gave, whose base has to be the model's."""
    if _DIGEST not in record.values:
        return prepare(record, model, LoadOptions(**options))
    kept = frozenset(record.tensors)
    check_base(model, kept, str(record.values[_DIGEST]), record.source)
    values = {key: it for key, it in record.values.items() if key != _DIGEST}
    return prepare(replace(record, values=values), model, LoadOptions(filter=lambda path: path in kept, **options))


def check_base(model: nn.Module, kept: Collection[str], digest: str, source: str) -> None:
    """Refuse a model whose weights, apart from those at the paths `kept`, have another digest."""
    note = vars(model).get(_NOTE)
    model_digest = note[1] if note is not None and note[0] == kept else base_digest(model, kept)
    if model_digest != digest:
        raise RecordMismatchError(
            f"{source}: has only what was trained, beside other frozen weights than those of the model: the directory"
            " that they are read from has changed, or is another; put it back"
        )


def load_model(record: Record, model: nn.Module) -> LoadReport:
    """Load a record that `record_of` gave into a model."""
    return prepared_load(record, model)()
