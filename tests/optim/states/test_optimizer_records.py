"""Records of optimizers: Burn's files, every format, every kind of state."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike.errors import RecordError, RecordMismatchError
from burnlike.module import ParamId, params
from burnlike.optim import AdamWConfig, ClipByNorm, GradientsParams, OptimizerAdaptor, SimpleOptimizer
from burnlike.record import open_record
from burnlike.record.recorder import recorder_for
from tests.conftest import tensor_of
from tests.optim.steps import assert_same, train

B = TypeVar("B", bound=bl.Backend)
D = TypeVar("D", bound=int)
GOLDEN = Path(__file__).parents[2] / "golden"
CONFIGS = {
    "optim_adamw": AdamWConfig(),
    "optim_adamw_clip": AdamWConfig(
        grad_clipping=ClipByNorm(threshold=0.1), cautious_weight_decay=True, weight_decay=0.1
    ),
}
FILES = sorted(
    path.relative_to(GOLDEN).as_posix()
    for name in CONFIGS
    for path in (*(GOLDEN / "v0.21").glob(f"{name}-*"), *(GOLDEN / "v0.22").glob(f"{name}.bpk"))
    if path.suffix != ".binbytes" and path.suffix != ".mpkbytes"
)


def values_of(file: str) -> dict[str, Any]:
    version, name = file.split("/")
    return json.loads((GOLDEN / version / f"{name.split('.')[0].split('-')[0]}.values.json").read_text())


def model_of(entries: list[dict[str, Any]]) -> bl.nn.Linear:
    model = bl.nn.LinearConfig(d_input=4, d_output=3).init()
    for param, entry in zip(params(model), entries, strict=True):
        param.assign(tensor_of(entry))
        param.adopt(ParamId.parse(entry["id"]))
    return model


def step(model: nn.Module, optimizer: OptimizerAdaptor, golden: dict[str, Any]) -> list[Tensor]:
    loss = (model(tensor_of(golden["input"])) - tensor_of(golden["target"])).square().mean()
    loss.backward()
    optimizer.step(golden["lr"], model, GradientsParams.from_module(model))
    return [param.tensor.detach() for param in params(model)]


def config_of(file: str) -> AdamWConfig:
    return CONFIGS[file.split("/")[1].split(".")[0].split("-")[0]]


@pytest.mark.parametrize("file", FILES)
def test_burns_optimizers_continue_as_in_burn(file: str) -> None:
    golden = values_of(file)
    model = model_of(golden["steps_before_save"][-1]["params_after"])
    optimizer = config_of(file).init()
    record = open_record(GOLDEN / file, layout=optimizer.record_layout() if ".bin" in file else None)
    optimizer.load_record(record, model)
    assert optimizer.load_report is not None
    assert sorted(optimizer.load_report.by_id) == ["bias", "weight"]
    precision = {"half": torch.float16, "double": torch.float64}.get(file.split("-")[-1].split(".")[0], torch.float32)
    assert {tensor.dtype for tensor in optimizer.to_record().tensors.values()} == {precision}
    after = step(model, optimizer, golden["step_after_load"])
    # A float16 second moment keeps 11 bits of a value whose root divides a step of 0.01.
    tolerance = 2e-4 if precision == torch.float16 else 1e-6
    for found, expected in zip(after, golden["step_after_load"]["params_after"], strict=True):
        torch.testing.assert_close(found, tensor_of(expected), rtol=tolerance, atol=tolerance)


FORMATS = ["safetensors", "mpk", "mpk.gz", "json", "json.gz", "bpk", "bin", "bin.gz"]


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("amsgrad", [False, True])
def test_every_format_gives_the_same_states_back(tmp_path: Path, extension: str, amsgrad: bool) -> None:
    model, optimizer = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), AdamWConfig(amsgrad=amsgrad).init()
    for _ in range(2):
        train(model, optimizer)
    record = optimizer.to_record()
    path = tmp_path / f"optimizer.{extension}"
    recorder_for(path).save(record, path)
    layout = optimizer.record_layout() if "bin" in extension else None
    fresh = AdamWConfig(amsgrad=amsgrad).init().load_record(open_record(path, layout=layout), model)
    again = fresh.to_record()
    assert again.values == record.values
    assert_same(again.tensors, record.tensors)
    assert again.layout == record.layout


@pytest.mark.parametrize("extension", FORMATS)
def test_the_record_of_an_optimizer_before_its_first_step_loads(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"optimizer.{extension}"
    optimizer = AdamWConfig().init()
    recorder_for(path).save(optimizer.to_record(), path)
    layout = optimizer.record_layout() if "bin" in extension else None
    trained, model = AdamWConfig().init(), nn.Linear(2, 2)
    train(model, trained)
    trained.load_record(open_record(path, layout=layout), model)
    assert not trained.to_record().tensors
    assert trained.load_report is not None
    assert trained.load_report.missing == ["weight", "bias"]


def test_our_file_is_burns_byte_for_byte(tmp_path: Path) -> None:
    file = "v0.21/optim_adamw-full.mpk"
    golden = values_of(file)
    model = model_of(golden["params"])
    optimizer = AdamWConfig().init().load_record(open_record(GOLDEN / file), model)
    record = optimizer.to_record()
    record = replace(record, values={**record.values, "paths": {}})  # which Burn 0.21 doesn't keep
    written = bl.record.NamedMpkFileRecorder(bl.record.FullPrecision).to_bytes(record)
    assert written == (GOLDEN / file).read_bytes()


@pytest.mark.parametrize("precision", [bl.record.HalfPrecision, bl.record.BFloat16Precision])
def test_states_saved_in_half_precision_stay_so_if_a_step_can_take_them(
    tmp_path: Path, precision: bl.record.Precision
) -> None:
    model, optimizer = nn.Linear(3, 2), AdamWConfig().init()
    train(model, optimizer)
    record = optimizer.to_record()
    path = bl.record.SafetensorsRecorder(precision).save(record, tmp_path / "half")
    fresh = AdamWConfig().init().load_record(open_record(path), model)
    assert {it.dtype for it in fresh.to_record().tensors.values()} == {precision.float}
    train(model, fresh)
    # Float16 has no place for the squares of small gradients, and kernels take it beside float16 parameters only.
    after = torch.bfloat16 if precision.float == torch.bfloat16 else torch.float32
    assert {it.dtype for it in fresh.to_record().tensors.values()} == {after}


@dataclass
class Velocity:
    velocity: Tensor


@dataclass
class SgdState:
    momentum: Velocity | None = None
    history: list[float] = field(default_factory=list)


class Sgd(SimpleOptimizer[SgdState]):
    """A state that may have no tensors."""

    state_type = SgdState

    def __init__(self, momentum: bool) -> None:
        self.momentum = momentum

    def step(self, lr: float, tensor: Tensor, grad: Tensor, state: SgdState | None) -> tuple[Tensor, SgdState]:
        state = state or SgdState()
        velocity = Velocity(grad.clone()) if self.momentum else None
        return tensor - lr * grad, SgdState(velocity, [*state.history, lr])


@pytest.mark.parametrize("momentum", [False, True])
@pytest.mark.parametrize("extension", ["safetensors", "mpk"])
def test_states_without_tensors_and_of_lists_are_kept(tmp_path: Path, momentum: bool, extension: str) -> None:
    model, optimizer = nn.Linear(2, 2), OptimizerAdaptor(Sgd(momentum))
    train(model, optimizer, 0.5)
    train(model, optimizer, 0.25)
    path = tmp_path / f"sgd.{extension}"
    recorder_for(path).save(optimizer.to_record(), path)
    fresh = OptimizerAdaptor(Sgd(momentum)).load_record(open_record(path), model)
    record = fresh.to_record()
    assert record.values == optimizer.to_record().values
    assert_same(record.tensors, optimizer.to_record().tensors)
    assert [it for name, it in record.values["states"].items() if name.endswith("history.1")] == [0.25, 0.25]


@pytest.mark.parametrize(
    "file", ["v0.21/optim_sgd-full.mpk", "v0.22/optim_sgd.bpk", "v0.21/optim_sgd_momentum-full.mpk"]
)
def test_burns_states_of_other_optimizers_fit_a_dataclass_of_their_fields(file: str) -> None:
    @dataclass
    class BurnsState:
        momentum: Velocity | None

    class BurnsSgd(Sgd):
        state_type = BurnsState

    golden = values_of(file)
    model = model_of(golden["params"])
    optimizer = OptimizerAdaptor(BurnsSgd(True)).load_record(open_record(GOLDEN / file), model)
    assert optimizer.load_report is not None
    assert sorted(optimizer.load_report.by_id) == ["bias", "weight"]
    assert len(optimizer.to_record().tensors) == (2 if "momentum" in file else 0)
    with pytest.raises(RecordMismatchError, match=r"the state of .* is none of AdamW: 'momentum"):
        AdamWConfig().init().load_record(open_record(GOLDEN / file), model)


@dataclass
class Notes:
    things: Any


class Noting(SimpleOptimizer[Notes]):
    """A state of anything."""

    state_type = Notes

    def __init__(self, things: Any) -> None:
        self.things = things

    def step(self, lr: float, tensor: Tensor, grad: Tensor, state: Notes | None) -> tuple[Tensor, Notes]:
        return tensor - lr * grad, Notes(self.things)


@pytest.mark.parametrize(
    "things",
    [None, {}, [1, None, 3], [None, None], {"a": [{"b": None}], "c": {}, "d": 2**70}, [[], [2.5, "x", True]]],
    ids=repr,
)
@pytest.mark.parametrize("extension", ["safetensors", "bpk", "mpk", "json"])
def test_nothing_in_a_state_is_lost_not_even_none(tmp_path: Path, things: Any, extension: str) -> None:
    model, optimizer = nn.Linear(2, 2), OptimizerAdaptor(Noting(things))
    train(model, optimizer)
    bl.record.save(optimizer, tmp_path / f"noting.{extension}")
    fresh = OptimizerAdaptor(Noting(things)).load_record(open_record(tmp_path / f"noting.{extension}"), model)
    assert [fresh.state_of(param) for param in params(model)] == [Notes(things)] * 2


def test_tensors_and_none_share_a_list(tmp_path: Path) -> None:
    model, optimizer = nn.Linear(2, 2), OptimizerAdaptor(Noting([torch.tensor(1.0), None]))
    train(model, optimizer)
    bl.record.save(optimizer, tmp_path / "noting")
    fresh = OptimizerAdaptor(Noting(None)).load_record(open_record(tmp_path / "noting.safetensors"), model)
    assert [fresh.state_of(param) for param in params(model)] == [Notes([torch.tensor(1.0), None])] * 2


def test_two_values_of_one_name_are_refused() -> None:
    model, optimizer = nn.Linear(2, 2), OptimizerAdaptor(Noting({"a.b": 1, "a": {"b": 2}}))
    train(model, optimizer)
    with pytest.raises(RecordError, match=r"two values of a state would be named 'things\.a\.b'"):
        optimizer.to_record()


@dataclass
class Observed(Generic[B, D]):
    mean: bl.Tensor[B, D]
    norms: torch.Tensor


class Observing(SimpleOptimizer[Observed[Any, Any]]):
    """A state with a tensor of a shape of its own."""

    state_type = Observed

    def step(
        self, lr: float, tensor: bl.Tensor[B, D], grad: bl.Tensor[B, D], state: Observed[B, D] | None
    ) -> tuple[bl.Tensor[B, D], Observed[B, D]]:
        norms = torch.zeros(3) if state is None else state.norms
        return tensor - grad * lr, Observed(grad, norms + 1)


@pytest.mark.parametrize("extension", ["safetensors", "bpk", "mpk"])
def test_states_of_shapes_of_their_own_come_back(tmp_path: Path, extension: str) -> None:
    model, optimizer = nn.Linear(2, 4), OptimizerAdaptor(Observing())
    train(model, optimizer)
    bl.record.save(optimizer, tmp_path / f"observing.{extension}")
    record = open_record(tmp_path / f"observing.{extension}")
    fresh = OptimizerAdaptor(Observing()).load_record(record, model)
    assert_same(fresh.to_record().tensors, optimizer.to_record().tensors)
    with pytest.raises(RecordMismatchError, match=r"weight, mean: expected \[4, 3\], got \[4, 2\]") as caught:
        OptimizerAdaptor(Observing()).load_record(record, nn.Linear(3, 4))
    assert "norms" not in str(caught.value)
