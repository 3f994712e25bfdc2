"""Parameters and state dicts whose form or names in a file are others than in the module."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from burnlike.errors import PrecisionError, RecordError, RecordMismatchError
from burnlike.module import LazyParameter, Module, Param, clone, params
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder, init_from, load, open_record, save
from tests.conftest import tensor_of
from tests.module.cases import case

from .own_modules import Extra, OwnEntries, Transposed, filled, is_same

GOLDEN = Path(__file__).parent.parent / "golden" / "v0.22"


class ColLinear(Module):
    """Burn's Linear in the layout Col: the weight is `[d_input, d_output]` here and its transpose in records."""

    def __init__(self, init: Callable[[torch.device], Tensor] | None = None) -> None:
        super().__init__()
        weight = Param.from_tensor(torch.zeros(2, 3)) if init is None else Param.uninitialized(init, [2, 3])
        self.weight = weight.init_mapper(torch.t).load_mapper(torch.t).save_mapper(torch.t)
        self.bias = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def never(device: torch.device) -> Tensor:
    raise AssertionError("the initializer ran")


def filled_linear() -> ColLinear:
    linear = ColLinear()
    with torch.no_grad():
        linear.weight.copy_(torch.arange(6.0).view(3, 2))
    return linear


@pytest.mark.parametrize("target", ["values", "lazy", "meta", "lazy on meta"])
def test_burns_file_gives_burns_outputs(golden: Callable[[str], dict[str, Any]], target: str) -> None:
    values = golden("linear_col")
    path = GOLDEN / "linear_col.safetensors"
    init = never if "lazy" in target else None
    if "meta" in target:
        linear = init_from(lambda: ColLinear(init), path, "cpu")
    else:
        linear = ColLinear(init)
        assert load(linear, path).applied == ["weight", "bias"]
    expected = {entry["path"]: tensor_of(entry) for entry in values["params"]}
    assert torch.equal(linear.weight, expected["weight"])
    assert torch.equal(linear.bias, expected["bias"])
    found = linear(tensor_of(values["inputs"]["input"]))
    torch.testing.assert_close(found.detach(), tensor_of(values["outputs"]["output"]), rtol=1e-6, atol=1e-6)
    assert (type(linear.weight), linear.weight.requires_grad) == (nn.Parameter, True)


def test_what_burn_saved_is_saved_again(tmp_path: Path) -> None:
    path = GOLDEN / "linear_col.safetensors"
    linear = ColLinear()
    load(linear, path)
    burns = SafetensorsRecorder().load(path).tensors
    ours = SafetensorsRecorder().load(save(linear, tmp_path / "x")).tensors
    assert set(ours) == set(burns)
    assert all(torch.equal(ours[name], burns[name]) for name in burns)


@case("module_record/shape_mapped")
def test_a_mapped_parameter_is_transposed_in_the_record_only(tmp_path: Path) -> None:
    linear = filled_linear()
    record = linear.into_record()
    assert record.tensors["weight"].shape == (2, 3)
    assert record.tensors["weight"].data_ptr() == linear.weight.data_ptr()
    for source in (record, SafetensorsRecorder().load(linear_file(linear, tmp_path))):
        loaded = ColLinear()
        source.load_into(loaded)
        assert torch.equal(loaded.weight, torch.arange(6.0).view(3, 2))


def linear_file(linear: nn.Module, folder: Path) -> str:
    return save(linear, folder / "linear")


def test_conversions_are_made_and_reported_on_the_way(tmp_path: Path) -> None:
    path = save(filled_linear(), tmp_path / "x", BFloat16Precision)
    linear = ColLinear().to(torch.float64)
    assert list(load(linear, path).converted) == [("weight", "bfloat16", "float64"), ("bias", "bfloat16", "float64")]
    assert torch.equal(linear.weight, torch.arange(6.0, dtype=torch.float64).view(3, 2))


def refused(module: nn.Module, record: Record, error: type[Exception] = RecordMismatchError) -> str:
    before = {param.path: (param.tensor, param.tensor.detach().clone(), param.id) for param in params(module)}
    with pytest.raises(error) as caught:
        record.load_into(module)
    for param in params(module):
        tensor, values, param_id = before[param.path]
        assert param.tensor is tensor
        assert torch.equal(tensor, values)
        assert param.id == param_id
    return str(caught.value)


@pytest.mark.parametrize("init", [None, never], ids=["values", "lazy"])
def test_the_record_s_form_is_what_must_fit(init: Any) -> None:
    linear = ColLinear(init)
    linear.bias.detach().fill_(7)
    record = Record({"bias": torch.ones(2), "weight": torch.ones(3, 2)})
    with pytest.raises(RecordMismatchError, match=r"weight: expected float32 \[2, 3\], got float32 \[3, 2\]"):
        record.load_into(linear)
    record = Record({"bias": torch.ones(2), "weight": torch.ones(2, 3).long()})
    with pytest.raises(RecordMismatchError, match=r"weight: expected float32 \[2, 3\], got int64 \[2, 3\]"):
        record.load_into(linear)
    assert torch.equal(linear.bias, torch.full((2,), 7.0))
    assert linear.param("weight").is_initialized() == (init is None)


def test_without_a_save_mapper_what_the_load_mapper_gives_must_fit() -> None:
    linear = filled_linear()
    linear.param("weight").save_mapper(None)
    message = refused(linear, Record({"bias": torch.ones(2), "weight": torch.ones(3, 2)}))
    assert "weight: expected float32 [3, 2], got float32 [2, 3] from its load mapper" in message
    linear.into_record()
    Record({"bias": torch.ones(2), "weight": torch.ones(2, 3)}).load_into(linear)
    assert torch.equal(linear.weight, torch.ones(3, 2))
    linear.param("weight").load_mapper(lambda values: values.t() > 0)
    assert "got bool [3, 2] from its load mapper" in refused(
        linear, Record({"bias": torch.ones(2), "weight": torch.ones(2, 3)})
    )


def test_a_save_mapper_that_looks_at_values_is_checked_after_mapping() -> None:
    linear = filled_linear()
    linear.param("weight").save_mapper(lambda values: values.t() / values.max().item())
    record = linear.into_record()
    assert record.tensors["weight"].max() == 1
    record.load_into(linear)
    assert linear.weight.max() == 1


def fail(values: Tensor) -> Tensor:
    raise ValueError("bad scale")


@pytest.mark.parametrize(
    ("mapper", "message"),
    [(fail, "failed: bad scale"), (lambda values: None, "gave NoneType, expected a torch.Tensor")],
)
def test_a_mapper_that_fails_is_named_and_changes_nothing(mapper: Any, message: str) -> None:
    linear = filled_linear()
    record = clone(linear).into_record()
    linear.param("weight").load_mapper(mapper)
    assert f"the load mapper of 'weight' {message}" in refused(linear, record, RecordError)
    linear.param("weight").save_mapper(mapper)
    with pytest.raises(RecordError, match="the save mapper of 'weight'"):
        linear.into_record()


def test_a_mapped_value_too_large_for_the_module_is_refused() -> None:
    linear = filled_linear().half()
    linear.param("weight").load_mapper(lambda values: values.t() * 1e4)
    assert "'weight'" in refused(
        linear, Record({"bias": torch.ones(2), "weight": torch.full((2, 3), 7.0)}), PrecisionError
    )


def test_tied_mapped_parameters_are_stored_once(tmp_path: Path) -> None:
    def tied() -> nn.Module:
        model = nn.Sequential(ColLinear(), ColLinear())
        model[1].weight = model[0].weight
        return model

    source, target = tied(), tied()
    with torch.no_grad():
        source[0].weight.copy_(torch.arange(6.0).view(3, 2))
    record = Record.from_module(source)
    assert (record.aliases, "1.weight" in record.tensors) == ({"1.weight": "0.weight"}, False)
    load(target, save(source, tmp_path / "x"))
    assert target[0].weight is target[1].weight
    assert torch.equal(target[1].weight, source[0].weight)


def test_a_lazy_parameter_is_saved_with_its_values() -> None:
    runs = []

    def init(device: torch.device) -> Tensor:
        runs.append(device)
        return torch.arange(6.0, device=device).view(2, 3)

    linear = ColLinear(init)
    record = linear.into_record()
    assert torch.equal(record.tensors["weight"], torch.arange(6.0).view(2, 3))
    assert linear.weight.shape == (3, 2)
    assert len(runs) == 1


@case("param/load_record_require_grad")
@pytest.mark.parametrize("lazy", [False, True])
def test_what_is_frozen_is_the_target_s_affair(tmp_path: Path, lazy: bool) -> None:
    path = save(filled_linear(), tmp_path / "x")
    frozen, trainable, tracked = (ColLinear(never if lazy else None) for _ in range(3))
    frozen.no_grad()
    targets = [(frozen, (False, False)), (trainable, (True, True))]
    if not lazy:
        targets.append((tracked.valid(), (False, True)))
    for target, expected in targets:
        load(target, path)
        weight = target.param("weight")
        assert (weight.requires_grad, weight.trainable) == expected
        assert not isinstance(target.weight, LazyParameter)
        assert target.weight.is_leaf
        assert target.train().weight.requires_grad == expected[1]


def convolution() -> Any:
    return nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3))


def without_counts(module: nn.Module) -> dict[str, torch.Tensor]:
    return {key: value for key, value in module.state_dict().items() if "num_batches" not in key}


@pytest.mark.parametrize("with_ids", [True, False])
def test_a_batch_norm_without_num_batches_tracked_loads(with_ids: bool, tmp_path: Path) -> None:
    module, fresh = convolution(), convolution()
    module[1].running_mean += 1
    record = Record(without_counts(module))
    if with_ids:
        whole = Record.from_module(module)
        record = Record(without_counts(module), ids={k: v for k, v in whole.ids.items() if "num_batches" not in k})
    report = load(fresh, save(record, tmp_path / "x"))
    assert is_same(fresh.state_dict(), module.state_dict())
    assert not report.missing


def test_a_file_of_torch_says_how_old_it_is(tmp_path: Path) -> None:
    state = convolution().state_dict()
    del state["1.num_batches_tracked"]
    torch.save(state, tmp_path / "new.pt")
    with pytest.raises(RecordMismatchError, match=r"missing in the record: 1\.num_batches_tracked"):
        load(convolution(), tmp_path / "new.pt")  # as torch refuses it: a module of version 2 has it
    state._metadata["1"] = {"version": 1}
    torch.save(state, tmp_path / "old.pt")
    fresh = convolution()
    load(fresh, tmp_path / "old.pt")
    assert is_same(dict(fresh.state_dict()), {**state, "1.num_batches_tracked": torch.tensor(0)})


class Versioned(nn.Module):
    """Version 2 has half the weight that version 1 had."""

    _version = 2

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))

    def _load_from_state_dict(self, state: Any, prefix: str, metadata: dict[str, Any], *rest: Any) -> None:
        if metadata.get("version") != 2:
            state[prefix + "weight"] = state[prefix + "weight"] / 2
        super()._load_from_state_dict(state, prefix, metadata, *rest)


@pytest.mark.parametrize("extension", ["safetensors", "bpk", "mpk", "json", "pt"])
def test_versions_are_told_to_the_module_that_loads(extension: str, tmp_path: Path) -> None:
    path, old_path = tmp_path / f"x.{extension}", tmp_path / "old.pt"
    module: Any = nn.ModuleDict({"a": Versioned()})
    nn.init.constant_(module["a"].weight, 6)
    torch.save(module.state_dict(), path) if extension == "pt" else save(module, path)
    fresh: Any = nn.ModuleDict({"a": Versioned()})
    load(fresh, path)
    assert fresh["a"].weight.tolist() == [6, 6]
    torch.save({"a.weight": torch.full((2,), 6.0)}, old_path)
    load(fresh, old_path)
    assert fresh["a"].weight.tolist() == [3, 3]
    moved: Any = nn.ModuleDict({"b": Versioned()})
    load(moved, path, remap=[("^a", "b")])
    assert moved["b"].weight.tolist() == [6, 6]


@pytest.mark.parametrize("make", [Versioned, lambda: Transposed(2), OwnEntries])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_code_of_a_module_had_no_share_in_are_loaded_as_they_are(
    make: Callable[[], nn.Module], tmp_path: Path
) -> None:
    module, fresh, again = (nn.ModuleDict({"a": make()}) for _ in range(3))
    torch.save(module, tmp_path / "module.pt")
    values = {param.path: param.tensor.detach().clone() for param in params(module)}
    record = Record(values, ids={param.path: param.id for param in params(module)})  # as burnlike wrote it before
    missing = ["a.count", "a.table"] if make is OwnEntries else []
    for report, target in (
        (record.load_into(fresh, strict=False), fresh),
        (load(again, tmp_path / "module.pt", strict=False), again),
    ):
        assert all(torch.equal(param.tensor, values[param.path]) for param in params(target))
        assert report.missing == missing


class Split(nn.Module):
    """One weight, which was three."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 2))
        self.register_load_state_dict_pre_hook(self._join)

    @staticmethod
    def _join(module: nn.Module, state: Any, prefix: str, *_: Any) -> None:
        if f"{prefix}q" in state:
            state[f"{prefix}weight"] = torch.cat([state.pop(prefix + name) for name in "qkv"])


def test_hooks_join_and_rename_what_older_files_have(tmp_path: Path) -> None:
    parts = {f"0.{name}": torch.randn(2, 2) for name in "qkv"}
    module: Any = nn.Sequential(Split(), nn.Linear(2, 2))
    rest = {key: value for key, value in module.state_dict().items() if key.startswith("1.")}
    torch.save({**parts, **rest}, tmp_path / "x.pt")
    report = load(module, tmp_path / "x.pt")
    assert torch.equal(module[0].weight, torch.cat([*parts.values()]))
    assert sorted(report.applied) == ["0.weight", "1.bias", "1.weight"]
    save(module, tmp_path / "x")
    fresh = nn.Sequential(Split(), nn.Linear(2, 2))
    load(fresh, tmp_path / "x.safetensors")
    assert is_same(fresh.state_dict(), module.state_dict())


def test_weight_norm_of_older_torch_loads_into_the_new_one(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = nn.utils.weight_norm(nn.Linear(3, 2))
    new = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    torch.save(old.state_dict(), tmp_path / "x.pt")
    load(new, tmp_path / "x.pt")
    inputs = torch.randn(4, 3)
    assert torch.equal(new(inputs), old(inputs))


@pytest.mark.parametrize("saved_by", ["burnlike", "torch"])
def test_an_averaged_model_loads_into_the_plain_one(saved_by: str, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 2), Extra())
    averaged: Any = AveragedModel(net)
    nn.init.constant_(averaged.module[0].weight, 3)
    filled(averaged)
    path = tmp_path / "x.pt"
    if saved_by == "burnlike":
        path = Path(save(averaged, tmp_path / "x"))
    else:
        torch.save(averaged.state_dict(), path)
    report = load(net, path)
    assert is_same(net.state_dict(), averaged.module.state_dict())
    assert report.skipped == ["n_averaged"]
    again = AveragedModel(nn.Sequential(nn.Linear(2, 2), Extra()))
    load(again, path)
    assert is_same(again.state_dict(), averaged.state_dict())


def test_what_code_of_the_module_refuses_is_told() -> None:
    with pytest.raises(
        RecordMismatchError, match=r"does not fit 'a', which reads it by code of its own[^$]*size mismatch"
    ):
        Record({"a.weight": torch.zeros(3)}).load_into(nn.ModuleDict({"a": Versioned()}))
    with pytest.raises(RecordMismatchError, match=r"'a\.weight': expected float32, got int64"):
        Record({"a.weight": torch.zeros(2, dtype=torch.int64)}).load_into(nn.ModuleDict({"a": Joined()}))


class Joined(nn.Module):
    """Code of its own that does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))
        self.register_load_state_dict_pre_hook(lambda *_: None)


def test_ties_that_a_record_contradicts_are_found_in_modules_with_code_of_their_own() -> None:
    module: Any = nn.Sequential(Joined(), Joined())
    module[1].weight = module[0].weight
    module.register_load_state_dict_pre_hook(lambda *_: None)
    with pytest.raises(RecordMismatchError, match=r"the values of '1\.weight', which the module ties to it"):
        Record({"0.weight": torch.zeros(2), "1.weight": torch.ones(2)}).load_into(module)
    Record({"0.weight": torch.ones(2), "1.weight": torch.ones(2)}).load_into(module)
    assert module[1].weight is module[0].weight
    assert module[0].weight.tolist() == [1, 1]


def test_ids_and_the_tensors_themselves_stay_as_in_other_loads(tmp_path: Path) -> None:
    module: Any = nn.Sequential(Split(), Joined())
    fresh: Any = nn.Sequential(Split(), Joined())
    path = save(module, tmp_path / "x")
    before = [*fresh.parameters()]
    fresh[1].weight.requires_grad_(False)
    load(fresh, path)
    assert all(one is other for one, other in zip(before, fresh.parameters(), strict=True))
    assert [it.id for it in params(fresh)] == [it.id for it in params(module)]
    assert [it.requires_grad for it in fresh.parameters()] == [True, False]
    assert open_record(path).ids


def test_what_stays_on_the_meta_device_is_told(tmp_path: Path) -> None:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("frequencies", torch.arange(3.0), persistent=False)
            self.weight = nn.Parameter(torch.ones(2))
            self.plain = {"table": torch.arange(2)}

    class Resettable(Rotary):
        def reset_non_persistent_buffers(self, device: torch.device) -> None:
            self.frequencies = torch.arange(3.0, device=device)
            self.plain = {"table": torch.arange(2, device=device)}

    path = save(nn.Sequential(Rotary(), Resettable(), nn.LSTM(2, 2)), tmp_path / "x")
    with torch.device("meta"):
        module: Any = nn.Sequential(Rotary(), Resettable(), nn.LSTM(2, 2))
    report = load(module, path, device="cpu")
    assert sorted(report.unset) == ["0.frequencies", "0.plain.table"]
    assert "still on the meta device: 0.frequencies" in str(report)
    assert module[1].frequencies.tolist() == [0, 1, 2]
    assert module[2](torch.ones(1, 2))[0].shape == (1, 2)
    assert load(nn.Sequential(Rotary(), Resettable(), nn.LSTM(2, 2)), path).unset == ()
