"""Files there and back: burnlike reads Burn's and writes them again byte for byte, and Burn reads burnlike's."""

import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import burnlike as bl

from .record_cases import Networks, Tree, answers_of, check_content, drawn_tree, same_bits
from .running import DTYPES, packed, random_of, unpacked

pytestmark = pytest.mark.burn

GOLDEN = Path(__file__).parents[1] / "golden"
TREES, PACKS = 24, 150


def test_trees_that_burn_writes_are_read_and_written_again_byte_for_byte(tmp_path: Path) -> None:
    random = random_of("trees")
    trees = [drawn_tree(random) for _ in range(TREES)]
    cases = [{**tree, "save": str(tmp_path / f"{index}.bpk")} for index, tree in enumerate(trees)]
    for case, answer in zip(cases, answers_of(cases), strict=True):
        path = Path(case["save"])
        record = bl.record.open_record(path)
        check_content(record, answer["tensors"], case)
        again = tmp_path / "again.bpk"
        assert Path(bl.record.save(record, again)).read_bytes() == path.read_bytes(), case
        model = Tree(case)
        report = bl.record.load(model, path)
        assert not report.converted, case
        if not case["tied"]:  # whose values burnlike writes once, for both names
            assert Path(bl.record.save(model, again)).read_bytes() == path.read_bytes(), case


def test_trees_that_burnlike_writes_are_read_by_burn(tmp_path: Path) -> None:
    random = random_of("trees of burnlike")
    cases = list[dict[str, Any]]()
    models = list[Tree]()
    for index in range(TREES):
        tree = drawn_tree(random)
        model = Tree(tree)
        path = tmp_path / f"{index}.bpk"
        bl.record.save(model, path)
        models.append(model)
        cases.append({**tree, "load": str(path), "save": str(tmp_path / f"{index}-again.bpk")})
    for case, model, answer in zip(cases, models, answers_of(cases), strict=True):
        record = bl.record.Record.of(model)
        for it in answer["tensors"]:
            if "running_" in it["name"]:  # Burn keeps the ids that these have in the module
                it["id"] = None
        check_content(record, answer["tensors"], case)


NAMES = (
    "a",
    "weight",
    "list.0.é",
    "模型.w",
    "a b",
    "a/b",
    "0",
    "layers.10.x",
    "x-y_z",
    "w'\"",
    "A.B.C.D.E.F",
    "𝄞",
    "tab\there",
)
SCALARS = {"UInt": [0, 7, 2**64 - 1], "Int": [-1, -(2**63)], "Float": [0.5, -1e300], "Bool": [True, False]}


def drawn_tensor(random: Random) -> Tensor:
    shape = random.choice([[], [0], [3], [2, 0, 3], [1, 2, 3], [2, 1, 1, 2, 3], [7]])
    dtype = random.choice([*DTYPES.values()])
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if dtype.is_floating_point:
        tensor = torch.randn(shape).to(dtype)
        if tensor.numel():
            tensor.view(-1)[0] = random.choice([float("nan"), float("inf"), -float("inf"), -0.0, 1.5])
        return tensor
    span = torch.iinfo(dtype)
    numbers = [random.choice([span.min, span.max, random.randint(span.min, span.max)]) for _ in range(prod(shape))]
    return torch.tensor(numbers, dtype=dtype).reshape(shape)


def drawn_pack(random: Random) -> dict[str, Any]:
    tensors = list[dict[str, Any]]()
    ids = random.sample([0, 1, 2**64 - 1, 2**63, 12345, 999, 5, 6, 7], 9)
    for name in random.sample(NAMES, random.randint(0, 6)):
        value = packed(drawn_tensor(random))
        tensors.append({"name": name, "value": value, "id": random.choice([None, str(ids.pop())])})
        if value["dtype"] == "f32":
            tensors[-1]["dtype"] = random.choice([None, "flex32"])
    scalars = {f"s.{kind}.{index}": it for kind, values in SCALARS.items() for index, it in enumerate(values)}
    chosen = dict(random.sample([*scalars.items()], random.randint(0, 4)))
    metadata = dict(random.sample([("producer", "me"), ("é", "模型"), ("", ""), ("1", "x.y")], random.randint(0, 3)))
    return {"kind": "pack", "tensors": tensors, "scalars": chosen, "metadata": metadata}


def test_packs_of_odd_names_types_and_shapes_are_read_and_written_again_byte_for_byte(tmp_path: Path) -> None:
    random = random_of("packs")
    cases = [{**drawn_pack(random), "save": str(tmp_path / f"{index}.bpk")} for index in range(PACKS)]
    answers_of(cases)
    again = [{"kind": "pack", "load": str(tmp_path / f"again{index}.bpk")} for index in range(PACKS)]
    for case, second in zip(cases, again, strict=True):
        record = bl.record.open_record(case["save"])
        check_content(record, case["tensors"], case)
        bl.record.save(record, second["load"])
        if not any(it.get("dtype") for it in case["tensors"]):  # Flex32 is written as F32
            assert Path(second["load"]).read_bytes() == Path(case["save"]).read_bytes(), case
    for case, second, answer in zip(cases, again, answers_of(again), strict=True):
        entries = {it["name"]: (it["id"], it["value"]) for it in case["tensors"]}
        assert {it["name"]: (it["id"], it["value"]) for it in answer["tensors"]} == entries, case
        assert answer["metadata"].items() >= case["metadata"].items(), case
        assert answer["scalars"].keys() == case["scalars"].keys(), (case, second)


def test_bools_of_other_stores_are_read(tmp_path: Path) -> None:
    one, four = torch.tensor([1, 0, 1], dtype=torch.uint8), torch.tensor([0, 1], dtype=torch.uint32)
    tensors = [
        {"name": "one", "value": packed(one), "dtype": "bool8", "id": "5"},
        {"name": "four", "value": packed(four), "dtype": "bool32", "id": "6"},
    ]
    path = tmp_path / "bools.bpk"
    answers_of([{"kind": "pack", "tensors": tensors, "scalars": {}, "metadata": {}, "save": str(path)}])
    record = bl.record.open_record(path)
    assert record.tensors["one"].tolist() == [True, False, True]
    assert record.tensors["four"].tolist() == [False, True]


STORES = [
    {"store": "burnpack"},
    {"store": "burnpack", "adapter": "half"},
    {"store": "burnpack", "adapter": "bf16"},
    {"store": "burnpack", "only": r"^(first|list)\.", "partial": True},
    {"store": "safetensors"},
    {"store": "safetensors", "only": "weight$", "partial": True},
]


@pytest.mark.parametrize("store", STORES, ids=lambda it: "-".join(map(str, it.values())))
def test_what_stores_write_is_read(store: dict[str, Any], tmp_path: Path) -> None:
    random = random_of(f"stores {store}")
    extension = ".bpk" if store["store"] == "burnpack" else ".safetensors"
    cases = [{**drawn_tree(random), **store, "save": str(tmp_path / f"{it}{extension}")} for it in range(TREES // 3)]
    for case, answer in zip(cases, answers_of(cases), strict=True):
        expected = {it["name"]: unpacked(it["value"]) for it in answer["tensors"]}
        record = bl.record.open_record(case["save"])
        names = {**{name: name for name in record.tensors}, **record.aliases}
        wanted = [name for name in expected if re.search(store.get("only", ""), name)]
        assert sorted(names) == sorted(wanted), case
        for name, stored in names.items():
            tensor = record.tensors[stored]
            if "adapter" in store:  # which leaves norms as they are
                tensor, other = tensor.float(), expected[name].to(tensor.dtype).float()
                assert tensor.equal(other), (case, name)
            else:
                assert same_bits(tensor, expected[name]), (case, name)
        model = Tree(case)
        bl.record.load(model, case["save"], strict="only" not in store)
        for name in names:
            loaded = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
            assert torch.allclose(loaded[name].float(), expected[name].float(), rtol=1e-2, atol=1e-3), (case, name)


def test_burns_store_reads_safetensors_with_all_names_of_ties(tmp_path: Path) -> None:
    random = random_of("ties")
    cases, models = list[dict[str, Any]](), list[Tree]()
    for index in range(TREES // 2):
        tree = {**drawn_tree(random), "tied": index % 2 == 0}
        models.append(Tree(tree))
        path = tmp_path / f"{index}.safetensors"
        recorder = bl.record.SafetensorsRecorder(ties="all")
        recorder.save(bl.record.Record.of(models[-1]), path)
        again = bl.record.open_record(path)
        assert again.aliases == ({"tied.weight": "first.weight"} if tree["tied"] else {})
        cases.append({**tree, "store": "safetensors", "load": str(path)})
    for case, model, answer in zip(cases, models, answers_of(cases), strict=True):
        check_content(bl.record.Record.of(model), answer["tensors"], case, ids=False)


def test_torch_layouts_cross_by_burns_adapters(tmp_path: Path) -> None:
    random = random_of("torch")
    for index in range(TREES // 3):
        config = {"d_input": random.randint(1, 5), "d_output": random.randint(1, 5), "bias": random.random() < 0.7}
        model = bl.nn.LinearConfig(**config).init()
        path, back = tmp_path / f"{index}.safetensors", tmp_path / f"{index}-back.safetensors"
        bl.record.save(bl.interop.to_torch(model), path)
        case = {"kind": "layer", "layer": "Linear", "config": linear_config(config)}
        case |= {"store": "safetensors", "adapter": "torch"}
        (answer,) = answers_of([{**case, "load": str(path)}])
        check_content(bl.record.Record.of(model), answer["tensors"], case, ids=False)
        (answer,) = answers_of([{**case, "save": str(back)}])
        record = bl.interop.record_from_torch(model, bl.record.open_record(back))
        check_content(record, answer["tensors"], case, ids=False)


def linear_config(config: Mapping[str, Any]) -> dict[str, Any]:
    return {**config, "initializer": {"Constant": {"value": 0.5}}, "layout": "Row"}


@pytest.mark.parametrize("precision", [bl.HalfPrecision, bl.record.BFloat16Precision], ids=["half", "bfloat16"])
def test_half_a_burnpack_is_cast_by_burn(precision: bl.record.Precision, tmp_path: Path) -> None:
    random = random_of(f"half {precision}")
    tree = drawn_tree(random)
    model = Tree(tree)
    path = tmp_path / "half.bpk"
    bl.record.save(model, path, precision=precision)
    stored = bl.record.open_record(path)
    cast, kept = answers_of([{**tree, "load": str(path), "cast": True}, {**tree, "load": str(path)}])
    names = {**{name: name for name in stored.tensors}, **stored.aliases}
    for entry, other in zip(cast["tensors"], kept["tensors"], strict=True):
        tensor = stored.tensors[names[entry["name"]]]
        assert same_bits(unpacked(other["value"]), tensor), entry["name"]
        is_float = tensor.is_floating_point()
        assert same_bits(unpacked(entry["value"]), tensor.float() if is_float else tensor), entry["name"]


def test_target_networks_cross_both_ways(tmp_path: Path) -> None:
    path, other = tmp_path / "burn.bpk", tmp_path / "burnlike.bpk"
    for trained in (False, True):
        case = {"kind": "networks", "trained": trained}
        (answer,) = answers_of([{**case, "save": str(path)}])
        record = bl.record.open_record(path)
        check_content(record, answer["tensors"], case)
        assert list(record.aliases) == (["target.bias"] if trained else ["target.weight", "target.bias"])
        assert Path(bl.record.save(record, other)).read_bytes() == path.read_bytes()
        model = Networks()
        assert bl.record.load(model, path).clones == (["target.weight"] if trained else [])
        bl.record.save(model, other)
        (again,) = answers_of([{**case, "load": str(other)}])
        values = [(it["name"], it["value"]) for it in answer["tensors"]]
        assert [(it["name"], it["value"]) for it in again["tensors"]] == values
