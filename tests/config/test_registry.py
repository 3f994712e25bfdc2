"""Roles and the classes that fill them; examples in docstrings."""

import doctest
import gc
import importlib
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import msgspec
import pytest

from burnlike.config import Config, DatasetConfig, LrSchedulerConfig, ModuleConfig, OptimizerConfig, registry
from burnlike.errors import ConfigError
from burnlike.nn import LinearConfig
from burnlike.record import save

from .samples import Box, Circle, Dot, Group, Shape


def run_python(code, cwd, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True, check=True)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A directory with a package of the user's, which is the current directory."""
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text("")
    (tmp_path / "my_package" / "shapes.py").write_text(
        "from tests.config.samples import Shape\n\n\nclass Star(Shape, tag='Star'):\n    points: int = 5\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[name]


def test_a_role_is_filled_by_its_tagged_subclasses():
    assert registry.imported(Shape) == {"Box": Box, "Circle": Circle, "Dot": Dot, "Group": Group}
    assert registry.is_role(Shape)
    assert registry.is_role(ModuleConfig)
    assert not registry.is_role(Box)


def test_a_class_with_fields_becomes_a_role_by_a_tagged_subclass():
    class Layer(Config):
        rate: float = 0.5

    assert not registry.is_role(Layer)
    assert Layer.from_yaml("rate: 1") == Layer(rate=1)

    class Wide(Layer, tag="Wide"):
        width: int = 3

    assert registry.is_role(Layer)
    assert Layer.from_yaml("{type: Wide, rate: 1}") == Wide(rate=1)


def test_two_classes_with_one_type_are_an_error_that_names_both():
    class Plant(Config):
        pass

    class Oak(Plant, tag="Tree"):
        pass

    class Elm(Plant, tag="Tree"):
        pass

    with pytest.raises(ConfigError) as caught:
        Plant.from_yaml("type: Tree", "f.yaml")
    here = f"{__name__}.test_two_classes_with_one_type_are_an_error_that_names_both.<locals>"
    assert str(caught.value) == (
        f"f.yaml:1:7: type: two classes have the type 'Tree': {here}.Oak and {here}.Elm; give one another tag"
    )


def test_a_class_defined_again_replaces_the_earlier_one():
    class Meal(Config):
        pass

    def define(size):
        class Soup(Meal, tag="Soup"):
            bowl: int = size

        return Soup

    classes = [define(1), define(2)]
    assert type(Meal.from_yaml("type: Soup")) is classes[1]


class Coin(msgspec.Struct, frozen=True):
    """A role of msgspec's own structs, which need not be configs."""


class Penny(Coin, tag="Penny", frozen=True):
    worth: int = 1


class Purse(Config):
    coin: Coin


def test_structs_of_msgspec_itself_are_found_by_their_type():
    assert Purse.from_yaml("coin: {type: Penny, worth: 2}").coin == Penny(2)
    with pytest.raises(ConfigError, match=r"coin\.type: unknown type 'Peny'; did you mean 'Penny'\?"):
        Purse.from_yaml("coin: {type: Peny}")


def test_a_class_that_is_gone_is_no_type():
    class Meal(Config):
        pass

    def define():
        class Stew(Meal, tag="Stew"):
            pass

    define()
    gc.collect()
    with pytest.raises(ConfigError, match="unknown type 'Stew'"):
        Meal.from_yaml("type: Stew")


def test_a_module_is_imported_from_the_current_directory(package):
    code = (
        "import sys; sys.path = [p for p in sys.path if p] + [sys.argv[1]]\n"
        "from burnlike.config.registry import import_modules\n"
        "import_modules(['my_package.shapes'])\n"
        "from tests.config.samples import Shape\n"
        "print(Shape.from_yaml('type: Star'))\n"
    )
    root = __file__.removesuffix("tests/config/test_registry.py")
    assert run_python(code, package, root).stdout == "Star(points=5)\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("my_package.none", None, "there is no module 'my_package.none' in {here} or among the installed packages"),
        ("none_such.x", None, "there is no module 'none_such' in {here} or among the installed packages"),
        ("my_package.needs", "import none_such_either", "it imports 'none_such_either', which is not installed"),
        ("my_package.raises", "1 / 0", "importing it raised ZeroDivisionError: division by zero"),
        ("my_package.odd", "x = = 1", "importing it raised SyntaxError: invalid syntax (odd.py, line 1)"),
        ("my_package/shapes.py", None, "expected the name of a module, such as my_package.configs; leave out the .py"),
        ("", None, "expected the name of a module, such as my_package.configs"),
    ],
)
def test_a_module_that_can_not_be_imported_is_one_error(package, monkeypatch, name, content, message):
    if content is not None:
        (package / (name.replace(".", "/") + ".py")).write_text(content)
    with pytest.raises(ConfigError) as caught:
        registry.import_modules([name])
    assert str(caught.value) == f"--import {name}: {message.format(here=package)}"


class Point:
    """An entry point as importlib.metadata gives it."""

    group, name, value, dist = registry.ENTRY_POINT_GROUP, "garden", "garden.configs", None

    def __init__(self, load):
        self.load = load


@pytest.fixture
def entry_points(monkeypatch):
    found = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: found if group == registry.ENTRY_POINT_GROUP else [])
    return found


def test_entry_points_are_loaded_only_for_an_unknown_type(entry_points):
    class Flower(Config):
        pass

    class Rose(Flower, tag="Rose"):
        pass

    loaded = []

    def load():
        class Lily(Flower, tag="Lily"):
            pass

        loaded.append(Lily)

    entry_points.append(Point(load))
    assert Flower.from_yaml("type: Rose") == Rose()
    assert not loaded
    assert type(Flower.from_yaml("type: Lily")) is loaded[0]


def test_an_entry_point_that_can_not_be_loaded_is_named(entry_points):
    def load():
        raise ImportError("no module named 'soil'")

    entry_points.append(Point(load))
    with pytest.raises(ConfigError) as caught:
        Shape.from_yaml("type: Lotus")
    assert str(caught.value) == (
        "the entry point 'garden' of an installed package (burnlike.configs: garden.configs) can't be imported: "
        "ImportError: no module named 'soil'"
    )


def test_an_installed_package_brings_types_by_an_entry_point(tmp_path):
    (tmp_path / "garden.py").write_text(
        "from burnlike.config import ModuleConfig\n\n\nclass Tulip(ModuleConfig, tag='Tulip'):\n    petals: int = 6\n"
    )
    info = tmp_path / "garden-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: garden\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[burnlike.configs]\ngarden = garden\n")
    code = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from burnlike.config import ModuleConfig\n"
        "print(ModuleConfig.from_yaml('{type: Tulip, petals: 3}'))\n"
        "assert 'torch' not in sys.modules\n"
    )
    assert run_python(code, ".", str(tmp_path)).stdout == "Tulip(petals=3)\n"


def test_types_can_be_named_by_tag_or_class():
    assert registry.named(Config, "Circle") is Circle
    assert registry.named(Config, "Shape") is Shape
    with pytest.raises(ConfigError) as caught:
        registry.named(Config, "DecoderLn")
    assert str(caught.value) == "there is no config type 'DecoderLn'; did you mean 'DecoderLm'?"


def test_one_tag_in_two_roles_is_named_by_class():
    class Fruit(Config):
        pass

    class FruitOrange(Fruit, tag="Orange"):
        pass

    class Paint(Config):
        pass

    class PaintOrange(Paint, tag="Orange"):
        pass

    assert type(Fruit.from_yaml("type: Orange")) is FruitOrange
    assert type(Paint.from_yaml("type: Orange")) is PaintOrange
    assert registry.named(Config, "PaintOrange") is PaintOrange
    with pytest.raises(ConfigError) as caught:
        registry.named(Config, "Orange")
    assert str(caught.value) == (
        "several classes have the type 'Orange': write the name of the class, FruitOrange or PaintOrange"
    )


def test_init_from_builds_the_module_with_the_values_of_a_record(tmp_path):
    config = LinearConfig(d_input=3, d_output=2)
    module = config.init()
    save(module, tmp_path / "linear.safetensors")
    again = config.init_from(tmp_path / "linear.safetensors", device="cpu")
    assert type(again) is type(module)
    assert {name: value.tolist() for name, value in again.state_dict().items()} == {
        name: value.tolist() for name, value in module.state_dict().items()
    }


@pytest.mark.parametrize("role", [ModuleConfig, OptimizerConfig, LrSchedulerConfig, DatasetConfig])
def test_each_role_reads_any_of_its_classes_by_type(role):
    from burnlike.config.registry import imported, load_built_in

    load_built_in()
    classes = imported(role)
    assert classes
    assert all(issubclass(cls, role) for cls in classes.values())


def test_configs_import_no_torch():
    code = (
        "import sys, burnlike, burnlike.config\n"
        "from burnlike.config.registry import load_built_in; load_built_in()\n"
        "heavy = {'torch', 'numpy', 'rich', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.slow  # a process of its own, whose imports take seconds
def test_every_type_lies_in_a_file_that_the_registry_finds():
    code = (
        "from burnlike.config import Config, registry\n"
        "found = registry.types_by_role(Config)\n"
        "from burnlike import data, module, nn, optim, train\n"
        "for part in (data, module, nn, optim, train): [getattr(part, name) for name in part.__all__]\n"
        "missed = {role: {*tags} - {*found.get(role, ())} for role, tags in registry.types_by_role(Config).items()}\n"
        "assert not any(missed.values()), missed\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize("name", ["base", "plain"])
def test_examples_in_docstrings_run(name):
    failed, tried = doctest.testmod(importlib.import_module(f"burnlike.config.{name}"))
    assert tried
    assert not failed
