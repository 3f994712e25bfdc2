"""Records of L-BFGS: Burn's names, every format, resuming with the same bits, and records that don't fit."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import interop
from burnlike.errors import RecordMismatchError
from burnlike.optim import AdamWConfig, GradientsParams, Lbfgs, LbfgsConfig
from burnlike.record import Record, open_record
from burnlike.record.burn.cbor import decode
from burnlike.record.recorder import recorder_for
from burnlike.train import TrainingState
from tests.record.burn.packs import descriptor, made, read

EXTENSIONS = ["safetensors", "mpk", "mpk.gz", "json", "json.gz", "bpk"]
CONFIG = LbfgsConfig(max_iter=3, history_size=4, line_search_fn="StrongWolfe")


def model_of() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()


def closure(model: nn.Module) -> tuple[Tensor, GradientsParams]:
    x = torch.linspace(-1, 1, 16, dtype=torch.float64).view(8, 2)
    loss = (model(x) - x.sum(1, keepdim=True).sin()).square().mean()
    loss.backward()
    return loss, GradientsParams.from_module(model)


def trained(steps: int = 2) -> tuple[nn.Sequential, Lbfgs]:
    model, optimizer = model_of(), CONFIG.init()
    for _ in range(steps):
        optimizer.step(0.5, model, closure)
    return model, optimizer


def assert_goes_on_alike(model: nn.Module, optimizer: Lbfgs, other: Lbfgs) -> None:
    copy = model_of()
    copy.load_state_dict(model.state_dict())
    for _ in range(2):
        losses = [optimizer.step(0.5, model, closure)[1], other.step(0.5, copy, closure)[1]]
        assert losses[0] == losses[1]
    assert all(map(torch.equal, model.parameters(), copy.parameters()))


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_resumed_training_has_the_same_bits(extension: str, steps: int, tmp_path: Path) -> None:
    model, optimizer = trained(steps)
    path = tmp_path / f"optimizer.{extension}"
    recorder_for(path).save(optimizer.to_record(), path)
    other = CONFIG.init().load_record(open_record(path), model)
    assert other.state.g_iter == optimizer.state.g_iter
    assert_goes_on_alike(model, optimizer, other)


def test_a_burnpack_has_burns_names(tmp_path: Path) -> None:
    _, optimizer = trained()
    path = tmp_path / "optimizer.bpk"
    recorder_for(path).save(optimizer.to_record(), path)
    data = path.read_bytes()
    (length,) = struct.unpack_from("<I", data, 6)
    metadata = decode(data[10 : 10 + length], "the file")
    count = len(optimizer.state.history_s)
    assert 1 < count <= 4
    histories = [f"history_{kind}.{index}" for kind in "sy" for index in range(count)]
    assert sorted(metadata["tensors"]) == sorted([*histories, "d", "prev_flat_grad"])
    assert not any("param_id" in it for it in metadata["tensors"].values())
    state = optimizer.state
    assert metadata["scalars"] == {
        "g_iter": {"UInt": state.g_iter},
        "history_s.len": {"UInt": count},
        "history_y.len": {"UInt": count},
        "prev_loss": {"Float": state.prev_loss},
        "t": {"Float": state.t},
    }


def test_a_burnpack_as_burn_writes_it_is_read() -> None:
    names = ["history_s.0", "history_s.1", "history_y.0", "history_y.1", "d", "prev_flat_grad"]
    file = made(
        {
            "tensors": {name: descriptor(256 * place, 256 * place + 8) for place, name in enumerate(names)},
            "metadata": {},
            "scalars": {
                "g_iter": {"UInt": 3},
                "history_s.len": {"UInt": 2},
                "history_y.len": {"UInt": 2},
                "prev_loss": {"Float": 0.5},
                "t": {"Float": 1.0},
            },
        },
        b"".join(struct.pack("<2f", place, place + 0.5).ljust(256, b"\0") for place in range(6))[: 5 * 256 + 8],
    )
    state = CONFIG.init().load_record(read(file)).state
    assert [it.tolist() for it in state.history_s] == [[0.0, 0.5], [1.0, 1.5]]
    assert [it.tolist() for it in state.history_y] == [[2.0, 2.5], [3.0, 3.5]]
    assert [it.tolist() for it in state.vectors[4:]] == [[4.0, 4.5], [5.0, 5.5]]
    assert (state.g_iter, state.t, state.prev_loss) == (3, 1.0, 0.5)


def test_a_burnpack_before_the_first_step_is_read() -> None:
    scalars = {"g_iter": {"UInt": 0}, "history_s.len": {"UInt": 0}, "history_y.len": {"UInt": 0}, "t": {"Float": 1.0}}
    _, optimizer = trained()
    optimizer.load_record(read(made({"tensors": {}, "metadata": {}, "scalars": scalars})))
    assert (optimizer.state.g_iter, optimizer.state.vectors) == (0, [])


def test_a_loaded_state_is_a_copy() -> None:
    _, optimizer = trained()
    record = optimizer.to_record()
    other = CONFIG.init().load_record(record)
    other.state.history_s[0].zero_()
    assert optimizer.state.history_s[0].count_nonzero() > 0


def test_a_longer_history_is_cut_to_the_newest() -> None:
    _, optimizer = trained()
    other = LbfgsConfig(history_size=1).init().load_record(optimizer.to_record())
    assert len(other.state.history_s) == len(other.state.history_y) == 1
    assert torch.equal(other.state.history_s[0], optimizer.state.history_s[-1])


def test_a_training_state_holds_it(tmp_path: Path) -> None:
    model, optimizer = trained()
    path = TrainingState(model=model, optimizer=optimizer).save(tmp_path / "saved")
    expected = [optimizer.step(0.5, model, closure)[1] for _ in range(2)]
    fresh, other = model_of(), CONFIG.init()
    TrainingState(model=fresh, optimizer=other).load(path)
    assert [other.step(0.5, fresh, closure)[1] for _ in range(2)] == expected


def test_a_training_state_with_the_record_of_another_optimizer_is_refused_whole(tmp_path: Path) -> None:
    model = model_of()
    path = TrainingState(model=model, optimizer=AdamWConfig().init()).save(tmp_path / "saved")
    other, optimizer = trained()
    before, state = [param.detach().clone() for param in other.parameters()], optimizer.state
    with pytest.raises(RecordMismatchError, match="none of Lbfgs"):
        TrainingState(model=other, optimizer=optimizer).load(path)
    assert optimizer.state is state
    assert all(map(torch.equal, other.parameters(), before))


def changed(tensors: dict[str, Any] | None = None, values: dict[str, Any] | None = None, drop: str = "") -> Record:
    record = trained()[1].to_record()
    found = {**record.tensors, **(tensors or {})}
    kept = {**record.values, **(values or {})}
    found.pop(drop, None)
    kept.pop(drop, None)
    return Record(found, kept, source="it")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (Record({}, {}, source="it"), "it is none of Lbfgs"),
        (AdamWConfig().init().to_record(), "none of Lbfgs"),
        (changed(drop="g_iter"), "none of Lbfgs.*g_iter"),
        (changed(drop="prev_flat_grad"), "expected vectors, `d`"),
        (changed(drop="d"), "expected vectors, `d`"),
        (changed(drop="history_y.0"), "none of Lbfgs|contradicts itself"),
        (changed(values={"history_s": {"len": 2}}), "contradicts itself"),
        (changed(values={"history_s": {"len": "2"}}), "contradicts itself"),
        (changed(values={"g_iter": -1}), "contradicts itself"),
        (changed(values={"g_iter": "many"}), "none of Lbfgs"),
        (changed(values={"t": "long"}), "none of Lbfgs"),
        (changed(tensors={"d": torch.zeros(3)}), "contradicts itself"),
        (changed(tensors={"d": torch.zeros(13, dtype=torch.int64)}), "contradicts itself"),
        (changed(tensors={"more": torch.zeros(13)}), "none of Lbfgs.*more"),
    ],
)
def test_a_record_of_something_else_is_refused(record: Record, message: str) -> None:
    _, optimizer = trained()
    state = optimizer.state
    with pytest.raises(RecordMismatchError, match=message):
        optimizer.load_record(record)
    assert optimizer.state is state


def test_a_record_of_another_module_is_refused() -> None:
    _, optimizer = trained()
    with pytest.raises(RecordMismatchError, match="its state is of 13 values, the module has 6"):
        CONFIG.init().load_record(optimizer.to_record(), nn.Linear(2, 2))


def test_a_state_of_parameters_that_lie_otherwise_is_refused_by_name(tmp_path: Path) -> None:
    model, optimizer = trained()
    twin = interop.from_torch(model)
    optimizer.save(tmp_path / "optimizer.bpk")
    message = r"the parameter '0\.weight' lies otherwise there"
    for record in (optimizer.into_record(), open_record(tmp_path / "optimizer.bpk")):
        other = CONFIG.init()
        with pytest.raises(RecordMismatchError, match=message):
            other.load_record(record, twin)
        assert other.state.g_iter == 0
        other.load_record(record)
        before = [it.clone() for it in twin.parameters()]
        with pytest.raises(RecordMismatchError, match=message):
            other.step(0.5, twin, closure)
        assert all(map(torch.equal, before, twin.parameters()))
        copied = CONFIG.init().load_record(CONFIG.init().load_record(record).into_record(), model_of())
        assert copied.state.g_iter == optimizer.state.g_iter
    ours = CONFIG.init()
    ours.step(0.5, twin, closure)
    for record in (ours.into_record(), replace(ours.into_record(), values=without_layouts(ours))):
        assert CONFIG.init().load_record(record, twin).state.g_iter == ours.state.g_iter
        with pytest.raises(RecordMismatchError, match=r"the parameter '0\.weight' "):
            CONFIG.init().load_record(record, model)


def without_layouts(optimizer: Lbfgs) -> dict[str, Any]:
    """The values of a record as Burn writes it."""
    return {name: it for name, it in optimizer.into_record().values.items() if name != "layouts"}
