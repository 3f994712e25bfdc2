"""Files of Burn 0.14 to 0.20: modules, optimizers and schedules in every format are read and gone on with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import burnlike as bl
from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.errors import RecordError, RecordFormatError, RecordMismatchError
from burnlike.module import Module, ModuleEnum, ParamId, params
from burnlike.record import layout_of
from tests.burn_configs import scheduler_config

FOLDER = Path(__file__).parents[2] / "golden" / "older"
VERSIONS = ("v0.14", "v0.16", "v0.20")


class Choice(ModuleEnum):
    Linear: bl.nn.Linear
    Conv: bl.nn.Conv2d


class Tree(Module):
    some: bl.nn.Linear | None
    none: bl.nn.Linear | None

    def __init__(self) -> None:
        super().__init__()

        def linear(d_input: int, d_output: int, bias: bool = True) -> bl.nn.Linear:
            return bl.nn.LinearConfig(d_input=d_input, d_output=d_output, bias=bias).init()

        self.lin, self.tied = linear(3, 3), linear(3, 3)
        self.tied.weight = self.lin.weight
        self.conv = bl.nn.Conv2dConfig(channels=(2, 3), kernel_size=(3, 2)).init()
        self.bn = bl.nn.BatchNormConfig(num_features=2).init()
        self.choice = Choice(Conv=bl.nn.Conv2dConfig(channels=(1, 2), kernel_size=(1, 1)).init())
        self.some = linear(2, 1)
        self.none = None
        self.list = [linear(1, 2), linear(2, 1, bias=False), linear(1, 1)]
        self.pair = (linear(2, 2), bl.nn.LayerNormConfig(d_model=2).init())
        self.drop = bl.nn.DropoutConfig(prob=0.5).init()
        self.register_buffer("ints", torch.zeros(3, dtype=torch.int32))
        self.raw, self.width, self.rate, self.flag = None, 3, 0.5, True


class Recurrent(Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = bl.nn.LstmConfig(d_input=2, d_hidden=3, bias=True).init()
        self.last = bl.nn.LinearConfig(d_input=3, d_output=1).init()


def values_of(version: str, name: str) -> Any:
    return json.loads((FOLDER / version / f"{name}.values.json").read_text())


def by_id(entries: list[dict[str, Any]]) -> dict[ParamId, Tensor]:
    return {
        ParamId.parse(it["id"]): torch.tensor(it.get("values", it.get("ints"))).reshape(it["shape"]) for it in entries
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", ["tree-full.mpk", "tree-full.bin", "tree-half.bin", "rec-full.bin"])
def test_modules_are_read_and_written_again(version: str, file: str, tmp_path: Path) -> None:
    name, _, rest = file.partition("-")
    path = FOLDER / version / file
    if not path.exists():
        pytest.skip("not among the files")
    model = Tree() if name == "tree" else Recurrent()
    bl.record.load(model, path)
    expected = by_id(values_of(version, name))
    found = {param.id: param.tensor for param in params(model)}
    assert found.keys() == expected.keys()
    for param_id, tensor in found.items():
        rtol = 1e-3 if rest.startswith("half") else 0
        torch.testing.assert_close(tensor, expected[param_id].to(tensor.dtype), rtol=rtol, atol=0)
    if rest.endswith(".bin") and version != "v0.14":  # whose ids are shorter
        record = bl.record.open_record(path, layout=layout_of(model, (0, int(version[3:]))))
        assert Path(bl.record.save(record, tmp_path / file)).read_bytes() == path.read_bytes()


def test_a_layout_of_another_version_is_refused_and_the_version_told() -> None:
    with pytest.raises(RecordFormatError, match=r"\(Burn 0\.20\.1 wrote it\)|layout"):
        bl.record.open_record(FOLDER / "v0.20" / "tree-full.bin", layout=layout_of(Tree(), (0, 21)))


def linear_of(entries: list[dict[str, Any]]) -> bl.nn.Linear:
    model = bl.nn.LinearConfig(d_input=3, d_output=2).init()
    (weight, bias) = by_id(entries).items()
    tensors = {"weight": weight[1], "bias": bias[1]}
    bl.record.Record(tensors, ids={"weight": weight[0], "bias": bias[0]}).load_into(model)
    return model


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", ["optim_adam-full.bin", "optim_adam-full.mpk", "optim_sgd_momentum-full.mpk"])
def test_optimizers_are_read(version: str, file: str, tmp_path: Path) -> None:
    name = file.partition("-")[0]
    optimizer = (
        bl.optim.AdamConfig() if "adam" in name else bl.optim.SgdConfig(momentum=bl.optim.MomentumConfig())
    ).init()
    model = linear_of(values_of(version, name)["before"])
    optimizer.load(FOLDER / version / file, module=model)
    record = optimizer.into_record()
    in_json = bl.record.open_record(FOLDER / version / f"{name}-full.mpk")
    assert record.values["states"] == in_json.values["states"]
    assert record.tensors.keys() == in_json.tensors.keys()
    for key, tensor in record.tensors.items():
        torch.testing.assert_close(tensor, in_json.tensors[key], rtol=0, atol=0)
    if "adam" in name:
        assert {key.partition(".")[2]: it for key, it in record.values["states"].items()} == {"momentum.time": 3}
    # What a conversion writes is an optimizer's file of Burn 0.22.
    path = bl.record.save(in_json, tmp_path / "optimizer.bpk")
    assert bl.record.open_record(path).values["states"] == in_json.values["states"]
    assert b"__rank" in Path(path).read_bytes()


SCHEDULES: dict[str, Callable[[], bl.optim.LrScheduler]] = {
    "lr_cosine": lambda: bl.optim.CosineAnnealingConfig(initial_lr=0.1, num_iters=7, min_lr=0.01, restart=True).init(),
    "lr_noam": lambda: bl.optim.NoamLrConfig(factor=0.1, warmup_steps=5, model_size=16).init(),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("extension", ["mpk", "bin"])
def test_schedules_go_on(version: str, name: str, extension: str) -> None:
    schedule, path = SCHEDULES[name](), FOLDER / version / f"{name}-full.{extension}"
    if (version, name) == ("v0.14", "lr_cosine"):
        message = "Burn 0.14" if extension == "bin" else r"a number, .* of Burn 0\.14: call step\(\)"
        with pytest.raises(RecordMismatchError if extension == "mpk" else RecordFormatError, match=message):
            bl.record.load(schedule, path)
        return
    rates = values_of(version, name)
    assert [schedule.step() for _ in rates["first"]] == pytest.approx(rates["first"], rel=1e-12)
    again = SCHEDULES[name]()
    bl.record.load(again, path)
    assert [again.step() for _ in rates["next"]] == pytest.approx(rates["next"], rel=1e-12)


@pytest.mark.parametrize("name", ["lr_noam", "lr_composed"])
def test_bincode_of_noam_and_composed_schedules_goes_on(name: str) -> None:
    folder = FOLDER.parent / "v0.21"
    values = json.loads((folder / f"{name}.values.json").read_text())
    fields = {key: it for key, it in values["config"].items() if key != "type"}
    schedule = scheduler_config(values["config"]["type"], fields, restart=True).init()
    bl.record.load(schedule, folder / f"{name}-full.bin")
    assert [schedule.step() for _ in values["lr_after_load"]] == pytest.approx(values["lr_after_load"], rel=1e-12)


@pytest.mark.parametrize("name", ["lr_noam", "lr_composed", "lr_cosine"])
def test_bincode_of_burnlikes_own_schedules_goes_on(name: str, tmp_path: Path) -> None:
    values = json.loads((FOLDER.parent / "v0.21" / f"{name}.values.json").read_text())
    fields = {key: it for key, it in values["config"].items() if key != "type"}
    schedule = scheduler_config(values["config"]["type"], fields, restart=True).init()
    rates = [schedule.step() for _ in range(3)]
    again = scheduler_config(values["config"]["type"], fields, restart=True).init()
    bl.record.load(again, bl.record.save(schedule, tmp_path / "schedule.bin"))
    assert rates
    assert [again.step() for _ in range(4)] == [schedule.step() for _ in range(4)]


@pytest.mark.parametrize("file", ["older/v0.20/lr_cosine-full.mpk", "v0.21/lr_composed-full.mpk"])
def test_a_schedule_without_names_does_not_become_a_burnpack(file: str, tmp_path: Path) -> None:
    record = bl.record.open_record(FOLDER.parent / file)
    with pytest.raises(RecordError, match=r"begin anew; load it into the schedule, by scheduler\.load\(path\)"):
        bl.record.save(record, tmp_path / "schedule.bpk")
    assert not (tmp_path / "schedule.bpk").exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_inspect_finds_the_states_of_an_optimizer_without_a_layout(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(FOLDER / version / "optim_adam-full.bin")]) == 0
    text = capsys.readouterr().out
    record = bl.record.open_record(FOLDER / version / "optim_adam-full.mpk")
    for param_id in {name.partition(".")[0] for name in record.tensors}:
        assert text.count(f"{param_id}.?") == 2


LAYERS: dict[str, ModuleConfig] = {
    "gru": bl.nn.GruConfig(d_input=3, d_hidden=4, bias=True),
    "bilstm": bl.nn.BiLstmConfig(d_input=3, d_hidden=2, bias=True),
    "conv3d": bl.nn.Conv3dConfig(channels=(1, 2), kernel_size=(2, 2, 2)),
    "conv_transpose1d": bl.nn.ConvTranspose1dConfig(channels=(2, 3), kernel_size=3),
    "conv_transpose2d": bl.nn.ConvTranspose2dConfig(channels=(2, 4), kernel_size=(3, 2)),
    "deform_conv2d": bl.nn.DeformConv2dConfig(channels=(2, 2), kernel_size=(2, 2)),
    "mha": bl.nn.MultiHeadAttentionConfig(d_model=8, n_heads=2),
    "feed_forward": bl.nn.PositionWiseFeedForwardConfig(d_model=4, d_ff=6),
}


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_in_bincode_are_those_in_messagepack(version: str, name: str, tmp_path: Path) -> None:
    path, one, other = FOLDER / version / f"{name}-full.bin", LAYERS[name].init(), LAYERS[name].init()
    bl.record.load(one, path)
    bl.record.load(other, path.with_suffix(".mpk"))
    for (key, tensor), same in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(tensor, same, rtol=0, atol=0, msg=key)
    assert [param.id for param in params(one)] == [param.id for param in params(other)]
    record = bl.record.open_record(path, layout=layout_of(one, (0, int(version[3:]))))
    assert Path(bl.record.save(record, tmp_path / "again.bin")).read_bytes() == path.read_bytes()
