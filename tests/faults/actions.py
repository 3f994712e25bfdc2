"""What writes files and is made to fail: commands, trainings, saves, fetches, mirrors and the cache of streams."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from burnlike.data import StreamConfig
from burnlike.errors import RecordError
from burnlike.record import open_record
from burnlike.train import Checkpointer
from burnlike.train.checkpoint.mirror import Mirror, MirrorFiles
from burnlike.train.runs.run_dir import keep_facts

from .commands import OUTPUTS, called, output
from .prepared import mirrored, state_of
from .saves import WRITES


def fetch(place: Path, folder: Path) -> None:
    """Bring a run up to date that was fetched before."""
    shutil.rmtree(place / "now", ignore_errors=True)
    shutil.copytree(place / "new" / "mirror", place / "now")
    called("runs", folder, "--fetch", f"file://{place}/now/big")


def fetched_before(place: Path, folder: Path) -> None:
    called("runs", folder, "--fetch", f"file://{place}/old/mirror/big")


def mirror(place: Path, folder: Path) -> None:
    shutil.rmtree(place / "copy", ignore_errors=True)
    shutil.copytree(place / "new" / "big", place / "copy" / "big")
    mirrored(place / "copy" / "big", folder)


def mirrored_before(place: Path, folder: Path) -> None:
    shutil.copytree(place / "old" / "mirror", folder, dirs_exist_ok=True)


def mirror_each(place: Path, folder: Path) -> None:
    """Save checkpoints of which each is copied to the mirror, and the oldest one leaves it."""
    shutil.rmtree(place / "copy", ignore_errors=True)
    run = place / "copy" / "big"
    shutil.copytree(place / "old" / "big", run)
    (run / "mirror.json").write_text('{"run": "r"}')
    saving = Checkpointer(run / "checkpoints")
    saving.mirror = Mirror(f"file://{folder}", run)
    saving.all()
    saving.mirror.claim(is_new=False, has_checkpoints=True)
    for step in (3, 4):
        saving.save(step, state_of(step))
        if notes := saving.notes(wait=True):
            raise OSError(notes[0])


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


def _train(config: str) -> Callable[[Path, Path], None]:
    def act(place: Path, folder: Path) -> None:
        """Train, or go on with what an earlier attempt has left, as its message says."""
        run = folder / "run"
        if (run / "results.json").is_file():
            return
        if [*run.glob("checkpoints/step-*")]:
            called("train", "--resume", run)
        else:
            shutil.rmtree(run, ignore_errors=True)
            called("train", place / config, "--run-dir", run)
        json.loads((run / "results.json").read_text())

    return act


def killed_run(place: Path, folder: Path) -> None:
    """A run of which the first checkpoint is there, and a log that went on."""
    run = folder / "run"
    called("train", place / "training.yaml", "--run-dir", run)
    for name in ("results.json", "model.safetensors"):
        (run / name).unlink()
    for step in (2, 3):
        shutil.rmtree(run / "checkpoints" / f"step-{step:08d}")


def sweep(place: Path, folder: Path) -> None:
    """Train with two rates, or go on with that."""
    runs = folder / "runs"
    is_begun = runs.is_dir() and any(runs.iterdir())
    place_of = ("--resume" if is_begun else "--run-dir", runs)
    called("train", place / "new" / "table.yaml", "--sweep", "lr_scheduler.lr=0.1,0.2", *place_of)
    json.loads((runs / "sweep.json").read_text())


def evaluate(place: Path, folder: Path) -> None:
    """Measure the model of a run, unless the values are there; each call keeps them under a name of its own."""
    if not [*folder.glob("run/evaluations/*.json")]:
        called("evaluate", folder / "run")


def copied_run(place: Path, folder: Path) -> None:
    shutil.copytree(place / "new" / "run", folder / "run")


def _nothing(place: Path, folder: Path) -> None: ...


def remove(place: Path, folder: Path) -> None:
    if (folder / "run").exists():
        called("runs", folder, "--remove", folder / "run", "--yes")


class Action(NamedTuple):
    """What writes to a folder.

    Attributes:
        act: does it.
        before: makes what is in the folder before.
        depth: how many names of a path say of which unit a file is; a unit is there as it was, or as it will be, whole.
        loose: names of files and directories that are not looked at here.
        changing: what differs each time in files of JSON, which have to be whole.
        record: the path of a record, of which the tensors are looked at, not the files.
        is_replayed: all that changes files is a call of the C library, so that a loss of power can be replayed.
        is_cache: it may be lost, too, as it is made again.
    """

    act: Callable[[Path, Path], object]
    before: Callable[[Path, Path], object] = _nothing
    depth: int = 1
    loose: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()
    record: str = ""
    is_replayed: bool = True
    is_cache: bool = False


def _command(name: str, *, is_new: bool = False, **options: object) -> Action:
    """The output of a command, which takes the place of an earlier one; of a new one it has been moved away."""

    def act(place: Path, folder: Path) -> None:
        for path in folder.iterdir() if is_new else ():
            shutil.rmtree(path)
        output(name, place, folder)

    before = _nothing if is_new else partial(output, name, version="old")
    return Action(act, before, **options)  # type: ignore[arg-type]


def _save(name: str, *, is_new: bool = False, **options: object) -> Action:
    write = WRITES[name]
    before = _nothing if is_new else lambda place, folder: write(folder, 1)
    return Action(lambda place, folder: write(folder, 2), before, **options)  # type: ignore[arg-type]


_OPTIONS: dict[str, dict[str, object]] = {
    "convert to a set": {"record": "set"},
    "convert to a named set": {"record": "linear.safetensors"},
    "convert to dcp": {"is_new": True},
    "init": {"is_new": True, "depth": 2},
    "profile": {"changing": ("traceEvents",)},
    "a set": {"record": "set"},
    "dcp": {"is_new": True},
    "parts": {"is_new": True, "record": "parts"},
    **{name: {"depth": 2} for name in ("checkpoints in the background", "save_pretrained", "adapter")},
    "save_for_transformers": {"depth": 2, "is_replayed": False},  # `safetensors` renames by a system call of its own
}
"""Of the actions of `OUTPUTS` and `WRITES`: how to look at what they write."""

_OF_TIMES = ("metrics.jsonl", "log.txt", "environment.json", "results.json")
"""Files of a run which differ each time, by times and memory."""

ACTIONS = {
    "fetch": Action(fetch, fetched_before, 3, ("mirror.json",)),
    "mirror": Action(mirror, mirrored_before, 2, ("mirror.json",)),
    "mirror of each checkpoint": Action(mirror_each, mirrored_before, 2, ("mirror.json",)),
    "tokens": Action(tokens, depth=5, is_cache=True),
    "lines": Action(lines, depth=5, is_cache=True),
    "facts": Action(facts),
    "train": Action(_train("training.yaml"), depth=9, loose=_OF_TIMES),
    "train adapters": Action(_train("new/adapters.yaml"), depth=9, loose=_OF_TIMES),
    "resume": Action(_train("training.yaml"), killed_run, 9, _OF_TIMES),
    "sweep": Action(sweep, depth=9, loose=(*_OF_TIMES, "sweep.json")),
    "evaluate": Action(evaluate, copied_run, 9, changing=("time", "seconds")),
    "runs --remove": Action(remove, copied_run),
    **{name: _command(name, **_OPTIONS.get(name, {})) for name in OUTPUTS},  # type: ignore[arg-type]
    **{name: _save(name, **_OPTIONS.get(name, {})) for name in WRITES},  # type: ignore[arg-type]
}


def units(folder: Path, action: Action) -> dict[str, dict[str, str]]:
    """The hashes of the files of each unit; without hidden files, locks and what is loose."""
    if action.record:
        path = folder / action.record
        is_there = path.exists() or path.with_name(f"{path.name}.index.json").exists()
        return {action.record: {"": _tensors(path).hex()}} if is_there else {}
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        is_hidden = any(it.startswith(".") for it in parts) or path.suffix == ".lock"
        if path.is_file() and not is_hidden and not {*parts} & {*action.loose}:
            digest = _digest(path, action.changing)
            found.setdefault("/".join(parts[: action.depth]), {})["/".join(parts[action.depth :])] = digest
    return found


def _digest(path: Path, changing: tuple[str, ...]) -> str:
    """The hash of a file; of a record that of its tensors, of JSON without what changes."""
    content = path.read_bytes()
    if path.suffix == ".safetensors":
        with contextlib.suppress(RecordError):
            content = _tensors(path) or content
    if path.suffix == ".json" and changing:
        content = json.dumps({name: it for name, it in json.loads(content).items() if name not in changing}).encode()
    return hashlib.sha256(content).hexdigest()


def _tensors(path: Path) -> bytes:
    """The hash of a record's tensors in any order, as ids are drawn anew each time."""
    tensors = [torch.atleast_1d(it) for it in open_record(path).tensors.values()]
    return hashlib.sha256(b"".join(sorted(bytes(it.contiguous().view(torch.uint8).numpy()) for it in tensors))).digest()


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
