"""Cases of layers that are made of layers, each beside the same written out."""

from typing import Any

import torch
from torch import Tensor

from burnlike import nn

from . import Case, floats


def linear(d_input: int, d_output: int) -> nn.LinearConfig:
    return nn.LinearConfig(d_input=d_input, d_output=d_output)


def affine(layer: Any, x: Tensor) -> Tensor:
    return x @ layer.weight + layer.bias


def residual(layer: Any, x: Tensor) -> Tensor:
    first, _, last = layer.layers.children()
    kept = x if layer.shortcut is None else affine(layer.shortcut, x)
    return affine(last, affine(first, x).tanh()) + kept


def siamese(layer: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    left, right = affine(layer.project, a), affine(layer.project, b)
    output, _ = layer.lstm(torch.cat((left, right), -1))
    _, (cell, _) = layer.lstm(torch.cat((left, right), -1))
    return output + affine(layer.head, cell)[:, None], left


def repeated(layer: Any, x: Tensor, memory: Tensor) -> Tensor:
    for part in layer.children():
        x = affine(part.linear, x) + memory
    return x


SIAMESE = nn.GraphConfig(
    inputs=("a", "b"),
    nodes={
        "project": nn.NodeConfig(layer=linear(3, 2), sources="a"),
        "other": nn.NodeConfig(use="project", sources="b"),
        "both": nn.NodeConfig(layer=nn.ConcatConfig(dim=-1), sources=("project", "other")),
        "lstm": nn.NodeConfig(layer=nn.LstmConfig(d_input=4, d_hidden=5, bias=True)),
        "head": nn.NodeConfig(layer=linear(5, 5), sources="lstm.1.cell"),
        "row": nn.NodeConfig(layer=nn.ReshapeConfig(shape=(0, 1, -1))),
        "sum": nn.NodeConfig(layer=nn.AddConfig(), sources=("lstm.0", "row")),
    },
    outputs=("sum", "project"),
)
PLUS_MEMORY = nn.GraphConfig(
    inputs=("x", "memory"),
    nodes={
        "linear": nn.NodeConfig(layer=linear(3, 3), sources="x"),
        "sum": nn.NodeConfig(layer=nn.AddConfig(), sources=("linear", "memory")),
    },
)

CASES = [
    Case(
        "Sequential",
        nn.SequentialConfig(layers=(linear(3, 4), nn.TanhConfig(), linear(4, 2))),
        lambda: (floats(2, 3),),
        lambda layer, x: affine(layer.get_submodule("2"), affine(layer.get_submodule("0"), x).tanh()),
    ),
    Case(
        "Sequential/named",
        nn.SequentialConfig(layers={"inner": linear(3, 4), "outer": linear(4, 2)}),
        lambda: (floats(2, 3),),
        lambda layer, x: affine(layer.outer, affine(layer.inner, x)),
    ),
    Case(
        "Residual",
        nn.ResidualConfig(layers=(linear(3, 4), nn.TanhConfig(), linear(4, 3))),
        lambda: (floats(2, 3),),
        residual,
    ),
    Case(
        "Residual/shortcut",
        nn.ResidualConfig(layers=(linear(3, 4), nn.TanhConfig(), linear(4, 2)), shortcut=linear(3, 2)),
        lambda: (floats(2, 3),),
        residual,
    ),
    Case("Repeat", nn.RepeatConfig(times=3, layer=PLUS_MEMORY), lambda: (floats(2, 3), floats(2, 3)), repeated),
    Case("Graph", SIAMESE, lambda: (floats(2, 4, 3), floats(2, 4, 3)), siamese),
    Case(
        "Graph/tied",
        nn.GraphConfig(
            inputs=("tokens",),
            nodes={
                "embedding": nn.EmbeddingConfig(n_embedding=5, d_model=3),
                "linear": linear(3, 3),
                "back": nn.NodeConfig(use="linear", transposed=True),
                "head": nn.NodeConfig(use="embedding", transposed=True),
            },
        ),
        lambda: (torch.tensor([[0, 4, 2], [1, 1, 3]]),),
        lambda layer, tokens: (
            affine(layer.linear, layer.embedding.weight[tokens]) @ layer.linear.weight.mT @ layer.embedding.weight.mT
        ),
    ),
    Case(
        "Graph/by_name",
        nn.GraphConfig(
            inputs=("x", "memory", "hidden"),
            nodes={
                "attend": nn.NodeConfig(
                    layer=nn.CrossAttentionConfig(
                        d_model=4, d_context=3, n_heads=2, n_heads_kv=2, d_head=2, dropout=0.0
                    ),
                    sources={"query": "x", "context": "memory", "mask": "hidden"},
                )
            },
        ),
        lambda: (floats(2, 3, 4), {"memory": floats(2, 2, 3), "hidden": torch.tensor([[False, True], [False, False]])}),
        lambda layer, x, memory, hidden: layer.attend(x, memory, hidden),
    ),
]
