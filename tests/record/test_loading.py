"""Loading: reports, conversions, tied names, every kind of tensor; nothing changes if something is wrong."""

import copy
import time
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from burnlike.errors import (
    ArgumentError,
    BurnlikeError,
    PrecisionError,
    RecordError,
    RecordFormatError,
    RecordIOError,
    RecordMismatchError,
)
from burnlike.module import Module, Param, ParamGroup, ParamId, params
from burnlike.record import BFloat16Precision, LoadReport, Record, SafetensorsRecorder, load, save


def make(width: int = 6) -> nn.Module:
    return nn.Sequential(nn.Linear(5, width), nn.BatchNorm1d(width), nn.Linear(width, 2))


def state(module: nn.Module) -> dict[str, Any]:
    """Everything a load may change: values, addresses, ids, trainability."""
    return {
        param.path: (param.tensor.clone(), param.tensor.data_ptr(), param.id, param.tensor.requires_grad)
        for param in params(module)
    }


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert before.keys() == after.keys()
    for path, (values, *rest) in before.items():
        assert torch.equal(values, after[path][0]), path
        assert rest == list(after[path][1:]), path


def refused(module: nn.Module, source: Any, error: type[Exception] = RecordMismatchError, **options: Any) -> str:
    before = state(module)
    with pytest.raises(error) as caught:
        source.load_into(module, **options) if isinstance(source, Record) else load(module, source, **options)
    assert_same(before, state(module))
    return str(caught.value)


def report_of(module: nn.Module, record: Record) -> LoadReport:
    with pytest.raises(RecordMismatchError) as caught:
        record.load_into(module)
    assert isinstance(caught.value.report, LoadReport)
    return caught.value.report


def test_load_takes_values_and_ids_and_keeps_the_tensors(tmp_path: Path) -> None:
    source, module = make(), make()
    source[1].running_mean.fill_(3)
    path = save(source, tmp_path / "x")
    before = state(module)
    report = load(module, path)
    after = state(module)
    for param in params(source):
        values, address, param_id, _ = after[param.path]
        assert torch.equal(values, param.tensor)
        assert address == before[param.path][1]
        assert param_id == param.id
    assert list(report.applied) == [param.path for param in params(source)]
    assert (report.missing, report.unexpected, report.mismatched, report.converted) == ([], [], [], [])


def test_optimizer_of_torch_goes_on_with_the_loaded_tensors(tmp_path: Path) -> None:
    module = make()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    load(module, save(make(), tmp_path / "x"))
    before = module[0].weight.clone()
    module(torch.randn(4, 5)).sum().backward()
    optimizer.step()
    assert not torch.equal(before, module[0].weight)


def test_load_converts_to_the_module_s_types(tmp_path: Path) -> None:
    source, module = make(), make().to(torch.float64)
    report = load(module, save(source, tmp_path / "x", BFloat16Precision))
    expected = source[0].weight.to(torch.bfloat16).to(torch.float64)
    assert module[0].weight.dtype == torch.float64
    assert torch.equal(module[0].weight, expected)
    assert ("0.weight", "bfloat16", "float64") in report.converted
    assert str(report).startswith("9 tensors loaded, 8 of them converted")


def test_load_keeps_frozen_params_frozen(tmp_path: Path) -> None:
    module = make()
    module[0].requires_grad_(False)
    load(module, save(make(), tmp_path / "x"))
    assert [param.tensor.requires_grad for param in params(module)][:2] == [False, False]
    assert module[2].weight.requires_grad


def test_load_into_tensors_of_any_strides(tmp_path: Path) -> None:
    source = nn.Linear(300, 200)
    module = nn.Linear(300, 200)
    module.weight = nn.Parameter(torch.empty(300, 200).T)
    address = module.weight.data_ptr()
    load(module, save(source, tmp_path / "x"))
    assert torch.equal(module.weight, source.weight)
    assert (module.weight.data_ptr(), module.weight.stride()) == (address, (1, 200))


def test_load_counts_as_a_change_for_autograd(tmp_path: Path) -> None:
    module = nn.Linear(3, 3)
    path = save(nn.Linear(3, 3), tmp_path / "x")
    loss = (module.weight.square()).sum()
    load(module, path)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_missing_and_unexpected_are_named_with_the_nearest(tmp_path: Path) -> None:
    tensors = dict(make().state_dict())
    tensors["0.wieght"] = tensors.pop("0.weight")
    tensors["extra"] = torch.ones(1)
    record = Record(tensors)
    message = refused(make(), record)
    assert "missing in the record: 0.weight; did you mean '0.wieght'?" in message
    assert "unexpected: 0.wieght; did you mean '0.weight'?" in message
    assert "unexpected: extra\n" in message
    assert "nothing was loaded" in message
    assert "strict=False" in message
    report = report_of(make(), record)
    assert report.missing == ["0.weight"]
    assert report.unexpected == ["0.wieght", "extra"]


def test_the_record_of_a_group_is_told_to_be_a_part_not_another_models() -> None:
    module = make()
    part = Record.from_module(module, ParamGroup.from_path(params(module)[0].path))
    message = refused(make(), part)
    assert "another model" not in message
    assert "missing in the record" in message
    assert "strict=False" in message


def test_not_strict_loads_what_is_there() -> None:
    module, source = make(), make()
    kept = module[0].weight.clone()
    tensors = {path: tensor for path, tensor in source.state_dict().items() if path != "0.weight"}
    report = Record({**tensors, "extra": torch.ones(1)}).load_into(module, strict=False)
    assert torch.equal(module[0].weight, kept)
    assert torch.equal(module[2].weight, source[2].weight)
    assert (report.missing, report.unexpected) == (["0.weight"], ["extra"])


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("name", "tensor", "expected"),
    [
        ("2.weight", torch.ones(2, 7), "2.weight: expected float32 [2, 6], got float32 [2, 7]"),
        ("2.weight", torch.ones(12), "2.weight: expected float32 [2, 6], got float32 [12]"),
        ("2.bias", torch.ones(2, dtype=torch.int64), "2.bias: expected float32 [2], got int64 [2]"),
        ("2.bias", torch.ones(2, dtype=torch.bool), "2.bias: expected float32 [2], got bool [2]"),
        ("1.num_batches_tracked", torch.tensor(1.0), "1.num_batches_tracked: expected int64 [], got float32 []"),
    ],
)
def test_another_shape_or_kind_is_always_an_error(
    name: str, tensor: torch.Tensor, expected: str, strict: bool, tmp_path: Path
) -> None:
    tensors = {**make().state_dict(), name: tensor}
    path = SafetensorsRecorder().save(Record(tensors), tmp_path / "x")
    assert f"mismatched: {expected}" in refused(make(), path, strict=strict)
    assert f"mismatched: {expected}" in refused(make(), Record(tensors), strict=strict)


def test_record_of_another_model_is_one_line(tmp_path: Path) -> None:
    path = save(nn.ModuleDict({"encoder": nn.Linear(2, 2), "decoder": nn.Linear(2, 2)}), tmp_path / "x")
    message = refused(make(), path)
    assert "\n" not in message
    assert f"{path} belongs to another model: 0 of the 9 tensors of Sequential fit" in message
    assert "'encoder.weight'" in message
    message = refused(make(7), save(make(6), path))
    assert "'0.weight': expected float32 [7, 5], got float32 [6, 5]" in message


@pytest.mark.parametrize(
    ("value", "stored", "wanted"),
    [(1e5, torch.float32, torch.float16), (3.4e38, torch.float32, torch.bfloat16), (2**40, torch.int64, torch.int32)],
)
def test_value_too_large_for_the_module_is_an_error(
    value: float, stored: torch.dtype, wanted: torch.dtype, tmp_path: Path
) -> None:
    module = nn.Module()
    module.register_buffer("first", torch.zeros(3))
    module.register_buffer("second", torch.zeros(3, dtype=wanted))
    record = Record({"first": torch.ones(3), "second": torch.tensor([0, 1, value], dtype=stored)})
    message = refused(module, record, PrecisionError)
    assert "'second'" in message
    assert message.endswith("nothing was loaded; give the module a wider type, or load with dtype='as_saved'")
    assert "'second'" in refused(module, SafetensorsRecorder().save(record, tmp_path / "x"), PrecisionError)


def test_truncated_and_missing_files_are_refused(tmp_path: Path) -> None:
    path = Path(save(make(), tmp_path / "x"))
    path.write_bytes(path.read_bytes()[:-1])
    assert "truncated" in refused(make(), path, RecordFormatError)
    assert "no such file" in refused(make(), tmp_path / "none", RecordIOError)
    assert "expected a record's file" in refused(make(), tmp_path, RecordIOError)


def test_file_cut_after_it_was_opened_is_refused(tmp_path: Path) -> None:
    path = Path(save(make(), tmp_path / "x"))
    record = SafetensorsRecorder().load(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    assert "was cut" in refused(make(), record, RecordIOError)
    with pytest.raises(RecordIOError, match="was cut"):
        [record.tensors[name] for name in record.tensors]


def test_ids_of_a_partial_load_never_come_twice() -> None:
    source, module = make(), make()
    record = Record.from_module(source)
    module_ids = [param.id for param in params(module)]
    partial = Record({"0.weight": record.tensors["0.weight"]}, ids={"0.weight": module_ids[-1]})
    assert "ParamId" in refused(module, partial, strict=False)


def test_module_within_wrappers_loads_by_its_own_names(tmp_path: Path) -> None:
    source = make()
    path = save(torch.nn.DataParallel(source), tmp_path / "x")
    assert "0.weight" in SafetensorsRecorder().load(path).tensors
    module = make()
    load(torch.nn.DataParallel(module), path)
    assert torch.equal(module[0].weight, source[0].weight)


def test_names_with_the_prefixes_of_wrappers_load(tmp_path: Path) -> None:
    source, module = make(), make()
    prefixed = {
        f"_orig_mod.{name.replace('0.', '0._checkpoint_wrapped_module.')}": t for name, t in source.state_dict().items()
    }
    safetensors.torch.save_file(prefixed, tmp_path / "x")
    load(module, tmp_path / "x")
    assert torch.equal(module[0].weight, source[0].weight)


def test_meta_module_is_made(tmp_path: Path) -> None:
    source = make()
    with torch.device("meta"):
        module = make()
    module[0].requires_grad_(False)
    load(module, save(source, tmp_path / "x", BFloat16Precision))
    assert torch.equal(module[0].weight, source[0].weight.to(torch.bfloat16).float())
    assert isinstance(module[0].weight, nn.Parameter)
    assert not module[0].weight.requires_grad
    assert module[1].num_batches_tracked.item() == 0
    assert [param.id for param in params(module)] == [param.id for param in params(source)]


def test_record_of_a_copy_in_memory_loads_without_a_file() -> None:
    source = make()
    module = copy.deepcopy(source)
    record = Record.from_module(source)
    assert record.tensors["0.weight"].data_ptr() == source[0].weight.data_ptr()
    with torch.no_grad():
        module[0].weight.zero_()
    record.load_into(module)
    assert torch.equal(module[0].weight, source[0].weight)


def test_long_reports_are_cut() -> None:
    text = str(LoadReport(missing=[f"layer.{index}" for index in range(50)]))
    assert "layer.9" in text
    assert "layer.10" not in text
    assert "40 more" in text


def test_hints_among_thousands_of_names_take_no_time() -> None:
    """Comparing each with each took hours."""
    names = [f"model.layers.{index}.attention.{name}.weight" for index in range(2500) for name in "qkvo"]
    report = LoadReport(missing=names, unexpected=[name.removeprefix("model.") for name in names])
    start = time.process_time()
    assert "model.layers.2.attention.k.weight; did you mean 'layers.2.attention.k.weight'?" in str(report)
    assert time.process_time() - start < 30


def test_record_made_by_hand_without_ids_keeps_the_module_s() -> None:
    module = make()
    before: list[ParamId] = [param.id for param in params(module)]
    Record(dict(make().state_dict())).load_into(module)
    assert [param.id for param in params(module)] == before


def holding(**tensors: torch.Tensor) -> Any:
    module = nn.Module()
    for name, tensor in tensors.items():
        module.register_buffer(name, tensor)
    return module


def from_memory(module: nn.Module, record: Record, folder: Path) -> None:
    record.load_into(module)


def from_file(module: nn.Module, record: Record, folder: Path) -> None:
    load(module, SafetensorsRecorder().save(record, folder / "x"))


@pytest.mark.parametrize("way", [from_memory, from_file])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.zeros(1).expand(4), "elements of 'second' share memory, as after `expand`"),
        (torch.zeros(4).to_sparse(), "'second' is torch.sparse_coo"),
    ],
)
def test_what_cannot_be_written_is_refused_while_nothing_is_changed(
    target: torch.Tensor, message: str, way: Any, tmp_path: Path
) -> None:
    module = holding(first=torch.zeros(3), second=target)
    with pytest.raises(RecordError, match=message):
        way(module, Record({"first": torch.ones(3), "second": torch.arange(4.0)}), tmp_path)
    assert not module.first.any()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (torch.ones(3, device="meta"), r"float32 \[3\], without values \(it is on the meta device\)"),
        (torch.ones(3).to_sparse(), "torch.sparse_coo; call to_dense"),
    ],
)
def test_what_cannot_be_read_is_a_mismatch(source: torch.Tensor, message: str) -> None:
    module = holding(first=torch.zeros(3), second=torch.zeros(3))
    record = Record({"first": torch.ones(3), "second": source})
    with pytest.raises(RecordMismatchError, match=message):
        record.load_into(module)
    assert not module.first.any()
    assert list(record.load_into(module, validate=False).applied) == ["first"]


def test_a_record_of_the_module_s_own_tensors_exchanges_them() -> None:
    module = holding(a=torch.zeros(3), b=torch.ones(3), square=torch.arange(4.0).view(2, 2))
    Record({"a": module.b, "b": module.a, "square": module.square.T}).load_into(module)
    assert module.a.tolist() == [1, 1, 1]
    assert module.b.tolist() == [0, 0, 0]
    assert module.square.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize("way", [from_memory, from_file])
@pytest.mark.parametrize("stored", [torch.float32, torch.float64])
def test_tensors_made_in_inference_mode_are_loaded_outside_of_it(stored: torch.dtype, way: Any, tmp_path: Path) -> None:
    with torch.inference_mode():
        frozen = nn.Linear(2, 2)
    module = nn.Sequential(nn.Linear(2, 2), frozen)
    way(module, Record({k: torch.full_like(t, 2, dtype=stored) for k, t in module.state_dict().items()}), tmp_path)
    assert all(bool((param.tensor == 2).all()) for param in params(module))
    assert not module[0].weight.is_inference()


@pytest.mark.parametrize("way", [from_memory, from_file])
def test_views_that_turn_signs_get_their_values(way: Any, tmp_path: Path) -> None:
    base = torch.zeros(3, dtype=torch.complex64)
    module = holding(conjugate=base.conj(), negative=base.clone().conj().imag)
    assert module.conjugate.is_conj()
    assert module.negative.is_neg()
    record = Record({"conjugate": torch.tensor([1 + 2j, 2, 3]), "negative": torch.tensor([1.0, 2, 3])})
    way(module, record, tmp_path)
    assert module.conjugate.tolist() == [1 + 2j, 2, 3]
    assert module.negative.tolist() == [1, 2, 3]


def test_values_are_never_put_on_the_meta_device(tmp_path: Path) -> None:
    path = save(nn.Linear(3, 3), tmp_path / "x")
    with torch.device("meta"):
        module = nn.Linear(3, 3)
        with pytest.raises(ArgumentError, match="'weight' can't have values on the meta device; nothing was loaded"):
            load(module, path)
    with pytest.raises(ArgumentError, match="meta device"):
        load(module, path, device="meta")


@pytest.mark.parametrize("name", ["x.safetensors", "x.mpk.gz", "x.json"])
def test_the_default_device_has_no_part_in_reading_and_writing(name: str, tmp_path: Path) -> None:
    """As after `torch.set_default_device("cuda")`: buffers for bytes stay on the CPU."""
    source, module = nn.Linear(700, 700), nn.Linear(700, 700, dtype=torch.float64)
    with torch.device("meta"):
        path = save(source, tmp_path / name)
        load(module, path)
    assert torch.equal(module.weight, source.weight.double())


class Lazy(Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(3))
        self.second = Param.uninitialized(lambda device: torch.zeros(3, device=device), [3])


@pytest.mark.parametrize("dtype", ["module", "as_saved"])
def test_lazy_parameters_are_never_initialized(dtype: str) -> None:
    module = Lazy()
    Record({"first": torch.ones(3), "second": torch.full((3,), 2.0).double()}).load_into(module, dtype=dtype)
    assert module.second.tolist() == [2, 2, 2]
    assert module.second.dtype == (torch.float32 if dtype == "module" else torch.float64)


@pytest.mark.parametrize(
    ("lazy", "layer", "shape"),
    [
        (lambda: nn.LazyLinear(2), lambda: nn.Linear(3, 2), (4, 3)),
        (lambda: nn.LazyConv2d(2, 3), lambda: nn.Conv2d(3, 2, 3), (1, 3, 5, 5)),
        (lambda: nn.LazyBatchNorm1d(), lambda: nn.BatchNorm1d(3), (4, 3)),
    ],
)
def test_torchs_lazy_modules_get_their_shapes_from_the_record(lazy: Any, layer: Any, shape: tuple[int, ...]) -> None:
    source, target = nn.Sequential(layer()), nn.Sequential(lazy())
    x = torch.randn(shape)
    assert Record.from_module(source).load_into(target).missing == []
    assert torch.equal(target(x), source(x))
    assert type(target[0]) is type(source[0])


def test_a_lazy_module_is_as_it_was_where_the_load_fails() -> None:
    module = nn.Sequential(nn.LazyLinear(2), nn.Linear(2, 2))
    record = Record.from_module(nn.Sequential(nn.Linear(5, 2), nn.Linear(2, 3)))
    with pytest.raises(RecordMismatchError):
        record.load_into(module)
    assert nn.parameter.is_lazy(module[0].weight)
    assert module(torch.ones(1, 7)).shape == (1, 2)


def test_an_error_in_the_middle_says_what_became_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = holding(first=torch.zeros(3))

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("burnlike.record.loading.filling._copy", fail)
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        Record({"first": torch.ones(3)}).load_into(module)
    assert not isinstance(caught.value, BurnlikeError)
    assert caught.value.__notes__ == ["the module is partly loaded: load it again before use"]


def tied() -> nn.Module:
    module = nn.ModuleDict({"embed": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)})
    module["head"].weight = module["embed"].weight
    return module


def test_tied_tensors_stay_tied(tmp_path: Path) -> None:
    source, module = tied(), tied()
    report = load(module, save(source, tmp_path / "x"))
    assert module["head"].weight is module["embed"].weight
    assert torch.equal(module["head"].weight, source["embed"].weight)
    assert list(report.applied) == ["embed.weight"]


@pytest.mark.parametrize("kept", ["embed.weight", "head.weight"])
def test_tied_module_loads_a_file_with_either_name_or_both(kept: str, tmp_path: Path) -> None:
    values = torch.randn(5, 3)
    for tensors in ({kept: values}, {"embed.weight": values, "head.weight": values.clone()}):
        safetensors.torch.save_file(tensors, tmp_path / "x")
        module = tied()
        load(module, tmp_path / "x")
        assert torch.equal(module["head"].weight, values)


def test_tied_module_refuses_two_different_tensors(tmp_path: Path) -> None:
    safetensors.torch.save_file({"embed.weight": torch.ones(5, 3), "head.weight": torch.zeros(5, 3)}, tmp_path / "x")
    module = tied()
    before = module["embed"].weight.clone()
    with pytest.raises(RecordMismatchError, match=r"'head\.weight', which the module ties to it"):
        load(module, tmp_path / "x")
    assert torch.equal(module["embed"].weight, before)


@pytest.mark.parametrize("other", [torch.float32, torch.bfloat16])
def test_both_names_of_a_tied_tensor_may_hold_nan_or_another_type(other: torch.dtype) -> None:
    values = torch.ones(5, 3)
    values[0, 0] = float("nan") if other == torch.float32 else 2
    module = tied()
    Record({"embed.weight": values, "head.weight": values.clone().to(other)}).load_into(module)
    assert torch.allclose(module["head"].weight, values, rtol=0, atol=0, equal_nan=True)


def test_both_names_of_a_tied_tensor_may_have_the_prefix_of_a_wrapper() -> None:
    values, module = torch.randn(5, 3), tied()
    prefixed = {"_orig_mod.embed.weight": values, "_orig_mod.head.weight": values.clone()}
    report = Record(prefixed).load_into(module)
    assert torch.equal(module["head"].weight, values)
    assert not report.unexpected


def test_an_untied_module_has_the_tensor_of_its_name_renamed_to_none() -> None:
    """An optimizer's record follows `renamed`: its state must not go to the second tensor."""
    module = nn.ModuleDict({"embed": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)})
    report = Record.from_module(tied()).load_into(module)
    assert list(report.applied) == ["embed.weight", "head.weight"]
    assert report.renamed == {}


def test_untied_module_loads_a_tied_file_into_both(tmp_path: Path) -> None:
    source = tied()
    module = nn.ModuleDict({"embed": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)})
    ids = [param.id for param in params(module)]
    load(module, save(source, tmp_path / "x"))
    assert torch.equal(module["embed"].weight, source["embed"].weight)
    assert torch.equal(module["head"].weight, source["embed"].weight)
    assert [param.id for param in params(module)] == [params(source)[0].id, ids[1]]
