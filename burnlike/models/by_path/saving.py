"""Files by which transformers reads a model again: `config.json` with the names of the classes, weights, tokenizer."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ..._atomic import AtomicDirectory, copy_files, make_directories, move_files
from ..._regular_file import check_within, read_regular
from ...errors import ConfigError, RecordIOError
from ...record.files.reading import INDEX_SUFFIX, shard_pattern
from ...record.formats import SINGLE_NAME
from .build import class_of, described, keep_cache, numbers_of, own_config, quiet
from .configs import PretrainedConfig
from .directory import CONFIG_NAME, GENERATION_NAME, OWN_NAME, is_run, read_description


def description_files(config: PretrainedConfig, module: Any = None) -> Mapping[str, bytes]:
    """The files from which `config.without_weights` builds the model, by name; of one of transformers its `config.json`
    as it is after the training, so that transformers reads the run's directory, too; with the kind of the task
    and the token of the padding that a task has told the `module`.
    """
    directory = os.path.expanduser(config.path)
    if is_run(directory):
        config_path = Path(directory) / OWN_NAME
        return {OWN_NAME: read_regular(config_path)} if config_path.exists() else {}
    if config.library == "burnlike":
        of_tables: Any = own_config(config, directory)
        if config.new_tokens:
            of_tables = of_tables.replace(new_tokens=config.new_tokens).with_new_tokens
        return {OWN_NAME: of_tables.to_yaml().encode()}
    values = read_description(directory)
    with quiet():
        description = described(config, values)
        description.architectures = [class_of(config, values).__name__]
        if config.new_tokens:
            text = description.get_text_config()
            text.vocab_size = max(text.vocab_size, numbers_of(config.new_tokens)[-1] + 1)
        description.dtype = config.dtype or values.get("dtype") or values.get("torch_dtype")
        if hasattr(module, "config"):
            description.problem_type = module.config.problem_type
            if hasattr(text := description.get_text_config(), "pad_token_id"):
                text.pad_token_id = module.config.get_text_config().pad_token_id
        files = {CONFIG_NAME: description.to_json_string().encode()}
    generation = Path(directory) / GENERATION_NAME
    return files | ({GENERATION_NAME: read_regular(generation)} if generation.is_file() else {})


def save_for_transformers(
    module: nn.Module, directory: str | os.PathLike[str], files: Sequence[str | os.PathLike[str]] = ()
) -> None:
    """Write a model of transformers so that `AutoModel....from_pretrained(directory)` gives the same logits.

    The directory gets `config.json` with the names of the classes, `model.safetensors` (in several files above 50 GB)
    in the names that transformers has on disk, and copies of `files`, such as those of a tokenizer; of a directory
    among them what is in it. Each file is replaced as a whole or not at all, and weights of an earlier save go.

    Raises:
        ConfigError: the model is not one of transformers.
        RecordIOError: a file can't be written.
    """
    model: Any = module
    if not (callable(getattr(model, "save_pretrained", None)) and hasattr(model, "config")):
        raise ConfigError(f"expected a model of transformers, got {type(module).__name__}")
    from safetensors import SafetensorError

    try:
        make_directories(directory)
        # transformers writes into the files that are there
        with quiet(), AtomicDirectory(Path(directory) / "model") as aside:
            keep_cache(model, True)  # as nearly every model has it
            model.save_pretrained(aside.path)
            single, shards = (SINGLE_NAME, SINGLE_NAME + INDEX_SUFFIX), shard_pattern(Path(SINGLE_NAME).stem)
            stale = [it for it in os.listdir(directory) if it in single or shards.fullmatch(it)]
            move_files(aside.path, Path(directory), last=CONFIG_NAME, stale=stale)
        copy_beside(files, Path(directory))
    except (OSError, SafetensorError) as error:
        raise RecordIOError(f"{os.fspath(directory)}: the model can't be written: {error}") from error
    finally:
        keep_cache(model, False)


def copy_beside(files: Sequence[str | os.PathLike[str]], directory: Path) -> None:
    """Copy files, such as those of a tokenizer, and of directories what is in them, beside the model in a directory.

    Tokenizers have the `config.json` and `generation_config.json` of the model that they came with: those of the
    directory stay.
    """
    for source in map(Path, files):
        for file in sorted(source.iterdir()) if source.is_dir() else [source]:
            if file.is_file() and file.name not in (CONFIG_NAME, GENERATION_NAME):
                check_within(file, source if source.is_dir() else None)
                copy_files(file, directory / file.name)
