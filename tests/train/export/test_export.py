"""Exports to Burn and to torch.export: files, and what is compared of a program that was exported."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike.cli.options import read_model
from burnlike.config import ModuleConfig, registry
from burnlike.config.root_keys import Input
from burnlike.config.shipped import shipped_configs
from burnlike.data import TextClassificationConfig, TextPairsConfig
from burnlike.data.codec import train_tokenizer
from burnlike.data.texts.tokenizers import RowTokenizer
from burnlike.errors import ArgumentError, ConfigError, NoCounterpartError
from burnlike.models import EncoderDecoderConfig, LstmLmConfig, MlpConfig, VisionTransformerConfig
from burnlike.record import open_record
from burnlike.train import SequenceToSequence
from burnlike.train.export.exporting import export
from burnlike.train.export.hugging_face import fill_directory
from burnlike.train.export.programs import _Archive, proof
from burnlike.train.export.rust.printing import statement
from burnlike.train.export.source import Source, example_of, others_of, source_of_config

IMAGES, ROWS, TOKENS = Input((2, 1, 8, 8), "float32"), Input((2, 3, 4), "float32"), Input((2, 5), "int64")
BLOCKS = """
type: Sequential
layers:
  - {type: Conv2d, channels: [1, 4], kernel_size: 3, padding: Same}
  - {type: BatchNorm, num_features: 4}
  - type: Repeat
    times: 2
    layer:
      type: Residual
      layers: [{type: Conv2d, channels: [4, 4], kernel_size: 3, padding: Same}, {type: PRelu}]
  - {type: Flatten}
  - {type: Linear, d_input: 256, d_output: 10, layout: col}
"""
GRAPH = """
type: Graph
inputs: [tokens, match]
nodes:
  embedding: {type: Embedding, n_embedding: 7, d_model: 4, from: tokens}
  kind: {type: Embedding, n_embedding: 2, d_model: 4, from: match}
  sum: {type: Add, from: [embedding, kind]}
  lstm: {type: BiLstm, d_input: 4, d_hidden: 2, bias: true, from: sum}
  scale: {type: Parameter, shape: [5, 4], from: sum}
  scaled: {type: Multiply, from: [lstm.0, scale]}
  move: {type: Linear, d_input: 4, d_output: 4}
  Move: {type: Linear, d_input: 4, d_output: 4}
  head: {use: embedding, transposed: true}
"""
MODELS: dict[str, tuple[Any, list[Input]]] = {
    "blocks": (BLOCKS, [IMAGES]),
    "graph": (GRAPH, [TOKENS, TOKENS]),
    "experts": ("{type: MixtureOfExperts, d_model: 4, d_ff: 6, n_experts: 3}", [ROWS]),
    "layer": ("{type: Linear, d_input: 4, d_output: 2}", [ROWS]),
    "mlp": (MlpConfig(sizes=(4, 6, 5, 2), dropout=0.1), [ROWS]),
    "lstm": (LstmLmConfig(vocab_size=7, d_model=4, d_hidden=4, n_layers=2, tied_head=True), [TOKENS]),
}


def written(model: Any, inputs: list[Input], place: Path) -> torch.nn.Module:
    registry.load_built_in()
    config = ModuleConfig.from_yaml(model, "x") if isinstance(model, str) else model
    torch.manual_seed(0)
    module = config.init().eval()
    export(Source(module, config, ['a"b', "c"], (), {"step": 3}), "burn", place, inputs=inputs)
    return module


def structs(code: str) -> dict[str, dict[str, str]]:
    """The fields of each struct of a text, with their types."""
    found = re.findall(r"pub struct (\w+) \{\n?(.*?)\}", code, re.DOTALL)
    return {name: dict(re.findall(r"pub (\w+): (.+),\n", fields)) for name, fields in found}


@pytest.mark.parametrize("name", MODELS)
def test_each_name_in_the_file_is_a_field_of_the_structs(name: str, tmp_path: Path) -> None:
    module = written(*MODELS[name], tmp_path / "out")
    code = (tmp_path / "out/src/model.rs").read_text()
    of_struct, reached = structs(code), set[str]()
    record = open_record(tmp_path / "out/model.bpk")
    for tensor in record.tensors:
        kind, path = "Model", tensor.split(".")
        while kind in of_struct:
            assert path[0] in of_struct[kind], (tensor, kind)
            reached.add(f"{kind}.{path[0]}")
            kind = of_struct[kind][path.pop(0)]
            if kind.startswith("Vec<"):
                kind = kind.removeprefix("Vec<").removesuffix(">")
                assert path.pop(0).isdecimal(), tensor
    with_tensors = {it for it in of_struct if any(one.startswith(f"{it}.") for one in reached)}
    assert with_tensors == {*of_struct}
    count = sum(it.numel() for it in module.state_dict().values() if it.is_floating_point())
    assert sum(it.numel() for it in record.tensors.values()) == count
    assert '#[allow(dead_code)]\npub const CLASSES: [&str; 2] = ["a\\"b", "c"];' in code
    assert not re.search(r"let (\w+) = \1;", code)
    assert "(step 3), for Burn 0.22" in code


def test_the_text_of_a_small_model(tmp_path: Path) -> None:
    one, two = "{type: Linear, d_input: 4, d_output: 2, layout: col}", "{type: Shrink, bias: 0.1}"
    model = f"{{type: Sequential, layers: {{one: {one}, two: {two}}}}}"
    written(model, [ROWS], tmp_path / "out")
    code = (tmp_path / "out/src/model.rs").read_text()
    assert structs(code) == {"Model": {"one": "Linear", "two": "Shrink"}}
    assert "LinearConfig::new(4, 2)" in code
    assert ".with_layout(LinearLayout::Col)" in code
    assert "ShrinkConfig::new().with_bias(0.1).init()" in code
    assert "self.two.forward(self.one.forward(x))" in code
    assert [*open_record(tmp_path / "out/model.bpk").tensors["one.weight"].shape] == [2, 4]


def test_a_module_that_is_called_twice_has_one_function(tmp_path: Path) -> None:
    block = "{type: Sequential, layers: {one: {type: Linear, d_input: 4, d_output: 4}, two: {type: Tanh}}, from: x}"
    written(f"{{type: Graph, nodes: {{block: {block}, again: {{use: block}}}}}}", [ROWS], tmp_path / "out")
    code = (tmp_path / "out/src/model.rs").read_text()
    assert len(re.findall(r"self\.block\.forward\(", code)) == 2
    assert code.count("self.two.forward(self.one.forward(x))") == code.count("self.one") == 1


def test_what_is_used_twice_is_computed_once(tmp_path: Path) -> None:
    model = """{type: Graph, inputs: [x, y], outputs: [loss, drop, twice, squares], nodes: {
        drop: {type: Dropout, prob: 0.5, from: x}, twice: {type: Multiply, from: [drop, drop]},
        halves: {type: Split, sizes: [2, 2], from: drop}, squares: {type: Multiply, from: [halves.0, halves.0]},
        loss: {type: MseLoss, from: [drop, y]}}}"""
    written(model, [ROWS, ROWS], tmp_path / "out")
    code = (tmp_path / "out/src/model.rs").read_text()
    assert code.count("self.drop.forward(") == code.count("slice_dim(") == 1
    assert ".dims()" not in code  # rustc warns of sizes that nothing uses


class Cached(torch.nn.Module):
    """Adds keys to a cache that is empty, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.tensor([]), self.keys(x)], dim=-1)


def test_an_empty_list_that_is_joined_is_no_field(tmp_path: Path) -> None:
    export(Source(Cached().eval(), None, None, (), {}), "burn", tmp_path / "out", inputs=[ROWS])
    assert structs((tmp_path / "out/src/model.rs").read_text()) == {"Model": {"keys": "Linear"}}
    assert {*open_record(tmp_path / "out/model.bpk").tensors} == {"keys.weight", "keys.bias"}


def test_a_sequence_longer_than_a_masked_layer_was_written_for_is_not_cut(tmp_path: Path) -> None:
    gru = "{type: Gru, d_input: 4, d_hidden: 3, bias: true, from: {x: x, attention_mask: m}}"
    model = f"{{type: Graph, inputs: [x, m], nodes: {{r: {gru}}}}}"
    written(model, [ROWS, Input((2, 3), "bool")], tmp_path / "out")
    code = (tmp_path / "out/src/model.rs").read_text()  # a squeeze of more than one step panics
    assert len(re.findall(r"slice_dim\(1, 2\.\.\)\.squeeze_dim", code)) == 2


@pytest.mark.parametrize(("kind", "shape", "size"), [("1d", (2, 3, 10), "1, 23"), ("2d", (2, 3, 10, 10), "23, 23")])
@pytest.mark.parametrize("mode", ["Nearest", "Linear", "Cubic"])
def test_a_factor_that_32_bits_do_not_hold_is_the_size_it_gives(
    kind: str, shape: tuple[int, ...], size: str, mode: str, tmp_path: Path
) -> None:
    model = f"{{type: Interpolate{kind}, scale_factor: 2.3, mode: {mode}}}"  # of 32 bits it makes 22 of 10
    written(model, [Input(shape, "float32")], tmp_path / "out")
    assert f".with_output_size([{size}])" in (tmp_path / "out/src/model.rs").read_text()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "self.decoder.forward(TransformerDecoderInput::new(positions, encoder).memory_mask_pad(pad))",
            ["self", ".decoder", ".forward(TransformerDecoderInput::new(positions, encoder).memory_mask_pad(pad));"],
        ),
        (
            "(0..2).map(|_| SoftplusConfig::new().with_beta(2.0).with_threshold(5.0).init()).collect()",
            ["(0..2)", ".map(|_| {", "    SoftplusConfig::new()", "        .with_beta(2.0)",
             "        .with_threshold(5.0)", "        .init()", "})", ".collect();"],
        ),
        (
            "self.norm.forward(self.norm_of_inner.forward(x.clone()) + self.dropout.forward(context))",
            ["self", ".norm", ".forward(self.norm_of_inner.forward(x.clone()) + self.dropout.forward(context));"],
        ),
    ],
)  # fmt: skip
def test_lines_are_laid_out_as_by_rustfmt(text: str, lines: list[str]) -> None:
    first, *rest = lines
    assert statement("let x = ", text, ";", 0) == [f"let x = {first}", *(f"    {it}" for it in rest)]


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (
            "{type: Sequential, layers: [{type: MaxPool3d, kernel_size: 2}]}",
            [Input((2, 1, 4, 4, 4), "float32")],
            r"^0 \(MaxPool3d\): Burn has no counterpart of the operation max_pool3d .line ",
        ),
        (
            "{type: Interpolate2d, scale_factor: 2.0, mode: NearestExact}",
            [Input((2, 1, 4, 4), "float32")],
            "Burn has no counterpart of the operation _upsample_nearest_exact2d",
        ),
        (
            "{type: Graph, inputs: [x, y], nodes: {far: {type: PairwiseDistance, from: [x, y]}}}",
            [Input((2, 3, 4), "float32")] * 2,
            r"^far \(PairwiseDistance\): Burn has no counterpart of the operation pairwise_distance",
        ),
    ],
)
def test_what_burn_has_not_is_named_and_nothing_is_written(
    model: str, inputs: list[Input], message: str, tmp_path: Path
) -> None:
    with pytest.raises(NoCounterpartError, match=message):
        written(model, inputs, tmp_path / "out")
    assert [*tmp_path.iterdir()] == []


def test_whole_numbers_that_32_bits_do_not_hold(tmp_path: Path) -> None:
    model = """{type: Graph, inputs: [x, y], nodes: {loss: {type: CrossEntropyLoss, from: [x, y]}}}"""
    written(model, [Input((3, 9), "float32"), Input((3,), "int64")], tmp_path / "out")
    code = (tmp_path / "out/src/model.rs").read_text()
    assert not re.search(r"\d{10}", code)


def test_the_data_of_a_training_says_what_its_model_takes() -> None:
    found = read_model(str(shipped_configs()["digits"]), ())
    source = source_of_config(found.config, None, found.training)
    assert {name: [*it.shape] for name, it in example_of(source).inputs.items()} == {"x": [2, 1, 8, 8]}
    with pytest.raises(ConfigError, match="give them by --input"):
        example_of(source_of_config(found.config, None))


class Echo:
    """Gives each token as a row of two numbers."""

    output_names = ("logits",)

    def __call__(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        return [input_ids.float()[..., None].expand(-1, -1, 2)]


def test_what_stands_at_padding_is_not_compared() -> None:
    example = {"input_ids": torch.arange(6).reshape(2, 3), "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])}
    vary = {name: {0: "batch"} for name in example}

    def run(inputs, wrong):
        found = Echo()(**inputs)[0].clone()
        found[inputs["attention_mask"] == wrong] = torch.nan
        return [found]

    proof(Echo(), example, vary, lambda inputs: run(inputs, 0), "it")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="it computes something else: logits"):
        proof(Echo(), example, vary, lambda inputs: run(inputs, 1), "it")  # type: ignore[arg-type]


def test_a_shorter_example_ends_as_its_texts_do() -> None:
    """The classifiers of BART and T5 read the last token, the end of each text."""
    tokens = torch.tensor([[0, 7, 8, 2], [0, 9, 2, 1]])
    others = others_of({"input_ids": tokens}, {"input_ids": {0: "batch", 1: "length"}})
    assert others["input_ids"].tolist() == [[0, 8, 2], [0, 2, 1], [0, 8, 2]]


def test_a_program_that_torch_does_not_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: Path) -> Any:
        raise AssertionError("expected no unbacked symbols")

    monkeypatch.setattr(torch.export, "load", load)
    config = MlpConfig(sizes=(4, 2))
    with pytest.raises(ConfigError, match="can't read what it exports of Mlp: expected no unbacked symbols"):
        export(Source(config.init(), config, None, (), {}), "pt2", tmp_path / "a.pt2", inputs=[ROWS])
    assert not [*tmp_path.iterdir()]


def test_a_model_in_16_bits_is_compared_on_inputs_in_16_bits(tmp_path: Path) -> None:
    pytest.importorskip("transformers", exc_type=ImportError)
    config = VisionTransformerConfig(
        image_size=8, patch_size=4, d_model=8, n_layers=1, n_heads=2, d_ff=8, num_classes=2
    )
    images = Input((2, 3, 8, 8), "float32")
    source = Source(config.init().eval(), config, None, (), {})
    lines = export(source, "hf", tmp_path / "hf", dtype="bfloat16", inputs=[images])
    assert sum(it.startswith("checked   by transformers") for it in lines) == 2


def test_transformers_writes_second_sequences_between_the_tokens_of_the_run(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    kept = tmp_path / "data/tokenizer"
    kept.mkdir(parents=True)
    train_tokenizer(["one two three"] * 9, 270).save(str(kept / "tokenizer.json"))
    (kept / "generation_config.json").write_text('{"decoder_start_token_id": 7}')  # of the tokenizer's own model
    data = TextPairsConfig(path="x.csv", source="a", target="b", tokenizer=str(kept))
    config = EncoderDecoderConfig(vocab_size=270, d_model=8, n_layers=1, n_heads=2, d_head=4, d_ff=8)
    facts = RowTokenizer(kept).facts
    task = SequenceToSequence()
    task.take_facts(facts)
    run: Any = SimpleNamespace(task=task, directory=tmp_path / "data", config=SimpleNamespace(data=data), facts=facts)
    (tmp_path / "hf").mkdir()
    fill_directory(Source(config.init(), config, None, (), {}, run=run), tmp_path / "hf")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf")
    for values in (model.config, model.generation_config):
        assert (values.decoder_start_token_id, values.eos_token_id, values.pad_token_id) == (1, 2, 0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    tokens = tokenizer("two one")
    assert tokens["input_ids"] == data.codec(facts, tmp_path / "data").encode("two one").tolist()
    assert {*tokens} == {"input_ids", "attention_mask"}
    data_of_pairs = TextClassificationConfig(path="x.csv", text=("a", "b"), target="c", tokenizer=str(kept))
    run.task, run.config.data = None, data_of_pairs
    (tmp_path / "pairs").mkdir()
    fill_directory(Source(config.init(), config, None, (), {}, run=run), tmp_path / "pairs")
    types = transformers.AutoTokenizer.from_pretrained(tmp_path / "pairs")("two", "one")["token_type_ids"]
    assert types == RowTokenizer(kept).texts(["two"], ["one"], 9)["token_type_ids"][0]


def test_weights_in_bfloat16_are_not_for_onnx(tmp_path: Path) -> None:
    config = MlpConfig(sizes=(4, 2))
    source = Source(config.init().bfloat16(), config, None, (), {})
    with pytest.raises(ArgumentError, match="the weights are bfloat16: onnxruntime computes in float32"):
        export(source, "onnx", tmp_path / "a.onnx", inputs=[ROWS])


def test_a_write_that_fails_is_kept_as_an_error() -> None:
    """Where a write fails, the destructor of torch's writer ends the process."""
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    with Path("/dev/full").open("wb", buffering=0) as full:
        archive = _Archive(full)
        torch.export.save(program, archive)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No space left on device"):
        raise archive.error or AssertionError
