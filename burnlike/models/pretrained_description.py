"""The `config.json` beside weights: who wrote it, and the model that it describes."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ..config import ModuleConfig
from ..errors import ConfigError, RecordError, nearest
from .by_path.directory import CONFIG_NAME, read_description
from .weights.options import KEYS, Options, is_backbone, refuse_others, shown
from .weights.table import WeightTable, weight_tables

DTYPES = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")}
"""Types of a model, by their names in a `config.json`."""


@dataclass(frozen=True, slots=True)
class Description:
    """The description in the `config.json` at `path`; `dtype` is None where it names none, a backbone has no head."""

    path: str
    table: WeightTable
    config: ModuleConfig
    dtype: torch.dtype | None
    is_backbone: bool


def describe(directory: str | os.PathLike[str], architecture: str | None = None) -> Description:
    """Read the `config.json` of a directory; see `burnlike.models.pretrained_config`."""
    return described(read_description(directory), os.path.join(directory, CONFIG_NAME), architecture)


def described(values: Mapping[str, Any], path: str, architecture: str | None = None) -> Description:
    """As `describe`, of the content of a file."""
    table = _table_of(values, path)
    with _naming(path, table):
        chosen = [_architecture(table, values.get("architectures"), architecture)]
        values = {**values, "architectures": chosen}
        return Description(path, table, _config(table, values), _dtype(values), is_backbone(values))


def _config(table: WeightTable, values: Mapping[str, Any]) -> ModuleConfig:
    if values.get("quantization_config") is not None:
        raise ConfigError(
            "quantization_config: the weights are quantized, and no model here computes with such; take those that they"
            " were made of"
        )
    options = Options(values)
    kind = table.name
    refuse_others(options, kind, quantization_config=None, add_cross_attention=False, cross_attention_hidden_size=None)
    refuse_others(options, kind, pruned_heads={}, tie_encoder_decoder=False, is_decoder=False)
    config = table.config(options)
    if "is_encoder_decoder" in options.unread(()):  # only the tables of such models read it
        refuse_others(options, kind, is_encoder_decoder=False)
    if unknown := options.unread(KEYS.union(table.harmless)):
        raise ConfigError(
            f"{', '.join(map(shown, unknown[:10]))}: the table of {table.name} does not know what such a key changes;"
            " if it changes no output, remove it from the file"
        )
    return config


def _architecture(table: WeightTable, names: Any, wanted: str | None) -> str:
    names = [] if names is None else names
    if not isinstance(names, list) or not all(isinstance(it, str) for it in names):
        raise ConfigError(f"architectures: expected a list of names, got {shown(names)}")
    for name in names if wanted is None else [wanted]:
        if name not in table.architectures:
            raise ConfigError(
                f"architectures: expected one of {', '.join(table.architectures)}, got {shown(name)}; to load what it"
                " shares with one of these, pass architecture=... to load_pretrained"
            )
    return wanted or (names or table.architectures)[0]


def _dtype(values: Mapping[str, Any]) -> torch.dtype | None:
    name = values.get("dtype")
    name = values.get("torch_dtype") if name is None else name
    if name is not None and (not isinstance(name, str) or name not in DTYPES):
        raise ConfigError(f"dtype: expected one of {', '.join(DTYPES)}, got {shown(name)}")
    return None if name is None else DTYPES[name]


def _table_of(values: Mapping[str, Any], path: str) -> WeightTable:
    table_of = {model_type: table for table in weight_tables().values() for model_type in table.model_types}
    kind = values.get("model_type")
    there = f"there are tables for {', '.join(sorted(table_of))}"
    if not isinstance(kind, str):
        raise RecordError(f"{path}: expected a `model_type`, which tells whose weights these are; {there}")
    if kind not in table_of:
        hint = nearest(kind[:80], [*table_of])
        raise RecordError(f"{path}: there is no table for the model_type {shown(kind)}{hint}; {there}")
    return table_of[kind]


@contextmanager
def _naming(path: str, table: WeightTable) -> Iterator[None]:
    """Name the file in errors, and turn errors of values that the table does not expect into a ConfigError."""
    try:
        yield
    except KeyError as error:
        raise ConfigError(f"{path}: the key {error} is missing, which a {table.name} has") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ConfigError(f"{path}: a value is none that a {table.name} can have: {error}") from error
