"""What writes files and is made to fail: fetches, mirrors, the cache of streams, exports, merges and directories."""

import contextlib
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import torch

from burnlike.cli.main import main
from burnlike.data import StreamConfig
from burnlike.errors import RecordError
from burnlike.models import DecoderLmConfig, save_pretrained
from burnlike.nn import LinearConfig
from burnlike.record import DcpRecorder, Record, open_record, save
from burnlike.train import Checkpointer, Job, PlainRenderer, RunDir, TrainConfig
from burnlike.train.checkpoint.mirror import Mirror, fetch_run
from burnlike.train.checkpoint.mirror_files import MirrorFiles
from burnlike.train.runs.data_facts import keep_facts

YAML = """
data: {type: Tokens, path: DIR/tokens.bin, context_length: 8}
model: {type: LoRA, of: {type: Pretrained, path: DIR/base, library: burnlike}, rank: 2, targets: [query, linear_outer]}
task: {type: LanguageModel, sample_length: 0}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.03}
training: {epochs: 1, steps_per_epoch: 2, batch_size: 4, validation_steps: 1, checkpoint_every_steps: 2}
device: cpu
threads: 1
"""


TRAINING = """
data: {type: Tokens, path: DIR/tokens.bin, context_length: 8}
model: {type: DecoderLm, vocab_size: 32, max_sequence_length: 16, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 16}
task: {type: LanguageModel, sample_length: 0}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.03}
training:
  {epochs: 1, steps_per_epoch: 3, batch_size: 4, validation_steps: 1, checkpoint_every_steps: 1, keep_checkpoints: 9}
device: cpu
threads: 1
seed: 7
"""


def prepare(place: Path) -> None:
    """Make what the actions read, once: two versions of a mirror, a run, a tokenizer's directory and shards."""
    torch.manual_seed(0)
    base = DecoderLmConfig(vocab_size=32, max_sequence_length=16, d_model=16, n_layers=1, n_heads=2, d_ff=16)
    save_pretrained(base.init("cpu"), place / "base", config=base)
    torch.randint(0, 32, (900,), dtype=torch.int32).to(torch.uint16).numpy().tofile(place / "tokens.bin")
    with closing(RunDir.create(place / "run")) as run:
        Job(TrainConfig.from_yaml(YAML.replace("DIR", str(place)), "f.yaml")).run(run, PlainRenderer(io.StringIO()))
    (place / "training.yaml").write_text(TRAINING.replace("DIR", str(place)))
    for version in (1, 2):
        write_run(place / f"v{version}" / "big", version)
        _mirrored(place / f"v{version}" / "big", place / f"mirror-{version}")
    config = LinearConfig(d_input=30, d_output=20)
    config.save(place / "linear.yaml")
    save(config.init(), place / "linear")
    (place / "tokenizer").mkdir()
    for name in ("tokenizer.json", "vocab.txt"):
        (place / "tokenizer" / name).write_text(name * 1000)
    (place / "shards").mkdir()
    for number in range(2):
        rows = [json.dumps({"text": f"row {number} {row}", "n": row}) for row in range(200)]
        (place / "shards" / f"{number}.jsonl").write_text("\n".join(rows))


def write_run(run: Path, version: int) -> None:
    """A run as a training leaves it, with another content for each version."""
    run.mkdir(parents=True)
    (run / "run.lock").touch()
    (run / "config.yaml").write_text("seed: 1\n")
    (run / "metrics.jsonl").write_text("".join(f'{{"step": {step}}}\n' for step in range(9 * version)))
    (run / "model.safetensors").write_bytes(bytes([version]) * 50_000)
    saving = Checkpointer(run / "checkpoints", keep=2)
    saving.save(version, {"model": Record({"weight": torch.full((500,), float(version))}), "training": Record({})})


def _mirrored(run: Path, place: Path) -> None:
    """Copy all of a run to a mirror, whose own file is the same each time."""
    saving = Checkpointer(run / "checkpoints")
    saving.mirror = Mirror(f"file://{place}", run)
    (run / "mirror.json").write_text('{"run": "r"}')
    saving.mirror.claim(is_new=False, has_checkpoints=True)
    if notes := [*saving.notes(), *saving.mirror_result()]:
        raise OSError(notes[0])


def fetch(place: Path, folder: Path) -> None:
    """Bring a run up to date that was fetched before."""
    shutil.rmtree(place / "now", ignore_errors=True)
    shutil.copytree(place / "mirror-2", place / "now")
    fetch_run(f"file://{place}/now/big", folder)


def fetched_before(place: Path, folder: Path) -> None:
    fetch_run(f"file://{place}/mirror-1/big", folder)


def mirror(place: Path, folder: Path) -> None:
    shutil.rmtree(place / "copy", ignore_errors=True)
    shutil.copytree(place / "v2" / "big", place / "copy" / "big")
    _mirrored(place / "copy" / "big", folder)


def mirrored_before(place: Path, folder: Path) -> None:
    shutil.copytree(place / "mirror-1", folder, dirs_exist_ok=True)


def _stream(place: Path, folder: Path, **options: object) -> None:
    os.environ["XDG_CACHE_HOME"] = str(folder)
    sources = [{"path": str(place / "shards")}]
    data = StreamConfig.from_dict({"sources": sources, "validation_items": 1, **options}).init()
    for index in range(0, len(data.train), 7):
        _ = data.train[index]


def tokens(place: Path, folder: Path) -> None:
    _stream(place, folder, context_length=16)


def lines(place: Path, folder: Path) -> None:
    _stream(place, folder, columns=["n"])


def facts(place: Path, folder: Path) -> None:
    keep_facts(folder, ["a", "b"], {"vocab_size": 3}, {"tokenizer": place / "tokenizer"})


def dcp(place: Path, folder: Path) -> None:
    shutil.rmtree(folder / "x.dcp", ignore_errors=True)
    DcpRecorder().save(Record({f"w{number}": torch.arange(900.0) for number in range(3)}, {"a": 1}), folder / "x.dcp")


def _command(*words: object) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main([str(word) for word in words])
    if code:
        raise OSError(said.getvalue())


def merge(place: Path, folder: Path) -> None:
    shutil.rmtree(folder / "merged", ignore_errors=True)
    _command("merge", place / "run", "--out", folder / "merged")


def burn(place: Path, folder: Path) -> None:
    shutil.rmtree(folder / "burn", ignore_errors=True)
    words = ("--record", place / "linear.safetensors", "--to", "burn", "--out", folder / "burn")
    _command("export", place / "linear.yaml", *words)


def train(place: Path, folder: Path) -> None:
    """Train, or go on with what an earlier attempt has left, as its message says."""
    run = folder / "run"
    if (run / "results.json").is_file():
        return
    if [*run.glob("checkpoints/step-*")]:
        _command("train", "--resume", run)
    else:
        shutil.rmtree(run, ignore_errors=True)
        _command("train", place / "training.yaml", "--run-dir", run)
    json.loads((run / "results.json").read_text())


class Action(NamedTuple):
    """What writes to a folder.

    Attributes:
        act: does it.
        before: makes what is in the folder before.
        depth: how many names of a path say of which unit a file is; a unit is there as it was, or as it will be, whole.
        loose: names of files and directories that are not looked at here.
        is_cache: it may be lost, too, as it is made again.
    """

    act: Callable[[Path, Path], object]
    before: Callable[[Path, Path], object] = lambda place, folder: None
    depth: int = 1
    loose: tuple[str, ...] = ()
    is_cache: bool = False


ACTIONS = {
    "fetch": Action(fetch, fetched_before, 3, ("mirror.json",)),
    "mirror": Action(mirror, mirrored_before, 2, ("mirror.json",)),
    "tokens": Action(tokens, depth=5, is_cache=True),
    "lines": Action(lines, depth=5, is_cache=True),
    "facts": Action(facts),
    "dcp": Action(dcp),
    "merge": Action(merge),
    "burn": Action(burn),
    # Their times and memory differ from run to run.
    "train": Action(train, depth=9, loose=("metrics.jsonl", "log.txt", "environment.json", "results.json")),
}


def units(folder: Path, action: Action) -> dict[str, dict[str, str]]:
    """The hashes of the files of each unit; without hidden files, locks and what is loose."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        is_hidden = any(it.startswith(".") for it in parts) or path.suffix == ".lock"
        if path.is_file() and not is_hidden and not {*parts} & {*action.loose}:
            digest = _digest(path)
            found.setdefault("/".join(parts[: action.depth]), {})["/".join(parts[action.depth :])] = digest
    return found


def _digest(path: Path) -> str:
    """The hash of a file; of a record that of its tensors in any order, as ids are drawn anew each time."""
    content = path.read_bytes()
    with contextlib.suppress(RecordError):
        tensors = open_record(path).tensors if path.suffix == ".safetensors" else {}
        content = (
            b"".join(sorted(bytes(it.view(torch.uint8).numpy()) for it in map(torch.atleast_1d, tensors.values())))
            or content
        )
    return hashlib.sha256(content).hexdigest()


def wrong_sets(folder: Path) -> list[str]:
    """The files of a mirror that are not those that its lists name."""
    files = MirrorFiles(f"file://{folder}/big")
    return [
        f"{name}/{file}"
        for name, listed in files.sets().items()
        for file, (size, digest) in listed.items()
        if not (path := folder / "big" / name / file).is_file()
        or (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()) != (size, digest)
    ]
