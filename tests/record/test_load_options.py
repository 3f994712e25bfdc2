"""What a load may leave out, rename and convert."""

import copy
import gzip
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from burnlike.errors import ArgumentError, ParamPathError, PrecisionError, RecordIOError, RecordMismatchError
from burnlike.module import ParamGroup, ParamId, params
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder, load, open_record, save
from burnlike.record.files.stored_tensors import LazyTensors
from tests.module.cases import case


def net() -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def values(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(module: nn.Module, expected: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, expected[name]) for name, tensor in module.state_dict().items())


@case("module_record/validate_false")
def test_validate_false_leaves_out_what_does_not_fit() -> None:
    module: Any = nn.Module()
    module.weight, module.bias = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(3))
    record = Record({"weight": torch.tensor([[1.0, 2], [3, 4]]), "bias": torch.tensor([5.0, 6])})
    with pytest.raises(RecordMismatchError):
        record.load_into(module)
    report = record.load_into(module, validate=False)
    assert module.weight.tolist() == [[1, 2], [3, 4]]
    assert module.bias.tolist() == [0, 0, 0]
    assert list(report.applied) == ["weight"]
    assert [item.path for item in report.mismatched] == ["bias"]
    assert (list(report.missing), list(report.unexpected)) == ([], [])


def test_partial_and_unused_are_allowed_one_by_one() -> None:
    module, tensors = net(), values(net())
    part = {name: tensor for name, tensor in tensors.items() if name != "0.bias"}
    with pytest.raises(RecordMismatchError, match=r"missing in the record: 0\.bias"):
        Record(part).load_into(module, allow_unused=True)
    assert Record(part).load_into(module, allow_partial=True).missing == ["0.bias"]
    more = {**tensors, "extra": torch.ones(1)}
    with pytest.raises(RecordMismatchError, match="unexpected: extra"):
        Record(more).load_into(module, strict=False, allow_unused=False)
    assert Record(more).load_into(module, allow_unused=True).unexpected == ["extra"]


@pytest.mark.parametrize("chosen", [ParamGroup.from_predicate("1."), r"^1\.", lambda name: name.startswith("1.")])
def test_filtered_parameters_are_skipped_and_neither_missing_nor_unexpected(chosen: Any) -> None:
    module, source = net(), net()
    before = values(module)
    record = Record({**{name: t for name, t in values(source).items() if name != "0.bias"}, "other": torch.ones(1)})
    report = record.load_into(module, filter=chosen)
    assert list(report.applied) == ["1.weight", "1.bias"]
    assert set(report.skipped) == {"0.weight", "0.bias", "other"}
    assert (list(report.missing), list(report.unexpected)) == ([], [])
    assert torch.equal(module[1].weight, source[1].weight)
    assert torch.equal(module[0].weight, before["0.weight"])


def test_a_filter_that_matches_nothing_of_the_module_is_an_error() -> None:
    with pytest.raises(ParamPathError):
        Record(values(net())).load_into(net(), filter=ParamGroup.from_path("2.weight"))
    with pytest.raises(ParamPathError, match=r"filter: Sequential has no tensor at '\^2'; it has '0\.weight"):
        Record(values(net())).load_into(net(), filter="^2")
    assert not Record(values(net())).load_into(net(), filter=lambda path: False).applied


def test_names_are_remapped_one_pattern_after_the_other(tmp_path: Path) -> None:
    source, module = net(), net()
    old = {f"model.layer{name}": tensor for name, tensor in values(source).items()}
    SafetensorsRecorder().save(Record(old), tmp_path / "x")
    report = load(module, tmp_path / "x.safetensors", remap=[(r"^model\.", ""), (r"^layer(\d)", r"\1")])
    assert same(module, values(source))
    assert report.renamed["model.layer0.weight"] == "0.weight"
    with pytest.raises(RecordMismatchError, match=r"load with remap="):
        load(
            module, SafetensorsRecorder().save(Record({f"m.{n}": t for n, t in values(source).items()}), tmp_path / "y")
        )


def test_two_names_that_become_one_are_refused() -> None:
    module = net()
    before = values(module)
    with pytest.raises(ArgumentError, match=r"both '0.weight' and '1.weight'.*nothing was loaded"):
        Record(values(net())).load_into(module, remap={r"^\d": "0"})
    assert same(module, before)


def test_ids_are_remapped_to_paths_and_to_ids() -> None:
    source, module = (
        nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)}),
        nn.ModuleDict({"x": nn.Linear(2, 2, bias=False), "y": nn.Linear(2, 2, bias=False)}),
    )
    (a, b), (x, y) = params(source), params(module)
    a_id, b_id, y_id = a.id, b.id, y.id
    report = Record.from_module(source).load_into(module, remap_ids={a_id: "x.weight", str(b_id): str(y_id)})
    assert torch.equal(x.tensor, a.tensor)
    assert torch.equal(y.tensor, b.tensor)
    assert [param.id for param in params(module)] == [a_id, y_id]
    assert report.ids == {a_id: a_id, b_id: y_id}
    assert report.renamed == {"a.weight": "x.weight", "b.weight": "y.weight"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strict": "no"}, "strict: expected True or False, got 'no'"),
        ({"allow_partial": 1}, "allow_partial: expected True or False"),
        ({"validate": None}, "validate: expected True or False"),
        ({"remap": 3}, "remap: expected .*pairs"),
        ({"strickt": True}, r"got 'strickt'; did you mean 'strict'\?"),
        ({"by_id": True}, "expected an option among"),
        ({"match": "ids"}, "match: expected 'path' or 'id', got 'ids'"),
        ({"dtype": torch.float32}, "dtype: expected 'module' or 'as_saved'"),
        ({"filter": "("}, r"filter: expected a regular expression"),
        ({"filter": 3}, "filter: expected a ParamGroup"),
        ({"remap": [("(", "")]}, r"remap: expected a regular expression"),
        ({"remap": [("weight", r"\3")]}, "remap: .*can't replace 'weight'"),
        ({"remap": ["ab"]}, "remap: expected .*pairs"),
        ({"remap_ids": {str(ParamId(7)): "0.weight"}}, "has no tensor with the id"),
        ({"remap_ids": 3}, "remap_ids: expected a map"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_changed(options: dict[str, Any], message: str) -> None:
    module, record = net(), Record.from_module(net())
    before = values(module)
    with pytest.raises(ArgumentError, match=message):
        record.load_into(module, **options)
    assert same(module, before)


def test_a_target_of_remap_ids_that_is_not_there_is_refused() -> None:
    source = net()
    with pytest.raises(ArgumentError, match=r"'0.wight' is neither a path nor an id of Sequential; did you mean"):
        Record.from_module(source).load_into(net(), remap_ids={params(source)[0].id: "0.wight"})


def test_as_saved_gives_parameters_the_types_of_the_record(tmp_path: Path) -> None:
    source, module = net(), net()
    module[0].weight.requires_grad_(False)
    report = load(module, save(source, tmp_path / "x", BFloat16Precision), dtype="as_saved")
    assert torch.equal(module[0].weight, source[0].weight.to(torch.bfloat16))
    assert [param.tensor.requires_grad for param in params(module)] == [False, True, True, True]
    assert isinstance(module[0].weight, nn.Parameter)
    assert ("0.weight", "bfloat16", "float32") in report.retyped
    assert not report.converted


def test_values_too_large_are_found_while_nothing_is_changed(tmp_path: Path) -> None:
    record = {"first": torch.ones(1_500_000), "second": torch.ones(1_500_000)}
    record["second"][-1] = 1e5
    module = nn.ParameterDict({name: torch.zeros(1_500_000, dtype=torch.float16) for name in record})
    with pytest.raises(PrecisionError, match="'second'"):
        load(module, SafetensorsRecorder().save(Record(record), tmp_path / "x"))
    assert not module["first"].any()


def read_by_this_process() -> int:
    """Bytes that system calls have read, as Linux counts them."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_conversion_that_can_lose_nothing_reads_each_byte_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from burnlike.record.loading import filling

    tensors = {"big": torch.randn(3_000_000), "small": torch.randn(7)}
    path = SafetensorsRecorder(BFloat16Precision).save(Record(tensors), tmp_path / "x")
    record = SafetensorsRecorder().load(path)
    with torch.device("meta"):
        module = nn.ParameterDict({name: torch.empty(t.shape) for name, t in tensors.items()})
    read: list[int] = []
    original = filling.read_values_
    monkeypatch.setattr(filling, "read_values_", lambda *args: read.append(original(*args)) or read[-1])
    before = read_by_this_process()
    record.load_into(module)
    assert sum(read) == 2 * 3_000_007
    assert read_by_this_process() - before < 1.1 * sum(read)
    assert all(torch.equal(module[name], t.to(torch.bfloat16).float()) for name, t in tensors.items())


def test_if_reading_fails_a_module_on_meta_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = SafetensorsRecorder().save(Record({"weight": torch.ones(3_000_000)}), tmp_path / "x")
    record = SafetensorsRecorder().load(path)
    monkeypatch.setattr(LazyTensors, "check_length", lambda self: None)
    with Path(path).open("r+b") as file:
        file.truncate(1_000_000)
    with torch.device("meta"):
        module = nn.ParameterDict({"weight": torch.empty(3_000_000)})
    with pytest.raises(RecordIOError, match="nothing was loaded"):
        record.load_into(module)
    assert module["weight"].is_meta
    with pytest.raises(RecordIOError, match="partly loaded"):
        record.load_into(nn.ParameterDict({"weight": torch.zeros(3_000_000)}))


def test_large_tensors_of_any_strides_and_types_are_read_in_parallel(tmp_path: Path) -> None:
    source = {
        "wide": torch.randn(1500, 2000, dtype=torch.float64),
        "bool": torch.rand(3_000_001) > 0.5,
        "int": torch.randint(-9, 9, (999, 1001), dtype=torch.int16),
    }
    targets = {"wide": torch.zeros(2000, 1500).T, "bool": torch.zeros(3_000_001, dtype=torch.bool)}
    targets["int"] = torch.zeros(1001, 999, dtype=torch.int64).T
    module: Any = nn.Module()
    for name, target in targets.items():
        module.register_buffer(name, target)
    load(module, SafetensorsRecorder().save(Record(source), tmp_path / "x"))
    for name, target in targets.items():
        assert torch.equal(getattr(module, name), source[name].to(target.dtype)), name
        assert getattr(module, name).data_ptr() == target.data_ptr()


@pytest.mark.parametrize("match", ["path", "id"])
def test_a_record_that_gives_one_id_twice_is_refused(match: str) -> None:
    record = Record(values(net()), ids={"0.weight": ParamId(7), "1.weight": ParamId(7)})
    with pytest.raises(RecordMismatchError, match=r"gives both '0\.weight' and '1\.weight' the ParamId.*nothing was"):
        record.load_into(net(), match=match)


def test_values_that_remap_ids_replaces_are_unexpected() -> None:
    source, module = net(), net()
    record = Record.from_module(source)
    ids = {str(record.ids["0.weight"]): "0.weight", str(record.ids["1.bias"]): "0.bias"}
    report = record.load_into(module, remap_ids=ids, strict=False, validate=False)
    assert (list(report.missing), list(report.unexpected)) == (["1.bias"], ["0.bias"])


def test_by_ids_a_name_is_listed_once_and_is_no_hint_for_itself() -> None:
    source = net()
    record = Record(dict(source.state_dict()), ids={"0.weight": params(source)[0].id})
    moved = nn.Sequential(copy.deepcopy(source[1]), copy.deepcopy(source[0]))
    report = record.load_into(moved, match="id", strict=False)
    assert report.missing == ["0.weight", "0.bias", "1.bias"]
    assert "did you mean '0.bias'" not in str(report)
    report = record.load_into(moved, match="id", filter=lambda path: False)
    assert sorted(report.skipped) == ["0.bias", "0.weight", "1.bias", "1.weight"]


def test_a_compressed_file_is_unpacked_no_more_often_for_another_order(tmp_path: Path) -> None:
    names = [f"layer_{index}" for index in range(20)]
    tensors = {name: torch.randn(50_000) for name in names}
    record = open_record(save(nn.ParameterDict(tensors), tmp_path / "x.mpk.gz"))
    source = record.tensors.values_of("layer_0").entry.source  # pyright: ignore[reportAttributeAccessIssue]
    module: Any = nn.Module()
    for name in reversed(names):
        module.register_buffer(name, torch.zeros(50_000, dtype=torch.bfloat16))
    before = source.restarts
    record.load_into(module)
    assert source.restarts - before <= 2  # to check the values, and to take them
    assert torch.equal(module.layer_7, tensors["layer_7"].bfloat16())


def test_compressed_records_load(tmp_path: Path) -> None:
    source, module = net(), net()
    path = save(source, tmp_path / "x.mpk.gz")
    assert gzip.decompress(Path(path).read_bytes())
    load(module, path)
    assert same(module, values(source))


def test_matched_by_id_a_record_follows_layers_that_were_moved_and_renamed(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    save(model, tmp_path / "model.safetensors")
    moved = nn.ModuleDict({"head": copy.deepcopy(model[2]), "norm": copy.deepcopy(model[1]), "new": nn.Linear(2, 2)})
    for param in params(moved):
        param.assign(torch.zeros_like(param.tensor))
    kept = moved["new"].weight
    report = load(moved, tmp_path / "model.safetensors", match="id", strict=False)
    assert torch.equal(moved["head"].weight, model[2].weight)
    assert torch.equal(moved["norm"].running_var, model[1].running_var)
    assert moved["new"].weight is kept
    assert (report.missing, report.unexpected) == (["new.weight", "new.bias"], ["0.weight", "0.bias"])


def test_matched_by_id_needs_ids(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    safetensors.torch.save_file(model.state_dict(), tmp_path / "plain.safetensors")
    before = model.weight.clone()
    with pytest.raises(RecordMismatchError, match="has no ids, as burnlike writes them; nothing was loaded"):
        load(model, tmp_path / "plain.safetensors", match="id")
    assert torch.equal(model.weight, before)
