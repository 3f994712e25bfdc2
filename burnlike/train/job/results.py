"""What a run leaves at its end: the weights of its model, written and read back."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from ...module.torch_objects.wrappers import is_distributed
from ...optim.core.sharded import whole
from ...record import Precision, Record, SafetensorsRecorder, load

MODEL_NAME = "model.safetensors"


def write_weights(model: nn.Module, run: Path, precision: str, *, is_main: bool = True) -> None:
    """Write the weights of a model into a run's directory; all processes of a sharded one together."""
    record = Record.of(model)
    if any(is_distributed(it) for it in record.tensors.values()):  # all processes ask for whole tensors
        record = replace(record, tensors={name: whole(it) for name, it in record.tensors.items()})
    if is_main:
        SafetensorsRecorder(Precision(getattr(torch, precision))).save(record, run / MODEL_NAME)


def read_weights(model: nn.Module, run: Path) -> None:
    """Load what `write_weights` wrote into a model of the same config, prepared by the same task."""
    load(model, run / MODEL_NAME)
