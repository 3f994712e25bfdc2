"""Today's code reads what each release wrote: docs/compatibility.md has the promises, a test each."""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import burnlike as bl
from burnlike.config import Config, ModuleConfig, registry
from burnlike.config.emit import to_plain
from burnlike.train import TrainConfig

from ..fork_server import ForkServer
from . import contents

ROOT = Path(__file__).parents[2]
RELEASES = sorted(path.parent for path in Path(__file__).parent.glob("*/expected.json"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
REMOVED: dict[str, tuple[str, str]] = {}
"""Public names as `package.name`: the version that warned first, and the one that no longer has the name."""

pytestmark = pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)


def read(release: Path, name: str) -> Any:
    return json.loads((release / f"{name}.json").read_text())


def test_configs_build_the_same_models(release: Path) -> None:
    model = ModuleConfig.load(release / "model.yaml").init()
    bl.record.load(model, release / "model.safetensors")
    assert contents.flat(model) == contents.flat(contents.model())
    files = list((release / "configs").glob("*.yaml"))
    assert len(files) > 15
    for path in files:
        is_model = path.read_text().rpartition("\n\n")[2].startswith("type:") or "\ntype:" in path.read_text()
        (ModuleConfig if is_model else TrainConfig).load(path)


def test_every_type_and_field_is_read_with_the_default_that_it_had(release: Path) -> None:
    for role, tags in read(release, "types").items():
        for tag, fields in tags.items():
            found = registry.lookup(registry.named(Config, role), tag)
            assert found is not None, f"`type: {tag}` is gone, and nothing reads it by its old name"
            today = registry.fields_of(found)
            assert fields.keys() <= today.keys(), f"{tag}: a field is gone, and nothing reads it by its old name"
            for name, default in fields.items():
                field = today[name]
                now = "<required>" if field.required else to_plain(registry.default_of(field))
                assert now == default or f"`{tag}.{name}`" in CHANGELOG, f"{tag}.{name} was {default!r}, is {now!r}"
            added = today.keys() - fields.keys()
            assert not [name for name in added if today[name].required], f"{tag}: files of this release lack a field"


def test_every_public_name_is_there_or_was_deprecated_for_two_minor_versions(release: Path) -> None:
    for package, names in read(release, "names").items():
        there = dir(importlib.import_module(package))
        gone = {f"{package}.{name}" for name in names if name not in there}
        assert gone <= REMOVED.keys()
        assert all(minor(without) - minor(warned) >= 2 for warned, without in map(REMOVED.get, gone))


def minor(version: str) -> int:
    major, number, _ = map(int, version.split("."))
    return 1000 * major + number


@pytest.mark.parametrize("extension", contents.FORMATS)
def test_records_have_their_values_and_ids(release: Path, extension: str) -> None:
    model = contents.model(number=3)
    bl.record.load(model, release / f"model{extension}")
    assert contents.flat(model) == contents.flat(contents.model())
    assert contents.ids_of(model) == read(release, "expected")["ids"]


def test_records_in_several_files_are_read(release: Path) -> None:
    model = contents.model(number=3)
    bl.record.load(model, release / "sharded")
    assert contents.flat(model) == contents.flat(contents.model())


@pytest.mark.parametrize("extension", [".safetensors", ".mpk"])
def test_an_optimizer_and_a_schedule_go_on(release: Path, extension: str) -> None:
    expected = read(release, "expected")
    model, optimizer, schedule = contents.model(number=3), contents.optimizer(), contents.schedule()
    bl.record.load(model, release / "stepped.safetensors")
    bl.record.load(optimizer, release / f"optimizer{extension}", module=model)
    contents.step(optimizer, model, contents.STEPS)
    torch.testing.assert_close(torch.tensor(contents.flat(model)), torch.tensor(expected["stepped again"]))
    bl.record.load(schedule, release / f"schedule{extension}")
    assert schedule.step() == pytest.approx(expected["next rate"])


def test_a_loader_goes_on(release: Path) -> None:
    loader = contents.loader()
    bl.record.load(loader, release / "loader.safetensors")
    assert [it.tolist() for it in next(iter(loader))] == read(release, "expected")["next batch"]


def test_pickles_of_modules_have_values_ids_and_what_is_frozen(release: Path) -> None:
    expected = read(release, "expected")
    model = torch.load(release / "model.pickle", weights_only=False)
    assert contents.flat(model) == contents.flat(contents.model())
    assert contents.ids_of(model) == expected["pickled ids"]
    stock = torch.load(release / "stock.pickle", weights_only=False)
    assert contents.flat(stock) == contents.flat(contents.stock())
    assert contents.ids_of(stock) == expected["pickled stock ids"]
    assert stock[1].weight is stock[0].weight
    assert [it.requires_grad for it in stock.parameters()] == [True, True, False, False]


@pytest.mark.slow
def test_a_run_is_resumed_and_ends_as_one_that_was_not_stopped(
    release: Path, tmp_path: Path, fork_server: ForkServer
) -> None:
    for name in ("job.yaml", "corpus.txt"):
        shutil.copy(release / name, tmp_path)
    shutil.copytree(release / "run", tmp_path / "run")
    program = """
import burnlike as bl
from burnlike.cli.main import main

assert main(["train", "--resume", "run"]) == 0
run = bl.train.load_run("run", best=True)
assert type(run.model).__name__ == "DecoderLm"
"""
    status, output = fork_server.run_program(program, tmp_path, {})
    assert status == 0, output
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    (last,) = (it for it in lines if (it["step"], it["split"]) == (120, "valid"))
    # To the bit only with the same versions of burnlike and torch, on the same machine.
    assert last["loss"] == pytest.approx(read(release, "expected")["validation loss"], rel=1e-2)


def test_files_of_releases_are_small(release: Path) -> None:
    assert sum(path.stat().st_size for path in release.rglob("*")) < 1_000_000
