"""Adapters as peft's files: `adapter_config.json` and `adapter_model.safetensors`."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._atomic import make_directories, replace_file
from ...errors import ModuleTreeError, RecordIOError
from ...record import Record, SafetensorsRecorder, open_record
from .adding import add_adapters
from .layers import AdaptedLayer, adapted, inside_of, trained_modules
from .peft_config import CONFIG_NAME, WEIGHTS_NAME, PeftConfig, read_config, written_config
from .peft_tensors import (
    PREFIX,
    check_base,
    check_equal,
    check_tensors,
    count_of_tokens,
    equal_names,
    name_of_base,
    shapes_of,
    sizes_of,
    stored_names,
    tensors_of,
)
from .tables import FILLED, filled_tables, parameters_of, resize_tables, shared_with_the_rest, tables_of


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
    filled = {name_of_base(name, layers): it for name, it in filled_tables(model).items()}
    tensors = {name: it.detach().contiguous() for name, it in (filled | tensors_of(model, layers, saved)).items()}
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
    there, stored = adapted(model), stored_names(record)
    count = count_of_tokens(model, saved, stored, record)
    if there:
        _check_same(there, wanted, config)
        _check_apart(model, saved, config, count, stay_tied=stay_tied)
    tables = [it for it in tables_of(model) if not inside_of(it, saved)]
    frozen = {f"{PREFIX}{name}": it for path in tables for name, it in parameters_of(model, path).items()}
    frozen = {name: it for name, it in frozen.items() if name in stored}
    shapes = shapes_of(model, wanted, saved, count)
    check_tensors(model, shapes | sizes_of(model, frozen, count), stored, record)
    for name in (it for it in frozen if it.endswith(".weight")):
        check_base(name, frozen[name], stored, record)
    for one, other in equal_names(model, wanted, frozen, stay_tied=stay_tied):
        check_equal(one, other, stored, record)
    if count is not None:
        resize_tables(model, count)
        wanted, saved, stay_tied = config.places(model)  # the tables may be other layers now
    if not there:
        add_adapters(model, wanted, saved, stay_tied=stay_tied)
        there = adapted(model)
    targets = tensors_of(model, there, saved)
    _fill({name: it for name, it in targets.items() if name in shapes}, stored, record)
    now = {f"{PREFIX}{name}": it for path in tables for name, it in parameters_of(model, path).items()}
    if _fill({name: now[name] for name in frozen}, stored, record):
        vars(model)[FILLED] = tuple(tables)
    return config


def resize_for_adapter(model: nn.Module, directory: Path) -> None:
    """Give a model without adapters tables of as many tokens as peft's files have; the values come with these."""
    record = _record(directory)
    count = count_of_tokens(model, read_config(directory).saved_modules(model), stored_names(record), record)
    if count is not None:
        resize_tables(model, count)


def has_whole_tensors(directory: Path) -> bool:
    """True if peft's files have more than adapters: tables of tokens, or modules that were trained whole."""
    return any(".lora_" not in name for name in _record(directory).tensors)


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
