"""Builds the model of a directory: by transformers' code, of a run, or by burnlike's own tables of weights.

Of transformers' it says what of the weights was read; a head that burnlike's tables lack is a new one.
"""

import importlib
import logging as std_logging
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import prod
from typing import Any

import torch
from torch import nn

from ..._env import in_one_thread
from ..._lazy import resolve
from ...backend.torch_backend import find_device
from ...config import ModuleConfig
from ...errors import BurnlikeError, ConfigError, nearest
from ...interop import fuse
from ...interop.adapters.layers import count_of_rows, resize_tables
from ...module.torch_objects.deferred import current
from ...record import Record, open_record
from ...record.files.stored_tensors import dtype_in, shape_in
from ...record.materialize import init_from
from ..pretrained import DTYPES, load_pretrained, pretrained_config
from ..weights.table import WeightTable, weight_tables
from .catalog import MISSING
from .configs import FROM_TOKENIZER, NewTokens, PretrainedConfig
from .directory import CONFIG_NAME, GENERATION_NAME, is_run, model_classes, read_description, weights_of

_MOST_PARTS = 10_000
_CODE = ("auto_map", "fusion_config", "kernel_config", "transformers_weights")
_CODE += ("attn_implementation", "experts_implementation", "_attn_implementation", "_experts_implementation")
"""Keys of a `config.json` that choose code or files: YAML says these, and nothing else does."""


def pretrained(config: PretrainedConfig, device: torch.device | str | None = None) -> nn.Module:
    """The model of a directory, in training mode; one of transformers says in `burnlike_origin` what was read of it."""
    target = find_device(device)
    directory = os.path.expanduser(config.path)
    if is_run(directory):
        if config.new_tokens:
            raise ConfigError(f"new_tokens: {directory} is a run: merge or export it, or train it on by `type: LoRA`")
        model = resolve("burnlike.train.job.loaded_run:model_of_run")(directory, target)
        return model if config.dtype is None else model.to(DTYPES[config.dtype])
    if config.library == "burnlike":
        model: Any = of_tables(config, directory, target)
        if config.new_tokens:
            before = getattr(model, "burnlike_origin", ())
            model.burnlike_origin = (*before, give_tokens(model, numbers_of(config.new_tokens)))
        return model
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
    values = {key: value for key, value in values.items() if key not in _CODE}
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
    """The numbers of layers and experts that a description names, in each of its parts."""
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
        if target.type == "meta" and config.weights == "read" and config.strict:
            _expect_shapes(model, directory, description)
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
    if config.new_tokens:
        model.burnlike_origin = (*model.burnlike_origin, give_tokens(model, numbers_of(config.new_tokens)))
    return model.train()


def numbers_of(new_tokens: NewTokens) -> list[int]:
    """The numbers of new tokens; a ConfigError for names, which only data with a tokenizer gives numbers."""
    if new_tokens == FROM_TOKENIZER or not all(isinstance(token, int) for token in new_tokens):
        raise ConfigError(
            f"new_tokens: expected a training whose data has a tokenizer, or numbers of tokens, got {new_tokens}"
        )
    return sorted({token for token in new_tokens if isinstance(token, int)})


def give_tokens(model: nn.Module, numbers: Sequence[int]) -> str:
    """Give a model rows for new tokens in its tables; returns a line for the user.

    Raises:
        ConfigError: it is no such model, or some rows between its old ones and the last are of no token.
    """
    before = count_of_rows(model) if callable(getattr(model, "resize_token_embeddings", None)) else None
    if before is None:
        raise ConfigError(
            "new_tokens: expected a model of transformers with a table of tokens, or a DecoderLm, got"
            f" {type(model).__name__}; another one of burnlike is built with as many by vocab_size"
        )
    count = max(before, numbers[-1] + 1)
    if gap := sorted({*range(before, count)} - {*numbers}):
        raise ConfigError(
            f"new_tokens: the model has {before} tokens, and the tokenizer has more: expected also the names of tokens"
            f" {', '.join(map(str, gap[:5]))}, or `new_tokens: {FROM_TOKENIZER}`"
        )
    if count > before:
        resize_tables(model, count)
    return f"tokens    {count - before} more than the {before} of the weights, which begin as the mean of these"


def count_of_tokens(config: PretrainedConfig) -> int | None:
    """The tokens that the `config.json` of a model says it has."""
    directory = os.path.expanduser(config.path)
    if is_run(directory):
        return None
    if config.library == "burnlike":
        return getattr(own_config(config, directory), "vocab_size", None)
    with quiet():
        return getattr(described(config, read_description(directory)).get_text_config(), "vocab_size", None)


def _other_classes(config: PretrainedConfig, values: Mapping[str, Any]) -> str:
    """The names of as many classes as the data has, in the directory, if they are others: the head that is read with
    them gives each number another meaning.
    """
    named = values.get("id2label")
    names = [*map(str, named.values())] if isinstance(named, Mapping) else []
    has_names = any(not name.startswith("LABEL_") for name in names)
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
        report = fuse(model)
        counts = Counter(op for it in report.fused for op in it.ops).most_common()
        line = f"fused     {len(report.fused)} of {len(report.fused) + len(report.kept)} modules"
        line += f": {', '.join(f'{op} {count}' for op, count in counts)}" if counts else ""
        model.burnlike_origin = (*getattr(model, "burnlike_origin", ()), line)
    return model


def _merged(values: Mapping[str, Any], options: Mapping[str, Any], defaults: Mapping[str, Any], path: str) -> Any:
    """The values with the options in their places; a ConfigError for one that the model does not have."""
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
    try:
        logging = importlib.import_module("transformers.utils.logging")
    except ImportError as error:
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


_SHOWN = 5
Part = tuple[bool, str]
"""Whether it is a part of the model below the head, and the name of the module in it."""


def dtype_of(wanted: str | None, values: Mapping[str, Any], record: Record | None) -> torch.dtype:
    """The type of a model's parameters: what is wanted, or what `config.json` says, or that of most weights."""
    dtype_name = values.get("dtype") or values.get("torch_dtype")
    for name in (wanted, dtype_name):
        if isinstance(name, str) and name in DTYPES:
            return DTYPES[name]
    sizes = Counter[torch.dtype]()
    tensors = {} if record is None else record.tensors
    for name in tensors:
        if (dtype := dtype_in(tensors, name)) in DTYPES.values():
            sizes[dtype] += shape_in(tensors, name).numel()
    return max(sizes, key=sizes.__getitem__, default=torch.float32)


def read_model(
    model_class: Any, description: Any, record: Record, values: Mapping[str, Any], *, strict: bool, **options: Any
) -> Any:
    """A model of transformers with the weights of a record; its `burnlike_origin` says what was read and what drawn, of
    which `_burnlike_drawn` has the names.

    Raises:
        ConfigError: the weights are not those of the model; with `strict` also if some are missing below its head, or
            are left there.
    """
    tensors = {name: record.tensors[name] for name in record.tensors}
    tensors |= {alias: tensors[name] for alias, name in record.aliases.items() if name in tensors}
    with in_one_thread() if current.get() is not None else nullcontext():  # what is deferred is of one thread
        # It tells all shapes that differ, in place of an error for the first: what is wrong is decided below.
        options |= {"state_dict": tensors, "ignore_mismatched_sizes": True, "output_loading_info": True}
        model, info = model_class.from_pretrained(None, config=description, **options)
    missing, unexpected = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    mismatched = {name: (list(theirs), list(ours)) for name, theirs, ours in sorted(info["mismatched_keys"])}
    saved = model.state_dict().keys()
    names = [name for part in (model.named_parameters(), model.named_buffers()) for name, _ in part if name in saved]
    read = [name for name in names if name not in {*missing, *mismatched}]
    is_same = (values.get("architectures") or [None])[0] == model_class.__name__
    parts = {_part(model, name) for name in read}
    shapes = {key: f"'{key}' of {it[0]} where the model has {it[1]}" for key, it in mismatched.items()}
    if not any(below for below, _ in parts):
        raise ConfigError(
            f"{record.source}: has nothing of a {model_class.__name__}, but {_listed([*unexpected, *shapes.values()])};"
            " the weights are of another model"
        )
    wrong = [
        *(f"no {it}" for it in missing if is_same or _part(model, it) in parts),
        *(f"'{it}', which the model does not have" for it in unexpected if (True, _part(model, it)[1]) in parts),
        *(shapes[key] for key, it in mismatched.items() if not _is_of_classes(*it, description.num_labels)),
    ]
    if wrong and strict:
        raise ConfigError(
            f"{record.source}: the weights are not those of the {model_class.__name__} that config.json describes:"
            f" {_listed(wrong)}; with `strict: false` they are drawn, or left out"
        )
    drawn, left = sorted({*missing, *mismatched}), Counter(_part(model, it)[1] for it in unexpected)
    vars(model)["_burnlike_drawn"] = tuple(drawn)
    text = f"weights   {len(read)} of {len(names)} tensors of {record.source}"
    text += f"; drawn: {_listed(drawn)}" if drawn else ""
    model.burnlike_origin = (
        text + (f"; left out: {_listed([f'{key} ({count})' for key, count in left.items()])}" if left else ""),
    )
    return model


def _part(model: Any, name: str) -> Part:
    prefix = model.base_model_prefix
    has_head = bool(prefix) and isinstance(getattr(model, prefix, None), torch.nn.Module)
    first, _, rest = name.partition(".")
    if has_head and first == prefix:
        return True, rest.partition(".")[0]
    return not has_head, first


def _expect_shapes(model: nn.Module, directory: str, description: Any) -> None:
    """Raise a ConfigError if a file has a tensor of the model in another shape, so that `check` finds it."""
    if getattr(description, "quantization_config", None) is not None:
        return  # rounded weights are saved in shapes of their own
    try:
        tensors = open_record(weights_of(directory)).tensors
    except (BurnlikeError, OSError):
        return  # which is said where files are looked at
    ours = {name: list(it.shape) for name, it in model.state_dict().items()}
    for name in filter(tensors.__contains__, ours):
        theirs, wanted = [*shape_in(tensors, name)], ours[name]
        # Those with as many values may be transposed as they are read, as experts of Qwen3-VL are.
        if prod(theirs) != prod(wanted) and not _is_of_classes(theirs, wanted, description.num_labels):
            raise ConfigError(f"{directory}: the weights have '{name}' of {theirs} where config.json has {wanted}")


def _is_of_classes(theirs: Sequence[int], ours: Sequence[int], count: int) -> bool:
    """True if two shapes are heads for different numbers of classes."""
    pairs = list(zip(theirs, ours, strict=False))
    return len(theirs) == len(ours) and all(one == other or other == count for one, other in pairs)


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) + more) or "nothing"


_ENDS = {
    "SequenceClassification": ("ForSequenceClassification", "ForImageClassification"),
    "CausalLM": ("ForCausalLM", "LMHeadModel"),
    "Seq2SeqLM": ("ForConditionalGeneration", "WithLMHeadModel"),
}
"""How the names of architectures end that have a head; of the others as `ForMaskedLM`."""


def of_tables(config: PretrainedConfig, directory: str, target: torch.device) -> nn.Module:
    """The model of burnlike with the weights of a directory, in training mode; a head that these lack is drawn."""
    saved_config = own_config(config, directory)
    if target.type == "meta" or config.weights == "random":
        return saved_config.init(target)
    dtype = None if config.dtype is None else DTYPES[config.dtype]
    if saved_config == pretrained_config(directory):
        model: Any = load_pretrained(directory, target, dtype=dtype)
        model.burnlike_origin = (f"weights   all tensors of {directory}",)
        return model.train()
    base = _backbone(directory, dtype)
    model = saved_config.init("cpu")
    path, part = next((named for named in model.named_modules() if type(named[1]) is type(base)), ("", None))
    if part is None:
        raise ConfigError(f"{directory}: burnlike's {type(model).__name__} has no {type(base).__name__} in it")
    report = part.load_record(base.into_record(), strict=False)
    read = {f"{path}.{name}" if path else name for name in report.applied}
    drawn = [name for name, _ in model.named_parameters() if name not in read]
    count = sum(1 for _ in model.parameters())
    rest = f"; drawn: {', '.join(drawn)}" if drawn else ""
    vars(model)["_burnlike_drawn"] = tuple(drawn)
    model.burnlike_origin = (f"weights   {count - len(drawn)} of {count} tensors of {directory}{rest}",)
    return model.to(target, next(base.parameters()).dtype).train()


def own_config(config: PretrainedConfig, directory: str) -> ModuleConfig:
    """The config of burnlike's model for a directory, with the head and the classes of `config`."""
    description = pretrained_config(directory, _architecture(config, directory))
    count = len(config.classes) if config.classes is not None else config.n_classes
    field = next((it for it in ("n_classes", "num_classes") if hasattr(description, it)), None)
    if count is None or field is None:
        return description
    return description.replace(**{field: count})


def _architecture(config: PretrainedConfig, directory: str) -> str | None:
    """The architecture of the table that has the head; None for the one that the directory names."""
    values = read_description(directory)
    table = next((it for it in weight_tables().values() if values.get("model_type") in it.model_types), None)
    if config.head is None or table is None:  # without a table it is an error of `pretrained_config`
        return None
    ends = _ENDS.get(config.head, (f"For{config.head}",))
    named = [name for name in values.get("architectures") or table.architectures[:1] if name in table.architectures]
    fitting = [name for name in (*named, *table.architectures) if name.endswith(ends)]
    if not fitting:
        raise ConfigError(
            f"library: burnlike has no {config.head} of a {table.name}, but {', '.join(table.architectures)}; leave out"
            " `library: burnlike`"
        )
    return fitting[0]


def _backbone(directory: str, dtype: torch.dtype | None) -> Any:
    """The model of a directory without its head."""
    values = read_description(directory)
    table: WeightTable = next(it for it in weight_tables().values() if values["model_type"] in it.model_types)
    name = next((it for it in table.architectures if it.endswith("Model") and not it.endswith("HeadModel")), None)
    if name is None:
        raise ConfigError(f"{directory}: burnlike's model of a {table.name} takes no new head; leave out `library`")
    config: Any = pretrained_config(directory, name)
    if getattr(config, "pooler", False) and not any(
        "pooler" in tensor for tensor in open_record(weights_of(directory)).tensors
    ):
        config = config.replace(pooler=False)
    return load_pretrained(directory, "cpu", dtype=dtype, config=config, architecture=name)
