"""Builds the model of a directory."""

import logging as std_logging
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ..._lazy import resolve
from ...backend.devices import find_device
from ...errors import BurnlikeError, ConfigError
from ...interop import fuse
from ...interop.fused.fuse import FuseReport
from ...record import open_record
from ...record.materialize import init_from
from ..pretrained_description import DTYPES
from .configs import PretrainedConfig
from .directory import CONFIG_NAME, GENERATION_NAME, is_run, model_classes, read_description, weights_of
from .of_tables import of_tables
from .reading import dtype_of, read_model

_MOST_PARTS = 10_000
_CODE = ("auto_map", "fusion_config", "kernel_config", "transformers_weights")
_CODE += ("attn_implementation", "experts_implementation", "_attn_implementation", "_experts_implementation")
"""Keys of a `config.json` that choose code or files: YAML says these, and nothing else does."""


def pretrained(config: PretrainedConfig, device: torch.device | str | None = None) -> nn.Module:
    """The model of a directory, in training mode; one of transformers says in `burnlike_origin` what was read of it."""
    target = find_device(device)
    directory = os.path.expanduser(config.path)
    if is_run(directory):
        model = resolve("burnlike.train.job.loaded_run:model_of_run")(directory, target)
        return model if config.dtype is None else model.to(DTYPES[config.dtype])
    if config.library == "burnlike":
        return of_tables(config, directory, target)
    with quiet():
        return _fused(_of_transformers(config, directory, target), config)


def filled(
    config: PretrainedConfig, source: Any, device: torch.device | str | None = None, **options: Any
) -> nn.Module:
    """The model of a directory whose weights are those of a record; see `ModuleConfig.init_from`."""
    empty = config.replace(weights="random", fuse=False)
    model = init_from(lambda: pretrained(empty, torch.get_default_device()), source, device, **options)
    model.burnlike_origin = ()
    with quiet():
        return _fused(model, config)


def described(config: PretrainedConfig, values: Mapping[str, Any]) -> Any:
    """The config of transformers that a `config.json` describes, with what the YAML says otherwise."""
    from transformers import CONFIG_MAPPING

    path = os.path.join(config.path, CONFIG_NAME)
    values = {key: it for key, it in values.items() if key not in _CODE}
    for name, count in _counts(values, ""):
        if count > _MOST_PARTS:  # transformers makes each, also where no weights are, for hours
            raise ConfigError(f"{path}: {name}: expected at most {_MOST_PARTS}, got {count}")
    config_class: Any = CONFIG_MAPPING[values["model_type"]]
    with naming(path):
        defaults = config_class().to_dict() if config.options else {}
        model_config = config_class.from_dict(_merged(values, config.options, {**defaults, **values}, ""))
    if config.head == "CausalLM" and getattr(model_config, "is_decoder", None) is False:
        model_config.is_decoder = True  # else a model such as BERT's sees the tokens that it is to predict
    if config.classes is not None:
        model_config.id2label = dict(enumerate(config.classes))
        model_config.label2id = {name: number for number, name in enumerate(config.classes)}
    elif config.n_classes is not None and config.n_classes != model_config.num_labels:
        model_config.num_labels = config.n_classes
    return model_config


def _counts(values: Mapping[str, Any], path: str) -> Iterator[tuple[str, int]]:
    """How many layers and experts a description names, in each of its parts."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _counts(value, f"{path}{key}.")
        elif isinstance(value, int) and any(word in key for word in ("layers", "n_layer", "experts")):
            yield f"{path}{key}", value


def class_of(config: PretrainedConfig, values: Mapping[str, Any]) -> Any:
    """The class of transformers that makes the model: of several, the one that the directory names."""
    import transformers

    names = model_classes(config, values)
    named = [name for name in values.get("architectures") or () if name in names]
    model_class = getattr(transformers, (named or names)[0], None)
    if not (isinstance(model_class, type) and issubclass(model_class, transformers.PreTrainedModel)):
        raise ConfigError(f"{config.path}: this transformers has no class {(named or names)[0]}")
    return model_class


def _of_transformers(config: PretrainedConfig, directory: str, target: torch.device) -> Any:
    values = read_description(directory)
    model_class, description = class_of(config, values), described(config, values)
    options: dict[str, Any] = {} if config.attention is None else {"attn_implementation": config.attention}
    if target.type == "meta" or config.weights == "random":
        dtype = dtype_of(config.dtype, values, None)
        with naming(directory, on_meta=target.type == "meta"), target:
            model = model_class._from_config(description, dtype=dtype, **options)
        model.burnlike_origin = () if target.type == "meta" else (f"weights   drawn, for {directory}/{CONFIG_NAME}",)
    else:
        record = open_record(weights_of(directory))
        options["dtype"] = dtype_of(config.dtype, values, record)
        with naming(directory):
            model = read_model(model_class, description, record, values, strict=config.strict, **options)
        if others := _other_classes(config, values):
            model.burnlike_origin += (f"classes   {', '.join(config.classes or ())}; in {directory} {others}",)
        model = model.to(target)
    generation = os.path.join(directory, GENERATION_NAME)
    if os.path.isfile(generation) and model.can_generate():
        with naming(generation):
            model.generation_config = type(model.generation_config).from_pretrained(directory, local_files_only=True)
    keep_cache(model, False)
    return model.train()


def _other_classes(config: PretrainedConfig, values: Mapping[str, Any]) -> str:
    """The names of as many classes as the data has, in the directory, if they are others: the head that is read with
    them gives each number another meaning.
    """
    named = values.get("id2label")
    names = [*map(str, named.values())] if isinstance(named, Mapping) else []
    has_names = any(not it.startswith("LABEL_") for it in names)
    is_other = config.classes is not None and len(names) == len(config.classes) and names != [*config.classes]
    return ", ".join(names) if has_names and is_other else ""


def keep_cache(model: Any, wanted: bool) -> None:
    """Say whether a model keeps the keys and values of earlier positions where a call does not say it.

    A training has no use for them, and blocks that are computed again in the backward pass would add to them twice.
    Generation asks for them by itself.
    """
    for part in (model.config, model.config.get_text_config()):
        if getattr(part, "use_cache", None) is not None:
            part.use_cache = wanted


def _fused(model: Any, config: PretrainedConfig) -> Any:
    if config.fuse:
        model.burnlike_origin = (*getattr(model, "burnlike_origin", ()), f"fused     {_line(fuse(model))}")
    return model


def _line(report: FuseReport) -> str:
    ops = Counter(op for it in report.fused for op in it.ops)
    named = ", ".join(f"{op} {count}" for op, count in ops.most_common())
    return f"{len(report.fused)} of {len(report.fused) + len(report.kept)} modules" + (f": {named}" if named else "")


def _merged(values: Mapping[str, Any], options: Mapping[str, Any], defaults: Mapping[str, Any], path: str) -> Any:
    """The values with the options in their places; a ConfigError for one that the model does not have."""
    from ...errors import nearest

    merged = dict(values)
    for key, value in options.items():
        if key not in defaults or key in _CODE:
            raise ConfigError(f"options.{path}{key}: the model has no such option{nearest(key, sorted(defaults))}")
        below = defaults[key]
        is_part = isinstance(value, Mapping) and isinstance(below, Mapping) and below
        merged[key] = _merged(merged.get(key) or below, value, below, f"{path}{key}.") if is_part else value
    return merged


@contextmanager
def naming(path: str, *, on_meta: bool = False) -> Iterator[None]:
    """Make errors of transformers a ConfigError that names a path; on the meta device torch's stay as they are."""
    try:
        yield
    except BurnlikeError:
        raise
    except Exception as error:  # of a foreign library, anything
        if on_meta and isinstance(error, RuntimeError | NotImplementedError):
            raise
        text = " ".join(str(error).split())
        raise ConfigError(f"{path}: transformers can't build the model: {type(error).__name__}: {text}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from printing bars and tables, which a run says in a line, and from drawing Python's random
    numbers.
    """
    import importlib

    try:
        logging = importlib.import_module("transformers.utils.logging")
    except ImportError as error:
        from .catalog import MISSING

        raise ConfigError(MISSING) from error
    level, bars, state = logging.get_verbosity(), logging.is_progress_bar_enabled(), random.getstate()
    disabled = std_logging.root.manager.disable
    std_logging.disable(std_logging.WARNING)  # of what transformers imports, such as torchao
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        std_logging.disable(disabled)
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
        random.setstate(state)
