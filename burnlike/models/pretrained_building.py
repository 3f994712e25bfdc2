"""Builds a model that a stranger's `config.json` asks for, within what the weights beside it explain."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import nn

from ..config import ModuleConfig
from ..errors import BurnlikeError, ConfigError
from ..record import Record
from ..record.files.stored_tensors import dtype_in, shape_in

_TENSORS_OF_ONE = 4
"""More of ours than are made of one of theirs; GPT-2's query, key and value are one."""
_MOST_TABLES = 2**28
"""Bytes of computed tables that any model may have."""


def build_on_meta(config: ModuleConfig, weights: Record, path: str) -> nn.Module:
    """The model on the meta device.

    Args:
        config: of the model.
        weights: what it is to be filled with.
        path: of the file that asks for the model, for messages.

    Raises:
        ConfigError: it can't be built, has many more tensors than there are, or computes tables that are larger than
            all of them.
    """
    with built_for(path), torch.device("meta"), _at_most(_TENSORS_OF_ONE * (len(weights.tensors) + 1), path):
        model = config.init("meta")
    tensors = weights.tensors
    stored = sum(prod(shape_in(tensors, name)) * dtype_in(tensors, name).itemsize for name in tensors)
    saved = model.state_dict().keys()
    tables = sum(it.numel() * it.itemsize for name, it in model.named_buffers() if name not in saved)
    if tables > max(_MOST_TABLES, stored):
        raise ConfigError(
            f"{path}: asks for tables of positions of {tables / 1e9:.1f} GB beside weights of {stored / 1e9:.1f} GB"
            " (max_position_embeddings); pass load_pretrained a config of a smaller max_sequence_length"
        )
    return model


@contextmanager
def built_for(path: str) -> Iterator[None]:
    """Let numbers with which a model can't be built or computed be an error of the file at `path`.

    Raises:
        ConfigError: instead of what is not burnlike's.
    """
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
