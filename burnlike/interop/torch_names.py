"""Records in torch's names and layouts, for models that are built of burnlike's layers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import NoCounterpartError, RecordMismatchError
from ..module import Param, params
from ..module.identity.field_metadata import meta_of
from ..nn.counterpart import Counterpart, TorchTensor
from ..record import LoadReport, Mismatch, Record
from ..record.derived.module_layout import deferred_layout
from ..record.dtypes import kind_of, shown
from ..record.files.stored_tensors import dtype_in, shape_in
from .directions import ToTorch
from .twins import tensors_of


def record_from_torch(module: nn.Module, state: Mapping[str, Any] | Record) -> Record:
    """The record for `module` of the weights of the same model made of layers of `torch.nn`.

    Both models have the same fields. Where `module` has a layer of burnlike's with a twin in torch, `state` has the
    twin's tensors: of `nn.Linear` the transposed weight, `weight` and `bias` for `gamma` and `beta`, the gates of
    `nn.LSTM` in one tensor. What only torch has (`num_batches_tracked`) is left out. All tensors of the result are in
    memory, and have ids: those in `state`, else those of `module`.

    Args:
        module: of burnlike's layers; its values are not looked at, so it may be on the meta device.
        state: a record or a state dict, in torch's names.

    Raises:
        NoCounterpartError: layers of `module` have options that torch does not have; all are named by path.
        RecordMismatchError: tensors are missing, not of this model, or of another shape; all are named as torch does.
    """
    record = state if isinstance(state, Record) else Record(dict(state), source="the state dict")
    expected = _Expected(module)
    report = expected.report(record)
    if report.missing or report.unexpected or report.mismatched:
        details = str(report).partition("\n")[2]
        error = RecordMismatchError(
            f"{record.source} does not fit {type(module).__name__}, whose tensors have these names in torch\n{details}"
        )
        error.report = report
        raise error
    found = params(module)
    tensors = {param.path: _saved_form(param, expected.values(param.path, record)) for param in found}
    return Record(
        tensors,
        ids={param.path: expected.id_of(param.path, record) or param.id for param in found},
        aliases={alias: param.path for param in found for alias in param.aliases},
        source=record.source,
        states=frozenset(param.path for param in found if param.kind == "state"),
        layout=deferred_layout(module),
    )


def names_of(module: nn.Module, record: Record) -> Literal["torch", "burn"] | None:
    """Whose names and layouts a record has of the model of `module`; None if it fits both, and they differ.

    Raises:
        NoCounterpartError: as in `record_from_torch`.
    """
    if not _fits_burnlike(module, record):
        return "torch"
    expected = _Expected(module)
    if not expected.differs():
        return "torch"
    return None if expected.fits(record) else "burn"


def _fits_burnlike(module: nn.Module, record: Record) -> bool:
    """Whether a record has all tensors of `module`, and no others, in burnlike's names and shapes."""
    found = params(module)
    names = {*record.tensors, *record.aliases}
    if names != {path for param in found for path in (param.path, *param.aliases)}:
        return False
    return all(
        shape_in(record.tensors, param.path) == _saved_form(param, param.tensor).shape
        for param in found
        if param.path in record.tensors
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A tensor that torch's model has."""

    dtype: torch.dtype
    shape: torch.Size


class _Expected:
    """What the record of a module has in torch's names.

    Attributes:
        places: path in the module -> where its values are in torch's record.
    """

    def __init__(self, module: nn.Module) -> None:
        self.places: dict[str, TorchTensor] = {}
        self._wanted: dict[str, _Wanted] = {}
        self._ignored: set[str] = set()
        self._tied = {alias: param.path for param in params(module) for alias in param.aliases}
        problems: list[tuple[str, str]] = []
        for prefix, layer, pair in _layers(module, ""):
            tensors = tensors_of(layer)
            if pair is None:
                places = {name: TorchTensor(name) for name in _own_tensors(layer)}
            else:
                try:
                    made = pair.build(layer, torch.device("meta"))
                    places = pair.places(pair.parts(tensors))
                except NoCounterpartError as error:
                    problems.append((prefix.removesuffix("."), str(error)))
                    continue
                twins = tensors_of(made)
                tensors = {path: it.taken_from(twins[it.name]) for path, it in places.items()}
                self._wanted |= {f"{prefix}{it.name}": _form(twins[it.name]) for it in places.values()}
                self._ignored |= {f"{prefix}{name}" for name in (*pair.ignored, *pair.constants.values())}
            for path, it in places.items():
                self._wanted.setdefault(f"{prefix}{it.name}", _form(tensors[path]))
                self.places[f"{prefix}{path}"] = TorchTensor(f"{prefix}{it.name}", it.chunk, it.transposed)
        if problems:
            lines = "\n".join(f"  {path}: {reason}" for path, reason in problems)
            error = NoCounterpartError(f"{type(module).__name__} has layers that torch.nn does not have\n{lines}")
            error.problems = tuple(problems)
            raise error

    def differs(self) -> bool:
        """Whether any tensor of the module has another name, or lies in another way, in torch."""
        return any(it.transposed or it.chunk != (0, 1) or path != it.name for path, it in self.places.items())

    def fits(self, record: Record) -> bool:
        """Whether a record has all tensors, and no others, in torch's names and shapes."""
        report = self.report(record)
        return not (report.missing or report.unexpected or report.mismatched)

    def report(self, record: Record) -> LoadReport:
        """What of a record fits."""
        names = {**{name: name for name in record.tensors}, **record.aliases}
        optional = {place.name for path, place in self.places.items() if path in self._tied}
        mismatched: list[Mismatch] = []
        for name, wanted in self._wanted.items():
            if (held := names.get(name)) is not None:
                dtype, shape = dtype_in(record.tensors, held), shape_in(record.tensors, held)
                if shape != wanted.shape or kind_of(dtype) != kind_of(wanted.dtype):
                    mismatched.append(Mismatch(name, shown(wanted.dtype, wanted.shape), shown(dtype, shape)))
        if not mismatched:
            mismatched = [
                Mismatch(
                    self.places[path].name, f"the values of '{self.places[other].name}', tied to it", "other values"
                )
                for path, other in self._tied.items()
                if {self.places[path].name, self.places[other].name} <= names.keys()
                and not torch.equal(self.values(path, record), self.values(other, record))
            ]
        return LoadReport(
            applied=[name for name in self._wanted if name in names],
            missing=[name for name in self._wanted if name not in names and name not in optional],
            unexpected=[name for name in names if name not in self._wanted and name not in self._ignored],
            mismatched=mismatched,
        )

    def values(self, path: str, record: Record) -> Tensor:
        """The values of the module's tensor at `path`, in the record's type."""
        place = self.places[path]
        return place.taken_from(record.tensors[record.aliases.get(place.name, place.name)]).contiguous()

    def id_of(self, path: str, record: Record) -> Any:
        """The id that the record has for the tensor at `path`, if it is one tensor there, too."""
        place = self.places[path]
        return record.ids.get(record.aliases.get(place.name, place.name)) if place.chunk == (0, 1) else None


def _layers(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module, Counterpart | None]]:
    """Each part of `module` with its prefix: layers with a pair whole, other modules without their children."""
    pair = ToTorch().counterpart_of(module)
    yield prefix, module, pair
    if pair is None:
        for name, child in module._modules.items():
            if child is not None:
                yield from _layers(child, f"{prefix}{name}.")


def _own_tensors(module: nn.Module) -> list[str]:
    saved = [name for name in module._buffers if name not in module._non_persistent_buffers_set]
    return [name for name in (*module._parameters, *saved) if getattr(module, name) is not None]


def _form(tensor: Tensor) -> _Wanted:
    return _Wanted(tensor.dtype, tensor.shape)


def _saved_form(param: Param, values: Tensor) -> Tensor:
    """The values as records of the module have them."""
    mapper = meta_of(*param.home).save_mapper
    return values if mapper is None else mapper(values).contiguous()
