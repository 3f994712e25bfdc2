"""Records in torch's names and layouts, for models that are built of burnlike's layers."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import RecordMismatchError
from ..module import Param, params
from ..module.identity.field_metadata import meta_of
from ..nn.tensor_source import inverse, whole
from ..record import LoadReport, Record
from ..record.files.stored_tensors import shape_in
from ..record.state_dict.module_layout import deferred_layout
from .torch_form import TorchForm


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
    expected = TorchForm(module)
    expect_fit(expected.report(record), record, module, "torch")
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


def record_to_torch(module: nn.Module, record: Record | None = None) -> Record:
    """The record of `module` in the names and layouts of the same model made of layers of `torch.nn`.

    It is the way back of `record_from_torch`; buffers that only torch has (`num_batches_tracked`) are zeros.

    Args:
        module: of burnlike's layers; with a record its values are not looked at.
        record: of the module; None for that of its values now.

    Raises:
        NoCounterpartError: layers of `module` have options that torch does not have; all are named by path.
        RecordMismatchError: the record is not of this model.
    """
    record = Record.from_module(module) if record is None else record
    if not _fits_burnlike(module, record):
        raise RecordMismatchError(f"{record.source} does not fit {type(module).__name__}: expected a record of its own")
    form = TorchForm(module)
    values = {param.path: _module_form(param, record.tensors[param.path]) for param in params(module)}
    values |= {alias: values[path] for alias, path in form.tied.items()}
    recipes = inverse(whole(form.places))
    aliases = {
        form.places[alias].name: form.places[path].name
        for alias, path in form.tied.items()
        if form.places[alias].is_whole
        and form.places[path].is_whole
        and form.places[alias].transposed == form.places[path].transposed
    }
    tensors = {name: it.make(values).contiguous() for name, it in recipes.items() if name not in aliases}
    tensors |= {name: torch.zeros(it.shape, dtype=it.dtype) for name, it in form.ignored.items()}
    sole = {name: it.sources[0].name for name, it in recipes.items() if name in tensors and len(it.sources) == 1}
    ids = {name: record.ids[path] for name, path in sole.items() if path in record.ids}
    return Record(tensors, ids=ids, aliases=aliases, source=record.source)


def expect_fit(report: LoadReport, record: Record, module: nn.Module, library: str) -> None:
    """Refuse a record of another library's names that does not fit.

    Args:
        report: what is missing, unexpected and mismatched, in those names.
        record: that is refused.
        module: that it was to be for.
        library: whose names they are.

    Raises:
        RecordMismatchError: something is; it has the report.
    """
    if not (report.missing or report.unexpected or report.mismatched):
        return
    details = str(report).partition("\n")[2]
    error = RecordMismatchError(
        f"{record.source} does not fit {type(module).__name__}, whose tensors have these names in {library}\n{details}"
    )
    error.report = report
    raise error


def names_of(module: nn.Module, record: Record) -> Literal["torch", "burnlike"] | None:
    """Whose names and layouts a record has of the model of `module`; None if it fits both, and they differ.

    Raises:
        NoCounterpartError: as in `record_from_torch`.
    """
    if not _fits_burnlike(module, record):
        return "torch"
    expected = TorchForm(module)
    if not expected.differs():
        return "torch"
    return None if expected.fits(record) else "burnlike"


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


def _module_form(param: Param, values: Tensor) -> Tensor:
    """The values as the module has them, of those of a record."""
    mapper = meta_of(*param.home).load_mapper
    return values if mapper is None else mapper(values)


def _saved_form(param: Param, values: Tensor) -> Tensor:
    """The values as records of the module have them."""
    mapper = meta_of(*param.home).save_mapper
    return values if mapper is None else mapper(values).contiguous()
