"""The linear layer with its weight in the layout Col."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.module import display
from burnlike.nn import KaimingUniform, LinearConfig, XavierNormal
from burnlike.record import NamedMpkFileRecorder, Record, SafetensorsRecorder, init_from, load, save
from tests.conftest import tensor_of

GOLDEN = Path(__file__).parent.parent / "golden"
COL = LinearConfig(d_input=3, d_output=2, layout="col")


@pytest.mark.parametrize("file", ["v0.21/linear_col-full.mpk", "v0.22/linear_col.safetensors"])
def test_burns_file_loads_and_is_written_again_transposed(file: str, golden: Callable[[str], dict[str, Any]]) -> None:
    path = GOLDEN / file
    recorder = NamedMpkFileRecorder() if path.suffix == ".mpk" else SafetensorsRecorder()
    record = recorder.load(path)
    values = golden("linear_col")
    layer = COL.init()
    record.load_into(layer)
    expected = {entry["path"]: tensor_of(entry) for entry in values["params"]}
    assert torch.equal(layer.weight, expected["weight"])
    assert layer.weight.is_contiguous()
    found = layer(tensor_of(values["inputs"]["input"]))
    torch.testing.assert_close(found, tensor_of(values["outputs"]["output"]), rtol=1e-6, atol=1e-6)
    assert display(layer) == values["display"]
    again = Record.from_module(layer)
    for name in ("weight", "bias"):
        assert torch.equal(again.tensors[name], record.tensors[name])
        assert again.ids[name] == record.ids.get(name, again.ids[name])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies_keep_the_layout(copied: Callable[[Any], Any]) -> None:
    layer = COL.init()
    assert torch.equal(Record.from_module(copied(layer)).tensors["weight"], layer.weight.mT)


def test_a_file_builds_the_layer_without_initializing(tmp_path: Path) -> None:
    layer = COL.init()
    path = save(layer, tmp_path / "layer.safetensors")
    assert torch.equal(init_from(COL, path, "cpu").weight, layer.weight)
    other = COL.init()
    load(other, path)
    assert torch.equal(other.weight, layer.weight)
    assert torch.nn.Linear(3, 2).load_state_dict(dict(SafetensorsRecorder().load(path).tensors)) is not None


def test_the_weights_fans_are_swapped_the_biases_are_not() -> None:
    torch.manual_seed(0)
    layer = LinearConfig(d_input=4, d_output=10_000, layout="col").init()
    # a = sqrt(3) * gain / sqrt(fan) with gain 1 / sqrt(3): 1 / sqrt(fan), and a draw of 40,000 comes close to it.
    assert layer.weight.abs().max().item() == pytest.approx(10_000**-0.5, rel=1e-3)
    assert layer.bias is not None
    assert layer.bias.abs().max().item() == pytest.approx(4**-0.5, rel=1e-3)
    rule = KaimingUniform(fan_out_only=True)
    swapped = LinearConfig(d_input=4, d_output=10_000, layout="col", initializer=rule, bias=False).init()
    assert swapped.weight.abs().max().item() == pytest.approx(4**-0.5, rel=1e-3)


def test_trains_like_the_row_layout() -> None:
    row = LinearConfig(d_input=3, d_output=2, initializer=XavierNormal(), bias=False).init()
    col = LinearConfig(d_input=3, d_output=2, initializer=XavierNormal(), bias=False, layout="col").init()
    with torch.no_grad():
        col.weight.copy_(row.weight)
    x = torch.randn(5, 3)
    for layer in (row, col):
        layer(x).square().sum().backward()
    assert type(col.weight) is torch.nn.Parameter
    assert row.weight.grad is not None
    torch.testing.assert_close(col.weight.grad, row.weight.grad)
