"""`burnlike inspect` shows headers without torch; `burnlike diff`: what counts as a difference, and the exit status."""

import json
import math
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from burnlike.cli.commands import diff, inspect
from burnlike.cli.main import main
from burnlike.errors import RecordError, RecordFormatError, RecordIOError
from burnlike.module import ParamId
from burnlike.optim import AdamWConfig, GradientsParams
from burnlike.record import BFloat16Precision, Precision, Record, SafetensorsRecorder
from burnlike.record.recorder import recorder_for

from .commands import run

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"


def inspected(path: Path | str, *options: object) -> int:
    return run(inspect, path, *options)


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]):
    """What `--json` prints."""

    def found(path: Path | str, *options: object) -> dict[str, Any]:
        assert inspected(path, "--json", *options) == 0
        return json.loads(capsys.readouterr().out)

    return found


@pytest.fixture
def path(tmp_path: Path) -> str:
    record = Record(
        {"layer.weight": torch.ones(2, 3), "step": torch.tensor(7)},
        {"rate": float("inf"), "words": "x" * 300},
        {"layer.weight": ParamId(123456)},
        {"head.weight": "layer.weight"},
    )
    return SafetensorsRecorder(BFloat16Precision).save(record, tmp_path / "x")


def test_table_is_aligned_and_complete(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspected(path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{path}: safetensors, burnlike format 2, ")
    assert lines[2].split() == ["tensor", "dtype", "shape", "bytes", "id", "tied", "to"]
    assert lines[3].split() == ["step", "I64", "[]", "8", "-"]
    assert lines[4].split() == ["layer.weight", "BF16", "[2,", "3]", "12", "83h0200000000", "head.weight"]
    assert lines[3].index("I64") == lines[4].index("BF16") == lines[2].index("dtype")
    assert "2 tensors, 20 bytes" in lines
    assert '  rate: {"$float": "inf"}' in lines
    assert lines[-1].endswith("... (300 characters)")


def test_json_holds_the_same(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    inspected(path, "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["version"]) == ("safetensors", "2")
    assert found["tensors"][1] == {
        "path": "layer.weight",
        "id": "83h0200000000",
        "id_u64": "123456",
        "kind": "float",
        "dtype": "BF16",
        "shape": [2, 3],
        "bytes": 12,
        "role": "weight",
        "aliases": ["head.weight"],
    }
    assert found["values"]["rate"] == {"$float": "inf"}
    assert found["file_bytes"] == Path(path).stat().st_size


def test_file_of_another_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safetensors.torch.save_file({"a\x1b[31m": torch.ones(1)}, tmp_path / "x", metadata={"author": "me"})
    inspected(tmp_path / "x")
    text = capsys.readouterr().out
    assert "written by another program" in text
    assert "  author: me" in text
    assert "\x1b" not in text
    inspected(tmp_path / "x", "--json")
    assert json.loads(capsys.readouterr().out)["version"] is None


def test_wrong_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RecordIOError, match="no such file"):
        inspected(tmp_path / "none")
    (tmp_path / "x").write_bytes(b"garbage, not a record")
    with pytest.raises(RecordFormatError, match="expected a record"):
        inspected(tmp_path / "x")


def test_torch_is_not_imported(path: str) -> None:
    assert without_torch(path)


def without_torch(path: Path | str) -> bool:
    """Whether a process that inspects the file does not import torch."""
    code = "import sys; from burnlike.cli.main import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    command = [sys.executable, "-c", code, "inspect", str(path)]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def expected(name: str) -> list[tuple[Any, ...]]:
    """Path, id, kind, dtype and shape of each tensor that Burn says is in its file."""
    params = json.loads((GOLDEN / f"{name}.values.json").read_text())["params"]
    dtypes = {"float": "F32", "int": "I32", "bool": "BOOL"}
    return sorted(
        (it["path"], it["id"], str(it["id_u64"]), it["kind"].lower(), dtypes[it["kind"].lower()], it["shape"])
        for it in params
    )


def told(summary: dict[str, Any]) -> list[tuple[Any, ...]]:
    return sorted(
        tuple(it[key] for key in ("path", "id", "id_u64", "kind", "dtype", "shape")) for it in summary["tensors"]
    )


@pytest.mark.parametrize("extension", ["mpk", "mpk.gz", "json", "json.gz"])
@pytest.mark.parametrize("name", ["linear", "two"])
def test_burns_files_of_version_21(found, name: str, extension: str) -> None:
    path = GOLDEN / "v0.21" / f"{name}-full.{extension}"
    summary = found(path)
    assert told(summary) == expected(f"v0.21/{name}")
    assert summary["version"] == "0.21.0"
    assert summary["metadata"]["settings"] == "FullPrecisionSettings"
    assert summary["file_bytes"] == path.stat().st_size


@pytest.mark.parametrize("name", ["linear", "batch_norm", "tree", "kinds", "train_run-end"])
def test_burnpack(found, name: str) -> None:
    values = f"v0.22/{name.removesuffix('-end')}"
    summary = found(GOLDEN / "v0.22" / f"{name}.bpk")
    assert [row[:4] for row in told(summary)] == [row[:4] for row in expected(values)]


def test_an_optimizers_record_tells_the_ids(found) -> None:
    ids = {it["id"] for it in json.loads((GOLDEN / "v0.21" / "optim_adamw.values.json").read_text())["params"]}
    for extension in ("mpk", "json", "bin"):
        summary = found(GOLDEN / "v0.21" / f"optim_adamw-full.{extension}")
        assert {it["id"] for it in summary["tensors"]} == ids
        assert [it["role"] for it in summary["tensors"]] == [None] * 4


def test_bincode_without_a_layout_tells_what_stands_out(found, capsys: pytest.CaptureFixture[str]) -> None:
    for extension in ("bin", "bin.gz", "binbytes"):
        summary = found(GOLDEN / "v0.21" / f"linear-full.{extension}")
        named = {row[1:] for row in map(tuple, map(str_shapes, told(summary)))}
        assert named == {row[1:] for row in map(tuple, map(str_shapes, expected("v0.21/linear")))}
        assert [it["path"] for it in summary["tensors"]] == ["?0", "?1"]
        assert "--layout or --model" in summary["notes"][0]
    inspected(GOLDEN / "v0.21" / "linear-full.bin")
    assert "note: bincode carries no names" in capsys.readouterr().out


def str_shapes(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(str(it) for it in row)


def test_bincode_with_a_layout_or_a_model_has_names(tmp_path: Path, found) -> None:
    (tmp_path / "layout.yaml").write_text("weight: param\nbias: {$option: param}\n")
    (tmp_path / "layout.json").write_text('{"weight": "param", "bias": {"$option": "param"}}')
    (tmp_path / "model.yaml").write_text("type: Linear\nd_input: 3\nd_output: 2\n")
    for options in (("--layout", "layout.yaml"), ("--layout", "layout.json"), ("--model", "model.yaml")):
        summary = found(GOLDEN / "v0.21" / "linear-full.bin", options[0], tmp_path / options[1])
        assert told(summary) == expected("v0.21/linear")
        assert summary["notes"] == []


def test_layout_of_another_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "layout.json").write_text('{"weight": "param"}')
    with pytest.raises(RecordFormatError, match="layout"):
        inspected(GOLDEN / "v0.21" / "linear-full.bin", "--layout", tmp_path / "layout.json")


def test_running_statistics_are_told_from_weights(tmp_path: Path, found) -> None:
    path = SafetensorsRecorder().save(Record.from_module(torch.nn.BatchNorm1d(2)), tmp_path / "x")
    assert {it["path"]: it["role"] for it in found(path)["tensors"]} == {
        "weight": "weight",
        "bias": "weight",
        "running_mean": "state",
        "running_var": "state",
        "num_batches_tracked": "state",
    }


@pytest.mark.parametrize("extension", ["mpk", "mpk.gz", "json", "json.gz", "bin", "bin.gz"])
def test_no_format_needs_torch(extension: str) -> None:
    assert without_torch(GOLDEN / "v0.21" / f"linear-full.{extension}")


def test_burnpack_needs_no_torch() -> None:
    assert without_torch(GOLDEN / "v0.22" / "linear.bpk")


def test_sets_of_files_and_files_of_torch_save_need_no_torch(tmp_path: Path, found) -> None:
    record = Record({"a": torch.ones(3), "b": torch.ones(2)}, {"step": 1}, {"b": ParamId(1)}, {"c": "a"})
    index = SafetensorsRecorder(shard_bytes=8).save(record, tmp_path)
    for path in (tmp_path, index):
        summary = found(path)
        assert [(it["path"], it["id"], it["aliases"]) for it in summary["tensors"]] == [
            ("a", None, ["c"]),
            ("b", "0400000000000", []),
        ]
        assert summary["file_bytes"] == sum(it.stat().st_size for it in tmp_path.glob("*.safetensors"))
        assert without_torch(path)
    torch.save({"weight": torch.ones(2, 3)}, tmp_path / "x.pt")
    summary = found(tmp_path / "x.pt")
    assert (summary["format"], summary["tensors"][0]["shape"]) == ("pt", [2, 3])
    assert without_torch(tmp_path / "x.pt")


def test_versions_and_names_of_files_are_printed_without_codes_for_terminals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x\x1b[2J.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}.")
        archive.writestr("a/version", "3\x1b[31m")
    assert inspected(path) == 0
    assert "\x1b" not in capsys.readouterr().out


GOLDEN_V022 = Path(__file__).parents[1] / "golden"


def record(**changes: object) -> Record:
    parts = {
        "tensors": {"a": torch.tensor([1.0, 2.0, math.nan, math.inf]), "b": torch.tensor([1, 2**60])},
        "values": {"rate": math.nan, "list": [1, 2.5], "map": {"x": None}},
        "ids": {"a": ParamId(1)},
        "aliases": {"tied": "a"},
    }
    return Record(**{**parts, **changes})  # pyright: ignore[reportArgumentType]


@pytest.fixture
def compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Status and text of the comparison of two records."""

    def compare(one: Record, other: Record, *options: str, extension: str = ".safetensors") -> tuple[int, str]:
        paths = [tmp_path / f"one{extension}", tmp_path / "other.safetensors"]
        for path, it in zip(paths, (one, other), strict=True):
            recorder_for(path).save(it, path)
        status = run(diff, *paths, *options)
        return status, capsys.readouterr().out.replace(f"{tmp_path}/", "")

    return compare


@pytest.mark.parametrize("extension", [".safetensors", ".mpk", ".mpk.gz"])
def test_equal_records_of_any_format_are_equal(compare, extension: str) -> None:
    assert compare(record(), record(), extension=extension) == (0, "equal: 2 tensors\n")


def test_names_on_one_side_only(compare) -> None:
    status, text = compare(
        record(), record(tensors={"a": torch.tensor([1.0, 2.0, math.nan, math.inf]), "c": torch.ones(1)})
    )
    assert status == 1
    assert text.splitlines() == [
        "b: only in one.safetensors",
        "c: only in other.safetensors",
        "different: 0 of 1 tensors in both, 1 only in one.safetensors, 1 only in other.safetensors, 0 plain values",
    ]


def test_ids_shapes_and_types(compare) -> None:
    first = Record({"x": torch.ones(2), "y": torch.ones(2), "z": torch.ones(2)}, ids={"x": ParamId(123456)})
    second = Record({"x": torch.ones(2), "y": torch.ones(1, 2), "z": torch.ones(2).half()})
    status, text = compare(first, second)
    assert status == 1
    assert text.splitlines()[:3] == [
        "x: id 83h0200000000 and none",
        "y: shape [2] and [1, 2]",
        "z: type F32 and F16",
    ]
    assert compare(first, second, "--ignore-ids")[1].startswith("y: ")


@pytest.mark.parametrize(
    ("one", "other", "different", "absolute", "relative", "not_finite"),
    [
        ([1.0, 4.0], [1.0, 5.0], 1, 1.0, 0.2, 0),
        ([0.0], [-0.0], 0, 0.0, 0.0, 0),
        ([math.nan, 1.0], [1.0, math.nan], 2, 0.0, 0.0, 2),
        ([math.inf], [-math.inf], 1, 0.0, 0.0, 1),
        ([math.inf, 1.0], [math.inf, 1.5], 1, 0.5, 1 / 3, 0),
        ([-1.0], [1.0], 1, 2.0, 2.0, 0),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float8_e5m2])
def test_largest_differences_of_floats(compare, dtype, one, other, different, absolute, relative, not_finite) -> None:
    records = (Record({"x": torch.tensor(values, dtype=dtype)}) for values in (one, other))
    status, text = compare(*records, "--json")
    found = json.loads(text)
    assert status == (different > 0)
    if not different:
        assert found["tensors"] == []
        return
    values = found["tensors"][0]["values"]
    assert (values["different"], values["of"], values["not_finite"]) == (different, len(one), not_finite)
    assert values["largest_absolute"] == pytest.approx(absolute)
    assert values["largest_relative"] == pytest.approx(relative)


@pytest.mark.parametrize(
    ("dtype", "one", "other", "absolute"),
    [
        (torch.int64, 2**60, 2**60 + 1, 1.0),  # which float64 can't tell apart
        (torch.int64, -(2**63), 2**63 - 1, 2.0**64),
        (torch.uint64, 2**64 - 1, 2**64 - 3, 2.0),
        (torch.uint64, 0, 2**64 - 1, 2.0**64),
        (torch.uint8, 0, 255, 255.0),
        (torch.bool, False, True, 1.0),
    ],
)
def test_integers_are_compared_exactly(compare, dtype, one, other, absolute) -> None:
    records = [Record({"x": torch.tensor([5, value], dtype=dtype)}) for value in (one, other)]
    status, text = compare(*records, "--json")
    values = json.loads(text)["tensors"][0]["values"]
    assert (status, values["different"], values["largest_absolute"]) == (1, 1, absolute)


def test_complex_numbers(compare) -> None:
    records = [Record({"x": torch.tensor([1 + 2j, value])}) for value in (1j, 4j)]
    values = json.loads(compare(*records, "--json")[1])["tensors"][0]["values"]
    assert (values["different"], values["largest_absolute"]) == (1, 3.0)


def test_tolerance_is_absolute_or_relative_and_lets_types_be_wider(compare) -> None:
    exact = torch.tensor([1e-6, 1.0, 1000.0])
    first, second = Record({"x": exact}), Record({"x": exact.bfloat16()})
    assert compare(first, second)[0] == 1
    assert compare(first, second, "--tolerance", "0")[0] == 1
    status, text = compare(first, second, "--tolerance", "0.004")  # half of bfloat16's epsilon
    assert (status, text.splitlines()[-1]) == (0, "equal, within the tolerance: 1 tensors")
    assert compare(Record({"x": torch.ones(1)}), Record({"x": torch.ones(1).int()}), "--tolerance", "1")[0] == 1
    not_a_number = Record({"x": torch.tensor([math.nan, 1.0, 1000.0])})
    assert compare(first, not_a_number, "--tolerance", "1e9")[0] == 1


def test_ties_and_plain_values(compare) -> None:
    untied = {**record().tensors, "tied": record().tensors["a"]}
    status, text = compare(record(), record(tensors=untied, aliases={}))
    assert status == 1
    assert text.startswith("tied: id 0400000000000 and none; stored as a and as tied\n")
    status, text = compare(record(), record(values={"rate": math.nan, "list": [1, 3.5], "map": {}}))
    assert status == 1
    assert text.splitlines()[:2] == ["value list[1]: 2.5 and 3.5", "value map.x: null and nothing"]


def test_values_are_compared_in_pieces(compare) -> None:
    values = torch.arange(700_000.0)
    changed = values.clone()
    changed[[3, 300_000, 699_999]] += 2
    status, text = compare(Record({"x": values}), Record({"x": changed}))
    assert status == 1
    assert text.startswith("x: 3 of 700000 values differ; by at most 2, relatively ")


def test_burns_half_and_double_files_agree_to_half_precision(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [GOLDEN_V022 / "v0.21" / f"linear-{name}.mpk" for name in ("half", "double")]
    assert run(diff, *paths) == 1
    assert run(diff, *paths, "--tolerance", 2**-11) == 0
    capsys.readouterr()


def test_exit_statuses_of_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [
        SafetensorsRecorder(Precision(dtype)).save(Record({"x": torch.ones(1)}), tmp_path / f"{dtype}"[6:])
        for dtype in (torch.float32, torch.float16)
    ]
    assert main(["diff", paths[0], paths[0]]) == 0
    assert main(["diff", *paths]) == 1
    assert main(["diff", paths[0], f"{tmp_path}/none.mpk"]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "nan", "much"])
def test_wrong_tolerances_are_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(RecordError, match="expected a number from 0 on"):
        run(diff, "a", "b", f"--tolerance={text}")


@pytest.mark.slow
def test_large_tensors_take_little_memory(tmp_path: Path) -> None:
    count = 10_000_000
    header = json.dumps({"x": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode()
    for name in "ab":
        with open(tmp_path / name, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + 4 * count)
    code = (
        "import sys; import torch; import burnlike.record.tools.comparison; from burnlike.cli.main import main\n"
        "from benchmarks._memory import with_extra_bytes\n"
        "status, extra = with_extra_bytes(lambda: main(sys.argv[1:])); print(extra); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "diff", str(tmp_path / "a"), str(tmp_path / "b")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) < 40 << 20  # of 80 MB


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 3)
        self.second.weight = self.first.weight


def trained(change: float = 0.0) -> tuple[Record, Record]:
    """The records of a module and of its optimizer, with ids of their own."""
    torch.manual_seed(0)
    module = Tied()
    optimizer = AdamWConfig().init()
    for last in (False, True):
        x = module.third(module.second(module.first(torch.ones(1, 2))))
        (x.square().sum() + last * change * module.third.bias.sum()).backward()
        optimizer.step(0.1, module, GradientsParams.from_module(module))
        module.zero_grad()
    return Record.from_module(module), optimizer.to_record()


def test_two_equal_runs_differ_in_ids_only_and_that_is_one_line(compare, tmp_path: Path, capsys) -> None:
    for one, other in zip(trained(), trained(), strict=True):
        status, text = compare(one, other)
        count = len(one.tensors)
        expected = f"equal but for ids: {count} of {count} tensors have other ids (--ignore-ids leaves them out)\n"
        assert (status, text) == (1, expected)
        assert compare(one, other, "--ignore-ids") == (0, f"equal: {count} tensors\n")
        assert all(it["id"]["a"] != it["id"]["b"] for it in json.loads(compare(one, other, "--json")[1])["tensors"])
        assert compare(one, one) == (0, f"equal: {count} tensors\n")
        run(inspect, tmp_path / "one.safetensors")
        assert f"\n{count} tensors, " in capsys.readouterr().out


def test_optimizers_are_matched_by_path_where_ids_differ(compare) -> None:
    one, other = trained()[1], trained(change=0.5)[1]
    status, text = compare(one, other, "--ignore-ids")
    assert status == 1
    assert [line.split(":")[0] for line in text.splitlines()[:-1]] == [
        "third.bias.momentum.moment_1",
        "third.bias.momentum.moment_2",
    ]
    assert text.splitlines()[-1].startswith("different: 2 of 10 tensors in both, 0 only in")


def test_optimizers_are_matched_by_id_where_paths_differ(compare) -> None:
    one = trained()[1]
    paths = {text: f"moved.{path}" for text, path in one.values["paths"].items()}
    status, text = compare(one, replace(one, values={**one.values, "paths": paths}))
    assert status == 1
    assert text.splitlines()[0] == f"value paths.{next(iter(paths))}: first.weight and moved.first.weight"
    assert text.splitlines()[-1].startswith("different: 0 of 10 tensors in both, 0 only in")


def test_parameters_that_one_optimizer_lacks_are_named(compare) -> None:
    one, other = trained()[1], trained()[1]
    lost = next(text for text, path in other.values["paths"].items() if path == "third.bias")
    states = {name: value for name, value in other.values["states"].items() if not name.startswith(lost)}
    paths = {text: path for text, path in other.values["paths"].items() if text != lost}
    tensors = {name: tensor for name, tensor in other.tensors.items() if not name.startswith(lost)}
    status, text = compare(one, Record(tensors, {"states": states, "paths": paths}))
    assert status == 1
    assert text.splitlines()[-1].startswith("different: 8 of 8 tensors in both, 2 only in one.safetensors, 0 only in")
