"""Saves by a program: records in each format, sets, checkpoints in the background, models and adapters of others."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from burnlike.interop import save_adapter
from burnlike.models import DecoderLmConfig, LoRAConfig, save_for_transformers, save_pretrained
from burnlike.nn import LinearConfig
from burnlike.optim import AdamWConfig, GradientsParams, NoamLrConfig
from burnlike.record import EXTENSIONS, DcpRecorder, DistributedRecorder, Record, SafetensorsRecorder, save
from burnlike.train import Checkpointer

from .prepared import state_of

Write = Callable[[Path, int], object]
"""Writes a version, 1 or 2, into a folder."""


@cache
def _objects(version: int) -> dict[str, Any]:
    """A module, its optimizer after a step, and a scheduler."""
    torch.manual_seed(version)
    module = LinearConfig(d_input=5, d_output=4).init()
    optimizer, scheduler = AdamWConfig().init(), NoamLrConfig(factor=0.1, warmup_steps=10, model_size=4).init()
    for _ in range(version):
        module(torch.ones(1, 5)).sum().backward()
        optimizer.step(scheduler.step(), module, GradientsParams.from_module(module))
    return {"module": module, "optimizer": optimizer, "scheduler": scheduler}


def _each_format(kind: str) -> Write:
    def write(folder: Path, version: int) -> None:
        for extension in EXTENSIONS:
            save(_objects(version)[kind], folder / f"{kind}{extension}")

    return write


def _set(folder: Path, version: int) -> None:
    tensors = {f"w{number}": torch.full((900,), float(version)) for number in range(3)}
    SafetensorsRecorder(shard_bytes=4000).save(Record(tensors), folder / "set")


def _dcp(folder: Path, version: int) -> None:
    shutil.rmtree(folder / "x.dcp", ignore_errors=True)
    DcpRecorder().save(Record({f"w{number}": torch.arange(900.0) for number in range(3)}, {"a": 1}), folder / "x.dcp")


def _parts(folder: Path, version: int) -> None:
    shutil.rmtree(folder / "parts", ignore_errors=True)
    DistributedRecorder().save(Record({"w": torch.arange(900.0), "b": torch.ones(3)}, {"a": 1}), folder / "parts")


def _checkpoints(folder: Path, version: int) -> None:
    """Two checkpoints in the background; those that were there go."""
    saving = Checkpointer(folder / "checkpoints")
    last = saving.latest()
    for step in range(last.step + 1 if last else 2 * version - 1, 2 * version + 1):
        saving.save(step, state_of(step), background=True)
    saving.wait()
    saving.keep_only((2 * version - 1, 2 * version))
    saving.clean()


def _config(folder: Path, version: int) -> None:
    LinearConfig(d_input=5, d_output=version).save(folder / "linear.yaml")


@cache
def _lm(version: int) -> tuple[Any, Any]:
    torch.manual_seed(version)
    config = DecoderLmConfig(vocab_size=32, max_sequence_length=16, d_model=16, n_layers=1, n_heads=2, d_ff=16)
    return config, config.init("cpu")


def _pretrained(folder: Path, version: int) -> None:
    config, model = _lm(version)
    save_pretrained(model, folder / "lm", config=config)


@cache
def _adapted(version: int) -> Any:
    torch.manual_seed(version)
    return LoRAConfig(of=_lm(version)[0], rank=version, targets=("query",)).init("cpu")


def _adapter(folder: Path, version: int) -> None:
    save_adapter(_adapted(version), folder / "adapter")


@cache
def _llama(version: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(version)
    sizes = {"vocab_size": 16, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    return LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2))


def _for_transformers(folder: Path, version: int) -> None:
    save_for_transformers(_llama(version), folder / "llama")


WRITES: dict[str, Write] = {
    **{f"{kind} in each format": _each_format(kind) for kind in ("module", "optimizer", "scheduler")},
    "a set": _set,
    "dcp": _dcp,
    "parts": _parts,
    "checkpoints in the background": _checkpoints,
    "config": _config,
    "save_pretrained": _pretrained,
    "save_for_transformers": _for_transformers,
    "adapter": _adapter,
}
