"""The tensors in peft's files: their names and shapes, and what is wrong with those of a file."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import RecordMismatchError, nearest
from ...record import Record
from ...record.files.stored_tensors import dtype_in, shape_in
from .adding import AdapterOptions
from .layers import AdaptedLayer, adapted, inside_of
from .tables import parameters_of, tables_of, tied_tables

PREFIX = "base_model.model."
_ROUNDING = 2.0**-6  # of bfloat16, twice
_LINEAR = ("lora_A.weight", "lora_B.weight")


def stored_names(record: Record) -> dict[str, str]:
    """The names in a file of peft by those that they have here."""
    names: dict[str, str] = {}
    for stored in record.tensors:
        if ".original_module." in stored:
            continue  # of before a module was trained whole: nothing computes with it
        name = stored.replace(".base_layer.", ".").replace(".modules_to_save.", ".")
        # Older versions of peft have one more word.
        name = name.removesuffix(".weight") if name.endswith("lora_magnitude_vector.weight") else name
        if name not in names or name == stored:
            names[name] = stored
    return names


def count_of_tokens(model: Any, saved: Collection[str], stored: Mapping[str, str], record: Record) -> int | None:
    """The number of tokens of a file's tables; None if it has none, or they have that of the model.

    Raises:
        RecordMismatchError: the file has more tokens than the model, and not all tables of that size.
    """
    tables = {path: parameters_of(model, path) for path in tables_of(model)}
    names = [f"{PREFIX}{path}.weight" for path in tables]
    counts = {shape_in(record.tensors, stored[name])[0] for name in names if name in stored}
    rows = {it[f"{path}.weight"].shape[0] for path, it in tables.items() if f"{path}.weight" in it}
    if len(counts) != 1 or counts == rows or not callable(getattr(model, "resize_token_embeddings", None)):
        return None
    (count,) = counts
    names_of: dict[object, list[str]] = {}  # of a tied table both
    for path, parameters in tables.items():
        apart = path if inside_of(path, saved) else None
        for name, it in parameters.items():
            names_of.setdefault((apart, id(it)), []).append(name)
    for names in names_of.values():
        if not any(f"{PREFIX}{name}" in stored for name in names):
            raise RecordMismatchError(
                f"{record.source}: has a table of {count} tokens, the model has {min(rows)}, and the file has no"
                f" '{names[0]}', which needs {count} too: call model.resize_token_embeddings({count}) first, and give"
                " its new rows the values that they had in training"
            )
    return count


def sizes_of(model: nn.Module, tensors: Mapping[str, Tensor], count: int | None) -> dict[str, tuple[int, ...]]:
    """The shapes of parameters as they are once the model's tables have another number of tokens."""
    sizes = {name: tuple(it.shape) for name, it in tensors.items()}
    if count is None:
        return sizes
    tables = {*tables_of(model), *(it.path for it in tied_tables(model))}
    is_table = {name: name.removeprefix(PREFIX).rpartition(".")[0] in tables for name in sizes}
    return {name: (count, *shape[1:]) if is_table[name] else shape for name, shape in sizes.items()}


def shapes_of(
    model: nn.Module, layers: Mapping[AdaptedLayer, AdapterOptions], saved: list[str], count: int | None
) -> dict[str, tuple[int, ...]]:
    """The shapes of what peft stores of adapters and of modules that are trained whole, by their names."""
    shapes: dict[str, tuple[int, ...]] = {}
    weights = sizes_of(model, {f"{PREFIX}{it.path}.weight": it.weight for it in layers}, count)
    for layer, options in layers.items():
        path = f"{PREFIX}{layer.path}"
        outputs, inputs = weights[f"{path}.weight"]
        if layer.kind == "embedding":
            shapes[f"{path}.lora_embedding_A"] = (options.rank, outputs)
            shapes[f"{path}.lora_embedding_B"] = (inputs, options.rank)
        else:
            outputs, inputs = (inputs, outputs) if layer.kind == "conv1d" else (outputs, inputs)
            shapes[f"{path}.lora_A.weight"] = (options.rank, inputs)
            shapes[f"{path}.lora_B.weight"] = (outputs, options.rank)
        if options.dora:
            shapes[f"{path}.lora_magnitude_vector"] = (inputs if layer.kind == "embedding" else outputs,)
    for path in saved:
        whole = {f"{PREFIX}{path}.{name}": it for name, it in model.get_submodule(path).state_dict().items()}
        shapes |= sizes_of(model, whole, count)
    return shapes


def check_tensors(
    model: nn.Module, shapes: Mapping[str, tuple[int, ...]], stored: Mapping[str, str], record: Record
) -> None:
    """Compare what a file has with what it should have, before anything is made of the size that its config says."""
    own: dict[str, Tensor] = {f"{PREFIX}{name}": it for name, it in model.named_parameters()}
    own |= {f"{PREFIX}{path}.weight": it.weight for path, it in adapted(model).items()}
    for name, there in stored.items():
        shape, base = shape_in(record.tensors, there), own.get(name)
        if name not in shapes and base is not None:
            if shape == base.shape and torch.equal(record.tensors[there].to(base), base):
                continue  # peft stores weights of layers again
            raise RecordMismatchError(
                f"{record.source}: '{there}' is a weight of the base, and another than the model's"
            )
        if name not in shapes:
            raise RecordMismatchError(f"{record.source}: the model has no {there!r}{nearest(name, [*shapes])}")
        if tuple(shape) != shapes[name]:
            raise RecordMismatchError(f"{record.source}: expected '{there}' of {list(shapes[name])}, got {list(shape)}")
        is_real = ".lora_" in name if base is None else base.is_floating_point()
        if is_real and not dtype_in(record.tensors, there).is_floating_point:
            raise RecordMismatchError(
                f"{record.source}: expected '{there}' of real numbers, got {dtype_in(record.tensors, there)}"
            )
    if missing := [name for name in shapes if name not in stored]:
        raise RecordMismatchError(f"{record.source}: '{missing[0]}' is missing{nearest(missing[0], [*stored])}")


def equal_names(
    model: nn.Module, layers: Mapping[AdaptedLayer, Any], frozen: Mapping[str, Tensor], *, stay_tied: bool
) -> Iterator[tuple[str, str]]:
    """The pairs of names that mean one tensor, or one and its transpose."""
    first: dict[int, str] = {}
    for name, tensor in frozen.items():
        if (one := first.setdefault(id(tensor), name)) != name:
            yield one, name
    tied, paths = tied_tables(model) if stay_tied else [], {it.path for it in layers}
    for other in tied[1:]:
        one, two = f"{PREFIX}{tied[0].path}", f"{PREFIX}{other.path}"
        if other.path not in paths:
            yield f"{one}.weight", f"{two}.weight"
            continue
        down, up = ("lora_embedding_A", "lora_embedding_B") if other.kind == "embedding" else reversed(_LINEAR)
        yield from ((f"{one}.lora_embedding_A", f"{two}.{down}"), (f"{one}.lora_embedding_B", f"{two}.{up}"))


def check_base(name: str, base: Tensor, stored: Mapping[str, str], record: Record) -> None:
    """Refuse the table of a file that is of another base: then no row is that of the model, but for rounding."""
    value = record.tensors[stored[name]].to(base)
    common, size = min(len(value), len(base)), base.abs().mean().item()
    alike = torch.isclose(value[:common], base[:common], rtol=_ROUNDING, atol=_ROUNDING * size)
    if common and not alike.flatten(1).all(1).any():
        raise RecordMismatchError(
            f"{record.source}: '{stored[name]}' is a weight of the base, and another than the model's"
        )


def check_equal(one: str, other: str, stored: Mapping[str, str], record: Record) -> None:
    first, second = (record.tensors[stored[it]] for it in (one, other))
    if not any(torch.equal(first, it) for it in ((second, second.mT) if second.dim() == 2 else (second,))):
        raise RecordMismatchError(
            f"{record.source}: expected '{stored[one]}' and '{stored[other]}' to be alike, which are one in the model"
        )


def _places(layers: Mapping[str, AdaptedLayer]) -> dict[str, Tensor]:
    """Tensors of adapters as peft stores them, by its names: views of `a`, `b` and the magnitude."""
    found: dict[str, Tensor] = {}
    for path, layer in layers.items():
        lora = layer.lora
        assert lora is not None
        # Of a layer of torch that `apply_lora` gave its adapter, the factors are those of the weight as it is held.
        is_swapped = layer.kind == "linear" and not lora.transposed
        down, up = (lora.b.mT, lora.a.mT) if is_swapped else (lora.a, lora.b)
        first, second = ("lora_embedding_A", "lora_embedding_B") if layer.kind == "embedding" else _LINEAR
        found[f"{PREFIX}{path}.{first}"], found[f"{PREFIX}{path}.{second}"] = down.mT, up.mT
        if lora.magnitude is not None:
            found[f"{PREFIX}{path}.lora_magnitude_vector"] = lora.magnitude
    return found


def name_of_base(name: str, layers: Mapping[str, AdaptedLayer]) -> str:
    """The name that peft gives a parameter of the base, which may be that of a layer with an adapter."""
    path, _, last = name.rpartition(".")
    return f"{PREFIX}{path}.base_layer.{last}" if path in layers else f"{PREFIX}{name}"


def tensors_of(model: nn.Module, layers: Mapping[str, AdaptedLayer], saved: list[str]) -> dict[str, Tensor]:
    found = _places(layers)
    for path in saved:
        part = model.get_submodule(path)
        found |= {f"{PREFIX}{path}.{name}": it for name, it in part.state_dict().items()}
    return found
