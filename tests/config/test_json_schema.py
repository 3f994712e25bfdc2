import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings

from burnlike.config import Config, ModuleConfig
from burnlike.config.document import parse, parse_plain
from burnlike.config.json_schema import json_schema
from burnlike.errors import ConfigError
from burnlike.train.job.configs import TrainConfig

from .samples import Circle, Everything, Shape
from .schema_validator import is_valid
from .test_document import plain
from .test_emit import everything
from .test_read import ONE_MISTAKE

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("**/*.yaml"))
NOT_IN_A_SCHEMA = {
    *("float for int", "exponent for int", "choice of another type"),  # 3.0 is an integer there
    *("rule", "rule about a default", "int too large for float"),
}


def test_shipped_configs_are_valid():
    assert CONFIGS
    schema, of_module = json_schema(TrainConfig), json_schema(ModuleConfig)
    for path in CONFIGS:
        value = plain(parse(path.read_text(), str(path))[0])
        if "type" in value:
            assert is_valid(value, of_module, of_module), path
            assert not is_valid(value | {"layerz": []}, of_module, of_module)
            continue
        assert is_valid(value, schema, schema), path
        assert not is_valid(value | {"modle": 1}, schema, schema)
        assert not is_valid(value | {"model": value["model"] | {"type": "AdamW"}}, schema, schema)
        assert not is_valid({key: value[key] for key in value if key != "model"}, schema, schema)


def test_a_node_of_a_graph_has_the_keys_of_its_layer_and_its_own():
    schema = json_schema(ModuleConfig)
    for node, right in (
        ({"type": "Linear", "d_input": 2, "d_output": 3, "from": "x"}, True),
        ({"type": "Linear", "d_input": 2, "d_output": 3}, True),
        ({"use": "other", "from": ["x", "other"]}, True),
        ({"type": "Linear", "d_input": 2, "from": "x"}, False),
        ({"type": "Linear", "d_input": 2, "d_output": 3, "form": "x"}, False),
        ({"type": "AdamW", "from": "x"}, False),
        ({"use": "other", "from": 3}, False),
    ):
        assert is_valid({"type": "Graph", "nodes": {"a": node}}, schema, schema) == right, node


@settings(derandomize=True, max_examples=60, deadline=None)
@given(everything)
def test_what_a_config_writes_is_valid(config):
    schema = json_schema(Everything)
    assert is_valid(config.to_dict(), schema, schema)


@pytest.mark.parametrize("case", sorted(ONE_MISTAKE.keys() - NOT_IN_A_SCHEMA))
def test_what_the_reader_refuses_is_invalid(case):
    text = ONE_MISTAKE[case][0]
    with pytest.raises(ConfigError):
        Everything.from_yaml(text)
    schema = json_schema(Everything)
    assert not is_valid(plain(parse(text, "f")[0]), schema, schema)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("count: ${maybe}", True),
        ("count: maybe", False),
        ("on: ${env:ON,true}\nmode: ${env:MODE}\ncolor: a ${count}", True),
        ("shape: ${box}\nbox: {width: '${count}'}\nsizes: ['${count}', 1]\ntable: {a: '${count}'}", True),
        ("sizes: ['${count}', {}]", False),
        ("sizes: [a, 1]", False),
        ("count: '50_000'", True),  # as other readers than ours see the number 50_000
        ("ratio: '50_000'", True),
        ("count: '50_'", False),
        ("on: '50_000'", False),
        ("code: ${text}", True),
        ("defaults: base.yaml\nshape: {radius: 2}", True),
        ("defaults: [a.yaml, char_gpt]\nbox: {height: 4}", True),
        ("defaults: a.yaml\nshape: {radius: x}", False),
        ("defaults: a.yaml\nshape: {radus: 2}", False),
        ("defaults: a.yaml\nshape: {type: Dot, radius: 2}", False),
        ("defaults: 3", False),
        ("shape: {radius: 2}", False),
        ("box: {height: 4}", False),
        ("shape: {type: Dot, defaults: a.yaml}", False),
    ],
)
def test_references_and_defaults(text, valid):
    schema = json_schema(Everything)
    value = parse_plain(text, "f")
    assert is_valid(value, schema, schema) == valid


def test_a_role_needs_a_type_and_a_class_does_not():
    circle, shape = json_schema(Circle), json_schema(Shape)
    assert is_valid({"radius": 1}, circle, circle)
    assert is_valid({"type": "Circle", "radius": 1}, shape, shape)
    assert not is_valid({"radius": 1}, shape, shape)
    assert not is_valid({"type": "Dot", "radius": 1}, circle, circle)


def test_docstrings_and_defaults_are_for_the_editor_to_show():
    circle = json_schema(Circle)["definitions"]["Circle"]
    assert circle["description"] == "A shape with a range."
    assert circle["properties"]["radius"] == {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"$ref": "#/definitions/Reference"},
            {"$ref": "#/definitions/Digits"},
        ],
        "description": "in metres, and this note goes on in a second line.",
    }
    assert circle["properties"]["name"]["default"] == "circle"
    assert circle["required"] == ["radius"]
    assert circle["additionalProperties"] is False


class Unbounded(Config):
    limit: float = math.inf
    factors: tuple[float, ...] = (1.0, math.nan)


@pytest.mark.parametrize("cls", [TrainConfig, Unbounded])
def test_it_is_json(cls):
    schema = json_schema(cls)
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema


@pytest.mark.parametrize("cls", [TrainConfig, ModuleConfig])
def test_it_is_small(cls):
    assert len(json.dumps(json_schema(cls))) < 800_000


@pytest.mark.parametrize(
    ("model", "valid"),
    [
        ({"from": "net.yaml"}, True),
        ({"from": "net.yaml", "dropout": 0.2}, True),
        ({"from": ""}, False),
        ({"from": "${env:NET}"}, False),
        ({"from": ["a.yaml", "b.yaml"]}, False),
        ({"form": "net.yaml"}, False),
        ({"dropout": 0.2}, False),
    ],
)
def test_the_model_of_a_training_may_be_of_another_file(tmp_path, model, valid):
    """As the reader has it."""
    schema = json_schema(TrainConfig)
    training = {
        "data": {"type": "Digits", "flat": True},
        "model": model,
        "task": {"type": "Classification"},
        "optimizer": {"type": "AdamW"},
        "training": {"epochs": 1, "batch_size": 8},
    }
    (tmp_path / "net.yaml").write_text("type: Mlp\nsizes: [64, 10]\n")
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(training))
    assert is_valid(training, schema, schema) == valid
    if valid:
        assert TrainConfig.load(file).model.sizes == (64, 10)
    else:
        with pytest.raises(ConfigError):
            TrainConfig.load(file)
    # What else is under `defaults` is of the other files.
    assert is_valid({"defaults": "base.yaml", "model": model}, schema, schema) == (valid or model == {"dropout": 0.2})
    of_model = json_schema(ModuleConfig)
    assert not is_valid(model, of_model, of_model)


def test_names_of_layers_and_nodes_are_checked():
    schema = json_schema(ModuleConfig)
    relu = {"type": "Relu"}
    for name, right in (("stem", True), ("2nd", False), ("a.b", False), ("train", False), ("forward", False)):
        assert is_valid({"type": "Sequential", "layers": {name: relu}}, schema, schema) == right
        assert is_valid({"type": "Graph", "nodes": {name: relu}}, schema, schema) == right


def test_anchors_and_inputs_stand_at_the_root():
    schema, of_training = json_schema(ModuleConfig), json_schema(TrainConfig)
    relu = {"type": "Relu"}
    for inputs in ([8, 3], [[8, 3], "int64:8"], {"x": [8, 3]}, "8,3"):
        assert is_valid({"type": "Sequential", "layers": [relu], "inputs": inputs, "x-a": {"b": 1}}, schema, schema)
    assert is_valid({"type": "Graph", "inputs": {"x": [8, 3]}, "nodes": {"a": relu}}, schema, schema)
    assert not is_valid({"type": "Sequential", "layers": [relu], "inputs": {"x": "a", "y": 2}}, schema, schema)
    training = parse_plain(CONFIGS[1].read_text(), "f")
    assert is_valid(training | {"x-conv": [1]}, of_training, of_training)
