"""Adapters as peft's files: `adapter_config.json` and `adapter_model.safetensors`."""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._atomic import replace_file
from ...errors import ModuleTreeError, RecordIOError, RecordMismatchError, nearest
from ...record import Record, SafetensorsRecorder, open_record
from ...record.files.stored_tensors import dtype_in, shape_in
from .adding import AdapterOptions, add_adapters
from .layers import AdaptedLayer, adapted, inside_of, trained_modules
from .peft_config import CONFIG_NAME, WEIGHTS_NAME, PeftConfig, read_config, written_config
from .tables import (
    FILLED,
    filled_tables,
    parameters_of,
    resize_tables,
    shared_with_the_rest,
    tables_of,
    tied_tables,
)

_PREFIX = "base_model.model."


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
    if len({it.lora.magnitude is None for it in layers.values() if it.lora is not None}) > 1:
        raise ModuleTreeError("some adapters are of DoRA and some are not, for which peft's files have no place")
    saved = [*trained_modules(model)]
    named = os.fspath(base or getattr(getattr(model, "config", None), "name_or_path", None) or "") or None
    if named is not None and os.path.isdir(os.path.expanduser(named)):
        named = os.path.abspath(os.path.expanduser(named))  # so that it is found from other folders too
    config = written_config(model, layers, saved, named, task_type)
    filled = {_of_base(name, layers): it for name, it in filled_tables(model).items()}
    tensors = {name: it.detach().contiguous() for name, it in (filled | _tensors(model, layers, saved)).items()}
    seen: set[int] = set()
    for name, tensor in tensors.items():  # peft looks for all names of what is tied
        tensors[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    try:
        os.makedirs(directory, exist_ok=True)
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
    there, stored = adapted(model), _stored(record)
    count = _count_of_tokens(model, saved, stored, record)
    if there:
        _check_same(there, wanted, config)
        _check_apart(model, saved, config, count, stay_tied=stay_tied)
    tables = [it for it in tables_of(model) if not inside_of(it, saved)]
    frozen = {f"{_PREFIX}{name}": it for path in tables for name, it in parameters_of(model, path).items()}
    frozen = {name: it for name, it in frozen.items() if name in stored}
    shapes = _shapes(model, wanted, saved, count)
    _check_names(
        model, shapes | {name: _resized(model, name, it, count) for name, it in frozen.items()}, stored, record
    )
    for one, other in _alike(model, wanted, frozen, stay_tied=stay_tied):
        _check_equal(one, other, stored, record)
    if count is not None:
        resize_tables(model, count)
        wanted, saved, stay_tied = config.places(model)  # the tables may be other layers now
    if not there:
        add_adapters(model, wanted, saved, stay_tied=stay_tied)
        there = adapted(model)
    targets = _tensors(model, there, saved)
    _fill({name: it for name, it in targets.items() if name in shapes}, stored, record)
    now = {f"{_PREFIX}{name}": it for path in tables for name, it in parameters_of(model, path).items()}
    if _fill({name: now[name] for name in frozen}, stored, record):
        vars(model)[FILLED] = tuple(tables)
    return config


def resize_for_adapter(model: nn.Module, directory: Path) -> None:
    """Give a model without adapters tables of as many tokens as peft's files have; the values come with these."""
    record = _record(directory)
    count = _count_of_tokens(model, read_config(directory).saved_modules(model), _stored(record), record)
    if count is not None:
        resize_tables(model, count)


def has_whole_tensors(directory: Path) -> bool:
    """True if peft's files have more than adapters: tables of tokens, or modules that were trained whole."""
    return any(".lora_" not in name for name in _record(directory).tensors)


def _record(directory: Path) -> Record:
    if not (directory / WEIGHTS_NAME).exists() and (directory / "adapter_model.bin").exists():
        raise RecordIOError(f"{directory}: adapter_model.bin is a pickle, which is not read: let peft save safetensors")
    return open_record(directory / WEIGHTS_NAME)


def _stored(record: Record) -> dict[str, str]:
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


def _count_of_tokens(model: Any, saved: Collection[str], stored: Mapping[str, str], record: Record) -> int | None:
    """The number of tokens of a file's tables; None if it has none, or they have that of the model.

    Raises:
        RecordMismatchError: the file has more tokens than the model, and not all tables of that size.
    """
    tables = {path: parameters_of(model, path) for path in tables_of(model)}
    names = [f"{_PREFIX}{path}.weight" for path in tables]
    counts = {shape_in(record.tensors, stored[name])[0] for name in names if name in stored}
    rows = {it[f"{path}.weight"].shape[0] for path, it in tables.items() if f"{path}.weight" in it}
    if len(counts) != 1 or counts == rows or not callable(getattr(model, "resize_token_embeddings", None)):
        return None
    (count,) = counts
    lacking: dict[object, str] = {}
    for path, parameters in tables.items():
        apart = path if inside_of(path, saved) else None
        lacking |= {(apart, id(it)): name for name, it in parameters.items()}
    for path, parameters in tables.items():
        apart = path if inside_of(path, saved) else None
        for name, it in parameters.items():
            if f"{_PREFIX}{name}" in stored:
                lacking.pop((apart, id(it)), None)
    if lacking:
        raise RecordMismatchError(
            f"{record.source}: has a table of {count} tokens, the model has {min(rows)}, and the file has no"
            f" '{min(lacking.values())}', which would need {count} too: read it into the model that it was made for,"
            f" which model.resize_token_embeddings({count}) was called of"
        )
    return count


def _resized(model: nn.Module, name: str, tensor: Tensor, count: int | None) -> tuple[int, ...]:
    """The shape of a parameter as it is once the model's tables have another number of tokens."""
    tables = {*tables_of(model), *(it.path for it in tied_tables(model))}
    is_table = name.removeprefix(_PREFIX).rpartition(".")[0] in tables
    return (count, *tensor.shape[1:]) if count is not None and is_table else tuple(tensor.shape)


def _shapes(
    model: nn.Module, layers: Mapping[AdaptedLayer, AdapterOptions], saved: list[str], count: int | None
) -> dict[str, tuple[int, ...]]:
    """The shapes of what peft stores of adapters and of modules that are trained whole, by their names."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, options in layers.items():
        path = f"{_PREFIX}{layer.path}"
        outputs, inputs = _resized(model, f"{path}.weight", layer.weight, count)
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
        for name, it in model.get_submodule(path).state_dict().items():
            shapes[f"{_PREFIX}{path}.{name}"] = _resized(model, f"{_PREFIX}{path}.{name}", it, count)
    return shapes


def _check_names(
    model: nn.Module, shapes: Mapping[str, tuple[int, ...]], stored: Mapping[str, str], record: Record
) -> None:
    """Compare what a file has with what it should have, before anything is made of the size that its config says."""
    own: dict[str, Tensor] = {f"{_PREFIX}{name}": it for name, it in model.named_parameters()}
    own |= {f"{_PREFIX}{path}.weight": it.weight for path, it in adapted(model).items()}
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
        if not dtype_in(record.tensors, there).is_floating_point:
            raise RecordMismatchError(
                f"{record.source}: expected '{there}' of real numbers, got {dtype_in(record.tensors, there)}"
            )
    if missing := [name for name in shapes if name not in stored]:
        raise RecordMismatchError(f"{record.source}: '{missing[0]}' is missing{nearest(missing[0], [*stored])}")


def _alike(
    model: nn.Module, layers: Mapping[AdaptedLayer, Any], frozen: Mapping[str, Tensor], *, stay_tied: bool
) -> Iterator[tuple[str, str]]:
    """The pairs of names that mean one tensor, or one and its transpose."""
    first: dict[int, str] = {}
    for name, tensor in frozen.items():
        if (one := first.setdefault(id(tensor), name)) != name:
            yield one, name
    inputs, *others = tied_tables(model) if stay_tied else [None]
    paths = {it.path for it in layers}
    for other in others:
        one, two = f"{_PREFIX}{inputs.path}", f"{_PREFIX}{other.path}"  # pyright: ignore[reportOptionalMemberAccess]
        if other.path not in paths:
            yield f"{one}.weight", f"{two}.weight"
            continue
        down, up = ("lora_embedding_A", "lora_embedding_B") if other.kind == "embedding" else reversed(_LINEAR)
        yield from ((f"{one}.lora_embedding_A", f"{two}.{down}"), (f"{one}.lora_embedding_B", f"{two}.{up}"))


def _check_equal(one: str, other: str, stored: Mapping[str, str], record: Record) -> None:
    first, second = (record.tensors[stored[it]] for it in (one, other))
    if not any(torch.equal(first, it) for it in ((second, second.mT) if second.dim() == 2 else (second,))):
        raise RecordMismatchError(
            f"{record.source}: expected '{stored[one]}' and '{stored[other]}' to be alike, which are one in the model"
        )


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


def _places(layers: Mapping[str, AdaptedLayer]) -> dict[str, Tensor]:
    """What peft stores of adapters, by its names: views of `a`, `b` and the magnitude."""
    found: dict[str, Tensor] = {}
    for path, layer in layers.items():
        lora = layer.lora
        assert lora is not None
        # Of a layer of torch that `apply_lora` gave its adapter, the factors are those of the weight as it is held.
        is_swapped = layer.kind == "linear" and not lora.transposed
        down, up = (lora.b.mT, lora.a.mT) if is_swapped else (lora.a, lora.b)
        first, second = ("lora_embedding_A", "lora_embedding_B") if layer.kind == "embedding" else _LINEAR
        found[f"{_PREFIX}{path}.{first}"], found[f"{_PREFIX}{path}.{second}"] = down.mT, up.mT
        if lora.magnitude is not None:
            found[f"{_PREFIX}{path}.lora_magnitude_vector"] = lora.magnitude
    return found


def _of_base(name: str, layers: Mapping[str, AdaptedLayer]) -> str:
    """The name that peft gives a parameter of the base, which may be that of a layer with an adapter."""
    path, _, last = name.rpartition(".")
    return f"{_PREFIX}{path}.base_layer.{last}" if path in layers else f"{_PREFIX}{name}"


_LINEAR = ("lora_A.weight", "lora_B.weight")


def _tensors(model: nn.Module, layers: Mapping[str, AdaptedLayer], saved: list[str]) -> dict[str, Tensor]:
    found = _places(layers)
    for path in saved:
        part = model.get_submodule(path)
        found |= {f"{_PREFIX}{path}.{name}": it for name, it in part.state_dict().items()}
    return found


@torch.no_grad()
def _fill(targets: Mapping[str, Tensor], stored: Mapping[str, str], record: Record) -> bool:
    """Copy tensors of a file; gives whether that changes any."""
    is_changed = False
    for name, target in targets.items():
        value = record.tensors[stored[name]].to(target)
        is_changed |= not torch.equal(value, target)
        target.copy_(value)
    return is_changed
