"""Sizes of layers that follow each other are compared without torch, and are those that the layers have."""

from typing import Any

import pytest
import torch

from burnlike.config import ModuleConfig
from burnlike.errors import ConfigError
from burnlike.nn.containers.layer_facts import Size, sizes_after
from tests.nn.cases import CASES, Case

LINEAR = "{type: Linear, d_input: 4, d_output: 8}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{{type: Sequential, layers: [{LINEAR}, {{type: Relu}}, {LINEAR}]}}",
            "layers.2.d_input: expected 8",
        ),
        (
            f"{{type: Sequential, layers: {{a: {LINEAR}, b: {LINEAR}}}}}",
            "layers.b.d_input: expected 8, the d_output of",
        ),
        (f"{{type: Repeat, times: 2, layer: {LINEAR}}}", "layer.d_input: expected 8, the d_output of layer, got 4"),
        (
            f"{{type: Sequential, layers: [{LINEAR}, {{type: Sequential, layers: [{{type: Tanh}}, {LINEAR}]}}]}}",
            "layers.1.layers.1.d_input: expected 8",
        ),
        (f"{{type: Graph, nodes: {{a: {LINEAR}, b: {{type: Relu}}, c: {LINEAR}}}}}", "nodes.c.d_input: expected 8"),
        (
            "{type: Sequential, layers: [{type: Conv2d, channels: [3, 8], kernel_size: 3}, {type: MaxPool2d,"
            " kernel_size: 2}, {type: BatchNorm, num_features: 9}]}",
            "layers.2.num_features: expected 8, the channels of layers.0, got 9",
        ),
        (
            "{type: Sequential, layers: [{type: Embedding, n_embedding: 9, d_model: 4}, {type: RmsNorm, d_model: 3}]}",
            "layers.1.d_model: expected 4, the d_model of layers.0, got 3",
        ),
        (
            "{type: Residual, layers: [{type: LayerNorm, d_model: 4}, {type: LayerNorm, d_model: 5}]}",
            "layers.1.d_model: expected 4",
        ),
    ],
)
def test_neighbours_that_do_not_fit_are_told_by_their_fields(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        ModuleConfig.from_yaml(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{{type: Sequential, layers: [{LINEAR}, {{type: Flatten}}, {LINEAR}]}}",  # not known any more
        f"{{type: Sequential, layers: [{LINEAR}, {{type: SwiGlu, d_input: 8, d_output: 4}}, {LINEAR}]}}",
        f"{{type: Graph, nodes: {{a: {LINEAR}, b: {{type: Softsign, from: x}}, c: {LINEAR}}}, outputs: [a, c]}}",
    ],
)
def test_what_may_fit_is_left_alone(text: str) -> None:
    ModuleConfig.from_yaml(text)


ONE_INPUT = [case for case in CASES if len(case.drawn()[0]) == 1 and isinstance(case.drawn()[0][0], torch.Tensor)]


@pytest.mark.parametrize("case", ONE_INPUT, ids=lambda case: case.name)
def test_what_is_known_of_a_layer_is_so(case: Case) -> None:
    """Of every layer in the table of cases: what it takes is no problem, and what it gives has these sizes."""
    (x,), named = case.drawn()
    before = {"last": Size(x.shape[-1], "x")} if x.ndim else {}
    if x.ndim > 1:
        before["channels"] = Size(x.shape[1], "x")
    problems: list[tuple[str, str]] = []
    if not x.is_floating_point():
        before = {}
    after = sizes_after(case.config, before, "layer", problems)
    assert problems == []
    output: Any = case.layer()(x, **named)
    if after:
        assert isinstance(output, torch.Tensor)
        sizes = {"last": output.shape[-1], "channels": [*output.shape, 0][1]}
        assert {dimension: sizes[dimension] for dimension in after} == {it: size.number for it, size in after.items()}
