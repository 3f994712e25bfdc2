"""Records in torch's names and layouts, for models that are built of burnlike's layers."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import NoCounterpartError, RecordMismatchError
from ..module import Param, params
from ..module.identity.field_metadata import meta_of
from ..nn.tensor_source import TensorSource, inverse, whole
from ..nn.torch_counterpart import Counterpart
from ..record import LoadReport, Mismatch, Record
from ..record.files.stored_tensors import dtype_in, shape_in
from ..record.layout import LayoutOf
from ..record.precision import kind_of, shown
from ..record.state_dict.module_layout import layout_of
from .layer_conversion import ToTorch, tensors_of


class TorchLayout:
    """The names, dtypes and shapes that the tensors of a module of burnlike's layers have in torch.

    Layers with options that torch does not have are a NoCounterpartError that names all by path.

    Attributes:
        tensors: torch's name of each tensor -> a tensor of its dtype and shape.
        ignored: the same of each buffer that burnlike does without.
        places: path in the module -> where its values are in torch's record.
        tied: other path of a tied tensor -> its path.
    """

    def __init__(self, module: nn.Module) -> None:
        self.places: dict[str, TensorSource] = {}
        self.tensors: dict[str, Tensor] = {}
        self.ignored: dict[str, Tensor] = {}
        self.tied = {alias: param.path for param in params(module) for alias in param.aliases}
        problems: list[tuple[str, str]] = []
        for prefix, layer, pair in _layers(module, ""):
            tensors = tensors_of(layer)
            if pair is None:
                saved = [name for name in layer._buffers if name not in layer._non_persistent_buffers_set]
                held = [name for name in (*layer._parameters, *saved) if getattr(layer, name) is not None]
                places = {name: TensorSource(name) for name in held}
            else:
                try:
                    twin = pair.build(layer, torch.device("meta"))
                    places = pair.places(pair.recipes(tensors))
                except NoCounterpartError as error:
                    problems.append((prefix.removesuffix("."), str(error)))
                    continue
                twins = tensors_of(twin)
                tensors = {path: place.taken_from(twins[place.name]) for path, place in places.items()}
                self.tensors |= {f"{prefix}{place.name}": twins[place.name] for place in places.values()}
                without = (name for name in (*pair.ignored, *pair.constants.values()) if name in twins)
                self.ignored |= {f"{prefix}{name}": twins[name] for name in without}
            for path, source in places.items():
                self.tensors.setdefault(f"{prefix}{source.name}", tensors[path])
                self.places[f"{prefix}{path}"] = replace(source, name=f"{prefix}{source.name}")
        if problems:
            lines = "\n".join(f"  {path}: {reason}" for path, reason in problems)
            error = NoCounterpartError(f"{type(module).__name__} has layers that torch.nn does not have\n{lines}")
            error.problems = tuple(problems)
            raise error

    def differs(self) -> bool:
        """True if any tensor of the module has another name, or lies in another way, in torch."""
        return any(place.transposed or not place.is_whole or path != place.name for path, place in self.places.items())

    def report(self, record: Record) -> LoadReport:
        names = {**{name: name for name in record.tensors}, **record.aliases}
        optional = {place.name for path, place in self.places.items() if path in self.tied}
        mismatched: list[Mismatch] = []
        for name, wanted in self.tensors.items():
            if (held := names.get(name)) is not None:
                dtype, shape = dtype_in(record.tensors, held), shape_in(record.tensors, held)
                if shape != wanted.shape or kind_of(dtype) != kind_of(wanted.dtype):
                    mismatched.append(Mismatch(name, shown(wanted.dtype, wanted.shape), shown(dtype, shape)))
        if not mismatched:
            for path, other in self.tied.items():
                name, source = self.places[path].name, self.places[other].name
                if {name, source} <= names.keys() and not torch.equal(
                    self.values(path, record), self.values(other, record)
                ):
                    mismatched.append(Mismatch(name, f"the values of '{source}', tied to it", "other values"))
        return LoadReport(
            applied=[name for name in self.tensors if name in names],
            missing=[name for name in self.tensors if name not in names and name not in optional],
            unexpected=[name for name in names if name not in self.tensors and name not in self.ignored],
            mismatched=mismatched,
        )

    def values(self, path: str, record: Record) -> Tensor:
        place = self.places[path]
        return place.taken_from(record.tensors[record.aliases.get(place.name, place.name)]).contiguous()

    def id_of(self, path: str, record: Record) -> Any:
        """The id that the record has for the tensor at `path`; None if it is a part of a tensor there."""
        place = self.places[path]
        return record.ids.get(record.aliases.get(place.name, place.name)) if place.is_whole else None


def record_from_torch(module: nn.Module, state: Mapping[str, Any] | Record) -> Record:
    """The record for `module` of the weights of the same model made of layers of `torch.nn`.

    Both models have the same fields. Where `module` has a layer of burnlike's with a twin in torch, `state` has the
    twin's tensors: of `nn.Linear` the transposed weight, `weight` and `bias` for `gamma` and `beta`, the gates of
    `nn.LSTM` in one tensor. What only torch has (`num_batches_tracked`) is left out. All tensors of the result are in
    memory, and have ids: those in `state`, else those of `module`.

    The values of `module` are not looked at, so it may be on the meta device.

    Raises:
        NoCounterpartError: layers of `module` have options that torch does not have; all are named by path.
        RecordMismatchError: tensors are missing, not of this model, or of another shape; all are named as torch does.
    """
    record = state if isinstance(state, Record) else Record(dict(state), source="the state dict")
    expected = TorchLayout(module)
    expect_fit(expected.report(record), record, module, "torch")
    all_params = params(module)
    tensors = {param.path: _saved(param, expected.values(param.path, record)) for param in all_params}
    return Record(
        tensors,
        ids={param.path: expected.id_of(param.path, record) or param.id for param in all_params},
        aliases={alias: param.path for param in all_params for alias in param.aliases},
        source=record.source,
        states=frozenset(param.path for param in all_params if param.kind == "state"),
        layout=LayoutOf(partial(layout_of, module)),
    )


def record_to_torch(module: nn.Module, record: Record | None = None) -> Record:
    """The record of `module` in the names and layouts of the same model made of layers of `torch.nn`.

    It is the way back of `record_from_torch`, with the same errors; buffers that only torch has (`num_batches_tracked`)
    are zeros. Without a `record` it is that of its values now.
    """
    record = Record.from_module(module) if record is None else record
    if not _fits_burnlike(module, record):
        raise RecordMismatchError(f"{record.source} does not fit {type(module).__name__}: expected a record of its own")
    form = TorchLayout(module)
    values = {}
    for param in params(module):
        mapper, saved = meta_of(*param.home).load_mapper, record.tensors[param.path]
        values[param.path] = saved if mapper is None else mapper(saved)
    values |= {alias: values[path] for alias, path in form.tied.items()}
    recipes = inverse(whole(form.places))
    aliases = {
        form.places[alias].name: form.places[path].name
        for alias, path in form.tied.items()
        if form.places[alias].is_whole
        and form.places[path].is_whole
        and form.places[alias].transposed == form.places[path].transposed
    }
    tensors = {name: recipe.make(values).contiguous() for name, recipe in recipes.items() if name not in aliases}
    tensors |= {name: torch.zeros(value.shape, dtype=value.dtype) for name, value in form.ignored.items()}
    sole = {name: it.sources[0].name for name, it in recipes.items() if name in tensors and len(it.sources) == 1}
    ids = {name: record.ids[path] for name, path in sole.items() if path in record.ids}
    return Record(tensors, ids=ids, aliases=aliases, source=record.source)


def expect_fit(report: LoadReport, record: Record, module: nn.Module, library: str) -> None:
    """Raise a RecordMismatchError with the report, which is in the names of `library`, if it lists a problem."""
    if not (report.missing or report.unexpected or report.mismatched):
        return
    details = str(report).partition("\n")[2]
    error = RecordMismatchError(
        f"{record.source} does not fit {type(module).__name__}, whose tensors have these names in {library}\n{details}"
    )
    error.report = report
    raise error


def names_of(module: nn.Module, record: Record) -> Literal["torch", "burnlike"] | None:
    """The library in whose names and layouts the record is; None if it fits both, and they differ."""
    if not _fits_burnlike(module, record):
        return "torch"
    expected = TorchLayout(module)
    if not expected.differs():
        return "torch"
    report = expected.report(record)
    return "burnlike" if report.missing or report.unexpected or report.mismatched else None


def _fits_burnlike(module: nn.Module, record: Record) -> bool:
    """True if a record has all tensors of `module`, and no others, in burnlike's names and shapes."""
    all_params = params(module)
    names = {*record.tensors, *record.aliases}
    if names != {path for param in all_params for path in (param.path, *param.aliases)}:
        return False
    return all(
        shape_in(record.tensors, param.path) == _saved(param, param.tensor).shape
        for param in all_params
        if param.path in record.tensors
    )


def _saved(param: Param, values: Tensor) -> Tensor:
    mapper = meta_of(*param.home).save_mapper
    return values if mapper is None else mapper(values).contiguous()


def _layers(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module, Counterpart | None]]:
    """Each part of `module` with its prefix: layers with a pair whole, other modules without their children."""
    pair = ToTorch().counterpart_of(module)
    yield prefix, module, pair
    if pair is None:
        for name, child in module._modules.items():
            if child is not None:
                yield from _layers(child, f"{prefix}{name}.")
