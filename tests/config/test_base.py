import copy
import dataclasses
import os
import pickle
import stat
from pathlib import Path, PurePath
from typing import Annotated

import numpy as np
import pytest
import torch

from burnlike.config import Config, Meta, ModuleConfig, field
from burnlike.config.bounds import Size
from burnlike.errors import BurnlikeError, ConfigError, ConfigIOError

from .samples import Box, Circle, Dot, Everything, Group, Pair, Shape, Sound


def message(make) -> str:
    with pytest.raises(ConfigError) as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Box(width=-1), "Box: width: expected an int from 1 to 64, got -1"),
        (lambda: Box(width=2.0), "Box: width: expected an int from 1 to 64, got 2.0 (a float); write 2"),
        (lambda: Box(width=True), "Box: width: expected an int from 1 to 64, got true"),
        (lambda: Box(width=3, height=3), "Box: height: expected an int >= 1 that is a multiple of 2, got 3"),
        (lambda: Box(width=2, height=4), "Box: height: expected at most width (2), got 4"),
        (lambda: Circle(radius=float("nan")), "Circle: radius: expected a number > 0, got nan"),
        (lambda: Group(members=[Dot(), Sound()]), "Group: members.1: expected a mapping with `type:` ("),
        (
            lambda: Group(members=Dot()),
            "Group: members: expected a list of at least 1 item (each a Shape), got Dot() (a",
        ),
        (lambda: Everything(text=Path("x")), "Everything: text: expected a string, got PosixPath('x') (a PosixPath)"),
        (lambda: Everything(text="\ud800"), "Everything: text: expected a string, got '\\ud800'"),
        (
            lambda: Everything(table={1: 2.0}),
            "Everything: table: expected a mapping (each value a number), got {1: 2.0}",
        ),
        (lambda: Everything(anything=[object]), "Everything: anything: expected plain data ("),
        (lambda: Everything(anything={1: 2}), "Everything: anything: expected plain data ("),
        (lambda: Box(width=2).replace(width=0), "Box: width: expected an int from 1 to 64, got 0"),
    ],
)
def test_a_wrong_value_in_python_names_class_and_field(make, expected):
    assert message(make).startswith(expected)


def test_a_float_that_is_out_of_range_is_not_to_be_written_as_an_integer():
    assert message(lambda: Circle(radius=-1.0)) == "Circle: radius: expected a number > 0, got -1.0"


def test_every_wrong_field_is_reported():
    assert message(lambda: Box(width=0, height=1)).split("\n") == [
        "Box: width: expected an int from 1 to 64, got 0",
        "Box: height: expected an int >= 1 that is a multiple of 2, got 1",
    ]


def test_what_yaml_could_not_name_is_refused_where_a_role_is_due():
    class Nameless(Box):
        pass

    for value in (Nameless(width=3), Shape()):
        name = type(value).__name__
        assert message(lambda value=value: Everything(shape=value)) == (
            f'Everything: shape: {name} has no type that YAML could name; write `class {name}(..., tag="{name}")`'
        )
    assert message(lambda: Everything(box=Nameless(width=3))).startswith("Everything: box: Nameless has no type")


def test_values_get_exactly_the_type_of_the_field():
    config = Everything(ratio=1, count=np.int64(3), betas=[1, np.float32(0.5)], tags=["a"], table={"x": 2})
    assert (config.ratio, config.count, config.betas, config.tags, config.table) == (
        1.0,
        3,
        (1.0, 0.5),
        ("a",),
        {"x": 2},
    )
    assert [type(value) for value in (config.ratio, config.count, *config.betas, config.table["x"])] == [
        float,
        int,
        float,
        float,
        float,
    ]


def test_a_config_does_not_share_the_lists_it_was_made_of():
    sizes = [1, 2]
    config = Everything(sizes=sizes)
    sizes.append(3)
    assert config.sizes == [1, 2]


def test_configs_are_frozen_values():
    box = Box(width=3)
    assert box == Box(width=3) != Box(width=4)
    assert hash(box) == hash(Box(width=3))
    assert copy.deepcopy(box) == pickle.loads(pickle.dumps(box)) == box
    with pytest.raises(AttributeError):
        box.width = 4  # pyright: ignore[reportAttributeAccessIssue]
    assert Box(3) == box  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="width"):
        Box()  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="wdith"):
        Box(wdith=3)  # pyright: ignore[reportCallIssue]


def test_a_required_field_may_follow_an_optional_one():
    class Mixed(Config):
        optional: int = 1
        required: int

    assert Mixed.from_yaml("required: 2") == Mixed(required=2)


def test_a_renamed_field_has_its_own_key_in_yaml():
    class Renamed(Config):
        lambda_: Annotated[float, Meta(ge=0)] = field(name="lambda")

    config = Renamed.from_yaml("lambda: 2")
    assert config.lambda_ == 2.0
    assert config.to_yaml() == "lambda: 2.0\n"
    assert message(lambda: Renamed(lambda_=-1)).startswith("Renamed: lambda: expected a number >= 0, got -1")


def test_an_untagged_subclass_of_a_tagged_class_has_no_tag():
    class Plain(Box):
        pass

    assert "type" not in Plain(width=3).to_dict()


@pytest.mark.parametrize("tag", [3, "", None, True])
def test_a_tag_is_a_string(tag):
    with pytest.raises(TypeError, match="Tagged: expected tag to be a string"):
        type(Config)("Tagged", (Config,), {}, tag=tag)


@dataclasses.dataclass
class NoConfig:
    """A class of a program that is no Config."""


@pytest.mark.parametrize(("kind", "name"), [(bytes, "BytesType"), (NoConfig, "NoConfig"), (Path, "Path")])
def test_a_field_type_that_yaml_can_not_hold_is_an_error_of_the_class(kind: type, name: str) -> None:
    class Unfit(Config):
        value: kind = kind()

    with pytest.raises(TypeError, match=f"a config can't have a field of the type {name}$"):
        Unfit()


def test_a_union_that_msgspec_crashes_on_is_refused() -> None:
    class Window(Config):
        size: Size | tuple[Size, Size]

    class Plain(Config):
        size: int | tuple[int, int]
        sizes: list[Size] | None = None

    with pytest.raises(TypeError, match=r"Window\.size: a number with bounds beside a tuple of fixed length; write"):
        Window(size=3)
    assert Plain(size=(1, 2)).size == (1, 2)


def test_rules_are_not_asked_before_each_field_is_right():
    class Ratio(Config):
        top: int
        bottom: int

        def validate(self):
            if self.top % self.bottom:
                yield "top", "does not divide"

    assert message(lambda: Ratio(top=1, bottom=2)) == "Ratio: top: does not divide"
    assert message(lambda: Ratio(top=1, bottom="2")).startswith("Ratio: bottom: expected an int")


def test_from_dict_reads_what_to_dict_gives():
    pair = Pair(first=Group(members=[Box(width=3), Dot()]), second_value=1)
    assert Pair.from_dict(pair.to_dict()) == pair
    assert message(lambda: Pair.from_dict({"first": {"type": "Dot"}, "second_value": -1})) == (
        "<dict>: second_value: expected an int >= 0, got -1"
    )


def test_to_dict_writes_the_type_first_and_every_default():
    assert list(Box(width=3).to_dict().items()) == [("type", "Box"), ("width", 3), ("height", 2)]


def test_save_and_load(tmp_path):
    path = tmp_path / "a b" / "config.yaml"
    path.parent.mkdir()
    pair = Pair(first=Circle(radius=0.1), second_value=7)
    pair.save(path)
    assert Pair.load(path) == Pair.load(str(path)) == pair
    assert path.read_text() == "first:\n  type: Circle\n  radius: 0.1\n  name: circle\nsecond_value: 7\n"
    assert Pair.load(path, ["second_value=8"]).second_value == 8
    assert os.listdir(path.parent) == ["config.yaml"]


def test_save_keeps_links_and_modes(tmp_path):
    path, link = tmp_path / "config.yaml", tmp_path / "link.yaml"
    path.write_text("")
    path.chmod(0o640)
    link.symlink_to(path)
    Box(width=3).save(link)
    assert link.is_symlink()
    assert Box.load(path) == Box(width=3)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_save_where_nothing_can_be_written_is_one_error(tmp_path):
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "no" / "x.yaml", "No such file or directory")):
        with pytest.raises(ConfigIOError) as caught:
            Box(width=3).save(path)
        assert str(caught.value) == f"{path}: can't be written: {reason}"
    assert os.listdir(tmp_path) == []


def test_a_failed_save_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    Box(width=3).save(path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"config.yaml: can't be written: No space left on device"):
        Box(width=4).save(path)
    assert Box.load(path) == Box(width=3)
    assert os.listdir(tmp_path) == ["config.yaml"]


def test_errors_are_the_built_in_ones_that_fit_and_survive_pickling():
    with pytest.raises(ConfigError) as caught:
        Box.from_yaml("width: 0", "f.yaml")
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, BurnlikeError)
    assert isinstance(error, ValueError)
    assert str(error) == str(caught.value)
    (problem,) = error.problems
    assert (problem.source, problem.line, problem.column, problem.path) == ("f.yaml", 1, 8, "width")
    with pytest.raises(OSError, match="no such file"):
        Box.load("/nonexistent/x.yaml")


def test_a_module_config_without_init_says_so():
    class Nothing(ModuleConfig):
        size: int = 1

    with pytest.raises(NotImplementedError, match="Nothing does not define init"):
        Nothing().init()


def test_what_the_class_line_says_is_built():
    class Paths(ModuleConfig["PurePath"], builds="pathlib"):
        """The class takes no `config`."""

    class Here(ModuleConfig, builds=lambda config, device: (config, device)):
        size: int = 1

    class Below(Here):
        """Builds what the class above it builds."""

    class Beside(ModuleConfig, builds=".test_base:Box"):
        """Of a module beside this one."""

    assert Paths().init("cpu") == PurePath()
    assert Here(size=2).init("cpu") == (Here(size=2), torch.device("cpu"))
    assert Below(size=3).init() == (Below(size=3), None)
    assert Beside.__builds__ == f"{__name__}:Box"


def test_a_class_line_that_names_nothing_to_build_is_refused():
    with pytest.raises(TypeError, match=r'Nameless: builds="pathlib" needs a name: write Nameless\(Role\["Built"\]'):

        class Nameless(ModuleConfig, builds="pathlib"):
            """Of what in pathlib?"""


def test_python_values_that_hold_themselves_or_are_too_deep_are_refused():
    circle: dict = {}
    circle["a"] = circle
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, {"table": circle}, {"sizes": deep}):
        with pytest.raises(ConfigError, match="nested deeper than 64 levels"):
            Everything.from_dict(value)
    with pytest.raises(ConfigError, match="nested deeper than 64 levels"):
        Everything(table=circle)
