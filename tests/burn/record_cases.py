"""Modules of src/bin/records.rs in Python, drawn cases for it, and the comparison of a record with Burn's answer."""

from collections.abc import Mapping
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike.module import Module, ModuleEnum

from .running import ask, unpacked


class Choice(ModuleEnum):
    Linear: bl.nn.Linear
    Conv: bl.nn.Conv2d
    Nothing: bl.nn.Relu


class Tree(Module):
    """The struct `Tree` of src/bin/records.rs."""

    maybe: bl.nn.Conv2d | None

    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__()
        a, b = case["a"], case["b"]

        def linear(bias: bool) -> bl.nn.Linear:
            return bl.nn.LinearConfig(d_input=a, d_output=b, bias=bias).init()

        def conv(channels: tuple[int, int], kernel: tuple[int, int], bias: bool) -> bl.nn.Conv2d:
            return bl.nn.Conv2dConfig(channels=channels, kernel_size=kernel, bias=bias).init()

        self.first, self.tied = linear(True), linear(False)
        if case["tied"]:
            self.tied.weight = self.first.weight
        self.list = [None if it is None else linear(it) for it in case["list"]]
        self.grid = [[linear(row % 2 == 1) for _ in range(row)] for row in range(case["rows"])]
        self.array = [linear(True), linear(False)]
        self.pair = (linear(True), bl.nn.LayerNormConfig(d_model=a, bias=a % 2 == 1).init())
        match case["choice"]:
            case "Linear":
                self.choice = Choice(Linear=linear(True))
            case "Conv":
                self.choice = Choice(Conv=conv((a, b), (1, 2), True))
            case _:
                self.choice = Choice(Nothing=bl.nn.Relu())
        self.maybe = None if case["maybe"] is None else conv((b, a), (2, 1), case["maybe"])
        self.norm = bl.nn.BatchNormConfig(num_features=b).init()
        self.recurrent = bl.nn.LstmConfig(d_input=a, d_hidden=b, bias=True).init()
        self.register_buffer("ints", torch.arange(b) * 5)
        self.register_buffer("flags", torch.arange(a) % 2 == 1)
        self.deep = nn.Parameter(torch.randn(1, a, 1, b, 2))
        self.width, self.sizes, self.rate = a, (a, b), None


def drawn_tree(random: Random) -> dict[str, Any]:
    return {
        "kind": "tree",
        "a": random.randint(1, 5),
        "b": random.randint(1, 4),
        "tied": random.random() < 0.4,
        "rows": random.randint(0, 3),
        "list": [random.choice([None, True, False]) for _ in range(random.randint(0, 4))],
        "choice": random.choice(["Linear", "Conv", "Nothing"]),
        "maybe": random.choice([None, True, False]),
    }


def same_bits(one: Tensor, other: Tensor) -> bool:
    """True if type, shape and every bit are the same, those of NaN too."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return one.contiguous().reshape(-1).view(torch.uint8).equal(other.contiguous().reshape(-1).view(torch.uint8))


def check_content(record: bl.record.Record, tensors: list[dict[str, Any]], case: object, ids: bool = True) -> None:
    """Check that a record has the names, values and ids that Burn says."""
    names = {**{name: name for name in record.tensors}, **record.aliases}
    assert sorted(names) == sorted(it["name"] for it in tensors), case
    clones = {name: bl.ParamId.parse(text) for name, text in record.values.get("$ids", {}).items()}
    known = {**record.ids, **clones}
    for it in tensors:
        name = names[it["name"]]
        assert same_bits(record.tensors[name], unpacked(it["value"])), (case, it["name"])
        if ids and it["id"] is not None:
            assert int(known[it["name"] if it["name"] in known else name]) == int(it["id"]), (case, it["name"])


def answers_of(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Burn's answers; a refusal fails."""
    answers = ask("records", cases)
    for case, answer in zip(cases, answers, strict=True):
        assert "refused" not in answer, (case, answer)
    return answers


class Networks(Module):
    def __init__(self) -> None:
        super().__init__()
        self.online = bl.nn.LinearConfig(d_input=3, d_output=2).init()
        self.target = bl.nn.LinearConfig(d_input=3, d_output=2).init()
