"""TrainingState: everything that a training needs to go on with the same bits, in safetensors files, without pickle.

Parts without a record of their own, the global random generators among them, are kept in one record together.

The checkpoint of a model whose frozen part can be read again elsewhere has the rest, and a digest of what it leaves
out, which proves that it is the same.
"""

import hashlib
import os
import random
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from ...errors import ArgumentError, CheckpointError, RecordError, RecordFormatError, RecordMismatchError, nearest
from ...module import ParamGroup, ParamId, params
from ...module.torch_objects.wrappers import elsewhere, unwrap
from ...optim import AnyLrScheduler, Lbfgs, OptimizerAdaptor, torch_record
from ...optim.states.matching import StateOwner
from ...optim.states.torch_records import read_torch_record, trained_by
from ...record import EXTENSIONS, LoadReport, Record, open_record, record, save as save_record, verify
from ...record.bytes.values import bytes_at
from ...record.formats import check_name
from ...record.layout import LAYOUTS
from ...record.loading.load_into import PreparedLoad, load_undoably, prepare, put_state
from ...record.loading.load_options import LoadOptions, Remap
from ...record.nesting import names_below, part_of
from ...record.record import Handling, python_state, restore_python
from ...record.state_dict.module_state import decode_tree, encode_tree, overrides
from ..checkpoint.checkpointer import Checkpoint, is_divided, write_records, write_together
from ..runs.run_dir import burn_checkpoint, burn_file

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
    if any(getattr(module, "running_mean", None) is not None for module in model.modules()):
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
    return frozenset(parameter.path for parameter in params(model, "weight") if parameter.tensor.requires_grad)


def base_digest(
    model: nn.Module, kept: Collection[str], digests: Callable[[Mapping[str, Tensor]], Iterator[bytes]] = digests_of
) -> str:
    """A digest of the names, types and values of all tensors of a model but for those at some paths."""
    tensors = {name: it for name, it in sorted(Record.from_module(model).tensors.items()) if name not in kept}
    digest = hashlib.sha256()
    for (name, tensor), value_digest in zip(tensors.items(), digests(tensors), strict=True):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode() + value_digest)
    return digest.hexdigest()


def digest_of(tensor: Tensor) -> bytes:
    # Of the values: torch may have the bytes in another order, or conjugated and negated by a flag alone.
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
    values = {key: value for key, value in record.values.items() if key != _DIGEST}
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


def seed_random(seed: int) -> None:
    """Seed the generators whose states `random_state` gives."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        import numpy

        numpy.random.seed(seed % 2**32)  # it takes no more bits


def random_state() -> dict[str, Any]:
    """The states of Python's `random`, of torch's generators of the CPU and all CUDA devices, and of NumPy's.

    NumPy's is there if it is imported, CUDA's are once the process has used CUDA.
    """
    state: dict[str, Any] = {"python": python_state(random), "torch_cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        state["torch_cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        import numpy

        state["numpy"] = numpy.random.get_state(legacy=False)
    return state


def restore_random(state: Mapping[str, Any]) -> None:
    """Put the generators back; those that the state or the machine lacks are left alone."""
    words = state["python"]
    numpy_state = state.get("numpy")
    torch.set_rng_state(state["torch_cpu"])
    restore_python(random, words)
    if torch.cuda.is_available():
        for index, device_state in enumerate(state.get("torch_cuda", ())[: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(device_state, index)
    if numpy_state is not None:
        try:
            import numpy
        except ImportError:
            return
        numpy.random.set_state(numpy_state)


def is_large(part: Any) -> bool:
    """True if a part has its own file: modules, optimizers, and anything with `into_record` and `load_record`."""
    if isinstance(part, nn.Module | torch.optim.Optimizer):
        return True
    has_record = all(callable(getattr(part, name, None)) for name in ("into_record", "load_record"))
    return has_record and not isinstance(part, AnyLrScheduler)


def handling_of(name: str, part: Any) -> Handling:
    """The way to store a small part."""
    if isinstance(part, AnyLrScheduler):
        return Handling(part.to_record, part.load_record)
    if (handling := record.handling_of(part)) is not None:
        return handling
    if isinstance(part, MutableMapping):
        return Handling(lambda: dict(part), lambda state: _refill(part, state))
    raise RecordError(
        f"'{name}' is a {type(part).__name__}: expected a module, an optimizer, a scheduler, a generator, a dict of"
        " plain values (of numbers that are to be kept, too), or an object with into_record() and load_record(record),"
        " or with state_dict() and load_state_dict()"
    )


def _refill(part: MutableMapping[Any, Any], state: Mapping[Any, Any]) -> None:
    part.clear()
    part.update(state)


SMALL = "training"
"""Name of the record of all parts but modules and optimizers."""
_RANDOM = "random"
_OPTIMIZERS = OptimizerAdaptor | Lbfgs | torch.optim.Optimizer
_VERSION = 1
"""Of the record `training`; one of another version is refused."""


class TrainingState:
    """The parts of a training, by names of your choice, to be saved and put back together.

    Modules and optimizers (OptimizerAdaptor, Lbfgs, or any of torch's) have a record each, and so has what defines
    `into_record()` and `load_record(record)`. One more, `training`, has the rest:

    - schedulers of burnlike and of torch, `torch.amp.GradScaler`, data loaders, and whatever else has `state_dict()`
      and `load_state_dict()` of tensors and plain values;
    - generators: `torch.Generator`, `random.Random`, NumPy's;
    - dicts of plain values, such as counters; they are changed in place;
    - the global random generators: Python's, torch's on the CPU and on all CUDA devices, and NumPy's if it is imported.

    Example:
        >>> import tempfile, torch
        >>> model, counters = torch.nn.Linear(2, 2), {"step": 7}
        >>> optimizer = torch.optim.AdamW(model.parameters())
        >>> state = TrainingState(model=model, optimizer=optimizer, counters=counters)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = state.save(f"{folder}/saved")
        ...     expected, counters["step"] = torch.rand(1), 0
        ...     state.load(path)
        >>> counters, torch.equal(torch.rand(1), expected)
        ({'step': 7}, True)
    """

    def __init__(self, *, random: bool = True, **parts: Any) -> None:
        """Name the parts, and whether the global random generators belong to it; nothing is read yet."""
        for name in (SMALL, _RANDOM):
            if name in parts:
                raise RecordError(f"expected another name for the part '{name}', which is taken")
        self.parts = parts
        self._modules = {name: part for name, part in parts.items() if isinstance(part, nn.Module)}
        self._small: dict[str, Handling] = {
            name: handling_of(name, part) for name, part in parts.items() if not is_large(part)
        }
        if random:
            self._small[_RANDOM] = Handling(random_state, restore_random)

    def to_records(self) -> dict[str, Record]:
        """The records by name, without copies; a RecordError names what can't be stored without code."""
        records = {}
        for name in self._names():
            part = self.parts[name]
            is_torchs = isinstance(part, torch.optim.Optimizer)
            is_module = name in self._modules
            of = record_of if is_module else Record.of
            records[name] = torch_record(part, *self._modules.values()) if is_torchs else of(part)
        tensors: dict[str, torch.Tensor] = {}
        states = {name: encode_tree(value.take(), name, tensors) for name, value in self._small.items()}
        values = {"version": _VERSION, "parts": states}
        records[SMALL] = Record(tensors, values, source="the record of the training")
        return records

    def load_records(self, records: Mapping[str, Record], remap: Mapping[str, Remap] | None = None) -> None:
        """Put every part back.

        All records are read and checked first. If a part refuses its state, the parts before it get theirs back, and no
        module is changed; only if a file can't be read any more in the middle of it is its module partly loaded.

        Args:
            remap: name of a module among the parts -> pairs that rename what its record has, as in
                `burnlike.record.load`; the optimizers follow.

        Raises:
            ArgumentError: `remap` names no module, or can't be meant.
            RecordError: a record is missing or does not fit.
            BurnlikeError: a part refuses its state, as a data loader that of other data.
        """
        missing = [name for name in (SMALL, *self._names()) if name not in records]
        if missing:
            raise RecordMismatchError(f"the record '{missing[0]}' is missing{nearest(missing[0], [*records])}")
        if unknown := [name for name in remap or () if name not in self._modules]:
            raise ArgumentError(f"remap: no module has the name '{unknown[0]}'{nearest(unknown[0], [*self._modules])}")
        small = records[SMALL]
        states = self._decoded(small)
        with ExitStack() as undo:
            options: dict[str, dict[str, Any]] = {name: {"remap": pairs} for name, pairs in (remap or {}).items()}
            for name in self._names():
                part = self.parts[name]
                is_module = name in self._modules
                loads_itself = is_module and overrides(type(unwrap(part)), "load_record")
                # With a `load_record` of its own, of which nothing is known: it is undone by its record.
                if loads_itself or not (is_module or isinstance(part, _OPTIMIZERS)):
                    undo.callback(load_undoably(part, records[name], **options.get(name, {})))
            loads: dict[str, PreparedLoad] = {}
            for name, module in self._modules.items():
                if not overrides(type(unwrap(module)), "load_record"):
                    loads[name] = prepared_load(records[name], module, **options.get(name, {}))
                    undo.callback(loads[name].undo)
            optimizers = [*self._optimizer_loads(records, loads)]
            with self._undone_on_error():
                for name, handling in self._small.items():
                    put_state(name, handling, states[name], small.source)
                for load in (*loads.values(), *optimizers):
                    load()
            undo.pop_all()  # all parts have taken their states: nothing is put back any more
        # Last, and once more: what was done since may have drawn numbers.
        if _RANDOM in self._small:
            restore_random(states[_RANDOM])

    def into_record(self) -> Record:
        """One record of all parts, which are reached by their names: `record.model`; copies nothing."""
        return replace(Record.of(self.to_records()), source="the record of TrainingState")

    def load_record(self, record: Record, remap: Mapping[str, Remap] | None = None) -> Self:
        """Put every part back from what `into_record` gave, as `load_records` does; returns the object."""
        record = Record.of(record)
        self.load_records({name: part_of(record, name) for name in names_below(record, "")}, remap)
        return self

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write a directory of one safetensors file for each record; it is there whole or not at all.

        Where processes have parts of parameters (`fully_shard`), all of them call it: rank 0 makes the directory, in
        which each of these records is a folder of the parts, and writes the rest, which is its own state.

        A name with one of `burnlike.record.EXTENSIONS` is that of a single file, which `burnlike.record.save` writes.
        One that exists or can't be written is a CheckpointError; what `to_records` refuses, and a name of a file of
        torch.save, a RecordError.
        """
        check_name(directory)
        path = Path(directory)
        if path.name.endswith(EXTENSIONS):
            return Path(save_record(self, path))
        if path.exists():
            raise CheckpointError(f"{path} exists; choose another name, or let a Checkpointer number and keep them")
        try:
            records = self.to_records()
            (write_together if any(map(is_divided, records.values())) else write_records)(path, records)
        except OSError as error:
            raise CheckpointError(f"{path} can't be written: {error}; nothing is left of it") from error
        return path

    def load(self, directory: str | os.PathLike[str], remap: Mapping[str, Remap] | None = None) -> None:
        """Put every part back from what `save` or a Checkpointer wrote, a directory or a single file.

        Of a directory of Burn's Learner (`model-N.bpk`, `optim-N.bpk`, `scheduler-N.bpk`) the last epoch is taken; what
        the Learner does not keep stays as it is. As `load_records`, with `remap` such as
        `{"model": [("^old", "new")]}`; a RecordIOError if a file is missing.
        """
        if os.path.isdir(directory):
            self.load_records(self._files(directory), remap)
        else:
            self.load_record(self.open_record(directory), remap)

    def open_record(self, path: str | os.PathLike[str]) -> Record:
        """Open the directory or single file that `save` or a Checkpointer wrote, as one record, by its checksums."""
        if not os.path.isdir(path):
            return _verified(open_record(path))
        return replace(Record.of(self._files(path)), source=os.fspath(path))

    def save_for_burn(self, directory: str | os.PathLike[str], epoch: int) -> Path:
        """Write the files with which Burn's Learner goes on after an epoch, into the directory of its checkpoints.

        The module, the optimizer and the schedule are written, the module last; the Learner has no place for the rest.
        A RecordMismatchError says of which there is not one.
        """
        names, folder = self._burn_names(), Path(directory)
        records = self.to_records()
        for name in names.values():
            if name in records and records[name].values.get(LAYOUTS):
                raise RecordMismatchError(
                    f"'{name}' has states of torch's layers; convert the model by from_torch before"
                )
        folder.mkdir(parents=True, exist_ok=True)
        # The model last: by its file `burn_checkpoint` tells which epoch is there.
        for kind, name in reversed(names.items()):
            written = records.get(name, self.parts[name])
            if isinstance(written, Record):  # of Burn's layers, which Burn's files imply
                written = replace(written, values={key: it for key, it in written.values.items() if key != LAYOUTS})
            save_record(written, burn_file(folder, kind, epoch))
        return folder

    def _burn_names(self) -> dict[str, str]:
        """Kind of a file of Burn's Learner -> the part that it holds."""
        kinds: dict[str, Any] = {"model": nn.Module, "optim": _OPTIMIZERS, "scheduler": AnyLrScheduler}
        names = {kind: [name for name, it in self.parts.items() if isinstance(it, of)] for kind, of in kinds.items()}
        if wrong := next((kind for kind, parts in names.items() if len(parts) > 1), None):
            raise RecordMismatchError(f"Burn's Learner has one {wrong}, got {', '.join(names[wrong])}")
        if not names["model"]:
            raise RecordMismatchError(f"Burn's Learner has a model, got {', '.join(self.parts) or 'nothing'}")
        return {kind: parts[0] for kind, parts in names.items() if parts}

    def _burn_records(self, folder: Path, epoch: int) -> dict[str, Record]:
        """The records of an epoch of Burn's Learner; of parts that it does not keep what they are."""
        records = {name: open_record(burn_file(folder, kind, epoch)) for kind, name in self._burn_names().items()}
        tensors: dict[str, torch.Tensor] = {}
        states = {
            name: encode_tree(dict(records[name].values) if name in records else value.take(), name, tensors)
            for name, value in self._small.items()
        }
        small = Record(tensors, {"version": _VERSION, "parts": states}, source=f"epoch {epoch} of {folder}")
        return {**self.to_records(), **records, SMALL: small}

    def _files(self, directory: str | os.PathLike[str]) -> dict[str, Record]:
        if (burn_files := burn_checkpoint(directory)) is not None:
            return self._burn_records(*burn_files)
        saved = Checkpoint(0, Path(directory))
        return {name: _verified(saved.opened(name)) for name in (SMALL, *self._names())}

    def _names(self) -> list[str]:
        return [name for name in self.parts if name not in self._small]

    def _decoded(self, record: Record) -> dict[str, Any]:
        version = record.values.get("version")
        if isinstance(version, int) and version != _VERSION:
            raise RecordFormatError(
                f"{record.source}: expected version {_VERSION} of a training's state, got {version}: another version of"
                " burnlike wrote it; go on with that version, or load only the records of the modules beside it"
            )
        if version is None or not isinstance(record.values.get("parts"), dict):
            raise RecordMismatchError(f"{record.source} is no record of a training: it has no parts")
        states = dict(record.values["parts"])
        if _RANDOM not in self._small:
            states.pop(_RANDOM, None)
        for name in self._small.keys() ^ states.keys():
            where, other = ("record", states) if name in self._small else ("training", self._small)
            raise RecordMismatchError(
                f"{record.source}: the {where} has no part '{name}'{nearest(name, [*other])}; load it with the parts"
                " that it was saved with"
            )
        return {name: decode_tree(state, record.tensors, record.source) for name, state in states.items()}

    def _optimizer_loads(
        self, records: Mapping[str, Record], loads: Mapping[str, PreparedLoad]
    ) -> Iterator[Callable[[], object]]:
        """Functions that put each optimizer back, for the ids that parameters get from the modules' records."""
        report = LoadReport(
            renamed={name: path for load in loads.values() for name, path in load.report.renamed.items()},
            ids={old: new for load in loads.values() for old, new in load.report.ids.items()},
        )
        ids: dict[int, ParamId] = {}
        everywhere: list[StateOwner] = []
        for name, module in self._modules.items():
            for param in params(module, "weight"):
                new_ids = loads[name].ids if name in loads else {}
                ids[id(param.tensor)] = new_ids.get(param.path, param.id)
                everywhere.append(StateOwner(param, ids[id(param.tensor)]))
        modules = [*self._modules.values()]
        prune = any(map(elsewhere, modules))  # states of what other processes have
        for name, part in self.parts.items():
            if isinstance(part, OptimizerAdaptor):
                owners = everywhere or None
                states = part.read_states(records[name], owners, modules, report=report, prune_orphans=prune)
                yield partial(part.take_states, states)
            elif isinstance(part, Lbfgs):
                yield partial(part.take_state, part.read_state(records[name]))
            elif isinstance(part, torch.optim.Optimizer):
                trained = trained_by(part, modules)
                targets = [StateOwner(it.param, ids.get(id(it.param.tensor), it.id)) for it in trained]
                yield partial(read_torch_record(part, records[name], targets, modules, report, prune).apply, part)

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        """Restore the small parts if the `with` block fails."""
        tensors: dict[str, torch.Tensor] = {}
        before = {name: encode_tree(value.take(), name, tensors) for name, value in self._small.items()}
        # Copies: the parts write into these very tensors before they fail.
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        try:
            yield
        except BaseException:
            for name, handling in self._small.items():
                handling.put(decode_tree(before[name], tensors, "the state before"))
            raise


def _verified(record: Record) -> Record:
    """The record, whose values are those that were saved: a training goes on for days with a flipped bit otherwise."""
    verify(record)
    return record
