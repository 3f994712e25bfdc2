"""Writes the files that later versions are tested to read: `python -m tests.releases.write`, once for each release.

They go to tests/releases/<version>/. What is there already is not written again: files of a release never change.
"""

import importlib
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import burnlike as bl
from burnlike.config import Config, registry
from burnlike.config.emit import to_plain
from burnlike.config.shipped import shipped_configs

from . import contents

HERE = Path(__file__).parent


def types() -> dict[str, dict[str, dict[str, Any]]]:
    """By role and `type:`, the fields of each config and their defaults; `<required>` where one has to be given."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for role, tags in registry.types_by_role(Config).items():
        cls = registry.named(Config, role)
        for tag, config in registry.imported(cls).items():
            if not (config.__module__.startswith("burnlike.") and tag in tags):
                continue
            fields = registry.fields_of(config).items()
            found.setdefault(role, {})[tag] = {
                name: "<required>" if field.required else to_plain(registry.default_of(field)) for name, field in fields
            }
    return found


def names() -> dict[str, list[str]]:
    """The public names of each package of burnlike."""
    stubs = sorted(Path(bl.__file__).parent.rglob("__init__.pyi"))
    packages = [".".join(("burnlike", *stub.relative_to(Path(bl.__file__).parent).parts[:-1])) for stub in stubs]
    return {name: sorted(importlib.import_module(name).__all__) for name in packages}


def write_records(folder: Path) -> dict[str, Any]:
    """The model in every format, and the records of an optimizer, a schedule and a loader; returns what is expected."""
    model = contents.model()
    for extension in contents.FORMATS:
        bl.record.save(model, folder / f"model{extension}")
    bl.record.SafetensorsRecorder(shard_bytes=100).save(model.into_record(), folder / "sharded")
    optimizer, schedule, loader = contents.optimizer(), contents.schedule(), contents.loader()
    expected: dict[str, Any] = {"ids": contents.ids_of(model)}
    for number in range(contents.STEPS):
        contents.step(optimizer, model, number)
        schedule.step()
    batches = iter(loader)
    for _ in range(contents.STEPS):
        next(batches)
    for extension in (".safetensors", ".mpk"):
        bl.record.save(optimizer, folder / f"optimizer{extension}")
        bl.record.save(schedule, folder / f"schedule{extension}")
    bl.record.save(model, folder / "stepped.safetensors")
    bl.record.save(loader, folder / "loader.safetensors")
    contents.step(optimizer, model, contents.STEPS)
    return expected | {
        "stepped again": contents.flat(model),
        "next rate": schedule.step(),
        "next batch": [it.tolist() for it in next(batches)],
    }


def write_pickles(folder: Path) -> dict[str, Any]:
    model, stock = contents.model(), contents.stock()
    torch.save(model, folder / "model.pickle")
    torch.save(stock, folder / "stock.pickle")
    return {"pickled ids": contents.ids_of(model), "pickled stock ids": contents.ids_of(stock)}


def write_run(folder: Path) -> dict[str, Any]:
    """A run that was stopped after its first checkpoint; returns how the same run ends that nobody stops."""
    (folder / "corpus.txt").write_text(contents.CORPUS)
    (folder / "job.yaml").write_text(contents.JOB)
    train = [sys.executable, "-m", "burnlike", "train", "job.yaml", "--run-dir"]
    subprocess.run([*train, "whole"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    stopped = subprocess.Popen([*train, "run"], cwd=folder, stdout=subprocess.DEVNULL)
    while not list((folder / "run").glob("checkpoints/step-*")):
        time.sleep(0.001)
    stopped.send_signal(signal.SIGINT)
    assert stopped.wait() == 130
    lines = (folder / "whole" / "metrics.jsonl").read_text().splitlines()
    shutil.rmtree(folder / "whole")
    environment = folder / "run" / "environment.json"
    environment.write_text(environment.read_text().replace(f"{Path.cwd()}/", ""))
    (last,) = (it for it in map(json.loads, lines) if it["split"] == "valid" and it["step"] == 120)
    return {"validation loss": last["loss"]}


def main() -> int:
    folder = HERE / bl.__version__
    if folder.exists():
        print(f"{folder} is there, and files of a release are never changed", file=sys.stderr)
        return 1
    folder.mkdir()
    (folder / "model.yaml").write_text(contents.MODEL)
    configs = folder / "configs"
    configs.mkdir()
    for path in shipped_configs().values():
        (configs / path.name).write_text(path.read_text())
    expected = write_records(folder) | write_pickles(folder) | write_run(folder)
    expected |= {"torch": torch.__version__, "python": sys.version.split()[0]}
    for name, content in (("expected", expected), ("types", types()), ("names", names())):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
