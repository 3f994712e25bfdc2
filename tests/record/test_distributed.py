"""Sharded records and directories of torch.distributed.checkpoint: resharded on load, ids kept, no pickles."""

import json
import pickle
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from safetensors.torch import load_file
from torch import nn

from burnlike.cli.main import main
from burnlike.errors import ArgumentError, RecordFormatError, RecordIOError
from burnlike.module import params
from burnlike.optim import AdamWConfig
from burnlike.record import BFloat16Precision, DcpRecorder, DistributedRecorder, Record, load, open_record, save, verify
from burnlike.record.files.reading import read_outline

from ..processes import assert_succeed, launched
from .distributed_worker import net, step


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


@pytest.mark.slow
def test_sharded_module_comes_back_in_sharded_modules_with_its_ids(job: Job) -> None:
    for found in job[1]:
        assert found["loaded"] == values(net(seed=1))
        assert found["loaded ids"] == found["ids"] == job[1][0]["ids"]
        assert len(found["applied"]) == len(found["ids"]) == 9


@pytest.mark.slow
def test_state_beside_parameters_comes_back_in_sharded_modules(job: Job) -> None:
    for found in job[1]:
        assert found["own loaded"] == found["own"]
        assert found["entries loaded"]
        assert found["other entries"]


@pytest.mark.slow
def test_one_process_loads_what_two_saved_and_the_other_way_round(job: Job) -> None:
    folder, found = job
    module = net(seed=9)
    DistributedRecorder().load(folder / "full").load_into(module)
    assert values(module) == values(net(seed=1))
    assert {param.path: str(param.id) for param in params(module)} == found[0]["ids"]
    assert found[0]["from one process"] == found[1]["from one process"] == values(net(seed=6))
    assert found[0]["from one file"] == found[1]["from one file"] == values(net(seed=6))


@pytest.mark.slow
def test_parts_are_converted_to_the_precision(job: Job) -> None:
    record = DistributedRecorder().load(job[0] / "bf16")
    for param in params(net(seed=1)):
        if param.tensor.is_floating_point():
            assert record.tensors[param.path].dtype == torch.bfloat16
            assert torch.equal(record.tensors[param.path], param.tensor.detach().bfloat16())


@pytest.mark.slow
def test_both_processes_raise_where_one_fails_and_nothing_is_left(job: Job) -> None:
    folder, found = job
    for each in found:
        assert each["exists is refused"]
        assert each["overflow on one"]
        assert each["other names"]
        assert each["full disk on one"]
        assert each["file"]
        assert each["several names"]
        assert each["several states"]
    assert not [*folder.glob("run *")]
    assert not (folder / "no").exists()
    assert not list(folder.glob(".*"))


@pytest.mark.slow
def test_processes_that_see_other_directories_save_nothing(job: Job) -> None:
    for each in job[1]:
        assert each["apart"]
        assert each["lost"]


@pytest.mark.slow
def test_rank_0_writes_the_files_of_processes_that_see_other_directories(job: Job) -> None:
    assert all(each["gathered"] for each in job[1])
    module = net(seed=9)
    DistributedRecorder().load(job[0] / "node 0" / "no").load_into(module)
    assert values(module) == values(net(seed=1))


@pytest.mark.slow
def test_a_save_fails_where_another_process_is_killed(job: Job) -> None:
    folder, found = job
    message = f"{folder / 'killed'}: not saved: another process has ended, or does not answer"
    assert found[0]["killed"].startswith(message)
    assert not (folder / "killed").exists()


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_path_that_is_missing_is_said_to_be_missing(tmp_path: Path) -> None:
    for read in (DistributedRecorder().load, open_record, lambda path: load(net(seed=1), path)):
        with pytest.raises(RecordIOError, match=r"nothing: no such (directory|file)"):
            read(tmp_path / "nothing")


@pytest.mark.slow
def test_tensors_of_other_strides_are_saved(job: Job) -> None:
    assert all(each["transposed"] for each in job[1])


@pytest.mark.slow
def test_states_that_were_loaded_and_not_used_are_saved_alike(job: Job) -> None:
    before, after = (DistributedRecorder().load(job[0] / name) for name in ("optimizer", "optimizer again"))
    assert before.values == after.values
    assert before.tensors.keys() == after.tensors.keys() != set()
    for name in before.tensors:
        assert torch.equal(before.tensors[name], after.tensors[name])


@pytest.mark.slow
def test_files_are_plain_safetensors(job: Job) -> None:
    files = sorted((job[0] / "full").iterdir())
    assert len(files) == 3  # two with parts, and one without tensors
    for file in files:
        with safetensors.safe_open(file, "pt") as opened:
            names = list(opened.keys())
            assert all(opened.get_tensor(name).dtype in (torch.float32, torch.int64) for name in names)


@pytest.mark.slow
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


@pytest.mark.slow
def test_tensors_that_share_memory_are_saved(tmp_path: Path) -> None:
    """As in the state of RmsProp, whose `centered.avg` is `square_avg` itself; and views of one tensor."""
    rows = torch.arange(6.0).view(2, 3)
    record = Record({"rows": rows, "again": rows, "first": rows[0], "column": rows[:, 1]})
    DistributedRecorder().save(record, tmp_path / "x")
    loaded = DistributedRecorder().load(tmp_path / "x").tensors
    assert {name: it.tolist() for name, it in loaded.items()} == {
        name: it.tolist() for name, it in record.tensors.items()
    }


@pytest.mark.slow
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


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What processes saved by torch, divided in several ways; and the same whole."""
    folder = tmp_path_factory.mktemp("dcp")
    logs = [folder / f"{rank}.log" for rank in range(4)]
    assert_succeed(launched(["-m", "tests.record.dcp_worker", str(folder)], logs), logs)
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that one process saved."""
    import torch.distributed.checkpoint as dcp

    path = tmp_path_factory.mktemp("one") / "saved"
    torch.manual_seed(2)
    content = {"model": nn.Linear(3, 2).state_dict(), "step": 7, "half": torch.ones(3, dtype=torch.bfloat16)}
    dcp.save({**content, "rng": torch.get_rng_state()}, checkpoint_id=path)
    return path


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.ndim else bits(tensor.view(1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_parts_of_several_processes_are_read_to_the_bit(saved: Path) -> None:
    record, expected = open_record(saved / "saved"), load_file(saved / "whole.safetensors")
    assert record.tensors.keys() == expected.keys()
    for name, it in expected.items():
        assert (record.tensors[name].dtype, bits(record.tensors[name])) == (it.dtype, bits(it)), name
    assert record.values["steps"] == 3
    assert record.values["about"] == {"names": ["a", None, 2.5]}
    assert record.values["optimizer"]["param_groups"]["0"]["lr"] == 0.1
    assert verify(saved / "saved") == len(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_parts_in_safetensors_files_are_read_to_the_bit(saved: Path) -> None:
    record, expected = open_record(saved / "parts"), load_file(saved / "whole.safetensors")
    assert record.tensors.keys() == {name for name in expected if not name.startswith("optimizer")}
    for name, it in record.tensors.items():
        assert bits(it) == bits(expected[name]), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_commands_convert_and_show_it(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.safetensors"
    options = ["--top-level-key", "model", "--precision", "bf16"]
    assert main(["convert", str(saved / "saved"), str(out), *options]) == 0
    expected = load_file(saved / "whole.safetensors")
    found = load_file(out)
    assert set(found) == {name.removeprefix("model.") for name in expected if name.startswith("model.")}
    for name, it in found.items():
        assert torch.equal(it, expected[f"model.{name}"].bfloat16())
    capsys.readouterr()
    assert main(["inspect", str(saved / "saved")]) == 0
    shown = capsys.readouterr().out
    assert "model.0.weight" in shown
    assert "[8, 6]" in shown
    assert "dcp" in shown


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_it_loads_into_a_module(saved: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6), nn.Linear(6, 3))
    report = load(model, saved / "saved", top_level_key="model")
    expected = load_file(saved / "whole.safetensors")
    assert len(report.applied) == 6
    for name, it in model.state_dict().items():
        assert torch.equal(it, expected[f"model.{name}"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_what_is_written_torch_loads(one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch.distributed.checkpoint as dcp

    record = open_record(one)
    assert main(["convert", str(one), str(tmp_path / "again.dcp")]) == 0
    target: dict[str, Any] = {"model": nn.Linear(3, 2).state_dict(), "step": 0, "half": torch.zeros(3).bfloat16()}
    dcp.load(target, checkpoint_id=tmp_path / "again.dcp")
    assert target["step"] == 7
    assert torch.equal(target["half"], torch.ones(3).bfloat16())
    assert torch.equal(target["model"]["weight"], record.tensors["model.weight"])
    again = open_record(tmp_path / "again.dcp")
    assert again.values == record.values
    assert {name: bits(it) for name, it in again.tensors.items()} == {n: bits(it) for n, it in record.tensors.items()}
    with pytest.raises(RecordIOError, match="exists; choose another name"):
        DcpRecorder().save(record, tmp_path / "again.dcp")
    assert main(["convert", str(one), str(tmp_path / "again.dcp"), "--force"]) == 2
    assert "again.dcp exists; choose another name or remove it first" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_ids_ties_and_precision_come_back(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    record = Record.of(model)
    DcpRecorder(BFloat16Precision).save(record, tmp_path / "tied")
    again = DcpRecorder().load(tmp_path / "tied")
    assert (again.ids, again.aliases) == (record.ids, record.aliases)
    assert again.tensors["0.weight"].dtype == torch.bfloat16
    target = {name: torch.zeros(it.shape, dtype=torch.bfloat16) for name, it in model.state_dict().items()}
    dcp.load(target, checkpoint_id=tmp_path / "tied")
    assert torch.equal(target["1.weight"], model[0].weight.detach().bfloat16())


class Hostile:
    def __reduce__(self) -> Any:
        return (exec, ("import pathlib; pathlib.Path('ran').touch()",))


def damaged(one: Path, to: Path) -> Path:
    shutil.copytree(one, to)
    return to


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_nothing_in_a_directory_is_run(one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed.checkpoint as dcp

    monkeypatch.chdir(tmp_path)
    path = damaged(one, tmp_path / "x")
    (path / ".metadata").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(RecordFormatError, match="expected the metadata of torch"):
        open_record(path)
    with pytest.warns(UserWarning, match="torch.distributed is disabled"):
        dcp.save({"own": Hostile(), "weight": torch.ones(2)}, checkpoint_id=tmp_path / "y", no_dist=True)
    record = open_record(tmp_path / "y")
    assert record.metadata == {"dcp.skipped": "own"}
    assert torch.equal(record.tensors["weight"], torch.ones(2))
    assert not (tmp_path / "ran").exists()


def changed(path: Path, change: Any) -> Path:
    with open(path / ".metadata", "rb") as file:
        content = pickle.load(file)
    change(content)
    (path / ".metadata").write_bytes(pickle.dumps(content))
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_damaged_directories_of_torch_are_refused(one: Path, tmp_path: Path) -> None:
    def place(content: Any, **values: Any) -> None:
        for it in content.storage_data.values():
            vars(it).update(values)

    def lose_part(content: Any) -> None:
        content.state_dict_metadata["model.weight"].chunks.clear()

    cases = [
        (lambda content: place(content, relative_path="../secret.distcp"), "expected one in the directory itself"),
        (lambda content: place(content, relative_path="__1_0.distcp"), "no such file"),
        (lambda content: place(content, length=1 << 40), "truncated"),
        (lambda content: place(content, transform_descriptors=["zstd"]), "compressed or changed by an extension"),
        (lambda content: content.storage_data.clear(), "does not say where"),
        (lose_part, "has 0 of 6 elements in its files"),
    ]
    for number, (change, message) in enumerate(cases):
        with pytest.raises((RecordFormatError, RecordIOError), match=message):
            open_record(changed(damaged(one, tmp_path / str(number)), change))
    with pytest.raises(ArgumentError, match="expected a key among 'model', 'step'"):
        open_record(one, top_level_key="modle")
    cut = damaged(one, tmp_path / "cut")
    (cut / "__0_0.distcp").write_bytes((one / "__0_0.distcp").read_bytes()[:-300])
    with pytest.raises(RecordFormatError, match="truncated"):
        open_record(cut)
    flipped = damaged(one, tmp_path / "flipped")
    data = bytearray((flipped / "__0_0.distcp").read_bytes())
    weight = open_record(one).tensors["model.weight"]
    at = data.index(bits(weight))
    data[at] ^= 1
    (flipped / "__0_0.distcp").write_bytes(data)
    with pytest.raises(RecordFormatError, match="are not those that were saved"):
        _ = open_record(flipped).tensors["model.weight"]
    half = damaged(one, tmp_path / "half")
    (half / ".metadata").write_bytes((one / ".metadata").read_bytes()[:-20])
    with pytest.raises(RecordFormatError, match="its pickle is damaged"):
        open_record(half)
    (half / ".metadata").unlink()
    with pytest.raises(RecordIOError, match=r"without \.metadata, which is written last"):
        open_record(half)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_write_that_fails_is_a_record_error_and_leaves_nothing(tmp_path: Path) -> None:
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
        with pytest.raises(RecordIOError, match=r"big.dcp: can't be written: .*free some space"):
            DcpRecorder().save(Record({"w": torch.ones(200_000)}), tmp_path / "big.dcp")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_value_whose_name_has_too_many_parts_is_refused(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save({"a." * 2000 + "x": {"b": 1}, "w": torch.ones(2)}, checkpoint_id=tmp_path / "x")
    with pytest.raises(RecordFormatError, match="is nested too deeply"):
        open_record(tmp_path / "x")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_every_cut_of_the_metadata_is_an_error_of_its_own(one: Path, tmp_path: Path) -> None:
    data = (one / ".metadata").read_bytes()
    path = damaged(one, tmp_path / "x")
    for at in range(0, len(data), 97):
        changed_data = bytearray(data)
        changed_data[at] ^= 0x55
        (path / ".metadata").write_bytes(changed_data)
        try:
            _ = [*open_record(path).tensors.values()]
        except (RecordFormatError, RecordIOError):
            continue


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_inspect_does_not_load_torch(one: Path) -> None:
    code = (
        "import sys; from burnlike.cli.main import main; main(['inspect', sys.argv[1], '--verify']);"
        " assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(one)], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_large_tensor_is_converted_in_bounded_memory(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    with pytest.warns(UserWarning, match="torch.distributed is disabled"):
        dcp.save({"large": torch.zeros(64 << 20)}, checkpoint_id=tmp_path / "large", no_dist=True)
    code = (
        "import sys, resource; from burnlike.cli.main import main; import burnlike.record, torch, burnlike.ops;"
        " before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        " assert main(['convert', sys.argv[1], sys.argv[2], '--precision', 'bf16']) == 0;"
        " grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before; assert grown < 100 << 10, grown"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "large"), str(tmp_path / "x.safetensors")], check=True)
