"""`burnlike show`: the tree and the drawing of a model."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.models.views.drawing import Arrow, Drawn, Flow, Row, flow_of, place, svg
from burnlike.module.printing.tree import branch_of, tree_lines

SVG = "{http://www.w3.org/2000/svg}"
GRAPH = """type: Graph
inputs: [x, y]
nodes:
  stem: {type: Linear, d_input: 3, d_output: 4, from: x}
  again: {use: stem, from: y}
  blocks:
    type: Repeat
    times: 3
    layer: {type: Residual, layers: {inner: {type: Linear, d_input: 4, d_output: 4, bias: false}}}
  lstm: {type: Rnn, d_input: 4, d_hidden: 2, bias: true}
  sum: {type: Concat, dim: -1, from: [lstm.0, stem]}
outputs: [sum, lstm.1]
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graph.yaml").write_text(GRAPH)


def flow(text: str = GRAPH, **shapes: str) -> Flow:
    config = ModuleConfig.from_yaml(text)
    return flow_of(Drawn(config, config.init("meta"), shapes))


def test_the_tree_has_names_types_shapes_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "graph.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[:8] == [
        "Graph  (80 parameters)",
        "├─ stem: Linear  weight [3, 4], bias [4]  (16 parameters)",
        "├─ blocks: Repeat  (48 parameters)",
        "│  └─ 0..2: 3 x Residual  (16 parameters each)",
        "│     └─ layers: Sequential  (16 parameters)",
        "│        └─ inner: Linear  weight [4, 4]",
        "├─ lstm: Rnn  (16 parameters)",
        "│  ├─ gate: GateController  (16 parameters)",
    ]
    assert main(["show", "graph.yaml", "--depth", "1", "--set", "nodes.blocks.times=2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Graph  (64 parameters)",
        "├─ stem: Linear  weight [3, 4], bias [4]  (16 parameters)",
        "├─ blocks: Repeat  (32 parameters)",
        "├─ lstm: Rnn  (16 parameters)",
        "└─ sum: Concat",
    ]


def test_tensors_and_layers_that_are_there_twice_are_told() -> None:
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, bias=False)
    second.weight = first.weight
    model = torch.nn.Sequential(first, second, first)
    assert list(tree_lines(branch_of(model)))[1:] == [
        "├─ 0: Linear  weight [2, 2], bias [2]  (6 parameters)",
        "├─ 1: Linear  weight = 0.weight",
        "└─ 2: Linear = 0  (6 parameters)",
    ]


def test_the_model_of_a_training_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "char_gpt_tiny", "--depth", "0"]) == 0
    assert capsys.readouterr().out == "DecoderLm  (18,528 parameters)\n"


def test_arrows_go_where_values_go() -> None:
    drawn = flow()
    assert [row.title for row in drawn.rows] == ["x", "y", "stem", "again", "blocks", "lstm", "sum", "output"]
    assert set(drawn.arrows) == {
        *(Arrow(0, 2), Arrow(1, 3), Arrow(3, 4), Arrow(4, 5), Arrow(5, 6, ".0"), Arrow(2, 6), Arrow(6, 7)),
        Arrow(5, 7, ".1"),
    }
    inner = drawn.rows[4].inner
    assert inner is not None
    assert [row.title for row in inner.rows] == ["x", "inner", "+"]
    assert set(inner.arrows) == {Arrow(0, 1), Arrow(1, 2), Arrow(0, 2)}
    assert drawn.rows[3].lines == ["Linear of stem"]


def test_a_shortcut_lies_beside_the_layers() -> None:
    linear = "{type: Linear, d_input: 2, d_output: 3}"
    drawn = flow(f"{{type: Residual, layers: [{linear}], shortcut: {linear}}}")
    assert [row.title for row in drawn.rows] == ["x", "0", "shortcut", "+"]
    assert set(drawn.arrows) == {Arrow(0, 1), Arrow(0, 2), Arrow(1, 3), Arrow(2, 3)}


def test_shapes_stand_in_the_boxes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "graph.yaml", "--svg", "graph.svg", "--input", "5,6,3", "--input", "5,6,3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the drawing is in graph.svg"
    texts = [it.text for it in ElementTree.parse("graph.svg").iter(f"{SVG}text")]
    assert texts[0] == "graph: Graph, 80 parameters"
    assert {"stem", "Linear · 16", "[5, 6, 4]", "Repeat x 3 · 48 · [5, 6, 4]", ".1", "[5, 6, 6]"} <= {*texts}
    assert main(["show", "graph.yaml", "--input", "5,6,3", "--input", "5,6,2"]) == 2
    assert "--input: stem: Linear: expected [..., 3], got [5, 6, 2]" in capsys.readouterr().err


def test_any_other_model_is_one_box() -> None:
    drawn = flow("{type: Mlp, sizes: [3, 2]}")
    assert [(row.title, row.lines) for row in drawn.rows] == [("model", ["Mlp · 8"])]


def test_boxes_and_arrows_do_not_lie_over_each_other() -> None:
    layout = place(flow())
    for above, below in zip(layout.boxes, layout.boxes[1:], strict=False):
        assert above.y + above.height < below.y
    assert max(box.y + box.height for box in layout.boxes) == layout.height
    for arrow, lane in layout.lanes.items():
        assert arrow.target - arrow.source > 1
        for other, its in layout.lanes.items():
            apart = other.target <= arrow.source or arrow.target <= other.source
            assert other == arrow or its != lane or apart, (arrow, other)
    assert {*layout.lanes} == {it for it in flow().arrows if it.target - it.source > 1}


def test_texts_are_escaped(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script> & \"'\x1b[2J\x00\u202e"
    text = svg(Flow([Row(hostile, [hostile]), Row("b")], [Arrow(0, 1, hostile)]), hostile)
    root = ElementTree.fromstring(text)
    assert {it.tag.removeprefix(SVG) for it in root.iter()} == {"svg", "rect", "text", "path"}
    assert sum("<script>" in (it.text or "") for it in root.iter(f"{SVG}text")) == 4
    assert all(it.isprintable() for line in text.splitlines() for it in line)


def test_a_drawing_that_can_not_be_written_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "graph.yaml", "--svg", "none/graph.svg"]) == 2
    assert "none/graph.svg: can't be written: No such file or directory" in capsys.readouterr().err


def test_a_wrong_config_is_an_error_and_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.yaml").write_text(GRAPH.replace("from: y", "from: z"))
    assert main(["show", "wrong.yaml", "--svg", "wrong.svg"]) == 2
    assert "wrong.yaml:5:28: nodes.again.from: no input and no node" in capsys.readouterr().err
    assert not Path("wrong.svg").exists()


def test_a_config_of_something_else_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rule.yaml").write_text("type: AdamW")
    assert main(["show", "rule.yaml"]) == 2
    assert "rule.yaml: expected the config of a model or of a training, got AdamWConfig" in capsys.readouterr().err


def test_an_option_may_choose_the_type(capsys: pytest.CaptureFixture[str]) -> None:
    Path("linear.yaml").write_text("{d_input: 2, d_output: 3}")
    assert main(["show", "linear.yaml", "--set", "type=Linear"]) == 0
    assert capsys.readouterr().out == "Linear  weight [2, 3], bias [3]  (9 parameters)\n"
