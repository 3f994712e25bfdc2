"""`defaults:` and `${...}` in a config's file: what is put in, and what is refused where."""

import time
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings, strategies as st

from burnlike.config import Config, ModuleConfig, apply_overrides
from burnlike.config.shipped import shipped_configs
from burnlike.errors import ConfigError, Problem
from burnlike.nn import GeluConfig, GraphConfig, ReluConfig
from burnlike.train.job.configs import TrainConfig

from .samples import Box, Circle, Color, Dot, Everything, Group, Pair, Shape

C = TypeVar("C", bound=Config)


class Room:
    """A folder of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.folder / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def load(self, cls: type[C], name: str, *overrides: str) -> C:
        return cls.load(self.folder / f"{name}.yaml", overrides)

    def errors(self, cls: type[Config], name: str, *overrides: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.load(cls, name, *overrides)
        return [str(problem).replace(f"{self.folder}/", "") for problem in caught.value.problems]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_mappings_are_merged_and_all_else_is_replaced(room: Room) -> None:
    room.write(
        base="count: 1\nsizes: [1, 2, 3]\ntable: {a: 1, b: 2}\nshape: {type: Circle, radius: 2, name: x}\nmaybe: 4",
        main="defaults: base.yaml\nsizes: [9]\ntable: {b: 5, c: 6}\nshape: {radius: 3}\nmaybe: null\n",
    )
    assert room.load(Everything, "main") == Everything(
        count=1, sizes=[9], table={"a": 1, "b": 5, "c": 6}, shape=Circle(radius=3, name="x"), maybe=None
    )
    assert room.load(Everything, "main", "table.a=7", "shape.name=y").table == {"a": 7, "b": 5, "c": 6}


def test_files_are_merged_in_order_and_paths_are_relative_to_the_file(room: Room) -> None:
    room.write(
        one="count: 1\nratio: 1\ntext: one",
        sub__two="defaults: [deeper/three.yaml]\ncount: 2\nratio: 2",
        sub__deeper__three="defaults: ../../one.yaml\nmaybe: 3\ncount: 3",
        main="defaults:\n  - one.yaml\n  - sub/two.yaml\ncount: 4\n",
    )
    assert room.load(Everything, "main") == Everything(count=4, ratio=2, text="one", maybe=3)
    assert room.load(Everything, "sub/two") == Everything(count=2, ratio=2, text="one", maybe=3)


def test_a_changed_type_drops_the_keys_that_it_lacks(room: Room) -> None:
    room.write(
        base="first: {type: Circle, radius: 2, name: x}\nsecond_value: 1",
        dot="defaults: base.yaml\nfirst: {type: Dot}",
        box="defaults: dot.yaml\nfirst: {type: Box, width: 3}",
        same="defaults: base.yaml\nfirst: {type: Circle, name: y}",
        wrong="defaults: base.yaml\nfirst: {type: Dot, radius: 4}",
    )
    assert room.load(Pair, "dot").first == Dot()
    assert room.load(Pair, "box").first == Box(width=3)
    assert room.load(Pair, "same").first == Circle(radius=2, name="y")
    assert room.load(Pair, "box", "first.type=Circle").first == Circle(radius=2, name="x")
    assert room.load(Pair, "dot", "first.type=Box", "first.width=5").first == Box(width=5)
    assert room.errors(Pair, "wrong") == ["wrong.yaml:2:20: first.radius: unknown key 'radius'; Dot has no keys"]


def test_values_keep_the_place_of_their_file(room: Room) -> None:
    room.write(
        base="# a comment\nfirst: {type: Box, width: 99}\nsecond: 1",
        main="defaults: base.yaml\n\nfirst: {height: 3}\nsecond_value: x",
    )
    assert room.errors(Pair, "main") == [
        "base.yaml:2:27: first.width: expected an int from 1 to 64, got 99",
        "base.yaml:3:1: second: unknown key 'second'; did you mean 'second_value'?",
        "main.yaml:3:17: first.height: expected an int >= 1 that is a multiple of 2, got 3",
        "main.yaml:4:15: second_value: expected an int >= 0, got 'x' (a string)",
    ]
    with pytest.raises(ConfigError) as caught:
        room.load(Pair, "main")
    assert caught.value.problems[0] == Problem(
        "expected an int from 1 to 64, got 99", "first.width", str(room.folder / "base.yaml"), 2, 27
    )


def test_references_see_the_merged_values(room: Room) -> None:
    room.write(base="count: 1\nratio: ${count}\ntext: n ${maybe}", main="defaults: base.yaml\ncount: 5\nmaybe: 6")
    assert room.load(Everything, "main") == Everything(count=5, ratio=5, text="n 6", maybe=6)
    assert room.load(Everything, "main", "count=7").ratio == 7


def test_an_option_may_set_a_value_of_another_file_again(room: Room) -> None:
    room.write(base="count: 1", main="defaults: base.yaml\ncuont: 2\n")
    assert room.errors(Everything, "main") == ["main.yaml:2:1: cuont: unknown key 'cuont'; did you mean 'count'?"]


def test_a_shipped_config_by_name_and_a_file_of_that_name_first(room: Room) -> None:
    room.write(main="defaults: char_gpt\nmodel: {d_model: 64}\noptimizer: {type: Sgd}")
    shipped = TrainConfig.load(shipped_configs()["char_gpt"])
    config = room.load(TrainConfig, "main")
    assert config.replace(model=shipped.model, optimizer=shipped.optimizer) == shipped
    assert config.model.to_dict() == {**shipped.model.to_dict(), "d_model": 64}
    assert config.optimizer.to_dict()["weight_decay"] == 0.1
    (room.folder / "char_gpt").write_text("seed: 3")
    assert "missing key 'data'" in room.errors(TrainConfig, "main")[0]


def test_what_is_saved_stands_alone(room: Room, tmp_path: Path) -> None:
    room.write(base="first: {type: Group, members: [{type: Dot}]}", main="defaults: base.yaml\nsecond_value: 2")
    config = room.load(Pair, "main")
    (tmp_path / "elsewhere").mkdir()
    config.save(tmp_path / "elsewhere" / "saved.yaml")
    assert "defaults" not in (tmp_path / "elsewhere" / "saved.yaml").read_text()
    assert Pair.load(tmp_path / "elsewhere" / "saved.yaml") == config
    assert config == Pair(first=Group(members=[Dot()]), second_value=2)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"main": "defaults: main.yaml"}, "main.yaml:1:11: defaults: a file can't have itself under its defaults: "),
        (
            {"main": "count: 1\ndefaults: [a.yaml]", "a": "defaults: [b.yaml]", "b": "defaults: ./main.yaml"},
            "b.yaml:1:11: defaults: a file can't have itself under its defaults: main.yaml -> a.yaml -> b.yaml -> ",
        ),
        ({"main": "defaults: nope.yaml"}, "main.yaml:1:11: defaults: nope.yaml: no such file; check the path"),
        ({"main": "defaults: [bse.yaml]", "base": ""}, "main.yaml:1:12: defaults.0: bse.yaml: no such file; did you "
         "mean 'base.yaml'?"),
        ({"main": "defaults: base", "base": ""}, "main.yaml:1:11: defaults: base: no such file; did you "
         "mean 'base.yaml'?"),
        ({"main": "defaults: char_gtp"}, "main.yaml:1:11: defaults: char_gtp: no such file; did you mean 'char_gpt'?"),
        ({"main": 'defaults: "a\\nb"'}, "main.yaml:1:11: defaults: a\\nb: no such file; check the path"),
        ({"main": "defaults: ."}, "main.yaml:1:11: defaults: .: is a directory; give the path of a YAML file"),
        ({"main": "defaults: 3"}, "main.yaml:1:11: defaults: expected the path of a YAML file, the name of a shipped "
         "config, or a list of such; got 3 (an int)"),
        ({"main": "defaults: {a: b}"}, "main.yaml:1:11: defaults: expected the path of a YAML file, the name of a "
         "shipped config, or a list of such; got a mapping"),
        ({"main": "defaults:\n  - ${env:HOME}/x.yaml"}, "main.yaml:2:5: defaults.0: expected the path of a YAML file, "
         "the name of a shipped config, or a list of such; `${...}` can't be used here"),
        ({"main": "defaults: a.yaml", "a": "- 1"}, "a.yaml:1:1: expected a mapping of `key: value`, got a list of 1 "
         "item"),
        ({"main": "defaults: a.yaml", "a": "x: [1"}, "a.yaml:1:4: this '[' is not closed"),
        ({"main": "defaults: a.yaml", "a": "count: 1\ncount: 2"}, "a.yaml:2:1: count: duplicate key 'count'; it stands "
         "first in line 1: remove one"),
        ({"main": "box: {width: 2, defaults: a.yaml}"}, "main.yaml:1:17: box.defaults: `defaults`, which names other "
         "files, stands at the root of a file"),
    ],
)  # fmt: skip
def test_mistakes(room: Room, files: dict[str, str], found: str) -> None:
    room.write(**files)
    (line,) = room.errors(Everything, "main")
    assert line.replace("./", "").startswith(found.replace("./", ""))


def test_an_option_cannot_name_files(room: Room) -> None:
    room.write(main="count: 1")
    assert room.errors(Everything, "main", "defaults=char_gpt") == [
        "--set defaults=char_gpt: defaults: `defaults`, which names other files, stands in a file and can't be set by "
        "an option"
    ]


def test_files_that_blow_up_are_refused_at_once(room: Room) -> None:
    many = {f"f{i}": f"defaults: [{', '.join([f'f{i + 1}.yaml'] * 10)}]\ncount: 1" for i in range(8)}
    room.write(**many, f8="count: 1")
    large = "anything: [" + "1, " * 60_000 + "1]\n"
    room.write(one=large, two=large.replace("anything", "mixed"), both="defaults: [one.yaml, two.yaml]")
    long = "text: " + "x" * 3_000_000
    room.write(three=long, four=long, long="defaults: [three.yaml, four.yaml]")
    begin = time.process_time()
    assert room.errors(Everything, "f0")[-1].endswith("defaults: a config is made of at most 64 files")
    assert room.errors(Everything, "both") == [
        "both.yaml:1:11: defaults: the files hold more than 100000 values together"
    ]
    assert room.errors(Everything, "long") == ["long.yaml:1:24: defaults: the files are larger than 4 MiB together"]
    assert time.process_time() - begin < 10


def test_text_without_a_file_looks_beside_its_source(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.write(base="type: Circle\nradius: 2")
    monkeypatch.chdir(tmp_path)
    assert Shape.from_yaml("defaults: base.yaml\nname: x") == Circle(radius=2, name="x")
    assert Shape.from_yaml("defaults: base.yaml", str(tmp_path / "f.yaml")) == Circle(radius=2)


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
def test_mistakes_of_references(text: str, message: str) -> None:
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


JOB = """
data: {type: Text, path: PATH, context_length: 16}
model: MODEL
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
training: {epochs: 1}
"""
NET = "type: DecoderLm\nvocab_size: 256\nmax_sequence_length: 16\nd_model: 16\nn_layers: 1\nn_heads: 2\nd_ff: 8\n"


def job(path: str = "text.txt", model: str = "{from: net.yaml}") -> str:
    return JOB.replace("PATH", path).replace("MODEL", model)


def test_the_model_of_another_file(room: Room) -> None:
    room.write(
        jobs__job=job(), jobs__net=f"{NET}inputs: {{tokens: 'int64:1,4'}}\n", whole=job(model="{from: jobs/job.yaml}")
    )
    expected: Any = ModuleConfig.from_yaml(NET)
    assert room.load(TrainConfig, "jobs/job").model == expected
    assert room.load(TrainConfig, "whole").model == expected  # that of a training
    room.write(other=job(model="{from: jobs/net.yaml, d_ff: 12}"), over="defaults: jobs/job.yaml\nseed: 3")
    assert room.load(TrainConfig, "other", "model.n_layers=2").model == expected.replace(d_ff=12, n_layers=2)
    assert room.load(TrainConfig, "over").model == expected
    room.write(graph="type: Graph\ninputs: {a: '2,3'}\nnodes: {l: {type: Linear, d_input: 3, d_output: 2}}")
    room.write(of_graph=job(model="{from: graph.yaml}"), shipped=job(model="{from: mlp}"))
    assert room.load(TrainConfig, "of_graph").model.inputs == ("a",)  # pyright: ignore[reportAttributeAccessIssue]
    assert room.load(TrainConfig, "shipped").model == ModuleConfig.load(shipped_configs()["mlp"])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{from: nets.yaml}", "job.yaml:3:15: model.from: nets.yaml: no such file"),
        ("{from: 3}", "job.yaml:3:15: model.from: expected the path of a YAML file of a model"),
        ("{from: job.yaml}", "job.yaml:3:15: model.from: a file can't have itself under its defaults"),
        ("{from: net.yaml, d_f: 3}", "job.yaml:3:25: model.d_f: unknown key 'd_f'; did you mean 'd_ff'?"),
    ],
)
def test_mistakes_of_the_model_of_another_file(room: Room, model: str, message: str) -> None:
    room.write(job=job(model=model), net=NET)
    assert message in room.errors(TrainConfig, "job")[0]


def test_paths_are_relative_to_the_file_in_which_they_are_written(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(room.folder)
    room.write(jobs__job=job(), net=NET, jobs__net=NET, upper="defaults: jobs/job.yaml")
    (room.folder / "jobs" / "text.txt").write_text("beside the file")

    def path(name: str, *overrides: str) -> Any:
        return TrainConfig.load(f"{name}.yaml", overrides).data.path  # pyright: ignore[reportAttributeAccessIssue]

    assert path("jobs/job") == path("upper") == "jobs/text.txt"
    assert path("jobs/job", "data.path=text.txt") == "text.txt"  # of the command line
    monkeypatch.chdir(room.folder / "jobs")
    assert (path("job"), path("../upper")) == ("text.txt", "text.txt")
    monkeypatch.chdir(room.folder)
    (room.folder / "text.txt").write_text("in the current folder")
    with pytest.raises(ConfigError, match=r"data.path: there are jobs/text.txt and, in the current folder, text.txt"):
        path("jobs/job")
    (room.folder / "jobs" / "text.txt").unlink()
    with pytest.warns(UserWarning, match=r"'text.txt' is not beside jobs/job.yaml, .*: write ../text.txt"):
        assert path("jobs/job") == "text.txt"
    (room.folder / "text.txt").unlink()
    assert path("jobs/job") == "jobs/text.txt"
    for absolute in ("/x/text.txt", "~/text.txt"):
        room.write(jobs__other=job(absolute))
        assert path("jobs/other") == absolute
    room.write(jobs__parts=job("'parts/*.txt'"))
    (room.folder / "jobs" / "parts").mkdir()
    assert path("jobs/parts") == "jobs/parts/*.txt"


def test_the_paths_of_a_run_are_of_the_folder_that_it_was_started_in(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(room.folder)
    room.write(runs__a__config=job(), runs__a__net=NET)
    (room.folder / "runs" / "a" / "environment.json").write_text("{}")
    assert TrainConfig.load("runs/a/config.yaml").data.path == "text.txt"  # pyright: ignore[reportAttributeAccessIssue]
