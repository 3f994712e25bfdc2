"""Weights of another library through a table, by a model and its twin in plain torch."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import Module, nn as layers
from burnlike.errors import RecordMismatchError
from burnlike.models.conversion import record_from, record_to
from burnlike.models.weights.table import WeightTable
from burnlike.nn.tensor_source import TensorSource
from burnlike.record import Record


class Block(Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = layers.LayerNormConfig(d_model=4).init()
        self.query = layers.LinearConfig(d_input=4, d_output=4).init()
        self.key = layers.LinearConfig(d_input=4, d_output=4).init()

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.query(y) * self.key(y)


class Model(Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = layers.EmbeddingConfig(n_embedding=5, d_model=4).init()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = layers.BatchNormConfig(num_features=4).init()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return x @ self.embedding.weight.mT


class TheirBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(4)
        self.packed = nn.Parameter(torch.randn(4, 8))
        self.packed_bias = nn.Parameter(torch.randn(8))
        self.register_buffer("mask", torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        query, key = (self.ln(x) @ self.packed + self.packed_bias).chunk(2, -1)
        return x + query * key


class TheirModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(5, 4)
        self.h = nn.ModuleList(TheirBlock() for _ in range(2))
        self.bn = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens)
        for block in self.h:
            x = block(x)
        return self.head(x)


TABLE = WeightTable(
    name="theirs",
    model_types=("theirs",),
    config=lambda config: layers.LinearConfig(d_input=1, d_output=1),
    tensors={
        "embedding.weight": "wte.weight",
        "blocks.{i}.norm.*": "h.{i}.ln.*",
        "blocks.{i}.query.weight": TensorSource("h.{i}.packed", (0, 2), transposed=True, dim=-1),
        "blocks.{i}.key.weight": TensorSource("h.{i}.packed", (1, 2), transposed=True, dim=-1),
        "blocks.{i}.query.bias": TensorSource("h.{i}.packed_bias", (0, 2)),
        "blocks.{i}.key.bias": TensorSource("h.{i}.packed_bias", (1, 2)),
        "norm.*": "bn.*",
    },
    prefixes=("", "model."),
    tied={"head.weight": "wte.weight"},
    ignored=(r"h\.\d+\.mask",),
)


@pytest.mark.parametrize("prefix", ["", "model."])
def test_outputs_are_theirs(prefix: str) -> None:
    theirs, ours = TheirModel().double(), Model().double()
    state = {f"{prefix}{name}": tensor for name, tensor in theirs.state_dict().items()}
    record_from(TABLE, ours, state).load_into(ours)
    tokens = torch.randint(5, (2, 3))
    torch.testing.assert_close(ours(tokens), theirs(tokens), rtol=1e-12, atol=1e-12)


def test_what_is_saved_has_their_names_and_values() -> None:
    theirs, ours = TheirModel(), Model()
    state = theirs.state_dict()
    record_from(TABLE, ours, state).load_into(ours)
    saved = record_to(TABLE, ours).tensors
    assert saved.keys() == {name for name in state if "mask" not in name and name != "head.weight"}
    for name, tensor in saved.items():
        assert torch.equal(tensor, state[name]), name
        assert tensor.dtype == state[name].dtype


def test_a_record_alone_is_enough_for_the_way_back() -> None:
    ours = Model()
    record, expected = Record.from_module(ours), record_to(TABLE, ours).tensors
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.data = torch.zeros_like(parameter)
    found = record_to(TABLE, ours, record).tensors
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wte.weight": None}, r"missing in the record: wte.weight"),
        ({"h.1.ln.extra": torch.ones(1)}, r"unexpected: h.1.ln.extra"),
        ({"h.0.packed": torch.ones(8, 4)}, r"h.0.packed: expected float32 \[4, 8\], got float32 \[8, 4\]"),
        ({"head.weight": torch.ones(5, 4)}, r"head.weight: expected the values of 'wte.weight', as the model ties"),
    ],
)
def test_what_does_not_fit_is_named_as_they_do(change: dict[str, Any], message: str) -> None:
    state = {name: it for name, it in {**TheirModel().state_dict(), **change}.items() if it is not None}
    if "wte.weight" in change:
        del state["head.weight"]
    ours = Model()
    before = ours.embedding.weight.clone()
    with pytest.raises(RecordMismatchError, match=message):
        record_from(TABLE, ours, state)
    assert torch.equal(ours.embedding.weight, before)


def test_a_tensor_without_a_place_is_refused() -> None:
    class Wider(Model):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

    with pytest.raises(RecordMismatchError, match="theirs has no tensor for scale of Wider"):
        record_to(TABLE, Wider())


def test_parts_of_one_of_ours_lie_apart_in_theirs() -> None:
    config = layers.MultiHeadAttentionConfig(d_model=4, n_heads=2, dropout=0.0)
    projections = ("q", "k", "v")
    table = WeightTable(
        name="apart",
        model_types=(),
        config=lambda values: config,
        tensors={
            "in_proj_weight": [f"{it}.weight" for it in projections],
            "in_proj_bias": [f"{it}.bias" for it in projections],
            "out_proj.*": "o.*",
        },
    )
    theirs = {it: nn.Linear(4, 4) for it in (*projections, "o")}
    state = {f"{it}.{name}": tensor for it, layer in theirs.items() for name, tensor in layer.state_dict().items()}
    ours, x = config.init(), torch.randn(1, 1, 4)
    record_from(table, ours, state).load_into(ours)
    # Of one position the weights are 1.
    torch.testing.assert_close(ours(x).context, theirs["o"](theirs["v"](x)))
    torch.testing.assert_close(ours.query(x), theirs["q"](x))
    saved = record_to(table, ours).tensors
    assert saved.keys() == state.keys()
    assert all(torch.equal(saved[name], state[name]) for name in state)
    with pytest.raises(RecordMismatchError, match=r"missing in the record: k.weight"):
        record_from(table, ours, {name: it for name, it in state.items() if name != "k.weight"})
    with pytest.raises(RecordMismatchError, match=r"v.bias: expected float32 \[4\], got float32 \[3\]"):
        record_from(table, ours, {**state, "v.bias": torch.zeros(3)})
