"""Records in the names and layouts of other libraries, to records of our models and back."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import RecordMismatchError
from ..interop.torch_form import TorchForm
from ..interop.torch_names import expect_fit, record_from_torch, record_to_torch
from ..record import LoadReport, Mismatch, Record
from ..record.dtypes import shown
from ..record.files.stored_tensors import dtype_in, shape_in
from .weights.table import Theirs, WeightTable


def record_from(table: WeightTable, module: nn.Module, state: Mapping[str, Any] | Record) -> Record:
    """The record for `module` of weights as another library has them.

    Args:
        table: says how they are named and laid out.
        module: the model; its values are not looked at, so it may be on the meta device.
        state: a record or a state dict.

    Returns:
        All tensors of the model, in memory.

    Raises:
        RecordMismatchError: tensors are missing, not of this model, or of another shape; all are named as in `state`.
    """
    record = state if isinstance(state, Record) else Record(dict(state), source="the state dict")
    return converted(table, module, record)


def converted(table: WeightTable, module: nn.Module, record: Record, unused: Collection[str] = ()) -> Record:
    """As `record_from`; tensors of theirs that are `unused` may be there."""
    held = {**{name: name for name in record.tensors}, **record.aliases}
    form = TorchForm(module)
    places = table.places(form.tensors)
    wanted = {part.name for parts in places.values() for part in parts}
    names = table.whole_names([table.current_name(name) for name in held], wanted)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise RecordMismatchError(f"{record.source} has '{twice[0]}' under two names")
    names = dict(zip(names, held.values(), strict=True))
    prefix = max(table.prefixes, key=lambda it: sum(f"{it}{name}" in names for name in wanted))
    known = {name.removeprefix(prefix): held for name, held in names.items() if name.startswith(prefix)}
    known |= {name: held for name, held in names.items() if not name.startswith(prefix)}
    copies = {name: known[source] for name, source in table.copied.items() if source in known}
    known = {**copies, **known}
    _check(table, module, record, form, places, {name: it for name, it in known.items() if name not in unused})
    tensors = {
        name: _cat([_taken(part, record.tensors[known[part.name]]) for part in parts])
        for name, parts in places.items()
        if all(part.name in known for part in parts)
    }
    return record_from_torch(module, Record(tensors, source=record.source))


def record_to(table: WeightTable, module: nn.Module, record: Record | None = None) -> Record:
    """The record of `module` in the names and layouts of another library.

    Args:
        table: says which.
        module: the model; with a record its values are not looked at.
        record: of the module; None for that of its values now.

    Raises:
        RecordMismatchError: the record is not of this model, or the other library has no place for a tensor.
    """
    ours = record_to_torch(module, record)
    names = [*ours.tensors, *ours.aliases]
    places = table.places(names)
    if homeless := [name for name in names if name not in places]:
        raise RecordMismatchError(f"{table.name} has no tensor for {', '.join(homeless)} of {type(module).__name__}")
    theirs: dict[str, list[Tensor]] = {}
    transposed: dict[str, bool] = {}
    for name, parts in places.items():
        tensor = ours.tensors[ours.aliases.get(name, name)]
        for part, values in zip(parts, tensor.chunk(len(parts)) if len(parts) > 1 else [tensor], strict=True):
            index, count = part.part
            theirs.setdefault(part.name, [tensor] * count)[index] = values
            transposed[part.name] = part.transposed
    prefix = table.prefixes[0]
    return Record(
        {f"{prefix}{name}": _joined(found, transposed[name]) for name, found in theirs.items()}, source=ours.source
    )


def _check(
    table: WeightTable,
    module: nn.Module,
    record: Record,
    form: TorchForm,
    places: Mapping[str, list[Theirs]],
    known: Mapping[str, str],
) -> None:
    """Refuse a record that does not fit, before anything is read whole."""
    optional = {form.places[alias].name for alias in form.tied}
    theirs = {name: [part.name for part in parts] for name, parts in places.items()}
    needed = [it for name in form.tensors if name not in optional for it in theirs.get(name, [name])]
    missing = [name for name in dict.fromkeys(needed) if name not in known]
    without = table.places(form.ignored).values()
    used = {part.name for parts in (*places.values(), *without) for part in parts}
    extra = [name for name in known if name not in used and not table.is_ignored(name, used)]
    mismatched: list[Mismatch] = []
    for name, parts in places.items():
        shape = list(form.tensors[name].shape)
        for part in (it for it in parts if it.name in known):
            expected = _whole_shape([shape[0] // len(parts), *shape[1:]] if len(parts) > 1 else shape, part)
            got = shape_in(record.tensors, known[part.name])
            if list(got) != expected:
                dtype = dtype_in(record.tensors, known[part.name])
                mismatched.append(Mismatch(part.name, shown(dtype, expected), shown(dtype, got)))
    for name in [it for it in extra if it in table.tied and table.tied[it] in known]:
        extra.remove(name)
        source = table.tied[name]
        if known[name] != known[source] and not torch.equal(record.tensors[known[name]], record.tensors[known[source]]):
            mismatched.append(Mismatch(name, f"the values of '{source}', as the model ties them", "other values"))
    expect_fit(LoadReport(missing=missing, unexpected=extra, mismatched=mismatched), record, module, table.name)


def _whole_shape(shape: list[int], place: Theirs) -> list[int]:
    whole = [shape[0] * place.part[1], *shape[1:]] if shape else shape
    return whole[::-1] if place.transposed else whole


def _taken(place: Theirs, tensor: Tensor) -> Tensor:
    index, count = place.part
    whole = tensor.mT if place.transposed and tensor.ndim > 1 else tensor
    return whole.chunk(count)[index] if count > 1 else whole


def _joined(parts: list[Tensor], transposed: bool) -> Tensor:
    whole = _cat(parts)
    return (whole.mT if transposed and whole.ndim > 1 else whole).contiguous()


def _cat(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
