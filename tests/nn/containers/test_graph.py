"""Graphs and rows of layers: parameters, sharing, items of outputs, and calls that do not fit."""

import copy
import weakref

import pytest
import torch

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.errors import ArgumentError, ShapeError
from burnlike.module import params


def built(text: str) -> torch.nn.Module:
    return ModuleConfig.from_yaml(text).init()


SHARED = """
type: Graph
inputs: [a, b]
nodes:
  project: {type: Linear, d_input: 3, d_output: 2, bias: false, from: a}
  other: {use: project, from: b}
  product: {type: Multiply, from: [project, other]}
"""


def test_paths_are_the_names_of_nodes_and_a_layer_that_is_used_twice_is_there_once() -> None:
    graph = built(SHARED)
    assert [param.path for param in params(graph)] == ["project.weight"]
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    weight = graph.get_submodule("project").weight
    torch.testing.assert_close(graph(a, b), (a @ weight) * (b @ weight))
    torch.testing.assert_close(graph(a, b=b), graph(a, b))


def test_a_layer_that_is_replaced_is_replaced_wherever_it_is_used() -> None:
    graph = built(SHARED)
    graph.project = torch.nn.Identity()
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    torch.testing.assert_close(graph(a, b), a * b)
    torch.testing.assert_close(copy.deepcopy(graph)(a, b), a * b)


def test_the_same_seed_gives_the_weights_of_the_layers_made_in_this_order() -> None:
    torch.manual_seed(3)
    graph = built(
        "{type: Sequential, layers: [{type: Linear, d_input: 3, d_output: 4}, {type: Linear, d_input: 4, d_output: 2}]}"
    )
    torch.manual_seed(3)
    first, second = (nn.LinearConfig(d_input=i, d_output=o).init() for i, o in ((3, 4), (4, 2)))
    given = [param.tensor for param in params(graph)]
    for one, other in zip(given, (first.weight, first.bias, second.weight, second.bias), strict=True):
        assert torch.equal(one, other)


def test_a_sequence_has_the_paths_of_torchs() -> None:
    layers = "[{type: Linear, d_input: 3, d_output: 4}, {type: Relu}, {type: Linear, d_input: 4, d_output: 2}]"
    ours = built(f"{{type: Sequential, layers: {layers}}}")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    assert list(ours.state_dict()) == list(theirs.state_dict())


@pytest.mark.parametrize(
    ("inputs", "named", "message"),
    [
        (1, [], "expected the inputs a, b, got 1 by order"),
        (3, [], "got 3 by order"),
        (2, ["a"], "got 2 by order and a by name"),
        (1, ["c"], "got 1 by order and c by name"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: int, named: list[str], message: str) -> None:
    x = torch.zeros(1, 3)
    with pytest.raises(ArgumentError, match=message):
        built(SHARED)(*[x] * inputs, **dict.fromkeys(named, x))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("lstm.2", "lstm.2: 'lstm' has no item '2' there: it gives 2 items"),
        ("lstm.1.hiden", r"lstm.1.hiden: 'lstm' has no item 'hiden' there: it gives 2 items, cell, hidden"),
        ("lstm.0.mT", "lstm.0.mT: 'lstm' has no item 'mT' there: it gives one Tensor"),
        ("lstm.0.0", "lstm.0.0: 'lstm' has no item '0' there: it gives one Tensor"),
    ],
)
def test_items_that_are_not_there_are_named(source: str, message: str) -> None:
    graph = built(
        f"{{type: Graph, nodes: {{lstm: {{type: Lstm, d_input: 2, d_hidden: 3, bias: true}}}}, outputs: {source}}}"
    )
    with pytest.raises(ArgumentError, match=message):
        graph(torch.zeros(1, 2, 2))


def test_what_no_later_step_needs_is_freed() -> None:
    graph = built(
        "{type: Graph, nodes: {a: {type: Tanh}, b: {type: Tanh}, c: {type: Tanh}, d: {type: Add, from: [c, x]}}}"
    )
    alive = []
    made: list[weakref.ref] = []
    for layer in graph.children():
        layer.register_forward_pre_hook(lambda *_: alive.append(sum(it() is not None for it in made)))
        layer.register_forward_hook(lambda _, __, output: made.append(weakref.ref(output)))
    with torch.no_grad():
        graph(torch.zeros(2))
    assert alive == [0, 1, 1, 1]


def test_a_residual_of_another_shape_is_refused() -> None:
    layer = built("{type: Residual, layers: [{type: Linear, d_input: 3, d_output: 4}]}")
    with pytest.raises(
        ShapeError, match=r"Residual: x: expected the shape of what the layers give, \[2, 4\], got \[2, 3\]"
    ):
        layer(torch.zeros(2, 3))


def test_the_input_of_a_transposed_layer_has_its_outputs_size() -> None:
    graph = built(
        "{type: Graph, nodes: {a: {type: Linear, d_input: 2, d_output: 3}, b: {type: Select, dim: 1, index: 0},"
        " c: {type: Reshape, shape: [0, 1]}, d: {use: a, transposed: true}}}"
    )
    with pytest.raises(ShapeError, match=r"Linear: transposed: expected \[..., 3\], got \[4, 1\]"):
        graph(torch.zeros(4, 2))


def test_losses_are_nodes_too() -> None:
    graph = built(
        """
        type: Graph
        inputs: [x, targets]
        nodes:
          logits: {type: Linear, d_input: 3, d_output: 5, from: x}
          loss: {type: CrossEntropyLoss, from: [logits, targets]}
        outputs: [loss, logits]
        """
    )
    targets = torch.tensor([0, 4])
    loss, logits = graph(torch.randn(2, 3), targets)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, targets))
