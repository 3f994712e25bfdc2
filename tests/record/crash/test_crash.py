"""Whatever fails during a save, and whenever the process is killed: the old record or the new one is there, whole."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from burnlike.record import open_record

from .saver import SAVES
from .shimmed import EIO, FULL, KILL, SHORT, Shimmed


class Saver(Shimmed):
    """The saving process and the folder that it saves into."""

    def __call__(self, save: str, version: int, **order: Any) -> dict[str, Any]:
        return self.ask(save=save, version=version, **order)

    def calls(self, save: str, version: int) -> list[list[str]]:
        """The calls of one save: name and path below the folder."""
        self.log.write_text("")
        assert self(save, version)["error"] == ""
        return self.logged()


@pytest.fixture(scope="module")
def saver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Saver]:
    place = tmp_path_factory.mktemp("crash").resolve()
    (place / "records").mkdir()
    found = Saver(place, place / "records", "tests.record.crash.saver", str(place / "records"))
    yield found
    found.kill()


def version_of(path: Path) -> int:
    """The version of the whole record that is at `path`; fails if it is not whole."""
    record = open_record(path)
    version = record.values["version"]
    assert len(record.tensors) == 3
    for tensor in record.tensors.values():
        assert torch.all(tensor == version)
    if path.suffix == ".safetensors":
        assert all((tensor == version).all() for tensor in safetensors.torch.load_file(path).values())
    return version


def leftovers(folder: Path) -> list[str]:
    """Files that no whole record consists of."""
    found = []
    for path in folder.rglob("*"):
        index = path.parent / "model.safetensors.index.json"
        known = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else set()
        if path.parent.name == "sharded" and path not in (index, path.parent / "model.safetensors"):
            if path.name not in known:
                found.append(path.name)
        elif path.name.startswith(".") or path.name.endswith(".tmp"):
            found.append(path.name)
    return found


@pytest.mark.parametrize("save", SAVES)
def test_file_is_written_synced_renamed_and_the_folder_synced_in_this_order(save: str, saver: Saver) -> None:
    saver(save, 1)
    calls = saver.calls(save, 2)
    names = [call for call, _ in calls]
    assert "write" in names
    renames = [index for index, call in enumerate(names) if call == "rename"]
    assert renames
    last_write = max(index for index, call in enumerate(names) if call == "write")
    syncs = [index for index, call in enumerate(names) if call == "fsync"]
    assert any(last_write < index < renames[-1] for index in syncs)  # the file, before it is renamed
    after = [path for call, path in calls[renames[-1] :] if call == "fsync"]
    assert "." in after or "sharded" in after  # the folder, after it
    for index in renames:
        assert any(other < index for other in syncs)


@pytest.mark.slow
@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("failure", [FULL, EIO, SHORT, KILL], ids=["full disk", "EIO", "short write", "killed"])
def test_old_or_new_record_is_whole_after_a_failure_at_each_call(save: str, failure: int, saver: Saver) -> None:
    target = saver.folder / save
    old = 1
    count = len(saver.calls(save, old))
    saver(save, old, next=True)
    assert count > 4
    for at in range(count):
        new = 3 - old
        answer = saver(save, new, at=at, failure=failure, fork=failure == KILL)
        found = version_of(target)
        assert found in (old, new)
        if failure == KILL:
            assert answer["killed"]
        elif failure == SHORT:
            assert (answer["error"], found) == ("", new)
        elif found == old:
            assert answer["error"].startswith("RecordIOError"), (at, answer)
        old = 3 - found
        assert saver(save, old, next=True)["error"] == ""  # the next save goes well and tidies up
        assert version_of(target) == old
        assert leftovers(saver.folder) == []


@pytest.mark.parametrize("save", ["large.safetensors", "sharded"])
@pytest.mark.parametrize("kills", [15, pytest.param(100, marks=pytest.mark.weekly)])
def test_old_or_new_record_is_whole_after_a_kill_at_a_random_moment(save: str, kills: int, saver: Saver) -> None:
    target = saver.folder / save
    saver(save, 1)
    within = 1.5 * max(saver(save, 2)["seconds"] for _ in range(3))
    old, killed = 2, 0
    for _ in range(kills):
        hit = saver(save, 3 - old, fork=True, kill_within=within)["killed"]
        within *= 1.1 if hit else 0.8  # follows the speed of the machine
        killed += hit
        found = version_of(target)
        old = 3 - found
        assert saver(save, old, next=True)["error"] == ""
        assert version_of(target) == old
        assert leftovers(saver.folder) == []
    assert killed > kills // 4  # most of them hit the save itself
