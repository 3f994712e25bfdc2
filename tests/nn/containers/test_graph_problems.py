"""Mistakes in graphs are found at their places, without torch."""

import subprocess
import sys

import pytest
import torch

from burnlike.config import ModuleConfig
from burnlike.errors import ConfigError

HEAD = "type: Graph\ninputs: [x, y]\nnodes:\n"
MISTAKES = {
    "unknown source": (
        "  a: {type: Add, from: [x, y]}\n  b: {type: Relu, from: aa}\n",
        "f:5:25: nodes.b.from: no input and no node before this is called 'aa'; did you mean 'a'?",
    ),
    "unknown source in a list": (
        "  a: {type: Add, from: [x, y, third]}\n",
        "f:4:31: nodes.a.from.2: no input and no node before this is called 'third'; there are x, y",
    ),
    "a cycle": (
        "  a: {type: Add, from: [x, y, b]}\n  b: {type: Relu}\n",
        "f:4:31: nodes.a.from.2: 'b' does not come before this",
    ),
    "itself": (
        "  a: {type: Add, from: [x, y, a]}\n",
        "f:4:31: nodes.a.from.2: 'a' does not come before this",
    ),
    "an unused node": (
        "  a: {type: Add, from: [x, y]}\n  b: {type: Relu}\n  c: {type: Relu, from: a}\n",
        "f:5:6: nodes.b: 'b' is not used: no node takes it, and it is no output",
    ),
    "an unused input": (
        "  a: {type: Relu, from: x}\n",
        "f:2:13: inputs.1: 'y' is not used: no node takes it, and it is no output",
    ),
    "a name of an input": (
        "  a: {type: Add, from: [x, y]}\n  x: {type: Relu}\n",
        "f:5:6: nodes.x: 'x' is the name of an input; give the node another",
    ),
    "a name that every module has": (
        "  a: {type: Add, from: [x, y]}\n  train: {type: Relu}\n",
        "f:5:10: nodes.train: 'train' is an attribute of every module; use another name, such as 'train_layer'",
    ),
    "a name with a dot": (
        "  a: {type: Add, from: [x, y]}\n  b.c: {type: Relu}\n",
        "expected a name of letters, digits and `_` that begins with a letter",
    ),
    "a name twice": (
        "  a: {type: Add, from: [x, y]}\n  a: {type: Relu}\n",
        "f:5:3: nodes.a: duplicate key 'a'; it stands first in line 4: remove one",
    ),
    "no source of the first": (
        "  a: {type: Relu}\n  b: {type: Add, from: [a, y]}\n",
        "f:4:6: nodes.a: expected `from:` with the inputs that it gets; the graph has x, y",
    ),
    "too few sources": (
        "  a: {type: Relu, from: x}\n  b: {type: Concat, dim: 1}\n  c: {type: Add, from: [b, y]}\n",
        "f:5:6: nodes.b: expected 2 or more inputs, got 1; `from:` lists them",
    ),
    "too many sources": (
        "  a: {type: Relu, from: [x, y]}\n",
        "f:4:6: nodes.a: expected 1 input, got 2; `from:` lists them",
    ),
    "a layer and use": (
        "  a: {type: Add, from: [x, y]}\n  b: {type: Relu, use: a}\n",
        "f:5:24: nodes.b.use: expected either a layer (`type:`) or `use:` with the name of a node whose",
    ),
    "neither a layer nor use": (
        "  a: {from: [x, y]}\n",
        "f:4:6: nodes.a.use: expected either a layer (`type:`) or `use:`",
    ),
    "use of an unknown node": (
        "  first: {type: Add, from: [x, y]}\n  b: {use: firs}\n",
        "f:5:12: nodes.b.use: no input and no node before this is called 'firs'; did you mean 'first'?",
    ),
    "use of an input": (
        "  first: {type: Add, from: [x, y]}\n  b: {use: x}\n",
        "f:5:12: nodes.b.use: 'x' is an input; expected a node before this, whose layer is used again",
    ),
    "use of a use": (
        "  a: {type: Relu, from: x}\n  b: {use: a, from: y}\n  c: {use: b}\n  d: {type: Add, from: [a, c]}\n",
        "f:6:12: nodes.c.use: 'b' has no layer of its own; write `use: a`",
    ),
    "an unknown output": (
        "  a: {type: Add, from: [x, y]}\noutputs: [a, b]\n",
        "f:5:14: outputs.1: no input and no node before this is called 'b'; there are x, y, a",
    ),
    "an unknown key of a layer": (
        "  a: {type: Add, from: [x, y], dim: 1}\n",
        "f:4:32: nodes.a.dim: unknown key 'dim'; AddConfig has use, from, transposed",
    ),
    "an unknown type": ("  a: {type: Ad, from: [x, y]}\n", "f:4:13: nodes.a.type: unknown type 'Ad'"),
    "a value of a nested layer": (
        "  a: {type: Add, from: [x, y]}\n"
        "  b: {type: Repeat, times: 2, layer: {type: Residual, layers: [{type: GLU}]}}\n",
        "f:5:64: nodes.b.layer.layers.0: missing key 'dim'",
    ),
    "transposed without use": (
        "  a: {type: Add, from: [x, y], transposed: true}\n",
        "f:4:44: nodes.a.transposed: expected `use:` beside it, with the name of a node whose weight it takes",
    ),
    "transposed of a sum": (
        "  a: {type: Add, from: [x, y]}\n  b: {use: a, transposed: true}\n",
        "f:5:27: nodes.b.transposed: expected `use:` of an Embedding or a Linear, got one of Add",
    ),
    "a slip of the keys beside a layer's": (
        "  a: {type: Add, form: [x, y]}\n",
        "f:4:18: nodes.a.form: unknown key 'form'; did you mean 'from'?",
    ),
    "too many inputs of a linear layer": (
        "  a: {type: Linear, d_input: 1, d_output: 1, from: [x, y]}\n",
        "f:4:6: nodes.a: expected 1 input, got 2; `from:` lists them",
    ),
    "too few inputs of a loss": (
        "  a: {type: Add, from: [x, y]}\n  b: {type: TripletMarginLoss, from: [a, x]}\n",
        "f:5:6: nodes.b: expected 3 inputs, got 2; `from:` lists them",
    ),
    "no item": (
        "  a: {type: Add, from: [x, y.]}\n",
        "f:4:28: nodes.a.from.1: expected `y`, or `y.ITEM` with the number of an item or the name of a field",
    ),
    "a private item": (
        "  a: {type: Add, from: [x, y.__class__]}\n",
        "f:4:28: nodes.a.from.1: expected `y`, or `y.ITEM` with the number of an item or the name of a field",
    ),
    "no mapping": ("  a: Relu\n", "f:4:6: nodes.a: expected a mapping with keys of NodeConfig"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_at_its_place(case: str) -> None:
    text, message = MISTAKES[case]
    with pytest.raises(ConfigError) as caught:
        ModuleConfig.from_yaml(HEAD + text, "f")
    assert message in str(caught.value)


def test_inputs_have_names_of_their_own() -> None:
    with pytest.raises(ConfigError, match=r"inputs.1: 'x' stands here twice"):
        ModuleConfig.from_yaml("{type: Graph, inputs: [x, x], nodes: {a: {type: Relu, from: x}}}")
    with pytest.raises(ConfigError, match=r"inputs.0: expected a name of letters"):
        ModuleConfig.from_yaml("{type: Graph, inputs: [1x], nodes: {a: {type: Relu}}}")


@pytest.mark.parametrize("kind", ["Sequential", "Residual"])
def test_a_row_of_layers_has_names_and_layers_of_one_input(kind: str) -> None:
    text = f"type: {kind}\nlayers:\n  eval: {{type: Relu}}\n  sum: {{type: Add}}\n"
    with pytest.raises(ConfigError) as caught:
        ModuleConfig.from_yaml(text, "f")
    assert str(caught.value).splitlines() == [
        "f:3:9: layers.eval: 'eval' is an attribute of every module; use another name, such as 'eval_layer'",
        "f:4:8: layers.sum: takes 2 inputs or more, but gets only what comes before it; use a Graph",
    ]


def test_a_row_hands_on_one_tensor() -> None:
    lstm = "{type: Lstm, d_input: 2, d_hidden: 2, bias: true}"
    with pytest.raises(
        ConfigError, match=r"^f:1:.*layers\.1: gets several values from Lstm, but takes one tensor; use a Graph"
    ):
        ModuleConfig.from_yaml(f"{{type: Sequential, layers: [{lstm}, {{type: Relu}}]}}", "f")
    with pytest.raises(
        ConfigError, match=r"layers\.0: Lstm gives several values, to which x can't be added; use a Graph"
    ):
        ModuleConfig.from_yaml(f"{{type: Residual, layers: [{lstm}]}}", "f")
    graph = "{type: Graph, nodes: {relu: {type: Relu, from: x.0}}}"  # which takes what the layer gives
    model = ModuleConfig.from_yaml(f"{{type: Sequential, layers: [{lstm}, {graph}]}}").init()
    x = torch.randn(1, 3, 2)
    assert torch.equal(model(x), model.get_submodule("0")(x)[0].relu())


def test_a_row_is_not_empty() -> None:
    with pytest.raises(ConfigError, match="layers"):
        ModuleConfig.from_yaml("{type: Sequential, layers: []}")


def test_all_attributes_of_modules_are_taken() -> None:
    # In a process of its own: other libraries add attributes to torch's class.
    program = (
        "import torch; from burnlike.module import Module; from burnlike.nn.containers.layer_facts import TAKEN\n"
        "found = {name for name in (*dir(Module()), *dir(torch.nn.Module())) if not name.startswith('_')}\n"
        "assert found <= TAKEN, found - TAKEN"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_graphs_are_checked_without_torch() -> None:
    program = (
        "import sys; from burnlike.config import ModuleConfig; from burnlike.config.registry import load_built_in;"
        "ModuleConfig.from_yaml('{type: Graph, nodes: {a: {type: Relu}}}'); assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_graph_is_written_as_it_is_read() -> None:
    config = ModuleConfig.from_yaml(
        HEAD + "  a: {type: Add, from: [x, y.0]}\n  b: {type: GLU, dim: 1}\n  c: {use: b}\n"
    )
    assert config.to_dict()["nodes"] == {
        "a": {"type": "Add", "from": ["x", "y.0"]},
        "b": {"type": "GLU", "dim": 1},
        "c": {"use": "b"},
    }
    assert ModuleConfig.from_yaml(config.to_yaml()) == config


def test_an_input_called_self_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"inputs.0: an input called 'self' can't be given by name"):
        ModuleConfig.from_yaml("{type: Graph, inputs: [self], nodes: {a: {type: Relu, from: self}}}", "m")
