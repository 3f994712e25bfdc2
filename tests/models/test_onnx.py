"""Each ready model exported to ONNX and run by onnxruntime, and as a program of torch.export."""

import inspect
import itertools
import json
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.config.root_keys import Input
from burnlike.errors import ConfigError
from burnlike.models import Mlp
from burnlike.train.export.exporting import export
from burnlike.train.export.programs import write_onnx, write_program
from burnlike.train.export.rust import crate, tracing
from burnlike.train.export.source import Source, outputs_of, program_of

from ..marks import slow, weekly
from .cases import CASES, ModelCase


def single(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def source_of(model: torch.nn.Module, config: Any) -> Source:
    return Source(model, config, ["a", "b"], [], {})


def marks_of(model: str) -> list[pytest.MarkDecorator]:
    """Most models, whose layers these three have, and options of a model (`DecoderLm/gpt2`) wait for the weekly run."""
    if model == Mlp.__name__:
        return []
    return [pytest.mark.slow if model in ("DecoderLm", "LstmLm") else pytest.mark.weekly]


# The exporter asks torch's pytrees in an old way.
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize(
    ("write", "case"),
    [
        pytest.param(write, it, id=f"{name}-{it.name}", marks=marks_of(it.name))
        for name, write in (("onnx", write_onnx), ("pt2", write_program))
        for it in CASES
        if name == "onnx" or it.name in ("Mlp", "DecoderLm", "EncoderDecoder", "LstmLm")
    ],
)
def test_every_model_is_exported_for_other_sizes_of_batches_and_sequences(
    write: Any, case: ModelCase, tmp_path: Path
) -> None:
    model = case.model().float()
    names = [*inspect.signature(model.forward).parameters]
    example = {name: single(it) for name, it in zip(names, case.drawn(), strict=False)}
    lines = write(source_of(model, case.config), program_of(model, example), example, tmp_path / "model")
    # The writers compare with the model themselves, and refuse what differs by more than rounding explains.
    checked = [line for line in lines if line.startswith("checked")]
    assert len(checked) == 2
    batches = {f"[{2 if place == 0 else 3}," for place in range(2)}
    assert all(any(it in line for it in batches) for line in checked)
    fixed = [line for line in lines if line.startswith("fixed")]
    # As a program of torch.export an LSTM is written step by step; ONNX has an operator of its own.
    assert bool(fixed) == (case.name == "LstmLm" and write is write_program)


@pytest.mark.weekly
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize(
    "config",
    [
        nn.BiGruConfig(d_input=3, d_hidden=4, bias=True),
        nn.BiLstmConfig(d_input=3, d_hidden=4, bias=True),
        nn.LstmConfig(d_input=3, d_hidden=4, bias=False, batch_first=False),
        nn.GruConfig(d_input=3, d_hidden=4, bias=True),
        nn.RnnConfig(d_input=3, d_hidden=4, bias=True, reverse=True),
        nn.BiRnnConfig(d_input=3, d_hidden=4, bias=True),
        nn.BiLstmConfig(d_input=3, d_hidden=4, bias=False, clip=0.5),
    ],
)
def test_recurrent_layers(config: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(config.init()).eval()  # also behind a prefix
    names = [name for name, _ in model.named_parameters()]
    inputs = [Input((2, 5, 3), "float32")]
    assert "checked" in " ".join(export(source_of(model, config), "onnx", tmp_path / "model.onnx", inputs=inputs))
    assert [name for name, _ in model.named_parameters()] == names


MASKED = """
type: Graph
inputs: [input_ids, attention_mask]
nodes:
  embed: {type: Embedding, n_embedding: 7, d_model: 3, from: input_ids}
  read: {type: KIND, d_input: 3, d_hidden: 4, bias: true}
"""
KINDS = ("Rnn", "BiRnn", "Lstm", "Gru", "BiGru", "Lstm, reverse: true")
PADDED = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1]])


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize(
    ("kind", "to"),
    [
        ("BiLstm", "onnx"),
        ("BiLstm", "pt2"),
        *slow(("BiLstm", "burn")),
        *weekly(*itertools.product(KINDS, ("onnx", "pt2", "burn"))),
    ],
)
def test_recurrent_layers_with_a_mask(kind: str, to: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config: Any = ModuleConfig.from_yaml(MASKED.replace("KIND", kind))
    model = config.init().eval()
    inputs = [Input((2, 5), "int64", name) for name in ("input_ids", "attention_mask")]
    export(source_of(model, config), to, tmp_path / "model", inputs=inputs)  # compares with two masks of chance
    tokens = torch.randint(7, (4, 5))
    expected = [*outputs_of(model(tokens, PADDED)).values()]
    if to == "onnx":
        session = onnxruntime.InferenceSession(tmp_path / "model")
        results = session.run(None, {"input_ids": tokens.numpy(), "attention_mask": PADDED.numpy()})
    elif to == "pt2":
        program: Any = torch.export.load(tmp_path / "model").module()
        results = [*outputs_of(program(tokens, PADDED)).values()]
    else:
        assert "attention_mask: Tensor<2, Int>" in (tmp_path / "model/src/model.rs").read_text()  # Burn runs others
        return
    for result, value in zip(results, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(result), value.detach())


def test_a_crate_is_traced_anew_for_each_level_of_layers_not_for_each_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace writes each step of a sequence, and takes seconds; this one has eight layers within four gates."""
    written_as_structs = list[set[str]]()

    def traced(*arguments: Any) -> Any:
        written_as_structs.append({*arguments[2]})
        return tracing.traced(*arguments)

    monkeypatch.setattr(crate, "traced", traced)
    config: Any = ModuleConfig.from_yaml(MASKED.replace("KIND", "Lstm"))
    inputs = [Input((2, 5), "int64", name) for name in ("input_ids", "attention_mask")]
    export(source_of(config.init().eval(), config), "burn", tmp_path / "model", inputs=inputs)
    assert [len(it) for it in written_as_structs] == [0, 1, 9]


def test_a_parameter_that_is_a_result_is_read_from_a_struct_not_from_an_option_of_burns(tmp_path: Path) -> None:
    class Biased(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.layer(x), self.layer.bias

    source = source_of(Biased().eval(), None)
    export(source, "burn", tmp_path / "model", inputs=[Input((2, 3), "float32", "x")])
    assert "pub bias: Param<Tensor<1>>" in (tmp_path / "model/src/model.rs").read_text()


@pytest.mark.parametrize("setting", ["clip: 0.5", "input_forget: true", "hidden_activation: {type: Relu}"])
def test_steps_of_texts_are_refused_for_onnx(setting: str, tmp_path: Path) -> None:
    config: Any = ModuleConfig.from_yaml(MASKED.replace("KIND", f"BiLstm, {setting}"))
    inputs = [Input((2, 5), "int64", name) for name in ("input_ids", "attention_mask")]
    with pytest.raises(
        ConfigError, match=r"read.forward \(Lstm\): ONNX has no operator .* or take --to pt2, for texts"
    ):
        export(source_of(config.init().eval(), config), "onnx", tmp_path / "model", inputs=inputs)
    assert not [*tmp_path.iterdir()]


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_a_file_says_what_its_user_needs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = nn.LinearConfig(d_input=3, d_output=2)
    source = Source(config.init(), config, ["cat", "dog"], [([0.5], [2.0])], {"step": 7})
    expected = source.model((torch.ones(2, 3) - 0.5) / 2.0)
    export(source, "onnx", tmp_path / "m.onnx", normalize=True, inputs=[Input((2, 3), "float32")])
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["classes"]) == ["cat", "dog"]
    assert json.loads(said["normalize"]) == [{"mean": [0.5], "std": [2.0]}]
    assert (said["normalized_in_the_model"], said["step"]) == ("true", "7")
    assert ([it.name for it in session.get_inputs()], session.get_inputs()[0].shape) == (["x"], ["batch", 3])
    (found,) = session.run(None, {"x": torch.ones(2, 3).numpy()})
    torch.testing.assert_close(torch.from_numpy(found), expected.detach())
    assert [it.name for it in tmp_path.iterdir()] == ["m.onnx"]


def test_a_result_that_differs_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    class Forgetful(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + self.calls

    source = source_of(Forgetful(), None)
    with pytest.raises(ConfigError, match="computes something else: output differs from the model's by"):
        export(source, "pt2", tmp_path / "m.pt2", inputs=[Input((2, 3), "float32")])
    assert [*tmp_path.iterdir()] == []
