"""The base class of all configs."""

import dataclasses
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.util import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

import msgspec

from burnlike._lazy import resolve
from burnlike.errors import ConfigError, ConfigIOError, Problem

from .burn_json import SUFFIX, from_burn, to_burn_json
from .emit import to_plain, to_plain_without_defaults, to_yaml
from .interpolation import escaped, interpolate, masked
from .node import Location, Tree, from_python
from .overrides import apply, reading
from .read import INVALID, NodeReader
from .registry import fields_of
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
            builds: what `init` calls, with the config as `config`: `"package.module"`, or `".module"` beside the
                config's own, which is imported at the first call. Its name there is the one in the brackets of the
                base, or stands behind a colon: `".module:name"`. The class or function itself will do, too. Left out
                where the brackets have a module beside the config's own: `ModuleConfig["module.Name"]`.
            options: `tag="Name"`, which YAML writes as `type: Name`, and those of `msgspec.Struct`.
        """
        named = next((it.built for it in namespace.get("__orig_bases__", ()) if isinstance(it, _Building)), "")
        if builds or (isinstance(named, str) and "." in named):
            namespace["__builds__"] = _target(name, builds, named, namespace["__module__"])
        options.setdefault("kw_only", True)
        tag = options.setdefault("tag", False)
        if tag is not False and not (isinstance(tag, str) and tag):
            raise TypeError(f"{name}: expected tag to be a string that is not empty, got {tag!r}")
        if options.get("tag_field", "type") != "type":
            raise TypeError(f"{name}: the tag of a config is always written `type:`; leave out tag_field")
        for key, value in namespace.items():
            if isinstance(value, dataclasses.Field):
                given = {name: getattr(value, name) for name in ("default", "default_factory")}
                given = {name: it for name, it in given.items() if it is not dataclasses.MISSING}
                namespace[key] = msgspec.field(**given)
        return super().__new__(mcls, name, bases, namespace, **options)

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
                given = dict(zip(names, required, strict=False))
                if twice := next((name for name in given if name in fields), None):
                    raise TypeError(f"{cls.__name__}: {twice} is given by position and by name")
                fields = {**given, **fields}
            return super().__call__(**fields)


class _Building(NamedTuple):
    """A role in the bases of a class, and the name of what the class builds: `ModuleConfig["Linear"]`."""

    role: type
    built: Any

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return () if self.role in bases else (self.role,)


def _target(name: str, builds: str | Callable[..., Any], named: Any, place: str) -> str | Callable[..., Any]:
    """What the class line of `name`, in the module `place`, says is built: `"package.module:name"`, or the class."""
    if not isinstance(builds, str):
        return builds
    module, _, target = builds.partition(":")
    beside, _, built = named.rpartition(".")
    if not (target or built):
        raise TypeError(f'{name}: builds="{builds}" needs a name: write {name}(Role["Built"], ...) or "{builds}:name"')
    module, package = module or f".{beside}", place.rpartition(".")[0]
    module = resolve_name(module, package) if package else module.removeprefix(".")
    return f"{module}:{target or built}"


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
    """What in an instance no YAML can hold, for a class that only programs make; `to_dict` and `to_yaml` raise it."""

    __builds__: ClassVar[str | Callable[..., Any]] = ""
    """What `init` calls: set by `builds=` in the class line."""

    inlined: ClassVar[str] = ""
    """The field, a config, whose keys stand in YAML beside those of this class, in place of its own name."""

    by_position: ClassVar[tuple[str, ...]] = ()
    """Fields with a default that may be given by position, since Burn's `new` needs them."""

    former_tags: ClassVar[tuple[str, ...]] = ()
    """What `type:` called this class in earlier releases; files may still."""

    former_fields: ClassVar[Mapping[str, str]] = {}
    """What fields were called in earlier releases, and what they are now; files may use either name."""

    def __class_getitem__(cls, built: Any) -> Any:
        # Checkers know a role as a generic class. One that runs would have msgspec bind its variable in every field.
        return _Building(cls, built)

    def __post_init__(self) -> None:
        """Check every field, then the rules across fields."""
        cls = type(self)
        place = Location(cls.__name__)
        reader = NodeReader()
        for key, field in fields_of(cls).items():
            value = getattr(self, field.name)
            read = reader.read(from_python(value, place), field.type, key)
            if read is not value and read is not INVALID:
                msgspec.structs.force_setattr(self, field.name, read)  # 1 for a float becomes 1.0, a list a copy
        if not reader.problems:
            reader.problems.extend(place.problem(path, masked(message, self)) for path, message in self.validate())
        if reader.problems:
            raise ConfigError.of(reader.problems)

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
        from burnlike._atomic import replace_file  # here, as reading a config needs none of what it imports

        text = to_burn_json(self) if os.fspath(path).lower().endswith(SUFFIX) else self.to_yaml()
        try:
            replace_file(path, text.encode())
        except OSError as error:
            problem = Problem(f"can't be written: {error.strerror or error}", source=os.fspath(path))
            raise ConfigIOError(str(problem), [problem]) from error

    def replace(self, **changes: Any) -> Self:
        """A copy with the fields `changes`, checked like a new one."""
        # Older releases of msgspec skip `__post_init__` in their own `replace`.
        return type(self)(**{name: getattr(self, name) for name in self.__struct_fields__} | changes)


C = TypeVar("C", bound=Config)


def built(config: Config, method: str, **context: Any) -> Any:
    """Call what the class line of `config` says it builds, with the config and the `context` that it has arguments for.

    Without that in the class line, the class has to define `method`.
    """
    builds = type(config).__builds__
    if not builds:
        raise NotImplementedError(f"{type(config).__name__} does not define {method}; its class line has no builds=")
    target = resolve(builds) if isinstance(builds, str) else builds
    return target(**{name: it for name, it in {"config": config, **context}.items() if name in _arguments(target)})


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
    root = from_python(escaped(to_plain_without_defaults(config)), Location(type(config).__name__))
    return reading(lambda given: type(config).from_tree(Tree(*interpolate(apply(root, given)))), overrides)
