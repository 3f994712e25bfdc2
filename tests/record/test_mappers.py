"""Parameters whose form in a record is another than in the module."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import PrecisionError, RecordError, RecordMismatchError
from burnlike.module import LazyParameter, Module, Param, clone, params
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder, init_from, load, save
from tests.conftest import tensor_of
from tests.module.cases import case

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


def filled() -> ColLinear:
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
    linear = filled()
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
    path = save(filled(), tmp_path / "x", BFloat16Precision)
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
    linear = filled()
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
    linear = filled()
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
    linear = filled()
    record = clone(linear).into_record()
    linear.param("weight").load_mapper(mapper)
    assert f"the load mapper of 'weight' {message}" in refused(linear, record, RecordError)
    linear.param("weight").save_mapper(mapper)
    with pytest.raises(RecordError, match="the save mapper of 'weight'"):
        linear.into_record()


def test_a_mapped_value_too_large_for_the_module_is_refused() -> None:
    linear = filled().half()
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
    path = save(filled(), tmp_path / "x")
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
