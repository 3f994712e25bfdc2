"""Adapters as peft's files: `adapter_config.json` and `adapter_model.safetensors`."""

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._atomic import make_directories, replace_file
from ...errors import ModuleTreeError, RecordIOError, RecordMismatchError, nearest
from ...record import Record, SafetensorsRecorder, open_record
from ...record.files.stored_tensors import dtype_in, shape_in
from .adding import AdapterOptions, add_adapters
from .layers import (
    FILLED,
    AdaptedLayer,
    adaptable,
    adapted,
    biases_of,
    count_of_rows,
    filled_tables,
    inside_of,
    parameters_of,
    resize_tables,
    shared_with_the_rest,
    tables_of,
    tied_tables,
    token_rows_of,
    token_tables,
    trained_beside,
    with_token_rows,
)
from .peft_config import CONFIG_NAME, WEIGHTS_NAME, PeftConfig, TokenRowsOf, read_config, written_config

PREFIX = "base_model.model."
_ROUNDING = 2.0**-6  # of bfloat16, twice
_ROWS = "token_adapter.trainable_tokens_delta"
_LINEAR = ("lora_A.weight", "lora_B.weight")


def save_adapter(
    model: nn.Module,
    directory: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str] | None = None,
    task_type: str | None = None,
) -> None:
    """Write the adapters of a model, and the modules that are trained whole beside them, as peft does.

    `PeftModel.from_pretrained(base_model, directory)` then computes what the model does.

    Args:
        base: the directory of the model that they are for, of which the absolute path is written, or another name; of a
            model of transformers what its config says.
        task_type: in peft's words, such as `CAUSAL_LM`.

    Raises:
        ModuleTreeError: there are no adapters, or something is trained for which the files have no place.
        RecordIOError: a file can't be written.
    """
    layers = adapted(model)
    if not layers:
        raise ModuleTreeError(f"{type(model).__name__} has no adapters: expected a model of `type: LoRA`")
    if len({layer.lora.magnitude is None for layer in layers.values() if layer.lora is not None}) > 1:
        raise ModuleTreeError("some adapters are of DoRA and some are not, for which peft's files have no place")
    if any(layer.lora.is_residual for layer in layers.values() if layer.lora is not None):
        raise ModuleTreeError(
            "the adapters began with a part of the weights (`start`), so that peft would add them to another base"
            " than the model's: merge them, or train with another start"
        )
    saved, bias = trained_beside(model)
    named = os.fspath(base or getattr(getattr(model, "config", None), "name_or_path", None) or "") or None
    if named is not None and os.path.isdir(os.path.expanduser(named)):
        named = os.path.abspath(os.path.expanduser(named))  # so that it is found from other folders too
    config = written_config(model, layers, saved, bias, named, task_type)
    filled = {name_of_base(name, model): table for name, table in filled_tables(model).items()}
    whole = {name_of_base(name, model): value for name, value in biases_of(model, bias, {*layers}, saved).items()}
    whole |= filled | tensors_of(model, layers, saved)
    tensors = {name: value.detach().contiguous() for name, value in whole.items()}
    seen: set[int] = set()
    for name, tensor in tensors.items():  # peft looks for all names of what is tied
        tensors[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    try:
        make_directories(directory)
        SafetensorsRecorder().save(Record(tensors, metadata={"format": "pt"}), Path(directory) / WEIGHTS_NAME)
        replace_file(Path(directory) / CONFIG_NAME, (json.dumps(config, indent=2) + "\n").encode())
    except OSError as error:
        raise RecordIOError(f"{os.fspath(directory)}: the adapters can't be written: {error}") from error


def load_adapter(model: nn.Module, directory: str | os.PathLike[str]) -> PeftConfig:
    """Read peft's files into a model: it gets adapters, or has the same ones already; returns what the config says.

    The rest of the model is frozen. Tables of tokens that the files have beside adapters, as those of a model with more
    tokens, become the model's.

    Raises:
        RecordIOError: a file is missing or can't be read.
        RecordFormatError: the config says what is not known here.
        ModuleTreeError: the model has no such layers, or other adapters; it is as it was.
        RecordMismatchError: the tensors are not those of the adapters; the model is as it was.
    """
    config, record = read_config(directory), _record(Path(directory))
    wanted, saved, stay_tied = config.places(model)
    tokens = config.token_rows(model)
    there, stored = adapted(model), stored_names(record)
    count = count_with(tokens, model, count_of_tokens(model, saved, stored, record), config)
    if there:
        _check_same(there, wanted, config)
        _check_same_tokens(model, tokens, config)
        _check_apart(model, saved, config, count, stay_tied=stay_tied)
    tables = [it for it in tables_of(model) if not inside_of(it, saved)]
    frozen = {f"{PREFIX}{name}": value for path in tables for name, value in parameters_of(model, path).items()}
    frozen = {name: value for name, value in frozen.items() if name in stored}
    bias = config.get("bias", "none")
    biases = biases_of(model, bias, [it.path for it in wanted], saved)
    if there and (frozen_bias := next((name for name, it in biases.items() if not it.requires_grad), "")):
        raise ModuleTreeError(f"{config.path}: trains '{frozen_bias}', which the model freezes: set its bias to {bias}")
    shapes, alike = shapes_of(model, wanted, saved, count), list[tuple[str, str]]()
    shapes |= sizes_of(model, {f"{PREFIX}{name}": it for name, it in biases.items()}, count)
    for group, numbers in tokens:  # peft may store those of a tied table once more
        names = [f"{PREFIX}{it.path}.{_ROWS}" for it in group]
        there_too = [it for it in names[1:] if it in stored]
        shapes |= dict.fromkeys([names[0], *there_too], (len(numbers), group[0].weight.shape[1 - group[0].token_dim]))
        alike += [(names[0], it) for it in there_too]
    check_tensors(model, shapes | sizes_of(model, frozen, count), stored, record)
    for name in (it for it in frozen if it.endswith(".weight")):
        check_base(name, frozen[name], stored, record)
    for one, other in (*equal_names(model, wanted, frozen, stay_tied=stay_tied), *alike):
        check_equal(one, other, stored, record)
    if count is not None:
        resize_tables(model, count)
        wanted, saved, stay_tied = config.places(model)  # the tables may be other layers now
        tokens = config.token_rows(model)
    if not there:
        add_adapters(model, wanted, saved, stay_tied=stay_tied, bias=bias, tokens=tokens)
        there = adapted(model)
    biases = biases_of(model, bias, [*there], saved)
    targets = {f"{PREFIX}{name}": it for name, it in biases.items()} | tensors_of(model, there, saved)
    _fill({name: target for name, target in targets.items() if name in shapes}, stored, record)
    now = {f"{PREFIX}{name}": value for path in tables for name, value in parameters_of(model, path).items()}
    if _fill({name: now[name] for name in frozen}, stored, record):
        vars(model)[FILLED] = tuple(tables)
    return config


def resize_for_adapter(model: nn.Module, directory: Path) -> None:
    """Give a model without adapters tables of as many tokens as peft's files have; the values come with these."""
    record, config = _record(directory), read_config(directory)
    count = count_of_tokens(model, config.saved_modules(model), stored_names(record), record)
    count = count_with(config.token_rows(model), model, count, config)
    if count is not None:
        resize_tables(model, count)


def has_whole_tensors(directory: Path) -> bool:
    """True if peft's files have more than adapters: tables of tokens, or modules that were trained whole."""
    return any(".lora_" not in name and _ROWS not in name for name in _record(directory).tensors)


def _record(directory: Path) -> Record:
    if not (directory / WEIGHTS_NAME).exists() and (directory / "adapter_model.bin").exists():
        raise RecordIOError(f"{directory}: adapter_model.bin is a pickle, which is not read: let peft save safetensors")
    return open_record(directory / WEIGHTS_NAME)


def _check_same(there: Mapping[str, AdaptedLayer], wanted: Mapping[AdaptedLayer, Any], config: PeftConfig) -> None:
    paths = {it.path for it in wanted}
    for path in sorted(paths ^ there.keys()):
        which = "has an adapter in the model, and none" if path in there else "has none in the model, and one"
        raise ModuleTreeError(f"'{path}' {which} in {config.path}: expected the adapters of the model")
    for layer, options in wanted.items():
        lora = there[layer.path].lora
        scale = options.alpha / (options.rank**0.5 if options.rslora else options.rank)
        same = lora is not None and (lora.a.shape[1], lora.magnitude is not None) == (options.rank, options.dora)
        if not same or abs(lora.scale - scale) > 1e-12 * scale:  # pyright: ignore[reportOptionalMemberAccess]
            raise ModuleTreeError(
                f"'{layer.path}': expected the adapter of the model (rank, alpha, DoRA), and {config.path} has another:"
                f" rank {options.rank}, alpha {options.alpha:g}{', DoRA' if options.dora else ''}"
            )


def _check_same_tokens(model: nn.Module, tokens: TokenRowsOf, config: PeftConfig) -> None:
    ours = {path: [*value.tokens] for path, value in token_rows_of(model).items()}
    theirs = {tables[0].path: numbers for tables, numbers in tokens}
    if ours != theirs:
        raise ModuleTreeError(
            f"{config.path}: expected trainable_token_indices of the model's `new_tokens`, {ours or 'none'}, got"
            f" {theirs or 'none'}"
        )


def count_with(tokens: TokenRowsOf, model: nn.Module, count: int | None, config: PeftConfig) -> int | None:
    """The number of tokens of a model, `count` by a file's tables, with trained rows of some; None: as it has.

    Raises:
        ModuleTreeError: rows between the model's and these are of no file.
    """
    before, needed = count or count_of_rows(model), max((max(numbers) + 1 for _, numbers in tokens), default=0)
    if before is None or needed <= before:
        return count
    parts = [numbers for tables, numbers in tokens] if len(tokens) == len(token_tables(model, ())) else [[]]
    if missing := {*range(before, needed)} - {*parts[0]}.intersection(*parts):
        raise ModuleTreeError(
            f"{config.path}: has rows of {needed} tokens, the model has {before}, and not all tables have a row of"
            f" token {min(missing)}: call model.resize_token_embeddings({needed}) first, and give its new rows the"
            " values that they had in training"
        )
    return needed


def _check_apart(model: nn.Module, saved: list[str], config: PeftConfig, count: int | None, *, stay_tied: bool) -> None:
    """Refuse files for a model with adapters whose tables are other ones."""
    name = None if stay_tied else shared_with_the_rest(model, saved)
    if name is not None:
        raise ModuleTreeError(
            f"'{name}' is tied in the model, and {config.path} has it apart: name its module in modules_to_save"
        )
    if count is not None:
        raise ModuleTreeError(
            f"{config.path}: is of a model with {count} tokens: read it into a model without adapters, which gets them"
        )


@torch.no_grad()
def _fill(targets: Mapping[str, Tensor], stored: Mapping[str, str], record: Record) -> bool:
    """Copy tensors of a file; gives whether that changes any."""
    is_changed = False
    for name, target in targets.items():
        value = record.tensors[stored[name]].to(target)
        is_changed |= not torch.equal(value, target)
        target.copy_(value)
    return is_changed


def stored_names(record: Record) -> dict[str, str]:
    """The names in a file of peft by those that they have here."""
    names: dict[str, str] = {}
    for stored in record.tensors:
        if ".original_module." in stored:
            continue  # of before a module was trained whole: nothing computes with it
        name = stored.replace(".token_adapter.base_layer.", ".")
        name = re.sub(r"\.base_layer\.(?!(base_layer\.)*lora_)", ".", name).replace(".modules_to_save.", ".")
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
    layers = adaptable(model)
    dims = [layers[path].token_dim if path in layers else 0 for path in tables]
    counts = {shape_in(record.tensors, stored[it])[dim] for it, dim in zip(names, dims, strict=True) if it in stored}
    weights = zip((table.get(f"{path}.weight") for path, table in tables.items()), dims, strict=True)
    rows = {weight.shape[dim] for weight, dim in weights if weight is not None}
    if len(counts) != 1 or counts == rows or not callable(getattr(model, "resize_token_embeddings", None)):
        return None
    (count,) = counts
    names_of: dict[object, list[str]] = {}  # of a tied table both
    for path, parameters in tables.items():
        apart = path if inside_of(path, saved) else None
        for name, parameter in parameters.items():
            names_of.setdefault((apart, id(parameter)), []).append(name)
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
    sizes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if count is None:
        return sizes
    tables, layers = {*tables_of(model), *(table.path for table in tied_tables(model))}, adaptable(model)
    for name, shape in sizes.items():
        path = name.removeprefix(PREFIX).rpartition(".")[0]
        if path in tables:
            is_last = len(shape) > 1 and path in layers and layers[path].token_dim
            sizes[name] = (*shape[:-1], count) if is_last else (count, *shape[1:])
    return sizes


def shapes_of(
    model: nn.Module, layers: Mapping[AdaptedLayer, AdapterOptions], saved: list[str], count: int | None
) -> dict[str, tuple[int, ...]]:
    """The shapes of what peft stores of adapters and of modules that are trained whole, by their names."""
    shapes: dict[str, tuple[int, ...]] = {}
    weights = sizes_of(model, {f"{PREFIX}{it.path}.weight": it.weight for it in layers}, count)
    for layer, options in layers.items():
        path = f"{PREFIX}{layer.path}"
        if layer.kind == "experts":
            count, outputs, inputs = layer.weight.shape
            is_swapped = getattr(layer.module, "is_transposed", False)
            outputs, inputs, place = *((inputs, outputs) if is_swapped else (outputs, inputs)), _place(layer, layers)
            shapes[f"{place}.lora_A.weight"] = (options.rank * count, inputs)
            shapes[f"{place}.lora_B.weight"] = (outputs, options.rank * count)
            continue
        outputs, inputs, *kernel = weights[f"{path}.weight"]
        if layer.kind == "embedding":
            shapes[f"{path}.lora_embedding_A"] = (options.rank, outputs)
            shapes[f"{path}.lora_embedding_B"] = (inputs, options.rank)
        else:
            outputs, inputs = (inputs, outputs) if layer.kind == "conv1d" else (outputs, inputs)
            shapes[f"{path}.lora_A.weight"] = (options.rank, inputs, *kernel)
            shapes[f"{path}.lora_B.weight"] = (outputs, options.rank, *([1] * len(kernel)))
        if options.dora:
            shapes[f"{path}.lora_magnitude_vector"] = (inputs if layer.kind == "embedding" else outputs,)
    for path in saved:
        whole = {f"{PREFIX}{path}.{name}": value for name, value in model.get_submodule(path).state_dict().items()}
        shapes |= sizes_of(model, whole, count)
    return shapes


def check_tensors(
    model: nn.Module, shapes: Mapping[str, tuple[int, ...]], stored: Mapping[str, str], record: Record
) -> None:
    """Compare what a file has with what it should have, before anything is made of the size that its config says."""
    base_tensors: dict[str, Tensor] = {f"{PREFIX}{name}": parameter for name, parameter in model.named_parameters()}
    base_tensors |= {f"{PREFIX}{path}.weight": value.weight for path, value in adapted(model).items()}
    for name, there in stored.items():
        shape, base = shape_in(record.tensors, there), base_tensors.get(name)
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
    tied, paths = tied_tables(model) if stay_tied else [], {layer.path for layer in layers}
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
    tensors: dict[str, Tensor] = {}
    for path, layer in layers.items():
        lora = layer.lora
        assert lora is not None
        if layer.kind == "experts":
            place = _place(layer, layers.values())
            tensors[f"{place}.lora_A.weight"], tensors[f"{place}.lora_B.weight"] = (
                lora.a.flatten(0, 1),
                lora.b.flatten(1),
            )
            continue
        # Of a layer of torch that `apply_lora` gave its adapter, the factors are those of the weight as it is held.
        is_swapped = layer.kind == "linear" and not lora.transposed
        down, up = (lora.b.mT, lora.a.mT) if is_swapped else (lora.a, lora.b)
        first, second = ("lora_embedding_A", "lora_embedding_B") if layer.kind == "embedding" else _LINEAR
        down, up = down.mT, up.mT
        if layer.kind == "convolution":
            inside = layer.weight.shape[1:]
            down, up = down.view(-1, *inside), up.view(*up.shape, *([1] * len(inside[1:])))
        tensors[f"{PREFIX}{path}.{first}"], tensors[f"{PREFIX}{path}.{second}"] = down, up
        if lora.magnitude is not None:
            tensors[f"{PREFIX}{path}.lora_magnitude_vector"] = lora.magnitude
    return tensors


def _place(layer: AdaptedLayer, layers: Iterable[AdaptedLayer]) -> str:
    """The path at which peft has the adapter of weights of experts: one of a module that has several is in the next."""
    names = [it.name for it in layers if it.module is layer.module]
    inner = len(names) - 1 - names.index(layer.name)
    return f"{PREFIX}{layer.path.rpartition('.')[0]}{'.base_layer' * inner}"


def name_of_base(name: str, model: nn.Module) -> str:
    """The name that peft gives a parameter of the base, which may be that of a layer with an adapter."""
    path, _, last = name.rpartition(".")
    if path in with_token_rows(model):
        return f"{PREFIX}{path}.token_adapter.base_layer.{last}"
    return f"{PREFIX}{path}.base_layer.{last}" if path in adapted(model) else f"{PREFIX}{name}"


def tensors_of(model: nn.Module, layers: Mapping[str, AdaptedLayer], saved: list[str]) -> dict[str, Tensor]:
    tensors = _places(layers)
    for path in saved:
        part = model.get_submodule(path)
        tensors |= {f"{PREFIX}{path}.{name}": value for name, value in part.state_dict().items()}
    return tensors | {f"{PREFIX}{path}.{_ROWS}": value.values for path, value in token_rows_of(model).items()}
