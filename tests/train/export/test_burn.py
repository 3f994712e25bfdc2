"""Models for Burn: the tensors under the names of the Rust, and Rust that a compiler takes with Burn's signatures.

`burn_stub.rs` has the names, types and signatures of Burn's layers, read from its source; it computes nothing.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike import nn
from burnlike.config import ModuleConfig, registry
from burnlike.config.root_keys import Input
from burnlike.errors import NoCounterpartError
from burnlike.models import LstmLmConfig, MlpConfig
from burnlike.record import open_record
from burnlike.train.export.exporting import export
from burnlike.train.export.rust.layers import rows, rust_layer
from burnlike.train.export.source import Source

from ...nn.cases import CASES

RUSTC = shutil.which("rustc") or shutil.which("rustc", path=str(Path.home() / ".cargo/bin"))
HERE = Path(__file__).parent
IMAGES, ROWS, TOKENS = Input((2, 1, 8, 8), "float32"), Input((2, 3, 4), "float32"), Input((2, 5), "int64")

CONVOLUTIONAL = """
type: Sequential
layers:
  - {type: Conv2d, channels: [1, 4], kernel_size: 3, padding: Same}
  - {type: BatchNorm, num_features: 4}
  - {type: Relu}
  - type: Residual
    layers: [{type: Conv2d, channels: [4, 2], kernel_size: 3, padding: [1, 1, 1, 1]}, {type: Gelu, approximate: true}]
    shortcut: {type: Conv2d, channels: [4, 2], kernel_size: 1}
  - {type: MaxPool2d, kernel_size: 2}
  - {type: Flatten}
  - {type: Repeat, times: 2, layer: {type: Linear, d_input: 32, d_output: 32}}
  - {type: Repeat, times: 2, layer: {type: Dropout, prob: 0.1}, each: {prob: [0.1, 0.2]}}
  - {type: Linear, d_input: 32, d_output: 10, bias: false, initializer: {type: Normal, std: 0.02}}
"""
GRAPH = """
type: Graph
inputs: [tokens, match]
nodes:
  embedding: {type: Embedding, n_embedding: 7, d_model: 4, from: tokens}
  kind: {type: Embedding, n_embedding: 2, d_model: 4, from: match}
  sum: {type: Add, from: [embedding, kind]}
  lstm: {type: Lstm, d_input: 4, d_hidden: 4, bias: true, clip: 0.5, gate_activation: {type: HardSigmoid}, from: sum}
  attention: {type: MultiHeadAttention, d_model: 4, n_heads: 2, from: lstm.0}
  encoder: {type: TransformerEncoder, d_model: 4, d_ff: 8, n_heads: 2, n_layers: 1, from: attention.context}
  both: {type: Concat, dim: -1, from: [encoder, lstm.0]}
  loop: {type: Mean, dims: [1]}
  last: {type: Select, dim: 1, index: -1, from: encoder}
  block: {type: Sequential, layers: {first: {type: Linear, d_input: 8, d_output: 4}, act: {type: SiLU}}, from: loop}
  shares: {type: Softmax, from: block}
  head: {use: embedding, transposed: true, from: encoder}
outputs: [shares, last, head]
"""
MODELS = {
    "convolutional": (CONVOLUTIONAL, [IMAGES]),
    "graph": (GRAPH, [TOKENS, TOKENS]),
    "layer": ("{type: Linear, d_input: 4, d_output: 2}", [ROWS]),
    "list": ("{type: Repeat, times: 2, layer: {type: LayerNorm, d_model: 4}}", [ROWS]),
    "mlp": (MlpConfig(sizes=(4, 6, 5, 2), norm=nn.LayerNormConfig(d_model=1), dropout=0.1), [ROWS]),
    "mlp of one layer": (MlpConfig(sizes=(4, 2)), [ROWS]),
    "lstm": (LstmLmConfig(vocab_size=7, d_model=4, d_hidden=6, n_layers=2), [TOKENS]),
    "lstm, tied": (LstmLmConfig(vocab_size=7, d_model=4, d_hidden=4, tied_head=True), [TOKENS]),
}


def written(model: Any, inputs: list[Input], place: Path) -> tuple[torch.nn.Module, list[str]]:
    registry.load_built_in()
    config = ModuleConfig.from_yaml(model, "x") if isinstance(model, str) else model
    torch.manual_seed(0)
    module = config.init().eval()
    return module, export(Source(module, config, ['a"b', "c"], (), {"step": 3}), "burn", place, inputs=inputs)


@pytest.mark.parametrize("name", MODELS)
def test_the_record_has_the_values_under_the_names_of_the_rust(name: str, tmp_path: Path) -> None:
    module, lines = written(*MODELS[name], tmp_path / "out")
    assert not any(line.startswith("forward") for line in lines)
    record = open_record(tmp_path / "out/model.bpk")
    wanted = {tuple(it.flatten().tolist()) for it in module.state_dict().values() if it.is_floating_point()}
    assert {tuple(it.flatten().tolist()) for it in record.tensors.values()} == wanted
    code = (tmp_path / "out/model.rs").read_text()
    for tensor in record.tensors:  # each name is one of a field in Rust, or of Burn's own structs
        field = tensor.split(".")[0]
        assert f"    {field}: " in code, tensor
    assert 'pub const CLASSES: [&str; 2] = ["a\\"b", "c"];' in code
    assert "(step 3), for Burn 0.22" in code


def test_names_are_those_of_the_fields(tmp_path: Path) -> None:
    written(*MODELS["convolutional"], tmp_path)
    record = open_record(tmp_path / "model.bpk")
    assert {it.rpartition(".")[0] for it in record.tensors} == {
        *("conv2d_0", "batch_norm_1", "residual_3.layers.conv2d_0", "residual_3.shortcut"),
        *("repeat_6.0", "repeat_6.1", "linear_8"),
    }


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{type: Sequential, layers: [{type: MaxPool3d, kernel_size: 2}]}", "^0: Burn has no layer MaxPool3d"),
        ("{type: UNet, num_classes: 2, widths: [4, 6]}", "^the model: Burn has no layer UNet"),
        (
            "{type: Sequential, layers: {positions: {type: RotaryEncoding, max_sequence_length: 4, d_model: 4,"
            " interleaved: false}}}",
            "^positions: Burn's RotaryEncoding has no `interleaved`, here False",
        ),
        (
            "{type: Rnn, d_input: 4, d_hidden: 2, bias: true, hidden_activation: {type: Mish}}",
            "^the model: Burn's layers take no Mish as their activation",
        ),
    ],
)
def test_what_burn_has_not_is_named_and_nothing_is_written(model: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(NoCounterpartError, match=message):
        written(model, [], tmp_path / "out")
    assert [*tmp_path.iterdir()] == []


def test_without_inputs_there_is_no_forward(tmp_path: Path) -> None:
    model = "{type: Sequential, layers: [{type: Relu}, {type: Linear, d_input: 4, d_output: 2}]}"
    _, lines = written(model, [], tmp_path)
    assert lines[-1].startswith("forward   left out: ")
    code = (tmp_path / "model.rs").read_text()
    assert "fn new" in code
    assert "fn forward" not in code


def test_required_fields_are_in_the_order_of_burn() -> None:
    stub = (HERE / "burn_stub.rs").read_text()
    for name, row in rows().items():
        given = ", ".join(f"{field}: " for field in row.required)
        found = stub.partition(f"layer! {{ {name} {name}Config(")[2].partition(")")[0]
        if name != "Embedding":
            assert ", ".join(f"{it.partition(':')[0]}: " for it in found.split(", ") if it) == given, name


@pytest.mark.slow
@pytest.mark.skipif(RUSTC is None, reason="there is no Rust here")
def test_a_compiler_takes_the_rust(tmp_path: Path) -> None:
    files = ["pub mod layers;"]
    for number, (name, (model, inputs)) in enumerate(MODELS.items()):
        written(model, inputs, tmp_path / f"m{number}")
        shutil.copy(tmp_path / f"m{number}/model.rs", tmp_path / f"model_{number}.rs")
        files.append(f"pub mod model_{number}; // {name}")
    layers = [layer for it in CASES if (layer := made(it.config)) is not None]
    assert {it.type for it in layers} >= {*rows()} - {"Dropout"}
    imports = sorted({f"use {path};" for layer in layers for path in layer.imports} | {"use burn::tensor::Device;"})
    functions = [f"pub fn f{n}(device: &Device) -> {it.type} {{ {it.init} }}" for n, it in enumerate(layers)]
    (tmp_path / "layers.rs").write_text("\n".join([*imports, *functions]))
    (tmp_path / "lib.rs").write_text("\n".join(files))
    for arguments in (
        ["--crate-type", "proc-macro", "--crate-name", "burn_derive", str(HERE / "burn_derive.rs")],
        ["--crate-name", "burn", "--extern", "burn_derive=libburn_derive.so", str(HERE / "burn_stub.rs")],
        ["--emit", "metadata", "--extern", "burn=libburn.rlib", "-D", "warnings", "-A", "unused_variables", "lib.rs"],
    ):
        kind = [] if "proc-macro" in arguments else ["--crate-type", "lib"]
        command = [str(RUSTC), "--edition", "2021", "-L", ".", *kind, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def made(config: ModuleConfig) -> Any:
    try:
        return rust_layer(config, "")
    except NoCounterpartError:
        return None
