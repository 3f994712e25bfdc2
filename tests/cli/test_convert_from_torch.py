"""`burnlike convert --model`: weights that were trained in PyTorch become a file for Burn."""

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from burnlike import Module, nn as layers
from burnlike.cli.commands import convert
from burnlike.config import ModuleConfig
from burnlike.errors import RecordError, RecordMismatchError
from burnlike.interop import from_torch, record_from_torch, to_torch
from burnlike.module import params
from burnlike.record import init_from, open_record, save

from .commands import run


class TwoLinearsConfig(ModuleConfig, tag="TwoLinearsOfATest"):
    """A model of two layers and a number of its own."""

    width: int = 3

    def init(self, device: Any = None) -> "TwoLinears":
        return TwoLinears(self, device)


class TwoLinears(Module):
    def __init__(self, config: TwoLinearsConfig, device: Any) -> None:
        super().__init__()
        self.first = layers.LinearConfig(d_input=2, d_output=config.width).init(device)
        self.rest = [layers.LinearConfig(d_input=config.width, d_output=1, bias=False).init(device)]
        self.scale = nn.Parameter(torch.ones(1, device=device))

    def forward(self, x: Tensor) -> Tensor:
        return self.rest[0](self.first(x)) * self.scale


class TorchModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.rest = nn.ModuleList([nn.Linear(3, 1, bias=False)])
        self.scale = nn.Parameter(torch.full((1,), 2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.rest[0](self.first(x)) * self.scale


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "model.yaml"
    path.write_text("type: TwoLinearsOfATest\n")
    return path


@pytest.mark.parametrize("source", ["x.pt", "x.safetensors"])
@pytest.mark.parametrize("target", ["x.mpk", "x.bpk", "x.bin", "y.safetensors"])
def test_weights_of_torch_become_those_of_burn(source: str, target: str, config: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = TorchModel()
    if source.endswith(".pt"):
        torch.save(model.state_dict(), tmp_path / source)
    else:
        safetensors.torch.save_file(model.state_dict(), tmp_path / source)
    assert run(convert, tmp_path / source, tmp_path / target, "--model", config) == 0
    loaded = init_from(TwoLinearsConfig(), tmp_path / target, "cpu")
    x = torch.randn(5, 2)
    torch.testing.assert_close(loaded(x), model(x))
    assert torch.equal(loaded.first.weight, model.first.weight.mT)
    twin = from_torch(model)
    for name, tensor in twin.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


def test_ids_of_the_source_are_kept(config: Path, tmp_path: Path) -> None:
    model = TorchModel()
    ids = {param.path: param.id for param in params(model)}
    save(model, tmp_path / "x.safetensors")
    run(convert, tmp_path / "x.safetensors", tmp_path / "x.mpk", "--model", config, "--from", "torch")
    assert dict(open_record(tmp_path / "x.mpk").ids) == ids


def test_names_of_other_programs_are_renamed_before(config: Path, tmp_path: Path) -> None:
    state = {f"net.{name}": tensor for name, tensor in TorchModel().state_dict().items()}
    torch.save({"model": state, "epoch": 3}, tmp_path / "x.pt")
    options = ("--top-level-key", "model", "--rename", "^net\\.=", "--precision", "f16")
    run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", "--model", config, *options)
    assert open_record(tmp_path / "x.mpk").tensors["first.weight"].dtype == torch.float16


def test_all_that_does_not_fit_is_in_one_error(config: Path, tmp_path: Path) -> None:
    state = dict(TorchModel().state_dict())
    state["first.weight"] = torch.zeros(4, 2)
    state["frist.bias"] = state.pop("first.bias")
    state["more"] = torch.zeros(2)
    torch.save(state, tmp_path / "x.pt")
    with pytest.raises(RecordMismatchError, match=r"does not fit TwoLinears, whose tensors have these") as caught:
        run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", "--model", config)
    text = str(caught.value)
    for line in (
        "missing in the record: first.bias; did you mean 'frist.bias'?",
        "unexpected: more",
        "mismatched: first.weight: expected float32 [3, 2], got float32 [4, 2]",
    ):
        assert line in text
    assert not (tmp_path / "x.mpk").exists()


def test_names_that_may_be_of_either_are_asked_for(tmp_path: Path) -> None:
    layer = nn.Linear(2, 2)
    torch.save(layer.state_dict(), tmp_path / "x.pt")
    (tmp_path / "model.yaml").write_text("type: Linear\nd_input: 2\nd_output: 2\n")
    arguments = (tmp_path / "x.pt", tmp_path / "x.mpk", "--model", tmp_path / "model.yaml")
    with pytest.raises(RecordError, match="say by --from torch or --from burnlike"):
        run(convert, *arguments)
    for names, expected in (("torch", layer.weight.mT), ("burnlike", layer.weight)):
        run(convert, *arguments, "--from", names, "--ids", "--force")
        assert torch.equal(open_record(tmp_path / "x.mpk").tensors["weight"], expected)
    with pytest.raises(RecordError, match="--from torch needs --model"):
        run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", "--from", "torch")


def test_a_record_in_burns_names_stays_as_it_is(config: Path, tmp_path: Path) -> None:
    model = TwoLinearsConfig().init()
    safetensors.torch.save_file(
        {name: it.contiguous() for name, it in model.state_dict().items()}, tmp_path / "x.safetensors"
    )
    run(convert, tmp_path / "x.safetensors", tmp_path / "x.bin", "--model", config, "--ids")
    loaded = init_from(TwoLinearsConfig(), tmp_path / "x.bin", "cpu")
    assert torch.equal(loaded.first.weight, model.first.weight)


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("type: Lstm\nd_input: 2\nd_hidden: 2\nbias: true\n", nn.LSTM(2, 2, batch_first=True)),
        ("type: BiGru\nd_input: 3\nd_hidden: 2\nbias: false\n", nn.GRU(3, 2, bias=False, bidirectional=True)),
        ("type: BatchNorm\nnum_features: 3\n", nn.BatchNorm1d(3)),
        ("type: MultiHeadAttention\nd_model: 4\nn_heads: 2\n", nn.MultiheadAttention(4, 2, batch_first=True)),
        ("type: Conv2d\nchannels: [2, 3]\nkernel_size: 3\n", nn.Conv2d(2, 3, 3)),
    ],
    ids=["Lstm", "BiGru", "BatchNorm", "MultiHeadAttention", "Conv2d"],
)
def test_gates_norms_and_projections(text: str, layer: nn.Module, tmp_path: Path) -> None:
    torch.save(layer.state_dict(), tmp_path / "x.pt")
    (tmp_path / "model.yaml").write_text(text)
    run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", "--model", tmp_path / "model.yaml")
    found = open_record(tmp_path / "x.mpk").tensors
    layer_of_burn = ModuleConfig.from_yaml(text).init()
    record_from_torch(layer_of_burn, layer.state_dict()).load_into(layer_of_burn)
    assert found.keys() == layer_of_burn.state_dict().keys()
    for name, tensor in to_torch(layer_of_burn).state_dict().items():
        assert torch.equal(tensor, layer.state_dict()[name])
    for name, tensor in layer_of_burn.state_dict().items():
        assert torch.equal(tensor, found[name])


def test_the_way_back_to_torchs_names(config: Path, tmp_path: Path) -> None:
    model = TorchModel()
    torch.save(model.state_dict(), tmp_path / "x.pt")
    run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", "--model", config)
    run(convert, tmp_path / "x.mpk", tmp_path / "back.safetensors", "--model", config, "--to", "torch")
    state = safetensors.torch.load_file(tmp_path / "back.safetensors")
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "torhc"), "--from torhc: expected one of burnlike, torch.*; did you mean 'torch'"),
        (("--to", "nowhere"), "--to nowhere: expected one of burnlike, torch"),
        (("--to", "torch"), "--to torch needs --model"),
    ],
)
def test_names_that_there_are_not(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=message):
        run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", *options)
