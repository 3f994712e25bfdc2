"""Records in the names and layouts of other libraries, to records of our models and back."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import nn

from ..errors import RecordMismatchError
from ..interop.torch_names import TorchLayout, expect_fit, record_from_torch, record_to_torch
from ..nn.tensor_source import TensorRecipe, inverse
from ..record import LoadReport, Mismatch, Record
from ..record.files.stored_tensors import dtype_in, shape_in
from ..record.precision import shown
from .weights.table import WeightTable


def record_from(table: WeightTable, module: nn.Module, state: Mapping[str, Any] | Record) -> Record:
    """The record for `module`, in memory, of weights as another library has them: a record or a state dict.

    The values of `module` are not looked at, so it may be on the meta device.

    Raises:
        RecordMismatchError: tensors are missing, not of this model, or of another shape; all are named as in `state`.
    """
    record = state if isinstance(state, Record) else Record(dict(state), source="the state dict")
    return converted(table, module, record)


def converted(table: WeightTable, module: nn.Module, record: Record, unused: Collection[str] = ()) -> Record:
    """As `record_from`; tensors of theirs that are `unused` may be there."""
    return record_from_torch(module, Record(tensors_for(table, module, record, unused), source=record.source))


def tensors_for(
    table: WeightTable, module: nn.Module, record: Record, unused: Collection[str] = ()
) -> Mapping[str, Any]:
    """The tensors of `converted` by their names in torch's layers; those that are whole, or one part, are views."""
    held = {**{name: name for name in record.tensors}, **record.aliases}
    form = TorchLayout(module)
    recipes = table.recipes(form.tensors)
    wanted = _names_in(recipes)
    names = table.whole_names([table.current_name(name) for name in held], wanted)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise RecordMismatchError(f"{record.source} has '{twice[0]}' under two names")
    names = dict(zip(names, held.values(), strict=True))
    prefix = max(table.prefixes, key=lambda it: sum(f"{it}{name}" in names for name in wanted))
    held_of = {name.removeprefix(prefix): held for name, held in names.items() if name.startswith(prefix)}
    held_of |= {name: held for name, held in names.items() if not name.startswith(prefix)}
    copies = {name: held_of[source] for name, source in table.copied.items() if source in held_of}
    held_of = {**copies, **held_of}
    _check(table, module, record, form, recipes, {name: value for name, value in held_of.items() if name not in unused})
    return {
        name: recipe.make({source.name: record.tensors[held_of[source.name]] for source in recipe.sources})
        for name, recipe in recipes.items()
        if all(source.name in held_of for source in recipe.sources)
    }


def record_to(table: WeightTable, module: nn.Module, record: Record | None = None) -> Record:
    """The record of `module`, or of its values now, in the names and layouts of another library.

    Raises:
        RecordMismatchError: the record is not of this model, or the other library has no place for a tensor.
    """
    ours = record_to_torch(module, record)
    names = [*ours.tensors, *ours.aliases]
    recipes = table.recipes(names)
    if homeless := [name for name in names if name not in recipes]:
        raise RecordMismatchError(f"{table.name} has no tensor for {', '.join(homeless)} of {type(module).__name__}")
    values = {name: ours.tensors[ours.aliases.get(name, name)] for name in names}
    theirs = {name: recipe.make(values).contiguous() for name, recipe in inverse(recipes).items()}
    return Record({f"{table.prefixes[0]}{name}": tensor for name, tensor in theirs.items()}, source=ours.source)


def _check(
    table: WeightTable,
    module: nn.Module,
    record: Record,
    form: TorchLayout,
    recipes: Mapping[str, TensorRecipe],
    held_of: Mapping[str, str],
) -> None:
    """Refuse a record that does not fit, before anything is read whole."""
    optional = {form.places[alias].name for alias in form.tied}
    theirs = {name: [it.name for it in recipe.sources] for name, recipe in recipes.items()}
    needed = [it for name in form.tensors if name not in optional for it in theirs.get(name, [name])]
    missing = [name for name in dict.fromkeys(needed) if name not in held_of]
    used = _names_in(recipes) | _names_in(table.recipes(form.ignored))
    extra = [name for name in held_of if name not in used and not table.is_ignored(name, used)]
    mismatched: list[Mismatch] = []
    for name, recipe in recipes.items():
        shape, count = list(form.tensors[name].shape), len(recipe.sources)
        for part in (it for it in recipe.sources if it.name in held_of):
            expected = part.whole_shape([shape[0] // count, *shape[1:]] if count > 1 else shape)
            got = shape_in(record.tensors, held_of[part.name])
            if list(got) != expected:
                dtype = dtype_in(record.tensors, held_of[part.name])
                mismatched.append(Mismatch(part.name, shown(dtype, expected), shown(dtype, got)))
    # Some files have both of two tied tensors, which then have to be equal.
    for name in [it for it in extra if it in table.tied and table.tied[it] in held_of]:
        extra.remove(name)
        source = table.tied[name]
        if held_of[name] != held_of[source] and not torch.equal(
            record.tensors[held_of[name]], record.tensors[held_of[source]]
        ):
            mismatched.append(Mismatch(name, f"the values of '{source}', as the model ties them", "other values"))
    expect_fit(LoadReport(missing=missing, unexpected=extra, mismatched=mismatched), record, module, table.name)


def _names_in(recipes: Mapping[str, TensorRecipe]) -> set[str]:
    return {source.name for recipe in recipes.values() for source in recipe.sources}
