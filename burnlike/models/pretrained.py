"""Models with weights of other libraries: a directory with `config.json` and weights, as Hugging Face lays it out."""

import json
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..config import ModuleConfig
from ..errors import ConfigError, ConfigIOError, RecordError, nearest
from ..record import Record, init_from, open_record
from ..record.files.sharded import INDEX_SUFFIX
from ..record.recorder import recorder_for
from .conversion import record_from, record_to
from .vit_configs import VisionTransformerConfig
from .vit_positions import differ_in_size, resized
from .weights.table import WeightTable
from .weights.tables import weight_table, weight_tables

_CONFIG_NAME, _WEIGHTS_NAME, _OLD_WEIGHTS_NAME = "config.json", "model.safetensors", "pytorch_model.bin"


def pretrained_config(directory: str | os.PathLike[str]) -> ModuleConfig:
    """The config of the model in a directory, from its `config.json`.

    Raises:
        ConfigIOError: there is no `config.json`, or it can't be read.
        RecordError: there is no table for its `model_type`.
        ConfigError: the model has options that ours does not have.
    """
    return _config_of(directory, *_described(directory))


def pretrained_table(directory: str | os.PathLike[str]) -> WeightTable:
    """The table of the weights in a directory, by the `model_type` of its `config.json`.

    Raises:
        ConfigIOError: there is no `config.json`, or it can't be read.
        RecordError: there is no table for its `model_type`.
    """
    return _described(directory)[0]


def load_pretrained(
    directory: str | os.PathLike[str],
    device: torch.device | str | None = None,
    *,
    dtype: torch.dtype | None = None,
    config: ModuleConfig | None = None,
) -> nn.Module:
    """The model in a directory, with its weights.

    Args:
        directory: with `config.json`, and `model.safetensors` or its shards and their index; or `pytorch_model.bin`, of
            which no code is run.
        device: of the model.
        dtype: of the model's parameters; None for the one that the weights have.
        config: of the model; None for `pretrained_config(directory)`. One with other options, such as a longer
            `max_sequence_length` of rotary positions, gets the same weights. The positions of a VisionTransformer with
            another `image_size` are interpolated.

    Raises:
        ConfigIOError, RecordIOError: a file can't be read.
        RecordError: there is no table for its `model_type`.
        ConfigError: the model has options that ours does not have.
        RecordMismatchError: the weights are not of this model.
    """
    table, values = _described(directory)
    trained = _config_of(directory, table, values)
    chosen = config or trained
    record = _record_for(chosen, trained, table, open_record(_weights_of(directory)))
    loaded = dtype or next(it.dtype for it in record.tensors.values() if it.is_floating_point())
    # No initializer runs on the meta device, and tables that are computed later stay float32.
    return init_from(lambda: chosen.init("meta").to(loaded), record, device)


def save_pretrained(module: nn.Module, directory: str | os.PathLike[str], table: str) -> str:
    """Write the weights of a model under the names that another library has for them.

    No `config.json` is written: put the one beside them that the weights came with, or one of the other library's.

    Args:
        module: one of our models.
        directory: made if it is not there; gets `model.safetensors`, which is replaced as a whole or not at all.
        table: the name of the library's layout, such as `llama`.

    Returns:
        The path of the file.

    Raises:
        RecordError: there is no such table.
        RecordMismatchError: the other library has no place for a tensor.
        RecordIOError: the file can't be written.
    """
    record = record_to(weight_table(table), module)
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, _WEIGHTS_NAME)
    return recorder_for(path, None).save(record, path)


def _record_for(config: ModuleConfig, trained: ModuleConfig, table: WeightTable, weights: Record) -> Record:
    """The record for the model of `config`, of the weights of a model of the config `trained`."""
    match config, trained:
        case VisionTransformerConfig(), VisionTransformerConfig() if differ_in_size(config, trained):
            source = config.replace(image_size=trained.image_size)
            return resized(_record_for(source, trained, table, weights), source, config)
        case _:
            with torch.device("meta"):
                shapes = config.init("meta")
            return record_from(table, shapes, weights)


def _weights_of(directory: str | os.PathLike[str]) -> str:
    old, single = (os.path.join(directory, name) for name in (_OLD_WEIGHTS_NAME, _WEIGHTS_NAME))
    there = os.path.exists(single) or os.path.exists(single + INDEX_SUFFIX)
    return old if os.path.exists(old) and not there else os.fspath(directory)


def _config_of(directory: str | os.PathLike[str], table: WeightTable, values: Mapping[str, Any]) -> ModuleConfig:
    path = os.path.join(directory, _CONFIG_NAME)
    try:
        return table.config(values)
    except KeyError as error:
        raise ConfigError(f"{path}: the key {error} is missing, which a {table.name} has") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _described(directory: str | os.PathLike[str]) -> tuple[WeightTable, Mapping[str, Any]]:
    values = _read(os.path.join(directory, _CONFIG_NAME))
    known = {model_type: table for table in weight_tables().values() for model_type in table.model_types}
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in known:
        there = f"there are tables for {', '.join(sorted(known))}"
        path = os.path.join(directory, _CONFIG_NAME)
        if not isinstance(kind, str):
            raise RecordError(f"{path}: expected a `model_type`, which tells whose weights these are; {there}")
        raise RecordError(f"{path}: there is no table for the model_type '{kind}'{nearest(kind, [*known])}; {there}")
    return known[kind], values


def _read(path: str) -> Mapping[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigIOError(f"{path}: expected the config.json of a model, which can't be read: {reason}") from error
    if not isinstance(found, dict):
        raise ConfigIOError(f"{path}: expected a mapping, got {type(found).__name__}")
    return found
