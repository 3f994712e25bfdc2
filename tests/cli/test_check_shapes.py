"""`burnlike check --shapes`: each layer's shapes, and wrong ones at their lines."""

import json
from pathlib import Path

import pytest

from burnlike.cli.main import main

GRAPH = """type: Graph
nodes:
  stem: {type: Conv2d, channels: [3, 16], kernel_size: 3, padding: Same, bias: false}
  relu: {type: Relu}
  again: {use: relu}
  sum: {type: Add, from: [again, stem]}
  stack:
    type: Repeat
    times: 2
    layer:
      type: Residual
      layers:
        conv: {type: Conv2d, channels: [16, 16], kernel_size: 1}
  mean: {type: Mean, dims: [2, 3]}
  head: {type: Linear, d_input: 16, d_output: 10}
outputs: [head, mean]
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graph.yaml").write_text(GRAPH)


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["check", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_each_call_is_a_line_with_shapes_parameters_and_operations(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = check(capsys, "graph.yaml", "--shapes", "--input", "8,3,32,32")
    assert status == 0
    rows = [line.split("  ") for line in out.splitlines()]
    rows = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    pixels = 8 * 32 * 32
    conv, point, head = pixels * 16 * 27 * 2, pixels * 16 * 16 * 2, 8 * 16 * 10 * 2
    assert (conv, point, head) == (7_077_888, 4_194_304, 2_560)
    inner = "[8, 16, 32, 32]"
    total = f"{(conv + 2 * point + head) / 1e6:.2f} M"
    block = [["Residual", inner, inner, "272", "4.19 M"], ["Sequential", inner, inner, "272", "4.19 M"]]
    block += [["Conv2d", inner, inner, "272", "4.19 M"]]
    assert [row[1:] for row in rows[1:-2]] == [
        ["Graph", "[8, 3, 32, 32]", "([8, 10], [8, 16])", "1,146", total],
        ["Conv2d", "[8, 3, 32, 32]", inner, "432", "7.08 M"],
        ["Relu", inner, inner, "-", "-"],
        ["Relu", inner, inner, "-", "-"],
        ["Add", f"{inner}, {inner}", inner, "-", "-"],
        ["Repeat", inner, inner, "544", "8.39 M"],
        *block,
        *block,
        ["Mean", inner, "[8, 16]", "-", "-"],
        ["Linear", "[8, 16]", "[8, 10]", "170", "2.56 k"],
    ]
    names = ["(model)", "stem", "relu", "relu", "sum", "stack", "0", "layers", "conv", "1", "layers", "conv"]
    assert [row[0] for row in rows[1:-2]] == [*names, "mean", "head"]
    assert out.splitlines()[-2:] == [
        f"total: 1,146 parameters, {total} FLOPs for these inputs",
        "graph.yaml: ok (Graph)",
    ]


def test_a_wrong_shape_is_reported_at_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.yaml").write_text(GRAPH.replace("channels: [16, 16], kernel", "channels: [8, 16], kernel"))
    status, out, _ = check(capsys, "wrong.yaml", "--shapes", "--input", "x=8,3,32,32")
    assert status == 2
    assert out.splitlines()[-2:] == [
        "wrong.yaml:13:15: nodes.stack.layer.layers.conv: Conv2d:"
        " expected [batch, 8, height, width], got [8, 16, 32, 32]",
        "1 mistake in 1 file of 1",
    ]
    assert out.splitlines()[-3].split()[-3:] == ["failed", "144", "-"]


def test_it_is_found_in_the_model_of_a_training_config(capsys: pytest.CaptureFixture[str]) -> None:
    text = """
training: {batch_size: 4}
data: {type: Text, context_length: 16}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
model:
  type: Sequential
  layers:
  - {type: Embedding, n_embedding: 256, d_model: 8}
  - {type: Flatten, start_dim: 2}
  - {type: Linear, d_input: 9, d_output: 256}
"""
    Path("run.yaml").write_text(text)
    status, out, _ = check(capsys, "run.yaml", "--shapes")
    assert (status, out.splitlines()[-2]) == (
        2,
        "run.yaml:11:5: model.layers.2: Linear: expected [..., 9], got [4, 16, 8]",
    )
    Path("run.yaml").write_text(text.replace("d_input: 9", "d_input: 8"))
    status, out, _ = check(capsys, "run.yaml", "--shapes")
    assert status == 0
    assert "int64[4, 16]  [4, 16, 256]" in out


def test_any_module_is_shown_with_the_inputs_that_its_config_implies(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lm.yaml").write_text(
        "{type: DecoderLm, vocab_size: 7, max_sequence_length: 6, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 4}"
    )
    status, out, _ = check(capsys, "lm.yaml", "--shapes")
    assert status == 0
    assert "int64[1, 6]" in out
    Path("mlp.yaml").write_text("{type: Sequential, layers: [{type: Linear, d_input: 3, d_output: 2}]}")
    assert check(capsys, "mlp.yaml", "--shapes")[0] == 0


def test_within_a_layer_the_path_of_the_wrong_part_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mlp.yaml").write_text(
        "type: Sequential\nlayers:\n- {type: Relu}\n- {type: SwiGlu, d_input: 3, d_output: 2}\n"
    )
    status, out, _ = check(capsys, "mlp.yaml", "--shapes", "--input", "5,4")
    assert (status, out.splitlines()[-2]) == (
        2,
        "mlp.yaml:4:3: layers.1: linear_inner: Linear: expected [..., 3], got [5, 4]",
    )


def test_without_inputs_the_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rule.yaml").write_text("type: AdamW")
    status, out, _ = check(capsys, "graph.yaml", "rule.yaml", "resnet18_cifar", "--shapes")
    assert status == 2
    assert "graph.yaml: the config does not say what the model's inputs are; give them by --input" in out
    assert "rule.yaml: --shapes: AdamWConfig has no model" in out
    assert "total: 11,173,962 parameters" in out  # the others are shown all the same
    assert out.endswith("2 mistakes in 2 files of 3\n")


def test_items_that_are_not_there_and_wrong_calls_are_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("item.yaml").write_text(
        "{type: Graph, nodes: {lstm: {type: Lstm, d_input: 2, d_hidden: 3, bias: true}}, outputs: lstm.2}"
    )
    status, out, _ = check(capsys, "item.yaml", "--input", "4,5,2")
    assert (status, out.splitlines()[-2]) == (
        2,
        "item.yaml:1:1: Graph: lstm.2: 'lstm' has no item '2' there: it gives 2 items",
    )
    status, out, _ = check(capsys, "item.yaml", "--input", "y=4,5,2")
    assert (status, out.splitlines()[-2]) == (
        2,
        "item.yaml:1:1: Graph: expected the inputs x, got 0 by order and y by name",
    )


def test_json_has_the_calls(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = check(capsys, "graph.yaml", "--input", "1,3,4,4", "--json")
    (report,) = json.loads(out)["files"]
    assert status == 0
    assert report["calls"][1] == {
        "path": "stem",
        "depth": 1,
        "type": "Conv2d",
        "inputs": "[1, 3, 4, 4]",
        "output": "[1, 16, 4, 4]",
        "parameters": 432,
        "flops": 16 * 16 * 27 * 2,
    }


@pytest.mark.parametrize("text", ["8,x", "a=b=3", "float:3", "-1,2", "8,3,", "99999999999"])
def test_inputs_that_are_none_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "graph.yaml", f"--input={text}"])
    assert "argument --input:" in capsys.readouterr().err


def test_a_tied_head_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lm.yaml").write_text(
        "{type: DecoderLm, vocab_size: 7, max_sequence_length: 6, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 4}"
    )
    Path("tied.yaml").write_text(
        "{type: Graph, inputs: {tokens: 'int64:1,6'}, nodes: {embedding: {type: Embedding, n_embedding: 7, d_model: 8},"
        " head: {use: embedding, transposed: true}}}"
    )
    for file in ("lm.yaml", "tied.yaml"):
        status, out, _ = check(capsys, file, "--shapes")
        assert status == 0
        (row,) = [line.split() for line in out.splitlines() if "(tied)" in line]
        assert row[:3] == ["embedding", "(tied)", "Embedding"]
        assert row[-1] == str(2 * 6 * 8 * 7)
    status, out, _ = check(capsys, "lm.yaml", "--shapes", "--set", "tied=false")
    assert "(tied)" not in out
