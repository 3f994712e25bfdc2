"""The classes that `type:` can name, imported tagged subclasses of a role, and their fields.

Classes come from burnlike's own files of configs, from modules that the user names with `--import`, and from
the entry point group `burnlike.configs`. Nothing in a YAML file can import anything.
"""

import importlib
import os
import re
import sys
import weakref
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import msgspec.inspect as mi

from burnlike.errors import ConfigError, nearest

from .node import Node

_ROLES = f"{__package__}.roles"
BUILT_IN = ("nn", "models", "optim", "data", "train")
"""The parts of burnlike that have configs, in files named `configs.py` or `..._configs.py`; none imports torch."""
ENTRY_POINT_GROUP = "burnlike.configs"

TAG_FIELD = "type"

ConfigType = type[msgspec.Struct]
S = TypeVar("S", bound=msgspec.Struct)

# Weak references, so that a class which a notebook or a test has dropped is not offered any more.
_CLASSES: dict[str, list[weakref.ref[ConfigType]]] = {}
"""Tag -> the configs that have it, of all roles, in the order of their definition."""


class DuplicateTypeError(ConfigError):
    """Two classes of one role have the same type name."""


def register(cls: ConfigType, tag: str) -> None:
    """Add a config to those that `type:` can name."""
    # Weakly: a notebook defines a class again and again, and the earlier ones may go.
    _CLASSES.setdefault(tag, []).append(weakref.ref(cls))


def tag_of(cls: ConfigType) -> str | None:
    """The name that `type:` gives to `cls`, None for a class without one."""
    tag = cls.__struct_config__.tag
    return tag if isinstance(tag, str) else None


def type_in(node: Node) -> str | None:
    """The text of a mapping's `type:`, None where it has none."""
    entry = node.value.get(TAG_FIELD) if node.is_map else None
    return entry.value.value if entry and isinstance(entry.value.value, str) else None


def snake_tag(cls: ConfigType) -> str:
    """The tag of a class as in names of values: `TopKAccuracy` gives `top_k_accuracy`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", tag_of(cls) or "").lower()


def inlined_in(cls: ConfigType) -> str:
    """The field whose keys stand in YAML beside those of `cls`; empty for a class without one."""
    return getattr(cls, "inlined", "")


@cache
def fields_of(cls: ConfigType) -> dict[str, mi.Field]:
    """The fields of a struct by the key they have in YAML.

    A union of a number with bounds and a tuple of fixed length is a TypeError: msgspec 0.22 reads wrong memory then,
    and the process would end at the next collection of garbage.
    """
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if _is_unsafe(hint):
            raise TypeError(
                f"{cls.__name__}.{name}: a number with bounds beside a tuple of fixed length; write the tuple as"
                " Annotated[tuple[Size, ...], Meta(min_length=2, max_length=2)]"
            )
    described = mi.type_info(cls)
    assert isinstance(described, mi.StructType)
    return {field.encode_name: field for field in described.fields}


def default_of(field: mi.Field) -> Any:
    """The default of a field that need not be given."""
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def parts_of(value: Any) -> list[tuple[Any, Any, mi.Type | None]]:
    """The parts of a config, a list or a mapping: of each its key or index, its value, and for a field its type."""
    if isinstance(value, msgspec.Struct):
        return [(key, getattr(value, field.name), field.type) for key, field in fields_of(type(value)).items()]
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    return [(key, part, None) for key, part in pairs]


def parts_below(value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The parts of a config, a list or a mapping, and theirs: the path of each, its key or index, and its value."""
    for key, part, _ in parts_of(value):
        here = f"{path}.{key}" if path else str(key)
        yield here, key, part
        yield from parts_below(part, here)


def kinds_in(value: Any) -> set[ConfigType]:
    """The classes of a config and of all parts in it."""
    parts = (value, *(part for _, _, part in parts_below(value)))
    return {type(part) for part in parts if isinstance(part, msgspec.Struct)}


def members_of(wanted: mi.Type) -> tuple[mi.Type, ...]:
    """The types of a union; of any other type it alone."""
    return wanted.types if isinstance(wanted, mi.UnionType) else (wanted,)


def bare_members_of(wanted: mi.Type) -> list[mi.Type]:
    """As `members_of`, without the metadata of each."""
    return [it.type if isinstance(it, mi.Metadata) else it for it in members_of(wanted)]


def types_in(wanted: mi.Type) -> Iterator[mi.Type]:
    """A type and those in it: the one that metadata belongs to, the members of a union, the items of a list."""
    yield wanted
    match wanted:
        case mi.Metadata():
            yield from types_in(wanted.type)
        case mi.UnionType():
            yield from (it for member in wanted.types for it in types_in(member))
        case mi.VarTupleType() | mi.ListType():
            yield from types_in(wanted.item_type)


def _is_unsafe(hint: Any) -> bool:
    members = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        bounded = any(get_origin(member) is Annotated and get_args(member)[0] in (int, float) for member in members)
        if bounded and any(get_origin(member) is tuple and get_args(member)[-1] is not Ellipsis for member in members):
            return True
    return any(map(_is_unsafe, members))


def is_role(cls: ConfigType) -> bool:
    """True if `cls` only stands for its tagged subclasses: it has no tag, and no fields or tagged subclasses.

    The roles of `roles.py` are roles before any class that fills them is imported.
    """
    if tag_of(cls) is not None:
        return False
    if cls.__module__ == _ROLES:
        return True
    return not cls.__struct_fields__ or any(tag_of(below) for below in _descendants(cls))


def imported(role: ConfigType) -> dict[str, ConfigType]:
    """The tagged classes at and below `role` that are imported, by tag, sorted; two of one tag are an error."""
    classes: dict[str, list[ConfigType]] = {}
    for cls in (role, *_descendants(role)):
        if (tag := tag_of(cls)) is not None:
            classes.setdefault(tag, []).append(cls)
    return {tag: _newest(tag, classes[tag]) for tag in sorted(classes)}


def lookup(role: ConfigType, tag: str) -> ConfigType | None:
    """The class that `type: <tag>` means where a `role` is due; None for none.

    Entry points are loaded only where neither an imported nor a built-in class has the tag.
    """
    # One step after the other: importing all configs, and other packages', takes time that a known tag does not need.
    for load in (lambda: None, load_built_in, load_entry_points):
        load()
        if type(role) is type(msgspec.Struct):  # msgspec's own structs register nothing
            classes = [cls for cls in (role, *_descendants(role)) if tag_of(cls) == tag]
        else:
            classes = [cls for it in _CLASSES.get(tag, ()) if (cls := it()) is not None and issubclass(cls, role)]
        if classes:
            return _newest(tag, classes)
    return None


def _newest(tag: str, classes: list[ConfigType]) -> ConfigType:
    """The last of the classes with one tag: a class defined again, as in a notebook, replaces the earlier one.

    Classes of different names are a DuplicateTypeError.
    """
    *earlier, newest = classes
    for other in earlier:
        if _full_name(other) != _full_name(newest):
            names = f"{_full_name(other)} and {_full_name(newest)}"
            raise DuplicateTypeError(f"two classes have the type '{tag}': {names}; give one another tag")
    return newest


def of_any_role(tag: str) -> ConfigType | None:
    """The class that `type: <tag>` means whatever role is due, None where there is none, or several roles have one."""
    for load in (load_built_in, load_entry_points):
        load()
        if classes := {_full_name(cls): cls for it in _CLASSES.get(tag, ()) if (cls := it()) is not None}:
            return next(iter(classes.values())) if len(classes) == 1 else None
    return None


def other_role(tag: str, role: ConfigType) -> str:
    """The name of the role, other than `role`, that has an imported class of the type `tag`; or an empty string."""
    root = [cls for cls in role.__mro__ if issubclass(cls, msgspec.Struct)][-2]
    for other in _descendants(root):
        if tag_of(other) == tag and not issubclass(other, role):
            above = other.__mro__[1 : other.__mro__.index(root)]
            return next((base.__name__ for base in reversed(above) if tag_of(base) is None), "")
    return ""


def untagged(role: ConfigType, name: str) -> ConfigType | None:
    """The class below `role` that `type: <name>` likely means, but that has no tag; None where there is none."""
    for cls in _descendants(role):
        if tag_of(cls) is None and cls.__name__ in (name, f"{name}Config"):
            return cls
    return None


def named(root: type[S], name: str) -> type[S]:
    """The class below `root` with the tag or the class name `name`, of whatever role; a ConfigError if not just one."""
    load_built_in()
    classes = {_full_name(cls): cls for cls in _descendants(root)}.values()
    meant = [cls for cls in classes if name == cls.__name__] or [cls for cls in classes if name == tag_of(cls)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        names = " or ".join(cls.__name__ for cls in meant)
        raise ConfigError(f"several classes have the type '{name}': write the name of the class, {names}")
    words = {str(word) for cls in classes for word in (cls.__name__, tag_of(cls)) if word}
    hint = nearest(name, words) or "; `burnlike schema --list` lists them, and --import MODULE adds your own"
    raise ConfigError(f"there is no config type '{name}'{hint}")


def types_by_role(root: ConfigType) -> dict[str, list[str]]:
    """The tags of all imported and built-in classes below `root`, by the name of the public role that each fills."""
    load_built_in()
    roles = [cls for cls in _descendants(root) if is_role(cls) and not cls.__name__.startswith("_")]
    return {role.__name__: list(imported(role)) for role in roles if imported(role)}


def load_built_in() -> None:
    """Import all files of burnlike's own configs."""
    package = Path(__file__).parents[1]
    for part in BUILT_IN:
        for file in sorted((package / part).rglob("*configs.py")):
            importlib.import_module(".".join(file.relative_to(package.parent).with_suffix("").parts))


def load_entry_points() -> None:
    """Import the modules that installed packages name in the entry point group `burnlike.configs`."""
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            point.load()
        except Exception as error:
            owner = point.dist.name if point.dist else "an installed package"
            raise ConfigError(
                f"the entry point '{point.name}' of {owner} ({ENTRY_POINT_GROUP}: {point.value}) can't be imported: "
                f"{type(error).__name__}: {error}"
            ) from error


def import_modules(names: Iterable[str]) -> None:
    """Import the modules that `--import` names, from the current directory or installed packages."""
    for name in names:
        if not all(map(str.isidentifier, name.split("."))):
            remedy = "; leave out the .py" if name.endswith(".py") else ""
            raise ConfigError(f"--import {name}: expected the name of a module, such as my_package.configs{remedy}")
        if os.getcwd() not in sys.path and "" not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            importlib.import_module(name)
        except Exception as error:
            message = f"importing it raised {type(error).__name__}: {error}"
            if isinstance(error, ModuleNotFoundError):
                message = f"it imports '{error.name}', which is not installed"
                if error.name and f"{name}.".startswith(f"{error.name}."):
                    message = f"there is no module '{error.name}' in {os.getcwd()} or among the installed packages"
            raise ConfigError(f"--import {name}: {message}") from error


def _descendants(cls: type[S]) -> Iterator[type[S]]:
    for below in cls.__subclasses__():
        yield below
        yield from _descendants(below)


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
