"""What the actions read, made once: of each thing an old and a new one, which have the same name in two folders."""

import io
import json
from contextlib import closing
from pathlib import Path

import torch

from burnlike.models import DecoderLmConfig, save_pretrained
from burnlike.nn import LinearConfig
from burnlike.record import Record, SafetensorsRecorder, save
from burnlike.train import Checkpointer, Job, PlainRenderer, RunDir, TrainConfig
from burnlike.train.checkpoint.mirror import Mirror

_REST = """
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.03}
device: cpu
threads: 1
seed: 7
"""
_TOKENS = "data: {type: Tokens, path: DIR/tokens.bin, context_length: 8}\n"
TRAINING = f"""{_TOKENS}
model: {{type: DecoderLm, vocab_size: 32, max_sequence_length: 16, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 16}}
task: {{type: LanguageModel, sample_length: 0}}
training:
  {{epochs: 1, steps_per_epoch: 3, batch_size: 4, validation_steps: 1, checkpoint_every_steps: 1, keep_checkpoints: 9}}
{_REST}"""
ADAPTERS = f"""{_TOKENS}
model: {{type: LoRA, of: {{type: Pretrained, path: DIR/base, library: burnlike}}, rank: 2, targets: [query]}}
task: {{type: LanguageModel, sample_length: 0}}
training: {{epochs: 1, steps_per_epoch: 2, batch_size: 4, validation_steps: 1, checkpoint_every_steps: 2}}
{_REST}"""
TABLE = f"""
data: {{type: Csv, path: DIR/rows.csv, target: y}}
model: {{type: Sequential, layers: [{{type: Linear, d_input: 2, d_output: 2}}]}}
task: {{type: Classification}}
training: {{epochs: 1, steps_per_epoch: 2, batch_size: 4, validation_steps: 1, checkpoint_every_steps: 2}}
{_REST}"""


def prepare(place: Path) -> None:
    """Make the folders `old` and `new`, and beside them what there is one of: data, a base model, a tokenizer."""
    torch.manual_seed(0)
    base = DecoderLmConfig(vocab_size=32, max_sequence_length=16, d_model=16, n_layers=1, n_heads=2, d_ff=16)
    save_pretrained(base.init("cpu"), place / "base", config=base)
    torch.randint(0, 32, (900,), dtype=torch.int32).to(torch.uint16).numpy().tofile(place / "tokens.bin")
    (place / "rows.csv").write_text("a,b,y\n" + "".join(f"{it / 7},{it % 3},{'ny'[it > 20]}\n" for it in range(40)))
    (place / "training.yaml").write_text(TRAINING.replace("DIR", str(place)))
    LinearConfig(d_input=30, d_output=20).save(place / "linear.yaml")
    base.save(place / "lm.yaml")
    (place / "tokenizer").mkdir()
    for name in ("tokenizer.json", "vocab.txt"):
        (place / "tokenizer" / name).write_text(name * 1000)
    (place / "shards").mkdir()
    for number in range(2):
        rows = [json.dumps({"text": f"row {number} {row}", "n": row}) for row in range(200)]
        (place / "shards" / f"{number}.jsonl").write_text("\n".join(rows))
    for version, name in enumerate(("old", "new"), 1):
        _prepare_version(place, place / name, version)


def _prepare_version(place: Path, folder: Path, version: int) -> None:
    """What the outputs of commands are made of: the new ones differ from the old ones."""
    folder.mkdir()
    table, adapters = (it.replace("DIR", str(place)).replace("seed: 7", f"seed: {version}") for it in (TABLE, ADAPTERS))
    for name, text in (("run", table), ("adapted", adapters)):
        config = TrainConfig.from_yaml(text, "f.yaml")
        with closing(RunDir.create(folder / name)) as run:
            Job(config).run(run, PlainRenderer(io.StringIO()))
    (folder / "rows.csv").write_text("a,b\n" + f"{version},2\n" * 30)
    (folder / "table.yaml").write_text(table)
    (folder / "adapters.yaml").write_text(adapters)
    (folder / "text.txt").write_text(("one two ", "three four ")[version - 1] * 200)
    (folder / "net.yaml").write_text(f"{{type: Linear, d_input: 2, d_output: {version}}}")
    module = LinearConfig(d_input=30, d_output=20).init()
    save(module, folder / "linear")
    SafetensorsRecorder(shard_bytes=2000).save(Record.of(module), folder / "set")
    save(DecoderLmConfig.load(place / "lm.yaml").init(), folder / "lm")
    write_run(folder / "big", version)
    mirrored(folder / "big", folder / "mirror")


def write_run(run: Path, version: int) -> None:
    """A run as a training leaves it, with another content for each version, and checkpoints of which one is of both."""
    run.mkdir(parents=True)
    (run / "run.lock").touch()
    (run / "config.yaml").write_text("seed: 1\n")
    (run / "metrics.jsonl").write_text("".join(f'{{"step": {step}}}\n' for step in range(9 * version)))
    (run / "model.safetensors").write_bytes(bytes([version]) * 50_000)
    saving = Checkpointer(run / "checkpoints", keep=2)
    for step in (version, version + 1):
        saving.save(step, state_of(step))


def state_of(step: int) -> dict[str, Record]:
    """The records of a checkpoint."""
    return {"model": Record({"weight": torch.full((500,), float(step))}), "training": Record({})}


def mirrored(run: Path, place: Path) -> None:
    """Copy all of a run to a mirror, whose own file is the same each time."""
    saving = Checkpointer(run / "checkpoints")
    saving.mirror = Mirror(f"file://{place}", run)
    (run / "mirror.json").write_text('{"run": "r"}')
    saving.mirror.claim(is_new=False, has_checkpoints=True)
    if notes := [*saving.notes(), *saving.mirror_result()]:
        raise OSError(notes[0])
