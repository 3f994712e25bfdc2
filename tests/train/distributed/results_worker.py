"""Runs of several kinds of models by one or two processes, whose results are compared. Run by test_options.py.

python -m tests.train.distributed.results_worker FOLDER MESH KIND...
"""

import io
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import transformers

from burnlike.config import ModuleConfig
from burnlike.module import params
from burnlike.record import save
from burnlike.train import Job, PlainRenderer, RunDir, TrainConfig

from ...models.by_path.directories import saved
from .checkpoints_worker import Held

YAML = """
data: {type: Text, path: FOLDER/text.txt, context_length: 8}
model: MODEL
task: {type: LanguageModel, sample_length: 3}
optimizer: {type: AdamW, epsilon: 1e-3}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, steps_per_epoch: 2, validation_steps: 1, batch_size: 4, checkpoint_every_steps: 1}
output: {precision: float32}
device: cpu
threads: 1
"""
OWN = "{type: DecoderLm, vocab_size: 256, max_sequence_length: 8, d_model: 16, n_layers: 2, n_heads: 4, d_ff: 24}"
PRETRAINED = "{type: Pretrained, path: FOLDER/llama, dtype: float64, fuse: true}"
ADAPTERS = f"{{type: LoRA, of: {PRETRAINED}, rank: 2}}"
BERT = "{type: Pretrained, path: FOLDER/bert, head: CausalLM, dtype: float64}"

KINDS: Mapping[str, tuple[str, list[str]]] = {
    "own": (OWN, []),
    "own, adapters": (f"{{type: LoRA, of: {OWN}, rank: 2}}", []),
    "average": (OWN, ["training.ema={decay: 0.5}"]),
    "last beside an average": (OWN, ["training.ema={decay: 0.5}", "output.weights=last"]),
    "best": (OWN, ["training.keep_best={metric: loss}"]),
    "from a record": (f"{{type: LoRA, of: {OWN}, rank: 2}}", ["init_from=FOLDER/own.safetensors"]),
    "pretrained": (PRETRAINED, []),
    "pretrained, from a record": (PRETRAINED, ["init_from={path: FOLDER/llama, skip: [norm]}"]),
    "adapters": (ADAPTERS, []),
    "adapters, best average": (ADAPTERS, ["training.ema={decay: 0.5}", "training.keep_best={metric: loss}"]),
    "new tokens": (f"{ADAPTERS[:-1]}, new_tokens: [7, 256, 257]}}", []),
    "eva": (f"{ADAPTERS[:-1]}, start: eva}}", []),
    "encoder": (BERT, []),
}
MESHES: Mapping[str, dict[str, Any]] = {
    "one": {"strategy": "none"},
    "ddp": {"strategy": "ddp"},
    "fsdp2": {"strategy": "fsdp2"},
    "tensor": {"strategy": "ddp", "tensor": 2},
    "pipeline": {"strategy": "ddp", "pipeline": 2},
}
KINDS_OF: Mapping[str, list[str]] = {
    "one": [*KINDS],
    "ddp": ["average", "adapters", "eva"],
    "fsdp2": [it for it in KINDS if it != "eva"],
    "tensor": ["best", "pretrained", "adapters, best average", "new tokens"],
    "pipeline": ["own, adapters", "average", "adapters"],
}


def write_sources(folder: Path) -> None:
    """What the kinds read."""
    (folder / "text.txt").write_text("".join(f"number {number}, and {number * 7 % 31}\n" for number in range(60)))
    saved(folder / "llama", transformers.LlamaForCausalLM, vocab_size=256)
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "is_decoder": True}
    saved(folder / "bert", transformers.BertLMHeadModel, vocab_size=256, **quiet)
    save(ModuleConfig.from_yaml(OWN).init("cpu"), folder / "own.safetensors")


def config_of(folder: Path, kind: str, mesh: str) -> TrainConfig:
    model, options = KINDS[kind]
    text = YAML.replace("MODEL", model).replace("FOLDER", str(folder))
    given = [it.replace("FOLDER", str(folder)) for it in options]
    given += [f"distributed.{name}={it}" for name, it in MESHES[mesh].items()]
    data_size = 2 if mesh in ("ddp", "fsdp2") else 1
    return TrainConfig.from_yaml(text, "f.yaml", [*given, f"training.batch_size={4 // data_size}"])


def run(folder: Path, kind: str, mesh: str) -> dict[str, Any]:
    """Train, and what memory the process took before the first step."""
    with Held() as held:
        job = Job(config_of(folder, kind, mesh))
    sizes = [it.tensor.numel() * it.tensor.element_size() for it in params(job.model, "weight")]
    place = folder / mesh / kind
    directory = RunDir.create(place) if job.parallel.is_main else RunDir.follow(place)
    job.run(directory, PlainRenderer(io.StringIO()))
    directory.close()
    said = [it for it in job.notes if "whole model" in it]
    job.parallel.close()
    return {"most": held.most, "all": sum(sizes), "largest": max(sizes), "said": said}


if __name__ == "__main__":
    place = Path(sys.argv[1])
    found = {name: run(place, name, sys.argv[2]) for name in sys.argv[3:]}
    (place / f"found {sys.argv[2]} {os.environ['RANK']}.json").write_text(json.dumps(found))
