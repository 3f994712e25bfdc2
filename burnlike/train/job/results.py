"""The weights that a run leaves at its end, written and read back."""

import copy
import json
from pathlib import Path

import torch
from torch import nn

from ..._atomic import replace_file
from ..._regular_file import read_regular
from ...interop import load_adapter, save_adapter
from ...interop.adapters.layers import ABOUT, filled_tables
from ...module import ParamGroup
from ...record import Precision, Record, SafetensorsRecorder, load
from ..parallel.single_process import SingleProcess
from ..state.frozen_base import check_base, has_base, kept_paths, noted_digest

MODEL_NAME = "model.safetensors"
ADAPTER_NAME, BASE_NAME = "adapter", "base.json"
_MOST_BYTES = 1 << 20


def write_weights(
    model: nn.Module, run: Path, precision: str, parallel: SingleProcess, empty: nn.Module | None
) -> None:
    """Write the weights of a model into a run's directory; all processes of a sharded one together.

    Of a model with adapters these are the files of peft in `adapter/`, in the types of the adapters. If all else in it
    can be read again, `base.json` there has a digest of that; if not, the whole model is written beside them.
    Of a divided model rank 0 gathers what is written, and nothing else; `empty` is what `without_values` gave of one
    with adapters.
    """
    about, has_files = vars(model).get(ABOUT), not has_base(model)
    record = Record.of(model)
    if about is not None and empty is not None:
        kept = frozenset(filled_tables(model)).union(*parallel.gather(kept_paths(model)))
        if not has_files:
            record = Record.from_module(
                model, ParamGroup.from_predicate(lambda it: it.path in kept or it.kind != "weight")
            )
        record = parallel.whole(record)
        if parallel.is_main:
            record.load_into(empty, strict=False, device="cpu")  # the rest stays without values
            save_adapter(empty, run / ADAPTER_NAME, **about)
    elif about is not None and parallel.is_main:
        save_adapter(model, run / ADAPTER_NAME, **about)
    else:
        record = parallel.whole(record)
    if not parallel.is_main:
        return
    if has_files:
        SafetensorsRecorder(Precision(getattr(torch, precision))).save(record, run / MODEL_NAME)
    else:
        text = json.dumps({"path": about and about["base"], "sha256": noted_digest(model)}, indent=1)
        replace_file(run / ADAPTER_NAME / BASE_NAME, text.encode() + b"\n")


def read_weights(model: nn.Module, run: Path) -> None:
    """Load what `write_weights` wrote into a model of the same config, prepared by the same task."""
    if (run / MODEL_NAME).exists() or not (run / ADAPTER_NAME).exists():
        load(model, run / MODEL_NAME)
        return
    load_adapter(model, run / ADAPTER_NAME)
    base = run / ADAPTER_NAME / BASE_NAME
    digest = json.loads(read_regular(base, _MOST_BYTES))["sha256"]
    check_base(model, kept_paths(model), digest, str(run / ADAPTER_NAME))


def has_weights(run: Path) -> bool:
    """True if a run has written weights at its end."""
    return (run / MODEL_NAME).exists() or (run / ADAPTER_NAME / BASE_NAME).exists()


def without_values(model: nn.Module) -> nn.Module:
    """A copy of a model with its parameters on the meta device."""
    empties = {
        id(it): nn.Parameter(torch.empty(it.shape, dtype=it.dtype, device="meta"), requires_grad=it.requires_grad)
        for it in model.parameters()
    }
    return copy.deepcopy(model, empties)


def copy_of(model: nn.Module) -> nn.Module:
    """A copy of a model to read its weights into; what stays as it is of one with adapters, they share."""
    frozen = {id(it): it for it in model.parameters() if not it.requires_grad} if has_base(model) else {}
    return copy.deepcopy(model, frozen)
