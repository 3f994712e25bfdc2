"""Module trees as Burn 0.22.1 shows, walks and counts them; every case of its core tests has a test."""

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike import nn as layers
from burnlike.module import (
    DisplaySettings,
    Module,
    ModuleArray,
    ModuleEnum,
    ModuleVec,
    Param,
    ParamId,
    display,
    num_params,
    params,
    visit as visit_params,
)

from .burn_layers import AdaptiveAvgPool2d, BatchNorm, Conv2d, LayerNorm, Relu
from .cases import case

Golden = Callable[[str], dict[str, Any]]


def linear(d_input: int, d_output: int, bias: bool = True) -> layers.Linear:
    return layers.LinearConfig(d_input=d_input, d_output=d_output, bias=bias).init()


class Two(Module):
    def __init__(self, bias: int | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 2))
        self.bias = None if bias is None else nn.Parameter(torch.zeros(bias))


class Kinds(Module):
    maybe: int | None

    def __init__(self) -> None:
        super().__init__()
        self.f = Param.from_tensor(torch.zeros(2, 3), id=ParamId(1))
        self.i = Param.from_tensor(torch.zeros(3, dtype=torch.int32), id=ParamId(2**64 - 1))
        self.b = Param.from_tensor(torch.zeros(2, 2, dtype=torch.bool), id=ParamId(32))
        self.plain = torch.zeros(2)
        self.count = 7
        self.ratio = 0.25
        self.name = "kinds"
        self.flag = True
        self.maybe = 3


class Head(ModuleEnum): ...


class Tree(Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [linear(2, 3), linear(3, 2, bias=False)]
        self.pair = ModuleArray([linear(2, 2), linear(2, 1)])
        self.tuple = (linear(1, 2), LayerNorm(3))
        self.some = linear(2, 2)
        self.none = None
        self.head = Head(Plain=linear(2, 2))
        self.other = Head(Normed=LayerNorm(2))
        self.norm = BatchNorm(3)
        self.dropout = layers.DropoutConfig(prob=0.3).init()
        self.empty = ModuleVec()
        self.scale = 0.5
        self.nested = Two(2)


class Empty(Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = layers.DropoutConfig(prob=0.1).init()
        self.act = Relu()


class Net(Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = Conv2d([1, 2], [3, 3])
        self.norm = BatchNorm(2)
        self.act = Relu()
        self.linear = linear(8, 2)


TREES: dict[str, Callable[[], nn.Module]] = {
    "two": lambda: Two(None),
    "kinds": Kinds,
    "tree": Tree,
    "empty": Empty,
    "net": Net,
    "linear": lambda: linear(3, 2),
    "linear_no_bias": lambda: linear(3, 2, bias=False),
    "embedding": layers.EmbeddingConfig(n_embedding=5, d_model=4).init,
    "rms_norm": layers.RmsNormConfig(d_model=6, epsilon=1e-3).init,
    "swiglu": layers.SwiGluConfig(d_input=4, d_output=3).init,
    "rotary_encoding": layers.RotaryEncodingConfig(max_sequence_length=10, d_model=4).init,
}


@pytest.mark.parametrize("name", TREES)
def test_text_is_burns(name: str, golden: Golden) -> None:
    module = TREES[name]()
    assert display(module) == golden(name)["display"]
    assert repr(module) == str(module) == display(module)


@pytest.mark.parametrize("name", TREES)
def test_order_paths_kinds_and_shapes_are_burns(name: str, golden: Golden) -> None:
    expected = [(entry["path"], entry["kind"], entry["shape"]) for entry in golden(name).get("params", [])]
    kinds = {torch.float32: "float", torch.int32: "int", torch.bool: "bool"}
    found = [(param.path, kinds[param.tensor.dtype], list(param.tensor.shape)) for param in params(TREES[name]())]
    assert found == expected


@pytest.mark.parametrize("name", TREES)
def test_count_is_burns(name: str, golden: Golden) -> None:
    assert num_params(TREES[name]()) == golden(name)["num_params"]


def test_visitors_meet_each_kind_in_burns_order(golden: Golden) -> None:
    visited: list[str] = []
    visit_params(Tree(), lambda param: visited.append(param.path))
    assert visited == [entry["path"] for entry in golden("tree")["params"]]


def test_ids_are_shown_in_burns_text_form(golden: Golden) -> None:
    shown = display(Kinds(), DisplaySettings(show_param_id=True))
    expected = golden("kinds")["display"]
    for entry in golden("kinds")["params"]:
        kind = f"shape: {entry['shape']}, kind: {entry['kind']}"
        assert f"{kind}}}" in expected
        expected = expected.replace(f"{kind}}}", f"{kind}, id: {entry['id']}}}")
    assert shown == expected


class Model(Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = Conv2d([1, 8], [3, 3])
        self.conv2 = Conv2d([8, 16], [3, 3])
        self.pool = AdaptiveAvgPool2d([8, 8])
        self.dropout = layers.DropoutConfig(prob=0.5).init()
        self.linear1 = linear(1024, 512)
        self.linear2 = linear(512, 10)
        self.activation = Relu()


@case("display/book_model")
def test_the_model_of_burns_book(vectors: Callable[[str], Any]) -> None:
    (book,) = [it for it in vectors("module_core") if it["id"] == "display/book_model"]
    assert display(Model()) == book["numbers"]["text"]
    assert num_params(Model()) == book["numbers"]["num_params"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: linear(3, 5), "Linear {d_input: 3, d_output: 5, bias: true, params: 20}"),
        (lambda: BatchNorm(3), "BatchNorm {num_features: 3, momentum: 0.1, epsilon: 0.00001, params: 12}"),
        (lambda: LayerNorm(6), "LayerNorm {d_model: 6, epsilon: 0.00001, bias: true, params: 12}"),
        (
            layers.EmbeddingConfig(n_embedding=100, d_model=10).init,
            "Embedding {n_embedding: 100, d_model: 10, params: 1000}",
        ),
        (
            lambda: Conv2d([5, 1], [5, 5]),
            "Conv2d {ch_in: 5, ch_out: 1, stride: [1, 1], kernel_size: [5, 5], dilation: [1, 1], groups: 1, "
            "padding: Valid, params: 126}",
        ),
    ],
    ids=["linear", "batch_norm", "layer_norm", "embedding", "conv2d"],
)
def test_layers_of_burns_own_tests(make: Callable[[], nn.Module], text: str) -> None:
    assert display(make()) == text


@case("display/param_tensor")
@pytest.mark.parametrize(
    ("dtype", "kind"), [(torch.float32, "float"), (torch.float16, "float"), (torch.int64, "int"), (torch.bool, "bool")]
)
def test_a_param_alone(dtype: torch.dtype, kind: str) -> None:
    param = Param.from_tensor(torch.zeros(20, 20, dtype=dtype), id=ParamId(123456))
    text = f"ParamTensor {{rank: 2, shape: [20, 20], kind: {kind}"
    assert display(param) == f"{text}}}"
    assert display(param, DisplaySettings(show_param_id=False)) == f"{text}}}"
    assert display(param, DisplaySettings(show_param_id=True)) == f"{text}, id: 83h0200000000}}"


TESTS = Path(__file__).parent.parent
KNOWN = {entry["id"] for entry in json.loads((TESTS / "vectors" / "module_core.json").read_text())}
DATA_LOADERS = "data loaders"
DISTRIBUTED = "distributed training"
CONFIGS = "configs"
QUANTIZATION = "quantization"
TRAINING = "training"
BELONGS_TO = {
    "config/enum_clone": CONFIGS,
    "config/enum_display": CONFIGS,
    "config/enum_multiple": CONFIGS,
    "config/enum_none": CONFIGS,
    "config/enum_single": CONFIGS,
    "config/struct_display": CONFIGS,
    "config/struct_serde": CONFIGS,
    "dataloader/batch": DATA_LOADERS,
    "dataloader/empty": DATA_LOADERS,
    "dataloader/exact": DATA_LOADERS,
    "dataloader/multithread": DATA_LOADERS,
    "dataloader/multithread_early_drop": DATA_LOADERS,
    "dataloader/multithread_epochs": DATA_LOADERS,
    "dataloader/multithread_shuffle": DATA_LOADERS,
    "dataloader/multithread_worker_error": DATA_LOADERS,
    "dataloader/no_workers": DATA_LOADERS,
    "dataloader/one_worker": DATA_LOADERS,
    "dataloader/slice": DATA_LOADERS,
    "dataloader/split": DATA_LOADERS,
    "distributed/sharded_module_should_sync_gradients_mean": DISTRIBUTED,
    "distributed/sharded_module_should_sync_gradients_mean_activation": DISTRIBUTED,
    "distributed/sharded_module_should_sync_gradients_mean_diamond_graph": DISTRIBUTED,
    "distributed/sharded_module_should_sync_gradients_mean_residual": DISTRIBUTED,
    "distributed/sharded_module_should_sync_gradients_sum": DISTRIBUTED,
    "distributed/sharded_module_should_sync_gradients_sum_residual": DISTRIBUTED,
    "lora/qlora": QUANTIZATION,
    "quantize/weights": QUANTIZATION,
    "train/async_flush": TRAINING,
    "train/checkpoint_files": TRAINING,
    "train/checkpoint_restores_weights": TRAINING,
    "train/checkpoint_resume": TRAINING,
    "train/module_lr_scheduler": TRAINING,
}
"""Case -> the part of the project whose tests are to show it."""


def claimed() -> Iterator[tuple[str, str]]:
    """The cases marked by `@case` in any test file, and where."""
    for path in sorted(TESTS.rglob("test_*.py")):
        if "import case" not in path.read_text():
            continue
        module = importlib.import_module(".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts)))
        for name, function in vars(module).items():
            if getattr(function, "__module__", None) == module.__name__:
                yield from ((case_id, f"{path.name}: {name}") for case_id in getattr(function, "case_ids", ()))


def test_every_case_has_a_test_or_a_part_that_it_belongs_to() -> None:
    shown = dict(claimed())
    assert {case_id: place for case_id, place in shown.items() if case_id not in KNOWN} == {}, "there are no such cases"
    assert sorted(set(BELONGS_TO) - KNOWN) == [], "there are no such cases"
    assert sorted(shown.keys() & BELONGS_TO) == [], "cases that have a test are not listed"
    assert sorted(KNOWN - shown.keys() - BELONGS_TO.keys()) == [], "neither a test shows them nor are they listed"
