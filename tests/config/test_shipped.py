"""Configs that come with the package: by name, bounds of their numbers; and keys at the root that are no fields."""

import math
from pathlib import Path
from typing import Annotated, Any

import msgspec.inspect as mi
import pytest

from burnlike.cli.main import main
from burnlike.cli.options import root_class
from burnlike.config import Config, Meta, ModuleConfig, field
from burnlike.config.bounds import Finite, Size, at_most
from burnlike.config.registry import fields_of, load_built_in
from burnlike.config.shipped import config_file, shipped_configs, shipped_jobs
from burnlike.config.tree import read_tree
from burnlike.errors import ConfigError, ConfigIOError
from burnlike.module import LoraConfig
from burnlike.nn import GraphConfig, LinearConfig, ReluConfig, SequentialConfig
from burnlike.train import TrainConfig


def test_names_lead_to_files_that_load() -> None:
    configs = shipped_configs()
    assert {"char_gpt", "char_gpt_tiny", "resnet18_layers", "transformer_layers"} <= set(configs)
    assert {"char_gpt", "char_gpt_tiny"} <= set(shipped_jobs())
    assert not {"resnet18_layers", "resnet50"} & set(shipped_jobs())
    for name, path in configs.items():
        assert config_file(name) == str(path)
        tree = read_tree(path)
        root_class(tree.root).from_tree(tree)


def test_a_file_of_that_name_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("char_gpt").write_text("seed: 1")
    assert config_file("char_gpt") == "char_gpt"


@pytest.mark.parametrize("text", ["char_gpt.yaml", "./char_gpt", "configs/char_gpt", "unknown"])
def test_all_else_is_a_path(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_file(text) == text


def test_an_unknown_name_is_told_which_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigIOError, match=r"resnt50: no such file; did you mean 'resnet50'\?$"):
        TrainConfig.load("resnt50")
    with pytest.raises(ConfigIOError, match=r"unknown: no such file; shipped configs are bert_base, char_gpt, "):
        TrainConfig.load(config_file("unknown"))


MAY_BE_INFINITE = {"threshold", "p"}  # of a clipping, which then clips nothing; of a norm, then the largest value


def descendants(cls: type) -> set[type]:
    return {it for below in cls.__subclasses__() for it in (below, *descendants(below))}


def numbers_in(wanted: mi.Type) -> list[Any]:
    if isinstance(wanted, mi.Metadata):
        return numbers_in(wanted.type)
    if isinstance(wanted, mi.IntType | mi.FloatType):
        return [wanted]
    below = [getattr(wanted, name, ()) for name in ("types", "item_types")]
    below += [[it] for name in ("item_type", "value_type") if (it := getattr(wanted, name, None))]
    return [number for types in below for it in types for number in numbers_in(it)]


def fields() -> list[tuple[type[Config], str]]:
    load_built_in()
    shipped = sorted((it for it in descendants(Config) if it.__module__.startswith("burnlike.")), key=str)
    assert LoraConfig in shipped
    return [(cls, name) for cls in shipped for name, it in fields_of(cls).items() if numbers_in(it.type)]


@pytest.mark.parametrize(("cls", "name"), fields(), ids=lambda it: getattr(it, "__name__", it))
def test_every_number_has_an_upper_bound(cls: type[Config], name: str) -> None:
    if name not in MAY_BE_INFINITE:
        for number in numbers_in(fields_of(cls)[name].type):
            assert number.le is not None or number.lt is not None


class Tile(Config):
    rows: Size
    columns: Annotated[int, Meta(ge=2), at_most(64, "the kernel's tile")] | None = None
    offset: Finite = 0.0
    offsets: list[Annotated[int, Meta(ge=0), at_most(9, "the page")]] = field(default_factory=list)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rows: 2147483648",
            "f:1:7: rows: expected at most 2147483647 (matrix products of BLAS count rows and columns",
        ),
        ("rows: 0", "f:1:7: rows: expected an int >= 1, got 0"),
        ("rows: x", "f:1:7: rows: expected an int >= 1, got 'x' (a string)"),
        ("rows: 3e9", "f:1:7: rows: expected an int >= 1, got 3e9 (a float); write 3000000000"),
        ("{rows: 1, columns: 65}", "f:1:20: columns: expected at most 64 (the kernel's tile), got 65"),
        ("{rows: 1, columns: 1}", "f:1:20: columns: expected an int >= 2 or null, got 1"),
        ("{rows: 1, offset: 2e18}", "f:1:19: offset: expected at most 1e+18 (the product of two larger numbers"),
        ("{rows: 1, offset: -2e18}", "f:1:19: offset: expected at least -1e+18 (the product of two larger numbers"),
        ("{rows: 1, offset: .inf}", "f:1:19: offset: expected a finite number, got .inf"),
        ("{rows: 1, offset: -.inf}", "f:1:19: offset: expected a finite number, got -.inf"),
        ("{rows: 1, offset: x}", "f:1:19: offset: expected a finite number, got 'x' (a string)"),
        ("{rows: 1, offsets: [9, 10]}", "f:1:24: offsets.1: expected at most 9 (the page), got 10"),
    ],
)
def test_a_message_gives_the_reason_where_the_bound_is_exceeded(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Tile.from_yaml(text, "f")
    assert str(caught.value).startswith(message)


HUGE = {
    "threads": "100000000000",
    "model.d_model": str(2**62),
    "training.steps_per_epoch": "1" + "0" * 300,
    "training.batch_size": str(2**63 - 1),
    "training.epochs": "9" * 399,
    "task.sample_length": str(2**40),
    "model.n_layers": str(10**6),
}


@pytest.mark.parametrize("path", HUGE)
def test_huge_numbers_are_mistakes_with_a_reason(path: str) -> None:
    with pytest.raises(ConfigError, match=rf"{path}: expected at most \d+ \(.*\), got \d+"):
        TrainConfig.load("configs/char_gpt.yaml", [f"{path}={HUGE[path]}"])


def test_the_largest_numbers_are_taken() -> None:
    assert Tile(rows=2**31 - 1, columns=64).rows == 2**31 - 1
    assert math.isfinite(TrainConfig.load("configs/char_gpt.yaml", ["model.theta=1e18"]).model.theta)


ANCHORS = """
x-linear: &linear {type: Linear, d_input: 4, d_output: 4}
x-sizes: {wide: 8}
type: Sequential
layers:
  - *linear
  - {<<: *linear, d_output: "${x-sizes.wide}"}
"""


def test_keys_for_anchors() -> None:
    config = ModuleConfig.from_yaml(ANCHORS)
    assert isinstance(config, SequentialConfig)
    assert config.layers == (LinearConfig(d_input=4, d_output=4), LinearConfig(d_input=4, d_output=8))
    with pytest.raises(ConfigError, match=r"model\.x-a: unknown key 'x-a'"):
        TrainConfig.from_yaml("x-b: 1\nmodel: {type: Relu, x-a: 1}")


@pytest.mark.parametrize(
    ("inputs", "shown"),
    [
        ("[8, 4]", "[8, 4]"),
        ("'float32:8,4'", "[8, 4]"),
        ("[[8, 4]]", "[8, 4]"),
        ("['8,4']", "[8, 4]"),
        ("{x: [8, 4]}", "[8, 4]"),
        ("\n  x: bfloat16:8,4", "bfloat16[8, 4]"),
    ],
)
def test_inputs_of_a_model(inputs: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("type: Relu", "type: Sequential\nlayers: [{type: Relu}]"):
        (tmp_path / "m.yaml").write_text(f"inputs: {inputs}\n{model}\n")
        status = main(["check", str(tmp_path / "m.yaml"), "--shapes"])
        assert status == 0
        assert shown in capsys.readouterr().out
        assert ModuleConfig.load(tmp_path / "m.yaml") == ModuleConfig.from_yaml(model)
        assert main(["show", str(tmp_path / "m.yaml"), "--svg", str(tmp_path / "m.svg")]) == 0


def test_inputs_of_a_graph_have_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "type: Graph\ninputs: {a: [2, 3], b: [2, 1]}\nnodes: {sum: {type: Add, from: [a, b]}}\n"
    (tmp_path / "m.yaml").write_text(text)
    assert main(["check", str(tmp_path / "m.yaml"), "--shapes"]) == 0
    assert "[2, 3], [2, 1]" in capsys.readouterr().out
    config = ModuleConfig.load(tmp_path / "m.yaml")
    assert isinstance(config, GraphConfig)
    assert config.inputs == ("a", "b")


def test_the_shipped_resnet_needs_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "resnet18_layers", "--shapes"]) == 0
    assert "11,173,962 parameters" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("3", r"f:1:9: inputs: expected sizes, \[8, 3, 32, 32\]"),
        ("[[a]]", r"f:1:10: inputs\.0: expected sizes"),
        ("{x: foo:3}", r"f:1:13: inputs\.x: 'foo:3': unknown element type"),
        ("[-1]", r"f:1:9: inputs: expected sizes"),
    ],
)
def test_wrong_inputs_are_told(inputs: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ModuleConfig.from_yaml(f"inputs: {inputs}\ntype: Relu", "f")
    assert ModuleConfig.from_yaml("type: Relu") == ReluConfig()
