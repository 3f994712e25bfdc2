"""Adapters as peft's files: `adapter_config.json` and `adapter_model.safetensors`."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._atomic import replace_file
from ...errors import ModuleTreeError, RecordIOError, RecordMismatchError, nearest
from ...record import Record, SafetensorsRecorder, open_record
from .adding import add_adapters
from .layers import AdaptedLayer, adapted, trained_modules
from .peft_config import CONFIG_NAME, WEIGHTS_NAME, PeftConfig, read_config, written_config

_PREFIX = "base_model.model."


def save_adapter(
    model: nn.Module,
    directory: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str] | None = None,
    task_type: str | None = None,
) -> None:
    """Write the adapters of a model, and the modules that are trained whole beside them, as peft does.

    `PeftModel.from_pretrained(base_model, directory)` then computes what the model does.

    Args:
        base: the directory of the model that they are for; of a model of transformers what its config says.
        task_type: in peft's words, such as `CAUSAL_LM`.

    Raises:
        ModuleTreeError: there are no adapters, or something is trained for which the files have no place.
        RecordIOError: a file can't be written.
    """
    layers = adapted(model)
    if not layers:
        raise ModuleTreeError(f"{type(model).__name__} has no adapters: expected a model of `type: LoRA`")
    if len({it.lora.magnitude is None for it in layers.values() if it.lora is not None}) > 1:
        raise ModuleTreeError("some adapters are of DoRA and some are not, for which peft's files have no place")
    saved = [*trained_modules(model)]
    base = base or getattr(getattr(model, "config", None), "name_or_path", None) or None
    config = written_config(model, layers, saved, None if base is None else os.fspath(base), task_type)
    tensors = {name: it.detach().contiguous() for name, it in _tensors(model, layers, saved).items()}
    try:
        os.makedirs(directory, exist_ok=True)
        SafetensorsRecorder().save(Record(tensors, metadata={"format": "pt"}), Path(directory) / WEIGHTS_NAME)
        replace_file(Path(directory) / CONFIG_NAME, (json.dumps(config, indent=2) + "\n").encode())
    except OSError as error:
        raise RecordIOError(f"{os.fspath(directory)}: the adapters can't be written: {error}") from error


def load_adapter(model: nn.Module, directory: str | os.PathLike[str]) -> PeftConfig:
    """Read peft's files into a model: it gets adapters, or has the same ones already; returns what the config says.

    The rest of the model is frozen.

    Raises:
        RecordIOError: a file is missing or can't be read.
        RecordFormatError: the config says what is not known here.
        ModuleTreeError: the model has no such layers, or other adapters; it is as it was.
        RecordMismatchError: the tensors are not those of the adapters; the model is as it was, but may have adapters.
    """
    config, record = read_config(directory), _record(Path(directory))
    wanted, saved = config.layers(model), config.saved_modules(model)
    there = adapted(model)
    if there:
        _check_same(there, wanted, config)
    else:
        add_adapters(model, wanted, saved)
        there = adapted(model)
    _fill(model, there, saved, record)
    return config


def _record(directory: Path) -> Record:
    if not (directory / WEIGHTS_NAME).exists() and (directory / "adapter_model.bin").exists():
        raise RecordIOError(f"{directory}: adapter_model.bin is a pickle, which is not read: let peft save safetensors")
    return open_record(directory / WEIGHTS_NAME)


def _check_same(there: Mapping[str, AdaptedLayer], wanted: Mapping[AdaptedLayer, Any], config: PeftConfig) -> None:
    paths = {it.path for it in wanted}
    for path in sorted(paths ^ there.keys()):
        which = "has an adapter in the model, and none" if path in there else "has none in the model, and one"
        raise ModuleTreeError(f"'{path}' {which} in {config.path}: expected the adapters of the model")
    for layer, options in wanted.items():
        lora = there[layer.path].lora
        scale = options.alpha / (options.rank**0.5 if options.rslora else options.rank)
        same = lora is not None and (lora.a.shape[1], lora.magnitude is not None) == (options.rank, options.dora)
        if not same or abs(lora.scale - scale) > 1e-12 * scale:  # pyright: ignore[reportOptionalMemberAccess]
            raise ModuleTreeError(
                f"'{layer.path}': expected the adapter of the model (rank, alpha, DoRA), and {config.path} has another:"
                f" rank {options.rank}, alpha {options.alpha:g}{', DoRA' if options.dora else ''}"
            )


def _places(layers: Mapping[str, AdaptedLayer]) -> dict[str, Tensor]:
    """What peft stores of adapters, by its names: views of `a`, `b` and the magnitude."""
    found: dict[str, Tensor] = {}
    for path, layer in layers.items():
        lora = layer.lora
        assert lora is not None
        # Of a layer of torch that `apply_lora` gave its adapter, the factors are those of the weight as it is held.
        is_swapped = layer.kind == "linear" and not lora.transposed
        down, up = (lora.b.mT, lora.a.mT) if is_swapped else (lora.a, lora.b)
        first, second = ("lora_embedding_A", "lora_embedding_B") if layer.kind == "embedding" else _LINEAR
        found[f"{_PREFIX}{path}.{first}"], found[f"{_PREFIX}{path}.{second}"] = down.mT, up.mT
        if lora.magnitude is not None:
            found[f"{_PREFIX}{path}.lora_magnitude_vector"] = lora.magnitude
    return found


_LINEAR = ("lora_A.weight", "lora_B.weight")


def _tensors(model: nn.Module, layers: Mapping[str, AdaptedLayer], saved: list[str]) -> dict[str, Tensor]:
    found = _places(layers)
    for path in saved:
        part = model.get_submodule(path)
        found |= {f"{_PREFIX}{path}.{name}": it for name, it in part.state_dict().items()}
    return found


@torch.no_grad()
def _fill(model: nn.Module, layers: Mapping[str, AdaptedLayer], saved: list[str], record: Record) -> None:
    targets, given = _tensors(model, layers, saved), {_own_name(it): it for it in record.tensors}
    own: dict[str, Tensor] = {f"{_PREFIX}{name}": it for name, it in model.named_parameters()}
    for path, layer in layers.items():
        own[f"{_PREFIX}{path}.weight"] = layer.weight
    copies: list[tuple[Tensor, Tensor]] = []
    for name, there in given.items():
        value = record.tensors[there]
        target = targets.get(name)
        base = own.get(name) if target is None else None
        if base is not None and value.shape == base.shape and torch.equal(value.to(base), base):
            continue  # peft stores tables of tokens again
        if target is None and base is not None:
            raise RecordMismatchError(
                f"{record.source}: '{there}' is a weight of the base, and another than the model's"
            )
        if target is None:
            raise RecordMismatchError(f"{record.source}: the model has no '{there}'{nearest(name, [*targets])}")
        if value.shape != target.shape:
            raise RecordMismatchError(
                f"{record.source}: expected '{there}' of {list(target.shape)}, got {list(value.shape)}"
            )
        copies.append((target, value))
    if missing := [name for name in targets if name not in given]:
        raise RecordMismatchError(f"{record.source}: '{missing[0]}' is missing{nearest(missing[0], [*given])}")
    for target, value in copies:
        target.copy_(value)


def _own_name(name: str) -> str:
    """The name of a tensor, for those that older versions of peft give another."""
    name = name.replace(".base_layer.", ".")
    return name.removesuffix(".weight") if name.endswith("lora_magnitude_vector.weight") else name
