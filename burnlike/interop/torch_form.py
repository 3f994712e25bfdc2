"""The names and forms that the tensors of a module of burnlike's layers have in torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import NoCounterpartError
from ..module import params
from ..nn.tensor_source import TensorSource
from ..nn.torch_counterpart import Counterpart
from ..record import LoadReport, Mismatch, Record
from ..record.dtypes import kind_of, shown
from ..record.files.stored_tensors import dtype_in, shape_in
from .directions import ToTorch
from .twins import tensors_of


@dataclass(frozen=True, slots=True)
class Form:
    """A tensor that torch's model has."""

    dtype: torch.dtype
    shape: torch.Size


class TorchForm:
    """What the record of a module has in torch's names.

    Attributes:
        tensors: torch's name of each tensor -> its form.
        ignored: torch's name of each buffer that burnlike does without -> its form.
        places: path in the module -> where its values are in torch's record.
        tied: other path of a tied tensor -> its path.

    Raises:
        NoCounterpartError: layers have options that torch does not have; all are named by path.
    """

    def __init__(self, module: nn.Module) -> None:
        self.places: dict[str, TensorSource] = {}
        self.tensors: dict[str, Form] = {}
        self.ignored: dict[str, Form] = {}
        self.tied = {alias: param.path for param in params(module) for alias in param.aliases}
        problems: list[tuple[str, str]] = []
        for prefix, layer, pair in _layers(module, ""):
            tensors = tensors_of(layer)
            if pair is None:
                places = {name: TensorSource(name) for name in _own_tensors(layer)}
            else:
                try:
                    made = pair.build(layer, torch.device("meta"))
                    places = pair.places(pair.recipes(tensors))
                except NoCounterpartError as error:
                    problems.append((prefix.removesuffix("."), str(error)))
                    continue
                twins = tensors_of(made)
                tensors = {path: it.taken_from(twins[it.name]) for path, it in places.items()}
                self.tensors |= {f"{prefix}{it.name}": _form(twins[it.name]) for it in places.values()}
                without = (name for name in (*pair.ignored, *pair.constants.values()) if name in twins)
                self.ignored |= {f"{prefix}{name}": _form(twins[name]) for name in without}
            for path, it in places.items():
                self.tensors.setdefault(f"{prefix}{it.name}", _form(tensors[path]))
                self.places[f"{prefix}{path}"] = TensorSource(f"{prefix}{it.name}", it.chunk, it.transposed)
        if problems:
            lines = "\n".join(f"  {path}: {reason}" for path, reason in problems)
            error = NoCounterpartError(f"{type(module).__name__} has layers that torch.nn does not have\n{lines}")
            error.problems = tuple(problems)
            raise error

    def differs(self) -> bool:
        """Whether any tensor of the module has another name, or lies in another way, in torch."""
        return any(it.transposed or not it.is_whole or path != it.name for path, it in self.places.items())

    def fits(self, record: Record) -> bool:
        """Whether a record has all tensors, and no others, in torch's names and shapes."""
        report = self.report(record)
        return not (report.missing or report.unexpected or report.mismatched)

    def report(self, record: Record) -> LoadReport:
        """What of a record fits."""
        names = {**{name: name for name in record.tensors}, **record.aliases}
        optional = {place.name for path, place in self.places.items() if path in self.tied}
        mismatched: list[Mismatch] = []
        for name, wanted in self.tensors.items():
            if (held := names.get(name)) is not None:
                dtype, shape = dtype_in(record.tensors, held), shape_in(record.tensors, held)
                if shape != wanted.shape or kind_of(dtype) != kind_of(wanted.dtype):
                    mismatched.append(Mismatch(name, shown(wanted.dtype, wanted.shape), shown(dtype, shape)))
        if not mismatched:
            mismatched = [
                Mismatch(
                    self.places[path].name, f"the values of '{self.places[other].name}', tied to it", "other values"
                )
                for path, other in self.tied.items()
                if {self.places[path].name, self.places[other].name} <= names.keys()
                and not torch.equal(self.values(path, record), self.values(other, record))
            ]
        return LoadReport(
            applied=[name for name in self.tensors if name in names],
            missing=[name for name in self.tensors if name not in names and name not in optional],
            unexpected=[name for name in names if name not in self.tensors and name not in self.ignored],
            mismatched=mismatched,
        )

    def values(self, path: str, record: Record) -> Tensor:
        """The values of the module's tensor at `path`, in the record's type."""
        place = self.places[path]
        return place.taken_from(record.tensors[record.aliases.get(place.name, place.name)]).contiguous()

    def id_of(self, path: str, record: Record) -> Any:
        """The id that the record has for the tensor at `path`, if it is one tensor there, too."""
        place = self.places[path]
        return record.ids.get(record.aliases.get(place.name, place.name)) if place.is_whole else None


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


def _form(tensor: Tensor) -> Form:
    return Form(tensor.dtype, tensor.shape)
