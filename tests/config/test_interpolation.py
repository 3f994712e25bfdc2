"""`${...}` in a config: what is put in, and what is refused where."""

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from burnlike.config import ModuleConfig, apply_overrides
from burnlike.errors import ConfigError
from burnlike.nn import GeluConfig, GraphConfig, ReluConfig

from .samples import Box, Circle, Color, Dot, Everything, Group, Pair


def errors(cls: type, text: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        cls.from_yaml(text, "f", overrides)
    return str(caught.value).split("\n")


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("count: 7\nratio: ${count}", "ratio", 7.0),
        ("ratio: 1e-4\ntext: rate ${ratio}", "text", "rate 1e-4"),
        ("on: true\ntext: '${on}/${maybe}'\nmaybe: null", "text", "true/null"),
        ("text: >-\n  ${count}\n  and ${count}\ncount: 2", "text", "2 and 2"),
        ("sizes: [1, 2]\nanything: ${sizes}", "anything", [1, 2]),
        ("sizes: [1, 2]\ncount: ${sizes[1]}", "count", 2),
        ("sizes: [1, 2]\ncount: ${ sizes.0 }", "count", 1),
        ("sizes: [4, '${sizes[0]}', '${count}']\ncount: 9", "sizes", [4, 4, 9]),
        ("table: {a: 1, b: '${table.a}'}", "table", {"a": 1.0, "b": 1.0}),
        ("box: {type: Box, width: 8}\nshape: ${box}", "shape", Box(width=8)),
        ("shape: {type: '${text}'}\ntext: Dot", "shape", Dot()),
        ("color: ${text}\ntext: red", "color", Color.RED),
        ("anything: ${count}\nmaybe: ${anything}\ncount: ${mixed}\nmixed: 5", "anything", 5),
        ("anything: {a: '${table}'}\nratio: ${anything.a.b}\ntable: {b: 3}", "ratio", 3.0),
        ("text: $${count} $$${x} $x {}", "text", "${count} $${x} $x {}"),
        ("text: a$${b}${count}\ncount: 1", "text", "a${b}1"),
    ],
)
def test_references(text: str, field: str, value: object) -> None:
    config = Everything.from_yaml(text)
    found = getattr(config, field)
    assert found == value
    assert type(found) is type(value)
    assert Everything.from_yaml(config.to_yaml()) == config
    assert Everything.from_dict(config.to_dict()) == config


def test_options_reach_all_that_refers_to_what_they_set() -> None:
    text = "count: 1\nsizes: ['${count}', 2]\nratio: ${sizes[1]}"
    assert Everything.from_yaml(text, overrides=["count=5", "sizes[1]=6"]) == Everything(count=5, sizes=[5, 6], ratio=6)
    assert Everything.from_yaml(text, overrides=["sizes=${anything}", "anything=[3, 4]"]).ratio == 4.0


def test_references_among_the_nodes_of_a_graph() -> None:
    text = """
nodes:
  a: {type: Linear, from: x, d_input: 4, d_output: 8}
  b: {type: Linear, from: a, d_input: "${nodes.a.d_output}", d_output: 3}
"""
    assert GraphConfig.from_yaml(text, overrides=["nodes.a.d_output=9"]).nodes["b"].layer.d_input == 9
    assert GraphConfig.from_yaml(text, overrides=["nodes.b.type=Relu"]).nodes["b"].layer == ReluConfig()
    assert apply_overrides(GraphConfig.from_yaml(text), ["nodes.b.type=Relu"]).nodes["b"].layer == ReluConfig()


def test_references_in_options_and_texts_that_only_look_like_some() -> None:
    config = Everything(count=3, text="${count} $${x}")
    assert apply_overrides(config, ["ratio=${count}"]) == config.replace(ratio=3.0)
    assert Everything.from_dict({"text": "${count}"}).text == "${count}"


def test_environment_variables_only_where_the_file_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"STEPS": "50_000", "RATE": " 1e-4 ", "NAME": "${count}", "EMPTY": "", "BIG": "1e999"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MISSING", raising=False)
    text = "count: ${env:STEPS}\nratio: ${env:RATE}\ntext: in $HOME ${env:NAME}\nmaybe: ${env:EMPTY}"
    expected = Everything(count=50_000, ratio=1e-4, text="in $HOME ${count}", maybe=None)
    assert Everything.from_yaml(text) == expected
    assert Everything.from_yaml("text: ${env:MISSING,a, b}\ncount: ${env:MISSING,3}") == Everything(
        text="a, b", count=3
    )
    assert Everything.from_yaml("count: ${mixed}\nmixed: ${env:STEPS,3}").count == 50_000
    assert errors(Everything, "count: ${env:MISSING}\nratio: ${env:BIG}\non: ${env:STEPS}") == [
        "f:1:8: count: ${env:MISSING}: the environment variable MISSING is not set; set it, or write "
        "${env:MISSING,default}",
        "f:2:8: ratio: ${env:BIG}: its value is too large for a float (the largest is about 1.8e308); write .inf for "
        "infinity",
        "f:3:5: on: expected true or false, got an int from ${env:STEPS}",
    ]


@pytest.mark.parametrize(
    ("text", "d_ff"),
    [
        ("type: VisionTransformer\nd_ff: ${d_model}", 768),
        ("type: VisionTransformer\nd_ff: ${n_heads}\nn_heads: ${n_layers}", 12),
        ("type: Sequential\nlayers: [{type: Relu}, {type: VisionTransformer, d_ff: '${layers[1].n_heads}'}]", 12),
    ],
)
def test_a_mapping_with_a_type_has_the_defaults_that_it_leaves_out(text: str, d_ff: int) -> None:
    config: Any = ModuleConfig.from_yaml(text)
    assert getattr(config, "layers", [config])[-1].d_ff == d_ff


def test_a_default_may_be_a_mapping() -> None:
    text = "type: Sequential\nlayers: [{type: VisionTransformer}, {type: ConvNext, activation: '${layers[0]%s}'}]"
    config: Any = ModuleConfig.from_yaml(text % ".activation")
    assert config.layers[1].activation == GeluConfig()
    assert errors(ModuleConfig, text % ".activation.kind") == [
        "f:2:66: layers.1.activation: ${layers[0].activation.kind}: layers.0.activation has no 'kind'; a reference"
        " finds what is written, and defaults beside `type`: type, approximate"
    ]


def test_a_type_that_is_wrong_itself_has_no_defaults() -> None:
    assert errors(ModuleConfig, "type: ${kind}") == [
        "f:1:7: type: ${kind}: the config has no 'kind'; a reference finds what is written, and defaults beside `type`:"
        " type"
    ]
    unknown, missing = errors(ModuleConfig, "type: VisionTransformr\nd_ff: ${d_model}")
    assert "unknown type 'VisionTransformr'" in unknown
    assert "the config has no 'd_model'" in missing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count: ${ratoi}\nratio: 1", "f:1:8: count: ${ratoi}: the config has no 'ratoi'; did you mean 'ratio'?"),
        (
            "box: {width: 2}\ncount: ${width}",
            "f:2:8: count: ${width}: the config has no 'width'; did you mean 'box.width'?",
        ),
        ("box: {width: 2}\ncount: ${box.wdth}", "f:2:8: count: ${box.wdth}: box has no 'wdth'; did you mean 'width'?"),
        (
            "count: ${zzz}\nmaybe: 3",
            "f:1:8: count: ${zzz}: the config has no 'zzz'; a reference finds what is written, and defaults beside"
            " `type`: count, maybe",
        ),
        (
            "count: ${HOME}",
            "f:1:8: count: ${HOME}: the config has no 'HOME'; an environment variable is ${env:HOME}",
        ),
        (
            "sizes: [1]\ncount: ${sizes[1]}",
            "f:2:8: count: ${sizes[1]}: sizes has no item 1; it is a list of 1 item, counted from 0",
        ),
        ("ratio: 2.5\ncount: ${ratio.x}", "f:2:8: count: ${ratio.x}: ratio is 2.5 (a float), which has no 'x'"),
        ("ratio: 2.5\ncount: ${ratio}", "f:2:8: count: expected an int, got 2.5 (a float) from ${ratio}"),
        ("ratio: 2.5\non: a${ratio}", "f:2:5: on: expected true or false, got 'a2.5' (a string) from a${ratio}"),
        ("count: ${count}", "f:1:8: count: refers to itself: count -> count"),
        ("count: ${maybe}\nmaybe: ${count}", "f:2:8: maybe: refers to itself: count -> maybe -> count"),
        (
            "anything: {a: ['${anything}']}",
            "f:1:16: anything.a.0: refers to itself: anything -> anything.a -> anything.a.0 -> anything",
        ),
        (
            "sizes: [1]\ntext: a ${sizes}",
            "f:2:7: text: ${sizes} is a list of 1 item, which can't stand in a longer text; write it alone",
        ),
        ("text: a ${count", "f:1:7: text: the `${` of '${count' is not closed by `}`; the text `${` itself is `$${`"),
        ("text: ${a${b}}", "f:1:7: text: the `${` of '${a$' is not closed by `}`; the text `${` itself is `$${`"),
        ("text: ${}", "f:1:7: text: ${}: expected ${path.to.a.value}, ${env:NAME} or ${env:NAME,default}"),
        (
            "text: ${oc.env:HOME}",
            "f:1:7: text: ${oc.env:HOME}: expected ${path.to.a.value}, ${env:NAME} or ${env:NAME,default}",
        ),
        ("text: ${env:}", "f:1:7: text: ${env:}: expected ${path.to.a.value}, ${env:NAME} or ${env:NAME,default}"),
        (
            "text: ${.count}",
            "f:1:7: text: ${.count}: a path is keys joined by dots, with indices in brackets: model.layers[2].d_output"
            "; a path begins at the root of the file",
        ),
        ("text: ${a[x]}", "f:1:7: text: ${a[x]}: [x] is no index of a list; expected a number from 0, such as [2]"),
        (
            "sizes: [${count}]",
            'f:1:9: YAML syntax: within { } or [ ] a `${...}` stands in quotes: "${...}"',
        ),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    assert errors(Everything, text) == [message]


def test_a_mistake_is_told_once_and_beside_the_others() -> None:
    assert errors(Everything, "count: ${zzz.a}\nmaybe: ${count}\ntable: {a: '${maybe}'}\nbox: ${maybe}\nonn: 1") == [
        "f:1:8: count: ${zzz.a}: the config has no 'zzz'; a reference finds what is written, and defaults beside"
        " `type`: count, maybe, table, box, onn",
        "f:5:1: onn: unknown key 'onn'; did you mean 'on'?",
    ]
    assert errors(Pair, "first: {type: '${x}'}\nsecond_value: ${first}")[0].startswith("f:1:15: first.type: ${x}: ")


def test_a_mapping_that_is_referred_to_is_wrong_in_its_own_lines() -> None:
    text = "first: {type: Group, members: ['${first.frame}'], frame: {type: Box, width: 0}}\nsecond_value: 1"
    place = "f:1:77"
    assert errors(Pair, text) == [
        f"{place}: first.members.0.width: expected an int from 1 to 64, got 0",
        f"{place}: first.frame.width: expected an int from 1 to 64, got 0",
    ]
    rule = "first: {type: Box, width: 4, height: '${second_value}'}\nsecond_value: 6"
    assert errors(Pair, rule) == ["f:1:38: first.height: expected at most width (4), got 6"]


@pytest.mark.parametrize(
    "text",
    [
        "a0: [1, 1, 1]\n" + "".join(f"a{i + 1}: ['${{a{i}}}', '${{a{i}}}', '${{a{i}}}']\n" for i in range(40)),
        "a0: some text\n" + "".join(f"a{i + 1}: {f'${{a{i}}}' * 4}\n" for i in range(40)),
        f"a: {'x' * 1_000_000}\nb: {'${a}' * 100_000}",
        "".join(f"a{i}: ${{a{i + 1}}}\n" for i in range(5000)),
        "a0: 1\n" + "".join(f"a{i + 1}: ['${{a{i}}}']\n" for i in range(5000)),
        "".join(f"a{i}: {'[' * 62}'${{a{i + 1}}}'{']' * 62}\n" for i in range(500)),
        "".join(f"a{i}: {{b: '${{a{i + 1}.b}}'}}\n" for i in range(2000)),
    ],
)
def test_references_that_blow_up_are_refused_at_once(text: str) -> None:
    begin = time.process_time()
    found = "\n".join(errors(Everything, "anything:\n" + "".join(f"  {line}\n" for line in text.splitlines())))
    found += "\n".join(errors(Everything, text))
    assert "100000 values" in found or "64 levels" in found or "4 MiB of text" in found or "nested deeper than" in found
    assert time.process_time() - begin < 10


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["$", "{", "}", "count", "sizes", "[", "0", "]", ".", "env:", "A", ",", " ", "'"])))
def test_any_text_is_put_in_or_refused_where_it_stands(parts: list[str]) -> None:
    text = "".join(parts)
    assert Everything.from_yaml(Everything(text=text).to_yaml()).text == text
    quoted = text.replace("'", "''")
    places = []
    try:
        Everything.from_yaml(f"count: 1\nsizes: [2]\ntext: '{quoted}'")
    except ConfigError as error:
        places = [(problem.line, problem.column, problem.path) for problem in error.problems]
    assert places in ([], [(3, 7, "text")])


def test_files_keep_the_references_and_saved_configs_are_resolved(tmp_path: Path) -> None:
    text = "first: {type: Group, members: [{type: Circle, radius: 2}, '${first.members[0]}']}\n"
    (tmp_path / "f.yaml").write_text(text + "second_value: ${first.members[0].radius}\n")
    config = Pair.load(tmp_path / "f.yaml")
    assert config == Pair(first=Group(members=[Circle(radius=2), Circle(radius=2)]), second_value=2)
    config.save(tmp_path / "saved.yaml")
    assert "$" not in (tmp_path / "saved.yaml").read_text()
    assert Pair.load(tmp_path / "saved.yaml") == config
