"""The base class of all configs.

A class line says the role that a config plays, its name in YAML, and what its `init` builds:

    # burnlike/nn/configs.py, which imports no torch
    class LinearConfig(ModuleConfig["linear.Linear"], tag="Linear"):
        d_input: Size
        d_output: Size
        bias: bool = True

`"linear.Linear"` is the class `Linear` in the module `linear` beside this file, `burnlike.nn.linear`. In order:

1. `ModuleConfig["linear.Linear"]` makes a `_Building`. Python puts what its `__mro_entries__` gives among the bases,
   here `ModuleConfig`, and keeps the `_Building` itself in `__orig_bases__`.
2. `ConfigMeta` finds it there and sets `__builds__ = "burnlike.nn.linear:Linear"`. A name without a dot,
   `ModuleConfig["Linear"]`, only tells type checkers what `init` returns; `builds=` then says where it is.
3. `LinearConfig(4, 3).init()` calls `built`, which imports that module and calls `Linear(config=..., device=...)`.

Type checkers know nothing of this: to them a role is a generic class, and the string a forward reference (`roles.py`).
"""

import dataclasses
import inspect
import os
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

import msgspec

from burnlike._lazy import resolve
from burnlike.errors import ConfigError, ConfigIOError, Problem, nearest

from .burn_json import SUFFIX, from_burn, to_burn_json
from .emit import to_plain, to_yaml
from .hiding import escaped, masked
from .interpolation import interpolate
from .node import Location, Node, Tree, from_python
from .overrides import apply, reading
from .plain import INVALID
from .read import NodeReader, defaults_of, fields_are_read
from .registry import fields_of, register
from .root_keys import without_extensions
from .tree import read_tree, tree_of


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class ConfigMeta(type(msgspec.Struct)):
    """Hands keyword-only fields down to subclasses, and keeps a tag from being inherited."""

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        builds: str | Callable[..., Any] = "",
        **options: Any,
    ) -> "ConfigMeta":
        """Make the class.

        Args:
            name, bases, namespace: as of every class.
            builds: the target that `init` calls with the config, or with its fields if it has no argument `config`:
                `"package.module"`, or `".module"` beside the config's own, which is imported at the first call. Its
                name there is the one in the brackets of the base, or stands behind a colon: `".module:name"`. The class
                or function itself will do, too. Left out where the brackets have a module beside the config's own:
                `ModuleConfig["module.Name"]`.
            options: `tag="Name"`, which YAML writes as `type: Name`, and those of `msgspec.Struct`.
        """
        bracket = next((it.built for it in namespace.get("__orig_bases__", ()) if isinstance(it, _Building)), "")
        if builds or (isinstance(bracket, str) and "." in bracket):
            namespace["__builds__"] = _target(name, builds, bracket, namespace["__module__"])
        options.setdefault("kw_only", True)
        tag = options.setdefault("tag", False)
        if tag is not False and not (isinstance(tag, str) and tag):
            raise TypeError(f"{name}: expected tag to be a string that is not empty, got {tag!r}")
        if options.get("tag_field", "type") != "type":
            raise TypeError(f"{name}: the tag of a config is always written `type:`; leave out tag_field")
        for key, value in namespace.items():
            if isinstance(value, dataclasses.Field):
                defaults = {"default": value.default, "default_factory": value.default_factory}
                namespace[key] = msgspec.field(**{k: it for k, it in defaults.items() if it is not dataclasses.MISSING})
        cls: Any = super().__new__(mcls, name, bases, namespace, **options)
        if tag:  # here and not in `__init_subclass__`, which runs before msgspec has set the class's tag and fields
            register(cls, tag)
        return cls

    if not TYPE_CHECKING:  # checkers know the fields by their names

        def __call__(cls, *required: Any, **fields: Any) -> Any:
            """Make a config; its required fields may be given by position, in Burn's order: `LinearConfig(4, 3)`."""
            if required:
                names = [it.name for it in fields_of(cls).values() if it.required or it.name in cls.by_position]
                if len(required) > len(names):
                    others = [it for it in cls.__struct_fields__ if it not in names]
                    remedy = f"; give by name what has a default: {', '.join(others)}" if others else ""
                    listed = f" ({', '.join(names)})" if names else ""
                    raise TypeError(
                        f"{cls.__name__}: expected at most {len(names)} values by position{listed}, got"
                        f" {len(required)}{remedy}"
                    )
                for name, value in zip(names, required, strict=False):
                    if name in fields:
                        raise TypeError(f"{cls.__name__}: {name} is given by position and by name")
                    fields[name] = value
            unknown = fields.keys() - cls.__struct_fields__ if fields else ()
            if unknown:
                name = min(unknown)
                remedy = getattr(cls, "elsewhere", {}).get(name) or nearest(name, [*cls.__struct_fields__])
                listed = "" if remedy else f"; there are {', '.join(cls.__struct_fields__) or 'none'}"
                raise TypeError(f"{cls.__name__}: unknown field '{name}'{remedy}{listed}")
            return super().__call__(**fields)


class _Building(NamedTuple):
    """A role in the bases of a class, with the name in its brackets: `ModuleConfig["Linear"]`."""

    role: type
    built: Any

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return () if self.role in bases else (self.role,)


def _target(name: str, builds: str | Callable[..., Any], bracket: Any, module: str) -> str | Callable[..., Any]:
    """The target of the class line of `name`, in `module`: `"package.module:name"`, or a class or function itself."""
    if not isinstance(builds, str):
        return builds
    target_module, _, target = builds.partition(":")
    beside, _, built = bracket.rpartition(".")
    if not (target or built):
        raise TypeError(f'{name}: builds="{builds}" needs a name: write {name}(Role["Built"], ...) or "{builds}:name"')
    target_module, package = target_module or f".{beside}", module.rpartition(".")[0]
    # A file of configs that is run as a script is in no package, and imports its neighbours by their names.
    target_module = resolve_name(target_module, package) if package else target_module.removeprefix(".")
    return f"{target_module}:{target or built}"


class Config(msgspec.Struct, metaclass=ConfigMeta, frozen=True, forbid_unknown_fields=True):
    """A typed, frozen set of values, checked when made, read from YAML and written to it.

    Fields are annotated attributes, in any order, given by name, required ones also by position;
    `Annotated[int, Meta(ge=1)]` bounds one. A class with `tag="Name"` is one that YAML picks by `type: Name`, where a
    field has the type of a class above it.

    Example:
        >>> from typing import Annotated
        >>> from burnlike.config import Config, Meta
        >>> class MlpConfig(Config):
        ...     d_input: Annotated[int, Meta(ge=1)]
        ...     d_hidden: Annotated[int, Meta(ge=1)] = 256
        >>> MlpConfig.from_yaml("d_input: 784")
        MlpConfig(d_input=784, d_hidden=256)
        >>> MlpConfig(d_input=-1)
        Traceback (most recent call last):
        burnlike.errors.ConfigError: MlpConfig: d_input: expected an int >= 1, got -1

    Raises:
        ConfigError: a value is of a wrong type or out of range, or breaks a rule of `validate`.
        TypeError: a field has no value, or there is no such field.
    """

    unwritable: ClassVar[str] = ""
    """The part of an instance that no YAML can hold, for a class that only programs make: `to_yaml` raises it."""

    __builds__: ClassVar[str | Callable[..., Any]] = ""
    """The target that `init` calls: set by the class line."""

    inlined: ClassVar[str] = ""
    """The field, a config, whose keys stand in YAML beside those of this class, in place of its own name."""

    by_position: ClassVar[tuple[str, ...]] = ()
    """Fields with a default that may be given by position, since Burn's `new` needs them."""

    def __class_getitem__(cls, built: Any) -> Any:
        # Not `Generic`, as checkers are told: msgspec would bind the type variable in every field of every subclass.
        return _Building(cls, built)

    def __post_init__(self) -> None:
        """Check every field, unless a reader has read them, then the rules across fields."""
        cls = type(self)
        place = Location(cls.__name__)
        problems = [] if fields_are_read(cls) else self._read_fields(place)
        if not problems:
            problems = [place.problem(path, masked(message, self)) for path, message in self.validate()]
        if problems:
            raise ConfigError.of(problems)

    def _read_fields(self, place: Location) -> list[Problem]:
        """Read each field as if a file had it, and set it to that: 1 for a float becomes 1.0, a list a copy."""
        cls, reader = type(self), NodeReader()
        defaults = defaults_of(cls)
        for key, field in fields_of(cls).items():
            value = getattr(self, field.name)
            if value is field.default and key in defaults:
                read = defaults[key]
            else:
                node = from_python(value, place) if isinstance(value, dict | list | tuple) else Node(value, place)
                read = reader.read(node, field.type, key)
            if read is not value and read is not INVALID:
                msgspec.structs.force_setattr(self, field.name, read)
        return reader.problems

    def validate(self) -> Iterable[tuple[str, str]]:
        """Rules across fields, for subclasses to define; called only when each field is right by itself.

        Yields `(path, message)` for each rule that is broken; the path is relative, such as `"n_heads"` or
        `"layers.0.d"`. For a config from a file, the message is printed with the line and column of that path.
        """
        return ()

    def file_problems(self) -> Iterable[tuple[str, str]]:
        """Mistakes in the files and directories that fields name, for subclasses to define: `(path, message)` as of
        `validate`.

        `burnlike check` and sweeps ask for them, without torch. That a file is missing is said of every `FilePath`.
        """
        return ()

    @classmethod
    def load(cls, path: "str | os.PathLike[str]", overrides: Iterable[str] = ()) -> Self:
        """Read a YAML file, UTF-8, of at most 4 MiB, with `a.b=c` each put into it, as `--set` takes them.

        A `.json` file may be in Burn's form, as `save` writes it.

        Raises:
            ConfigIOError: the file can't be read.
            ConfigError: the file is wrong; the message has one line per mistake.
        """
        is_json = os.fspath(path).lower().endswith(SUFFIX)

        def read(options: Iterable[str]) -> Self:
            tree = read_tree(path, options)
            return cls.from_tree(from_burn(tree, cls) if is_json else tree)

        return reading(read, overrides)

    @classmethod
    def from_yaml(cls, text: str, source: str = "<string>", overrides: Iterable[str] = ()) -> Self:
        """As `load`, of one YAML document that messages call `source`; files under its `defaults:` lie beside that."""
        return reading(lambda options: cls.from_tree(tree_of(text, source, options)), overrides)

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str = "<dict>") -> Self:
        """Read plain data such as `to_dict` gives; a ConfigError has one line per mistake."""
        return cls.from_tree(Tree(from_python(values, Location(source)), []))

    @classmethod
    def from_tree(cls, tree: Tree) -> Self:
        """Read what `burnlike.config.tree.read_tree` gives, for a program that looks at the places of values itself."""
        reader = NodeReader()
        reader.problems.extend(tree.problems)
        config = reader.struct(without_extensions(tree.root), cls, "")
        if reader.problems:
            raise ConfigError.of(reader.problems)
        return config

    def to_dict(self) -> dict[str, Any]:
        """Dicts, lists and plain values, with every default written out and `type` where the class has one.

        A ConfigError if it holds a config that only programs can make; so are `to_yaml` and `save`.
        """
        return to_plain(self)

    def to_yaml(self) -> str:
        """YAML that `from_yaml` reads back as an equal config, floats to the last bit; it has no references."""
        return to_yaml(escaped(self.to_dict()))

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write YAML to a file, which is replaced as a whole or not at all; a ConfigIOError if it can't be written.

        A `.json` file is written as Burn writes it: `LinearConfig::load` reads that of a LinearConfig. A ConfigError
        names an option that is set and Burn's config lacks.
        """
        is_burns = os.fspath(path).lower().endswith(SUFFIX)
        write_text(path, to_burn_json(self) if is_burns else self.to_yaml())

    def replace(self, **changes: Any) -> Self:
        """A copy with the fields `changes`, checked like a new one."""
        # Older releases of msgspec skip `__post_init__` in their own `replace`.
        return type(self)(**{name: getattr(self, name) for name in self.__struct_fields__} | changes)


def write_text(path: "str | os.PathLike[str]", text: str) -> None:
    """Replace the file of a config as a whole or not at all; a ConfigIOError if it can't be written."""
    from burnlike._atomic import replace_file  # here, as reading a config needs none of what it imports

    try:
        replace_file(path, text.encode())
    except OSError as error:
        message = f"can't be written: {error.strerror or error}"
        raise ConfigIOError.of([Problem(message, source=os.fspath(path))]) from error


C = TypeVar("C", bound=Config)


def built(config: Config, method: str, **context: Any) -> Any:
    """Call the target of the class line of `config`, with the config and the `context` that it has arguments for.

    A target without an argument `config` gets the fields that it has arguments for. Without a target in the class line,
    the class has to define `method`.
    """
    builds = type(config).__builds__
    if not builds:
        raise NotImplementedError(f"{type(config).__name__} does not define {method}; its class line has no builds=")
    target = resolve(builds) if isinstance(builds, str) else builds
    names = _arguments(target)
    if "config" in names:
        context["config"] = config
    else:
        context |= {name: getattr(config, name) for name in config.__struct_fields__}
    return target(**{name: value for name, value in context.items() if name in names})


@cache
def _arguments(target: Any) -> frozenset[str]:
    return frozenset(inspect.signature(target).parameters)


def apply_overrides(config: C, overrides: Iterable[str]) -> C:
    """A copy of `config` with each `a.b=c` applied, checked like a new one.

    Each is `KEY=VALUE`, with dots between the keys and indices for the items of a list (`model.layers[0].bias=false`;
    `layers[+]` is a new item). A value that begins with `{`, `[` or a quote is YAML, any other one is one plain scalar.
    A mapping is put over the one that is there, key by key. A changed `type` keeps the keys that the new type has too.
    `~KEY` deletes. A ConfigError names the option that is wrong.
    """
    root = from_python(escaped(to_plain(config, defaults=False)), Location(type(config).__name__))
    return reading(lambda options: type(config).from_tree(Tree(*interpolate(apply(root, options)))), overrides)
