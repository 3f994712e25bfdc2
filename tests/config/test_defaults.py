"""`defaults:` in a config's file: what is taken from the other files, and what is refused where."""

import time
from pathlib import Path
from typing import TypeVar

import pytest

from burnlike.config import Config
from burnlike.config.shipped import shipped_configs
from burnlike.errors import ConfigError, Problem
from burnlike.train.job.configs import TrainConfig

from .samples import Box, Circle, Dot, Everything, Group, Pair, Shape

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
