"""The directory of a model: its files, and problems with them. Imports no torch."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..._regular_file import lfs_pointer_problem, read_regular
from ...errors import BurnlikeError, ConfigError, ConfigIOError, RecordIOError, nearest
from ...record.files.reading import INDEX_SUFFIX, WEIGHTS, listed_names, read_outline
from ...record.formats import directory_reader
from ..weights.options import shown
from .catalog import Catalog, catalog

if TYPE_CHECKING:
    from .configs import PretrainedConfig

CONFIG_NAME, OWN_NAME, RUN_NAME, ADAPTER_NAME = "config.json", "model.yaml", "config.yaml", "adapter_config.json"
GENERATION_NAME = "generation_config.json"
_EXAMPLE = 16
_MOST_BYTES = 16 * 2**20
_OTHER_KINDS = {
    "SequenceClassification": ("ImageClassification", "AudioClassification", "VideoClassification"),
    "CausalLM": ("ImageTextToText",),
}
"""What a task that needs a head also takes, of models that read no text or more than that."""


def read_description(directory: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The content of the `config.json` of a directory; a ConfigIOError if it can't be read."""
    path = os.path.join(directory, CONFIG_NAME)
    what = f"{path}: expected the config.json of a model"
    if not os.path.isdir(directory):
        hub = "; one of the Hugging Face Hub is fetched by huggingface_hub.snapshot_download(...)"
        raise ConfigIOError(
            f"{os.fspath(directory)}: expected a directory with the config.json of a model and its weights, found none"
            + ("" if os.path.isabs(directory) else f" in {os.getcwd()}{hub}")
        )
    if not os.path.exists(path) and (adapters := adapters_in(directory)):
        merge = f"`burnlike merge {os.fspath(directory)} --out DIR` makes a model of it"
        raise ConfigIOError(f"{what}, got {adapters}; {merge}")
    try:
        data = read_regular(path, _MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ConfigIOError(f"{what}, got more than {_MOST_BYTES // 2**20} MiB")
        if problem := lfs_pointer_problem(path):
            raise ConfigIOError(problem)
        values = json.loads(data.decode(), object_hook=_special_float)
    except ConfigIOError:
        raise
    except RecursionError as error:
        raise ConfigIOError(f"{what}, which can't be read: it is nested too deeply") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigIOError(f"{what}, which can't be read: {reason}") from error
    if not isinstance(values, dict):
        raise ConfigIOError(f"{path}: expected a mapping, got {type(values).__name__}")
    return values


def _special_float(values: dict[str, Any]) -> Any:
    """A number that JSON lacks, as transformers writes it: `{"__float__": "Infinity"}`."""
    is_one = values.keys() == {"__float__"} and values["__float__"] in ("Infinity", "-Infinity", "NaN")
    return float(values["__float__"]) if is_one else values


def weights_of(directory: str | os.PathLike[str]) -> str:
    """The file or index of the weights, those of safetensors first; a RecordIOError if there are none."""
    if directory_reader(directory) is not None:
        return os.fspath(directory)
    for name in WEIGHTS:
        if os.path.exists(path := os.path.join(directory, name)):
            return path
    there = f"{os.fspath(directory)}: expected the weights of a model"
    if adapters := adapters_in(directory):
        raise RecordIOError(
            f"{there}, got {adapters}; `burnlike merge {os.fspath(directory)} --out DIR` makes a model of it"
        )
    raise RecordIOError(f"{there}, got a directory without {', '.join(WEIGHTS[:-1])} and {WEIGHTS[-1]}")


def adapters_in(directory: str | os.PathLike[str]) -> str:
    """The low-rank adapters that a directory has in place of a model; empty where it has none."""
    if os.path.exists(os.path.join(directory, ADAPTER_NAME)):
        return "adapters alone, of peft"
    return "a run with adapters alone" if os.path.exists(os.path.join(directory, "adapter", ADAPTER_NAME)) else ""


def weights_problem(path: str) -> str:
    """The problem with the weights at a path, but for their values; empty if there is none."""
    if os.path.isdir(path):  # several processes wrote it
        return ""
    try:
        read_outline(path)
    except (BurnlikeError, OSError) as error:
        with suppress(OSError):
            names = listed_names(read_regular(path, _MOST_BYTES)) if path.endswith(INDEX_SUFFIX) else None
            for file in (path, *(os.path.join(os.path.dirname(path), name) for name in sorted(names or ()))):
                if os.path.exists(file) and (problem := lfs_pointer_problem(file)):
                    return problem
        return " ".join(str(error).split())
    return ""


def directory_problems(config: "PretrainedConfig") -> Iterator[tuple[str, str]]:
    """The field of a Pretrained, and what is wrong with the directory that it names, as far as no torch is needed."""
    directory = os.path.expanduser(config.path)
    if not os.path.exists(directory):
        return  # which is said of every path
    try:
        if is_run(directory):
            if config.weights == "read" and not os.path.exists(os.path.join(directory, "checkpoints")):
                weights_of(directory)
            return
        values = read_description(directory)
        if config.library == "transformers":
            model_classes(config, values)
    except (BurnlikeError, OSError) as error:
        yield "path", str(error)
        return
    if config.weights == "random":
        return
    try:
        problem = weights_problem(weights_of(directory))
    except RecordIOError as error:
        problem = str(error)
        if not adapters_in(directory):
            problem += "; `weights: random` draws them for the model that config.json describes"
    if problem:
        yield "path", problem


def example_inputs(config: "PretrainedConfig") -> dict[str, tuple[str, tuple[int, ...]]]:
    """Inputs that the model of a directory takes, if its `config.json` says what they are: text or images."""
    try:
        values = read_description(os.path.expanduser(config.path))
        heads = catalog().heads_of(str(values.get("model_type")))
    except ConfigError:
        return {}
    size, channels, longest = (values.get(it) for it in ("image_size", "num_channels", "max_position_embeddings"))
    if "ImageClassification" in heads and isinstance(size, int):
        return {"pixel_values": ("float32", (1, channels if isinstance(channels, int) else 3, size, size))}
    if not {"CausalLM", "MaskedLM", "SequenceClassification", "Seq2SeqLM"} & {*heads}:
        return {}
    return {"input_ids": ("int64", (1, min(longest if isinstance(longest, int) else _EXAMPLE, _EXAMPLE)))}


def is_run(directory: str | os.PathLike[str]) -> bool:
    """True if a directory is a run of burnlike whose model is not one of transformers."""
    return not os.path.exists(os.path.join(directory, CONFIG_NAME)) and os.path.exists(
        os.path.join(directory, RUN_NAME)
    )


def model_classes(config: "PretrainedConfig", values: Mapping[str, Any]) -> tuple[str, ...]:
    """The classes of transformers, of which one is meant; a ConfigError if it has none for the directory."""
    path, classes = os.path.join(config.path, CONFIG_NAME), catalog()
    kind = values.get("model_type")
    if not isinstance(kind, str):
        raise ConfigError(f"{path}: expected a `model_type`, which tells transformers what model it is")
    if kind not in classes.model_types:
        rest = nearest(kind[:80], sorted(classes.model_types))
        if values.get("auto_map"):
            rest = "; it asks for code of its own (`auto_map`), and no code in a directory is run"
        raise ConfigError(f"{path}: this transformers has no models of the model_type {shown(kind)}{rest}")
    if values.get("quantization_config") is not None:
        raise ConfigError(
            f"{path}: quantization_config: the weights are quantized, and can't be trained; take those that they were"
            " made of"
        )
    return _with_head(config, values, kind, classes, path)


def _with_head(
    config: "PretrainedConfig", values: Mapping[str, Any], kind: str, classes: Catalog, path: str
) -> tuple[str, ...]:
    if config.head is None:
        named = values.get("architectures") or ()
        fitting = [name for name in named if isinstance(name, str) and name in classes.classes_of(kind)]
        if fitting or kind in classes.heads[""]:
            return tuple(fitting[:1]) or classes.heads[""][kind]
    for head in (config.head or "", *_OTHER_KINDS.get(config.head or "", ())):
        if head_class := classes.heads.get(head, {}).get(kind):
            return head_class
    there = classes.heads_of(kind)
    if config.head is not None and config.head not in classes.heads:
        hint = nearest(config.head, list(classes.heads))
        raise ConfigError(f"{path}: transformers knows no head {config.head}{hint}")
    has = f"it has {', '.join(there)}" if there else "it is a part of others, or has none"
    raise ConfigError(f"{path}: transformers has no {config.head} of the model_type '{kind}': {has}")
