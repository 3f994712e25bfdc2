"""Configs as they are written: YAML, and Burn's config.json."""

import math
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import pytest
import torch
import yaml
from hypothesis import example, given, settings, strategies as st

import burnlike as bl
from burnlike import nn, optim
from burnlike.config import Config, Meta, ModuleConfig
from burnlike.config.burn_json import to_burn_json
from burnlike.config.document import parse
from burnlike.config.emit import to_yaml
from burnlike.config.registry import fields_of, is_role, load_built_in, parts_below
from burnlike.config.shipped import shipped_configs, shipped_jobs
from burnlike.errors import ArgumentError, ConfigError, DeviceError
from burnlike.nn.initializers.configs import Initializer, KaimingUniform, Zeros
from burnlike.nn.roles import ActivationConfig, NormalizationConfig
from burnlike.train import TrainConfig

from ..nn.cases import CASES
from .samples import Box, Circle, Color, Dot, Everything, Group, Sound
from .test_document import plain
from .test_shipped import descendants

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.sampled_from(
    [
        "no",
        "1e-4",
        "50_000",
        "0777",
        "~",
        "",
        " a",
        "a ",
        "a\nb\n",
        "\n",
        "- a",
        "a: b",
        "#a",
        "12:30:00",
        "<<",
        "=",
        "!x",
    ]
)
floats = st.floats(allow_nan=False)
keys = texts
data = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
boxes = st.builds(Box, width=st.integers(2, 64))
shapes = st.recursive(
    st.just(Dot()) | boxes | st.builds(Circle, radius=st.floats(0, exclude_min=True), name=texts),
    lambda inner: st.builds(Group, members=st.lists(inner, min_size=1, max_size=3), frame=st.none() | boxes),
    max_leaves=6,
)
everything = st.builds(
    Everything,
    count=st.integers(-(10**30), 10**30),
    ratio=floats,
    on=st.booleans(),
    text=texts,
    maybe=st.none() | st.integers(0),
    mode=st.sampled_from(["slow", "fast", 3]),
    color=st.sampled_from(list(Color)),
    sizes=st.lists(st.integers(), max_size=5),
    betas=st.tuples(floats, floats),
    tags=st.lists(texts, max_size=2),
    table=st.dictionaries(texts, floats, max_size=4),
    mixed=st.integers() | floats | texts | st.lists(st.integers(), max_size=3),
    anything=data,
    shape=shapes,
    box=st.none() | boxes,
)


def types_of(value):
    if isinstance(value, Config):
        return {name: types_of(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: types_of(item) for key, item in value.items()}
    return [types_of(item) for item in value] if isinstance(value, list | tuple) else type(value)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(everything)
def test_a_config_written_and_read_is_the_same(config):
    again = Everything.from_yaml(config.to_yaml())
    assert again == config
    assert types_of(again) == types_of(config)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(texts)
@example("\ufeff")
@example("\x85\u2028")
@example("a\tb\n c\n")
@example("\x00\x1b")
@example("9" * 500)
def test_any_string_survives(text):
    node, problems = parse(to_yaml({"a": text, "b": {text: [text]}}), "f")
    assert not problems
    assert plain(node) == {"a": text, "b": {text: [text]}}


def test_floats_survive_to_the_last_bit():
    numbers = random.Random(0)
    values = [math.ldexp(numbers.random(), numbers.randrange(-1070, 1023)) for _ in range(2000)]
    values += [0.1, 1e16, 1e-5, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, -0.0]
    found = plain(parse(to_yaml(values), "f")[0])
    assert [value.hex() for value in found] == [value.hex() for value in values]
    assert math.isnan(plain(parse(to_yaml([math.nan]), "f")[0])[0])


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1e-5, "b": [1e300, 0.5, 3], "c": ["no", "on", "12:30:00", "2024-01-31", "1_0", "~", "0x1"]},
        {"no": {"1": "x", "true": None}, "empty": {}, "none": []},
    ],
)
def test_other_yaml_readers_see_the_same(value):
    assert yaml.safe_load(to_yaml(value)) == value


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.dictionaries(texts, data, max_size=5))
def test_a_reader_of_yaml_1_1_sees_the_same(value):
    assert yaml.safe_load(to_yaml(value)) == value


def test_the_text_is_for_people():
    config = Group(members=[Circle(radius=1e-4, name="1e-4"), Dot()], frame=Box(width=3))
    assert config.to_yaml() == (
        "type: Group\n"
        "members:\n"
        "  - type: Circle\n"
        "    radius: 0.0001\n"
        "    name: '1e-4'\n"
        "  - type: Dot\n"
        "frame:\n"
        "  type: Box\n"
        "  width: 3\n"
        "  height: 2\n"
    )
    assert to_yaml({"text": "two\nlines\n", "line": "one\n", "list": [1, 0.5], "u": "ä"}) == (
        'text: |\n  two\n  lines\nline: "one\\n"\nlist: [1, 0.5]\nu: ä\n'
    )


def test_a_value_used_twice_is_written_twice():
    sound = Sound().to_dict()
    assert "&" not in to_yaml({"a": sound, "b": sound})


OF_BURN: dict[str, tuple[type[Config], str, Config]] = {
    "LinearConfig": (
        nn.LinearConfig,
        """{
  "d_input": 4,
  "d_output": 3,
  "bias": true,
  "initializer": {
    "KaimingUniform": {
      "gain": 1.0,
      "fan_out_only": false
    }
  },
  "layout": "Row"
}
""",
        nn.LinearConfig(d_input=4, d_output=3, initializer=KaimingUniform(gain=1.0)),
    ),
    "Conv1dConfig": (
        nn.Conv1dConfig,
        """{"channels_in": 2, "channels_out": 3, "kernel_size": 3, "stride": 1, "dilation": 1, "groups": 1,
        "padding": {"Explicit": [1, 1]}, "bias": true, "initializer": "Zeros"}""",
        nn.Conv1dConfig(channels_in=2, channels_out=3, kernel_size=3, padding=(1, 1), initializer=Zeros()),
    ),
    "SgdConfig": (
        optim.SgdConfig,
        """{"weight_decay": {"penalty": 0.1}, "momentum": null, "gradient_clipping": {"Norm": 1.0}}""",
        optim.SgdConfig(weight_decay=0.1, grad_clipping=optim.ClipByNorm(threshold=1.0)),
    ),
    "SgdConfig of nothing": (
        optim.SgdConfig,
        """{"weight_decay": null, "momentum": null, "gradient_clipping": null}""",
        optim.SgdConfig(),
    ),
    "PositionWiseFeedForwardConfig": (
        nn.PositionWiseFeedForwardConfig,
        """{"d_model": 4, "d_ff": 8, "dropout": 0.1, "initializer": "Ones", "activation": "GeluApproximate"}""",
        nn.PositionWiseFeedForwardConfig(
            d_model=4, d_ff=8, initializer=nn.Ones(), activation=nn.GeluConfig(approximate=True)
        ),
    ),
    "ShrinkConfig": (nn.ShrinkConfig, """{"lambda": 0.25, "bias": 0.5}""", nn.ShrinkConfig(lambd=0.25)),
    "a schedule of schedules": (
        optim.ComposedLrConfig,
        """{"schedulers": [{"Constant": 0.5}, {"Step": {"initial_lr": 0.1, "step_size": 2, "gamma": 0.1}}],
        "reduction": "Avg"}""",
        optim.ComposedLrConfig(
            schedulers=[optim.ConstantLrConfig(lr=0.5), optim.StepLrConfig(initial_lr=0.1, step_size=2)],
            reduction="avg",
        ),
    ),
    "LBFGSConfig": (
        optim.LbfgsConfig,
        """{"max_iter": 20, "history_size": 100, "tolerance_grad": 1e-7, "tolerance_change": 1e-9, "max_eval": null,
        "line_search_fn": "None"}""",
        optim.LbfgsConfig(),
    ),
}


@pytest.mark.parametrize("name", OF_BURN)
def test_burns_file_is_read_and_written_again(name: str, tmp_path: Path) -> None:
    kind, text, expected = OF_BURN[name]
    path = tmp_path / "config.json"
    path.write_text(text)
    assert kind.load(path) == expected
    expected.save(path)
    assert path.read_text() == text or name != "LinearConfig"
    assert kind.load(path) == expected


class NetConfig(Config):
    layers: list[nn.LinearConfig]
    activation: ActivationConfig
    initializer: Initializer = Zeros()


def test_a_program_s_own_config_has_burns_in_it(tmp_path: Path) -> None:
    path = tmp_path / "net.JSON"
    config = NetConfig(layers=[nn.LinearConfig(4, 3)], activation=nn.EluConfig(alpha=0.5))
    config.save(path)
    assert '"activation": {\n    "Elu": {\n      "alpha": 0.5' in path.read_text()
    assert NetConfig.load(path) == config
    assert NetConfig.load(path, ["layers.0.bias=false"]).layers[0].bias is False
    path.write_text('{"layers": [], "activation": {"type": "Relu"}}')  # as YAML has it
    assert NetConfig.load(path).activation == nn.ReluConfig()


class FieldsConfig(Config):
    """Configs in every kind of field."""

    by_name: dict[str, nn.LinearConfig]
    activations: dict[str, ActivationConfig]
    lists: dict[str, list[nn.LinearConfig]]
    pair: tuple[nn.LinearConfig, Literal["first_of", "last"], Initializer]
    nested: list[list[Initializer]]
    rows: Annotated[tuple[ActivationConfig, ...], Meta(min_length=1)]
    models: list[ModuleConfig] | dict[str, ModuleConfig]
    maybe: NormalizationConfig | None = None
    either: Box | Circle = Circle(radius=0.5)
    colors: tuple[Color, ...] = (Color.RED,)
    mode: Literal["auto"] | str = "Auto"
    num_iters: int | None = None
    text: str = "\x7f\x85\u2028${a.b}"


class Block2dConfig(Config):
    stride: int | None = None
    kernel_size: int = 3


FIELDS = FieldsConfig(
    by_name={"a": nn.LinearConfig(2, 2, layout="col")},
    activations={"a": nn.GeluConfig(approximate=True), "b": nn.ReluConfig(), "type": nn.EluConfig(alpha=0.5)},
    lists={"a": [nn.LinearConfig(2, 2)], "b": []},
    pair=(nn.LinearConfig(2, 2), "first_of", KaimingUniform(gain=1.0)),
    nested=[[Zeros()], [], [KaimingUniform()]],
    rows=(nn.SwiGluConfig(2, 2),),
    models={"layer": nn.LinearConfig(2, 2), "graph": nn.GraphConfig(nodes={"a": nn.ReluConfig()})},  # pyright: ignore
    maybe=nn.RmsNormConfig(d_model=4),
    either=Circle(radius=1.0),
)
LINEAR = nn.LinearConfig(2, 2)
OWN: list[Config] = [
    FIELDS,
    FIELDS.replace(models=[nn.SequentialConfig(layers={"a": LINEAR, "b": nn.ReluConfig()})], maybe=None, either=Box(3)),
    Block2dConfig(),
    nn.GraphConfig(
        inputs=("x", "y"),
        nodes={
            "a": nn.NodeConfig(layer=LINEAR, sources="x"),
            "b": nn.NodeConfig(use="a", sources="y"),
            "c": nn.NodeConfig(layer=nn.AddConfig(), sources=["a", "b"]),
        },
        outputs=("a", "c"),
    ),
]


SIZES = ("kernel_size", "output_size", "scale_factor")


def with_defaults() -> Iterator[Config]:
    load_built_in()
    for cls in descendants(Config):
        is_ours = cls.__module__.startswith("burnlike.") and not (is_role(cls) or cls.__name__.startswith("_"))
        if is_ours and not any(field.required for field in fields_of(cls).values()):
            with suppress(ConfigError):  # of two fields one has to be given
                yield cls()


def test_every_config_that_is_saved_as_json_is_read_again(tmp_path: Path) -> None:
    shipped = [
        (TrainConfig if name in shipped_jobs() else ModuleConfig).load(path) for name, path in shipped_configs().items()
    ]
    path, read, refused = tmp_path / "config.json", 0, set[str]()
    for config in [*OWN, *(case.config for case in CASES), *with_defaults(), *shipped]:
        kind: Any = type(config)
        try:
            text = to_burn_json(config)
        except ConfigError as error:
            refused.add(str(error).partition("; ")[0].partition(": ")[2])
            continue
        path.write_text(text)
        again = kind.load(path)
        # Burn has the sizes of some layers once for each dimension.
        assert again == config or any(f'"{name}":' in text for name in SIZES), kind
        assert to_burn_json(again) == text
        read += 1
    assert read > 400
    assert refused == {
        "p: JSON has no inf",
        "lr_scheduler.num_iters: Burn's needs the number of steps",
        "optimizer.groups: Burn's OptimizerGroupsConfig has no such option, and would pass over it",
    }


@settings(derandomize=True, max_examples=100, deadline=None)
@given(everything)
def test_any_values_survive_in_json(config: Any) -> None:
    if any(not math.isfinite(part) for _, _, part in parts_below(config) if isinstance(part, float)):
        with pytest.raises(ConfigError, match="JSON has no"):
            to_burn_json(config)
        return
    with TemporaryDirectory() as folder:
        path = Path(folder, "config.json")
        path.write_text(to_burn_json(config), "utf-8")
        again = Everything.load(path)
    assert again == config
    assert types_of(again) == types_of(config)


def test_what_an_environment_variable_gave_is_written_as_its_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAME_OF_IT", "secret")
    (tmp_path / "c.yaml").write_text("text: ${env:NAME_OF_IT}")
    config = Everything.load(tmp_path / "c.yaml")
    config.save(tmp_path / "c.json")
    assert "secret" not in (tmp_path / "c.json").read_text()
    assert Everything.load(tmp_path / "c.json") == config


def test_a_role_says_which_class_reads_burns_form(tmp_path: Path) -> None:
    nn.SequentialConfig(layers=[LINEAR]).save(tmp_path / "n.json")
    with pytest.raises(ConfigError, match=r"missing key 'type'.*; Burn's form has none here: load it by its class"):
        ModuleConfig.load(tmp_path / "n.json")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (optim.AdamConfig(maximize=True), r"AdamConfig: maximize: Burn's AdamConfig has no such option"),
        (optim.MuonConfig(grad_clipping=optim.ClipByNorm(threshold=1.0)), "MuonConfig: grad_clipping: Burn's"),
        (optim.CosineAnnealingConfig(0.1), "num_iters: Burn's needs the number of steps"),
    ],
)
def test_what_burn_would_pass_over_is_not_written(config: Config, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        config.save(tmp_path / "config.json")
    assert not (tmp_path / "config.json").exists()
    config.save(tmp_path / "config.yaml")


def test_mistakes_in_burns_form_have_their_places(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"d_input": 4,\n "d_output": 3,\n "initializer": {"KaimingUniform": {"gain": "x"}}}')
    with pytest.raises(ConfigError, match=r"config\.json:3:45: initializer\.gain: expected a finite number"):
        nn.LinearConfig.load(path)
    path.write_text('{"d_input": 4, "d_output": 3, "initializer": {"Kaiming": {}}}')
    with pytest.raises(ConfigError, match="initializer"):
        nn.LinearConfig.load(path)
    path.write_text('{"d_input": 4, "d_output": 3, "layout": "Diagonal"}')
    with pytest.raises(ConfigError, match="layout: expected 'col' or 'row', got 'Diagonal'"):
        nn.LinearConfig.load(path)


def test_required_fields_by_position_in_burns_order() -> None:
    assert nn.LinearConfig(4, 3, bias=False) == nn.LinearConfig(d_input=4, d_output=3, bias=False)
    assert nn.Conv2dConfig((1, 8), (3, 3)) == nn.Conv2dConfig(channels=(1, 8), kernel_size=(3, 3))
    assert optim.CosineAnnealingConfig(0.1, 10).num_iters == 10
    assert optim.LinearLrConfig(0.1, 0.01, 10) == optim.LinearLrConfig(initial_lr=0.1, final_lr=0.01, num_iters=10)
    for make, message in (
        (
            lambda: nn.LinearConfig(4, 3, False),
            r"at most 2 values by position \(d_input, d_output\), got 3; give by name",
        ),
        (lambda: nn.LinearConfig(4, d_input=3), "d_input is given by position and by name"),
        (lambda: nn.ReluConfig(3), "ReluConfig: expected at most 0 values by position, got 1"),
    ):
        with pytest.raises(TypeError, match=message):
            make()
    with pytest.raises(ConfigError, match="d_output: expected an int"):
        nn.LinearConfig(4, "x")  # pyright: ignore


def test_a_backend_stands_for_its_device() -> None:
    assert nn.LinearConfig(4, 3).init(bl.Cpu()).weight.device.type == "cpu"
    with pytest.raises(DeviceError, match="would be passed over"):
        nn.LinearConfig(4, 3).init(bl.Cpu(float=torch.bfloat16))


def test_layers_without_a_config_have_the_defaults() -> None:
    names = [it for it in dir(nn) if f"{it}Config" in dir(nn) and it not in ("Activation", "Normalization")]
    made = 0
    for name in names:
        layer, config = getattr(nn, name), getattr(nn, f"{name}Config")
        if any(field.required for field in bl.config.registry.fields_of(config).values()) or "Interpolate" in name:
            continue  # of size and factor one has to be given
        assert str(bl.module.display(layer())) == str(bl.module.display(config().init()))
        made += 1
    assert made > 50


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(4, 3), r"expected a LinearConfig, got 4; write LinearConfig\(d_input, d_output\)\.init"),  # pyright: ignore
        (lambda: nn.Dropout(0.5), r"expected a DropoutConfig, got 0\.5"),  # pyright: ignore
        (lambda: nn.CrossEntropyLoss(3), "expected a CrossEntropyLossConfig, got 3"),  # pyright: ignore
        (lambda: nn.SwiGlu(None), "expected a GatedLinearConfig or SwiGluConfig, got None"),  # pyright: ignore
    ],
)
def test_what_is_no_config_is_refused_with_what_to_write(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()
    assert nn.CrossEntropyLoss(None, "cpu").pad_tokens is None  # pyright: ignore
