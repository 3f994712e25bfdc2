"""Models with weights of other libraries: a directory with `config.json` and weights, as Hugging Face lays it out.

`describe` says who wrote a `config.json`, and the model that it describes.
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from .._atomic import make_directories, replace_file
from ..config import ModuleConfig
from ..errors import BurnlikeError, ConfigError, DTypeError, RecordError, nearest
from ..nn.padding import each
from ..record import Record, init_from, open_record
from ..record.files.reading import SINGLE_NAME
from ..record.files.stored_tensors import dtype_in, shape_in
from ..record.recorder import recorder_for
from .by_path.directory import CONFIG_NAME, read_description, weights_of
from .conversion import converted, record_to
from .decoder_lm.configs import DecoderLmConfig, RotaryPositions
from .encoders.configs import VisionTransformerConfig
from .weights.describing import description_of
from .weights.options import KEYS, Options, is_backbone, refuse_others, shown
from .weights.table import WeightTable, weight_table, weight_tables

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


_TENSORS_OF_ONE = 4
"""More of ours than are made of one of theirs; GPT-2's query, key and value are one."""
_MOST_TABLES = 2**28
"""Bytes of computed tables that any model may have."""


def pretrained_config(directory: str | os.PathLike[str], architecture: str | None = None) -> ModuleConfig:
    """The config of the model in a directory, from its `config.json`.

    Args:
        architecture: the class of transformers whose model is meant, such as `BertModel` for the encoder of any BERT;
            None for the one that `config.json` names.

    Raises:
        ConfigIOError: there is no `config.json`, or it can't be read.
        RecordError: there is no table for its `model_type`.
        ConfigError: the model has options that ours does not have, a key that nothing here knows, or an architecture
            without a table.
    """
    return describe(directory, architecture).config


def pretrained_table(directory: str | os.PathLike[str]) -> WeightTable:
    """The table of the weights in a directory, by the `model_type` of its `config.json`; as `pretrained_config`."""
    return describe(directory).table


def load_pretrained(
    directory: str | os.PathLike[str],
    device: torch.device | str | None = None,
    *,
    dtype: torch.dtype | None = None,
    config: ModuleConfig | None = None,
    architecture: str | None = None,
) -> nn.Module:
    """The model in a directory, with its weights, in evaluation mode.

    Args:
        directory: with `config.json`, and `model.safetensors` or `pytorch_model.bin`, of which no code is run; or
            shards of one of them and their index.
        device: of the model.
        dtype: of the model's parameters. None for the one that `config.json` names; where weights are of several types,
            those of another than most keep theirs, if that one would round them. Where it names none, all keep theirs.
        config: of the model; None for `pretrained_config(directory)`. One with other options, such as a longer
            `max_sequence_length` of rotary positions, gets the same weights. The positions of a VisionTransformer with
            another `image_size` are interpolated.
        architecture: as of `pretrained_config`.

    Raises:
        ConfigIOError, RecordIOError: a file can't be read.
        RecordError, ConfigError: as of `pretrained_config`; or it asks for more memory than its weights explain.
        RecordMismatchError: the weights are not of this model.
        DTypeError: no model has this dtype.
    """
    if dtype not in (None, *DTYPES.values()):
        raise DTypeError(f"dtype: expected one of {', '.join(map(str, DTYPES.values()))}, got {dtype!r}")
    description = describe(directory, architecture)
    chosen = config or description.config
    record = _record_for(chosen, description, open_record(weights_of(directory)))
    record = replace(record, tensors=_typed(record.tensors, dtype, description.dtype))
    # No initializer runs on the meta device, and tables that are computed later stay float32.
    with _built_for(description.path):
        return init_from(lambda: chosen.init("meta"), record, device, dtype="as_saved").eval()


def save_pretrained(
    module: nn.Module,
    directory: str | os.PathLike[str],
    table: str | None = None,
    *,
    config: ModuleConfig | None = None,
    classes: Sequence[str] | None = None,
) -> str:
    """Write a model of ours as another library has it; gives the path of the weights.

    The directory gets `model.safetensors`, and without a `table` the `config.json` with which transformers reads it.
    Each is replaced as a whole or not at all. Rotary positions whose pairs are neighbours become pairs of halves, as
    transformers has them, with the queries and keys in that order.

    Args:
        table: whose names the weights get, such as `llama`; no `config.json` is written then.
        config: of the model; None for its attribute `config`.
        classes: the names of the classes, by number.

    Raises:
        RecordError, RecordIOError: there is no such table, or a file can't be written.
        RecordMismatchError: the other library has no place for a tensor.
        ConfigError: transformers has no such model.
    """
    path = os.path.join(directory, SINGLE_NAME)
    if table is not None:
        record = record_to(weight_table(table), module)
        make_directories(directory)
        return recorder_for(path, None).save(record, path)
    config = config or getattr(module, "config", None)
    if not isinstance(config, ModuleConfig):
        raise ConfigError(f"save_pretrained: {type(module).__name__} does not keep its config; pass config=...")
    record = Record.of(module)
    match config:
        case DecoderLmConfig(positions=RotaryPositions(interleaved=True, rotary_dim=None)):
            record = _paired_by_halves(record, config)
            config = config.replace(positions=config.positions.replace(interleaved=False))
        case _:
            pass
    values = description_of(config, lambda it: described(it, CONFIG_NAME).config)
    description = described(values, CONFIG_NAME)
    if classes is not None and "id2label" in values:
        values |= {"id2label": dict(enumerate(classes)), "label2id": {name: at for at, name in enumerate(classes)}}
    dtypes = {parameter.dtype for parameter in module.parameters()}
    values["dtype"] = next((name for name, dtype in DTYPES.items() if {dtype} == dtypes), "float32")
    theirs = record_to(description.table, module, record)
    make_directories(directory)
    saved = recorder_for(path, None).save(theirs, path)
    replace_file(os.path.join(directory, CONFIG_NAME), json.dumps(values, indent=2).encode() + b"\n")
    return saved


def _paired_by_halves(record: Record, config: DecoderLmConfig) -> Record:
    """The record of a decoder with the values of each head's queries and keys in another order: even ones first."""
    size = config.head_size
    order = torch.cat((torch.arange(0, size, 2), torch.arange(1, size, 2)))

    def ordered(tensor: Tensor) -> Tensor:
        return tensor.unflatten(-1, (-1, size)).index_select(-1, order.to(tensor.device)).flatten(-2)

    parts = ("query", "key", "norm_query", "norm_key")
    tensors = {
        name: ordered(it) if name.split(".")[-3:-2] == ["attention"] and name.split(".")[-2] in parts else it
        for name, it in record.tensors.items()
    }
    return replace(record, tensors=tensors)


def _record_for(config: ModuleConfig, description: Description, weights: Record) -> Record:
    """The record for the model of `config`, of the weights of a model that `description` describes."""
    match config, description.config:
        case (
            VisionTransformerConfig(patch_size=size),
            VisionTransformerConfig(patch_size=trained_size) as trained,
        ) if config.grid != trained.grid and each(size, 2) == each(trained_size, 2):
            from .encoders.model import resized_positions  # no other model needs its layers

            record = _record_for(config.replace(image_size=trained.image_size), description, weights)
            positions = resized_positions(record.tensors["positions"], trained.grid, config.grid)
            return replace(record, tensors={**record.tensors, "positions": positions})
        case _:
            table, unused = description.table, set[str]()
            if description.is_backbone:  # the names without its prefix are of no backbone, if the file has the prefix
                names = [*weights.tensors, *weights.aliases]
                prefix = table.backbone or table.prefixes[-1]
                others = [name for name in names if not (prefix and name.startswith(prefix))]
                unused = {*map(table.current_name, others)} if len(others) < len(names) else table.head
            return converted(table, _on_meta(config, weights, description.path), weights, unused)


def _typed(
    tensors: Mapping[str, Tensor], dtype: torch.dtype | None, described: torch.dtype | None
) -> Mapping[str, Tensor]:
    """The tensors in the type that is asked for, or else that `config.json` names."""
    floating = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    sizes = Counter[torch.dtype]()
    for tensor in floating.values():
        sizes[tensor.dtype] += tensor.numel()

    def type_of(stored: torch.dtype) -> torch.dtype:
        if dtype is not None or described is None:
            return dtype or stored
        return described if stored == max(sizes, key=sizes.__getitem__) else torch.promote_types(stored, described)

    return {**tensors, **{name: tensor.to(type_of(tensor.dtype)) for name, tensor in floating.items()}}


def _on_meta(config: ModuleConfig, weights: Record, path: str) -> nn.Module:
    """The model on the meta device; a ConfigError if it needs more tensors or tables than the weights explain."""
    with _built_for(path), torch.device("meta"), _at_most(_TENSORS_OF_ONE * (len(weights.tensors) + 1), path):
        model = config.init("meta")
    tensors = weights.tensors
    stored = sum(prod(shape_in(tensors, name)) * dtype_in(tensors, name).itemsize for name in tensors)
    saved = model.state_dict().keys()
    tables = sum(buffer.numel() * buffer.itemsize for name, buffer in model.named_buffers() if name not in saved)
    if tables > max(_MOST_TABLES, stored):
        raise ConfigError(
            f"{path}: asks for tables of positions of {tables / 1e9:.1f} GB beside weights of {stored / 1e9:.1f} GB"
            " (max_position_embeddings); pass load_pretrained a config of a smaller max_sequence_length"
        )
    return model


@contextmanager
def _built_for(path: str) -> Iterator[None]:
    """Make errors of torch and Python, while a model is built or computed, a ConfigError of the file at `path`."""
    try:
        yield
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, BurnlikeError):
            raise
        raise ConfigError(f"{path}: asks for a model that can't be built: {error}") from error


@contextmanager
def _at_most(most: int, path: str) -> Iterator[None]:
    """Let this thread make no more parameters than `most` within it."""
    thread, left = threading.get_ident(), most

    def count(module: nn.Module, name: str, parameter: Any) -> None:
        nonlocal left
        left -= threading.get_ident() == thread
        if left < 0:
            raise ConfigError(f"{path}: asks for a model of more than {most} tensors, which the weights don't have")

    handle = nn.modules.module.register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
