"""Records of sharded modules go through torch's distributed checkpoint: resharded on load, ids kept, no pickle."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from torch import nn

from burnlike.errors import ArgumentError, RecordFormatError, RecordIOError
from burnlike.module import params
from burnlike.optim import AdamWConfig
from burnlike.record import BFloat16Precision, DistributedRecorder, Record, load, open_record, save
from burnlike.record.files.reading import read_outline

from ..processes import assert_succeed, launched
from .distributed_worker import net, step

pytestmark = pytest.mark.slow


def values(module: nn.Module) -> dict[str, list[float]]:
    return {param.path: param.tensor.detach().double().tolist() for param in params(module)}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """What two processes found that saved and loaded."""
    folder = tmp_path_factory.mktemp("distributed")
    one = net(seed=6)
    DistributedRecorder().save(Record.from_module(one), folder / "one")
    save(one, folder / "one.safetensors")
    logs = [folder / f"{rank}.log" for rank in range(2)]
    workers = launched(["-m", "tests.record.distributed_worker", str(folder)], logs)
    assert_succeed(workers, logs)
    return folder, [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]


Job = tuple[Path, list[dict[str, Any]]]


def test_sharded_module_comes_back_in_sharded_modules_with_its_ids(job: Job) -> None:
    for found in job[1]:
        assert found["loaded"] == values(net(seed=1))
        assert found["loaded ids"] == found["ids"] == job[1][0]["ids"]
        assert len(found["applied"]) == len(found["ids"]) == 9


def test_state_beside_parameters_comes_back_in_sharded_modules(job: Job) -> None:
    for found in job[1]:
        assert found["own loaded"] == found["own"]
        assert found["entries loaded"]
        assert found["other entries"]


def test_one_process_loads_what_two_saved_and_the_other_way_round(job: Job) -> None:
    folder, found = job
    module = net(seed=9)
    DistributedRecorder().load(folder / "full").load_into(module)
    assert values(module) == values(net(seed=1))
    assert {param.path: str(param.id) for param in params(module)} == found[0]["ids"]
    assert found[0]["from one process"] == found[1]["from one process"] == values(net(seed=6))
    assert found[0]["from one file"] == found[1]["from one file"] == values(net(seed=6))


def test_parts_are_converted_to_the_precision(job: Job) -> None:
    record = DistributedRecorder().load(job[0] / "bf16")
    for param in params(net(seed=1)):
        if param.tensor.is_floating_point():
            assert record.tensors[param.path].dtype == torch.bfloat16
            assert torch.equal(record.tensors[param.path], param.tensor.detach().bfloat16())


def test_both_processes_raise_where_one_fails_and_nothing_is_left(job: Job) -> None:
    folder, found = job
    for each in found:
        assert each["exists is refused"]
        assert each["overflow on one"]
        assert each["other names"]
        assert each["full disk on one"]
        assert each["file"]
    assert not (folder / "no").exists()
    assert not list(folder.glob(".*"))


def test_processes_that_see_other_directories_save_nothing(job: Job) -> None:
    for each in job[1]:
        assert each["apart"]
        assert each["lost"]


def test_rank_0_writes_the_files_of_processes_that_see_other_directories(job: Job) -> None:
    assert all(each["gathered"] for each in job[1])
    module = net(seed=9)
    DistributedRecorder().load(job[0] / "node 0" / "no").load_into(module)
    assert values(module) == values(net(seed=1))


def test_a_save_fails_where_another_process_is_killed(job: Job) -> None:
    folder, found = job
    message = f"{folder / 'killed'}: not saved: another process has ended, or does not answer"
    assert found[0]["killed"].startswith(message)
    assert not (folder / "killed").exists()


def test_load_and_open_record_know_such_a_directory(job: Job) -> None:
    folder, found = job
    assert found[0]["by load"] == found[1]["by load"] == values(net(seed=1))
    module = net(seed=9)
    load(module, folder / "full")
    assert values(module) == values(net(seed=1))
    assert open_record(folder / "full").tensors.keys() == Record.from_module(module).tensors.keys()
    with pytest.raises(ArgumentError, match="top_level_key is for files of torch"):
        open_record(folder / "full", top_level_key="model")
    assert read_outline(folder / "full")[1].ids == Record.from_module(module).ids


def test_a_path_that_is_missing_is_said_to_be_missing(tmp_path: Path) -> None:
    for read in (DistributedRecorder().load, open_record, lambda path: load(net(seed=1), path)):
        with pytest.raises(RecordIOError, match=r"nothing: no such (directory|file)"):
            read(tmp_path / "nothing")


def test_tensors_of_other_strides_are_saved(job: Job) -> None:
    assert all(each["transposed"] for each in job[1])


def test_states_that_were_loaded_and_not_used_are_saved_alike(job: Job) -> None:
    before, after = (DistributedRecorder().load(job[0] / name) for name in ("optimizer", "optimizer again"))
    assert before.values == after.values
    assert before.tensors.keys() == after.tensors.keys() != set()
    for name in before.tensors:
        assert torch.equal(before.tensors[name], after.tensors[name])


def test_files_are_plain_safetensors(job: Job) -> None:
    files = sorted((job[0] / "full").iterdir())
    assert len(files) == 3  # two with parts, and one without tensors
    for file in files:
        with safetensors.safe_open(file, "pt") as opened:
            names = list(opened.keys())
            assert all(opened.get_tensor(name).dtype in (torch.float32, torch.int64) for name in names)


def test_training_goes_on_as_if_it_had_never_stopped(job: Job) -> None:
    folder, found = job
    for each in found:
        assert each["resumed"] == each["trained on"]
    module, optimizer = net(seed=9), AdamWConfig().init()
    DistributedRecorder().load(folder / "stepped").load_into(module)
    optimizer.load_record(DistributedRecorder().load(folder / "optimizer"))
    step(module, optimizer)
    for path, expected in found[0]["resumed"].items():
        if path != "0.bias":  # its gradient, before a batch norm, is nothing but rounding
            torch.testing.assert_close(torch.tensor(values(module)[path]), torch.tensor(expected), rtol=0, atol=1e-3)


def test_tensors_that_share_memory_are_saved(tmp_path: Path) -> None:
    """As in the state of RmsProp, whose `centered.avg` is `square_avg` itself; and views of one tensor."""
    rows = torch.arange(6.0).view(2, 3)
    record = Record({"rows": rows, "again": rows, "first": rows[0], "column": rows[:, 1]})
    DistributedRecorder().save(record, tmp_path / "x")
    loaded = DistributedRecorder().load(tmp_path / "x").tensors
    assert {name: it.tolist() for name, it in loaded.items()} == {
        name: it.tolist() for name, it in record.tensors.items()
    }


def test_damaged_directories_are_refused(tmp_path: Path) -> None:
    record = Record.from_module(net(seed=1))
    with pytest.raises(RecordFormatError, match="expected a directory that DistributedRecorder wrote"):
        DistributedRecorder().load(tmp_path)
    path = tmp_path / "x"
    DistributedRecorder(BFloat16Precision).save(record, path)
    opened = DistributedRecorder().load(path)
    shard = next(path.glob("shard*"))
    moved = shard.rename(tmp_path / "elsewhere")
    with pytest.raises(RecordFormatError, match=rf"of its files, {shard.name} is missing"):
        DistributedRecorder().load(path)
    moved.rename(shard)
    data = shard.read_bytes()
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(RecordFormatError, match=rf"{shard.name}: the bytes of '.*' are not those that were saved"):
        [*DistributedRecorder().load(path).tensors.values()]
    shard.write_bytes(data[:-10])
    with pytest.raises(RecordIOError, match="was cut to"):
        [*opened.tensors.values()]
    with pytest.raises(RecordFormatError, match="truncated"):
        DistributedRecorder().load(path)
