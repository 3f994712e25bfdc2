"""ParamGroup: a selection of a module's parameters; and the config of adapters, which has some. Imports no torch."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ..._patterns import Pattern, pattern_problem
from ...config import Config, Meta
from ...errors import ConfigError, ModuleTreeError, ParamPathError
from ..identity.param_id import ParamId
from ..tree.paths import listed, no_parameter

if TYPE_CHECKING:
    from torch import nn

    from ..tree.param import Param


class ParamMatcher(Config):
    """Role of the rules that a ParamGroup is made of; a tagged subclass of your own is one more `type:`."""

    def accepts(self, param_id: ParamId, paths: Sequence[str]) -> bool:
        """True if the rule holds for the parameter of this id and these canonical paths, none where they are not
        known.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define accepts(param_id, paths)")

    def matches(self, param: Any) -> bool:
        return self.accepts(param.id, [path for path in (param.path, *param.aliases) if path])

    def named_paths(self) -> Iterable[str]:
        """The paths that a module must have for the rule to make sense."""
        return ()


class MatchAll(ParamMatcher, tag="All"):
    """Every parameter."""

    def accepts(self, param_id: ParamId, paths: Sequence[str]) -> bool:
        return True


class MatchIds(ParamMatcher, tag="Ids", dict=True):
    """Parameters whose id is listed.

    Attributes:
        ids: in Burn's text form, 13 characters each; in quotes where YAML could take one for a number.
    """

    ids: tuple[str, ...]

    def validate(self) -> Iterable[tuple[str, str]]:
        for index, text in enumerate(self.ids):
            try:
                ParamId.parse(text)
            except ValueError as error:
                yield f"ids.{index}", str(error)

    @cached_property
    def _known(self) -> frozenset[ParamId]:
        return frozenset(ParamId.parse(text) for text in self.ids)

    def accepts(self, param_id: ParamId, paths: Sequence[str]) -> bool:
        return param_id in self._known


class MatchPaths(ParamMatcher, tag="Paths"):
    """Parameters one of whose paths is listed.

    Attributes:
        paths: dotted, as `encoder.0.weight`.
    """

    paths: tuple[str, ...]

    def accepts(self, param_id: ParamId, paths: Sequence[str]) -> bool:
        return any(path in self.paths for path in paths)

    def named_paths(self) -> Iterable[str]:
        return self.paths


class MatchPredicates(ParamMatcher, tag="Predicates"):
    """Parameters with a path that contains all of the texts; with no texts, every parameter that has a path.

    Attributes:
        predicates: the texts.
    """

    predicates: tuple[str, ...]

    def accepts(self, param_id: ParamId, paths: Sequence[str]) -> bool:
        return any(all(text in path for text in self.predicates) for path in paths)


class MatchAnyPredicates(MatchPredicates, tag="AnyPredicates"):
    """Parameters with a path that contains at least one of the texts; the attributes are those of `Predicates`."""

    def accepts(self, param_id: ParamId, paths: Sequence[str]) -> bool:
        return any(text in path for text in self.predicates for path in paths)


class MatchRegexes(ParamMatcher, tag="Regexes", dict=True):
    """Parameters with a path in which all the patterns are found; with no patterns, every parameter that has a path.

    Attributes:
        regexes: of Python's `re`, found anywhere in the path unless anchored by `^` and `$`; in YAML, write them in
            single quotes.
    """

    regexes: tuple[str, ...]

    def validate(self) -> Iterable[tuple[str, str]]:
        for index, text in enumerate(self.regexes):
            if message := pattern_problem(text):
                yield f"regexes.{index}", message

    @cached_property
    def _patterns(self) -> list[Pattern]:
        return [Pattern(text) for text in self.regexes]

    def accepts(self, param_id: ParamId, paths: Sequence[str]) -> bool:
        return any(all(pattern.search(path) for pattern in self._patterns) for path in paths)


class MatchAnyRegexes(MatchRegexes, tag="AnyRegexes", dict=True):
    """Parameters with a path in which at least one of the patterns is found; the attributes are those of `Regexes`."""

    def accepts(self, param_id: ParamId, paths: Sequence[str]) -> bool:
        return any(pattern.search(path) for pattern in self._patterns for path in paths)


class MatchCallable(ParamMatcher):
    """Parameters for which a Python function is true; only a program can make one, no YAML can hold it."""

    unwritable: ClassVar[str] = (
        "a predicate that is a Python function; groups of from_predicates, from_regexes, from_paths and from_ids can be"
    )
    predicate: Any

    def __post_init__(self) -> None:
        if not callable(self.predicate) or isinstance(self.predicate, type):
            raise ConfigError(f"from_predicate: expected a text or a function of a Param, got {self.predicate!r}")

    def accepts(self, param_id: ParamId, paths: Sequence[str]) -> bool:
        raise ModuleTreeError(
            f"the predicate {self._name} needs a Param and can't tell by id and path alone; use matches(param), or"
            " from_predicates, from_regexes, from_paths or from_ids"
        )

    def matches(self, param: Any) -> bool:
        end = "; no parameter was changed"
        try:
            answer = self.predicate(param)
        except Exception as error:  # from the user's function, anything
            what = f"raised {type(error).__name__} at '{param.path}': {error}"
            raise ModuleTreeError(f"the predicate {self._name} {what}{end}") from error
        try:
            return bool(answer)
        except Exception as error:  # as of a tensor of several values, whose truth is not defined
            shape = getattr(answer, "shape", None)
            got = type(answer).__name__ + (f" of shape {list(shape)}" if isinstance(shape, tuple) else "")
            what = f"returned a {got} at '{param.path}': expected True or False, as of `.any()` or `.all()`"
            raise ModuleTreeError(f"the predicate {self._name} {what}{end}") from error

    @property
    def _name(self) -> str:
        code = getattr(self.predicate, "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        return getattr(self.predicate, "__qualname__", type(self.predicate).__name__) + where


class ParamGroup(Config):
    """A selection of parameters: those that a rule of `match` accepts and no rule of `excludes`.

    Made by the class methods, or in YAML as the field of a config:

        match: [{type: Regexes, regexes: ['^encoder\\.']}]
        excludes: [{type: Predicates, predicates: [norm]}]

    A tied tensor has several paths; one that a rule accepts is enough, for `match` as for `excludes`.

    Attributes:
        match: rules of which one has to hold.
        excludes: rules of which none may hold.

    Example:
        >>> group = ParamGroup.from_regex(r"^encoder\\.").exclude(ParamGroup.from_predicate("norm"))
        >>> [group.matches_id_path(ParamId(1), path) for path in ("encoder.0.weight", "encoder.norm.bias", "head.bias")]
        [True, False, False]
        >>> ParamGroup.from_yaml(group.to_yaml()) == group
        True

    Raises:
        ConfigError: a regular expression or an id is none, or `match` is empty.
    """

    match: Annotated[tuple[ParamMatcher, ...], Meta(min_length=1)]
    excludes: tuple[ParamMatcher, ...] = ()

    @classmethod
    def all(cls) -> "ParamGroup":
        return cls(match=(MatchAll(),))

    @classmethod
    def from_ids(cls, ids: Iterable[ParamId | str]) -> "ParamGroup":
        """The parameters with these ids, as ParamIds or in text form."""
        return cls(match=(MatchIds(ids=_texts(ids)),))

    @classmethod
    def ids_from_module(cls, module: "nn.Module") -> "ParamGroup":
        """All that `module` has now, by id: wherever they are in a larger tree, and whatever becomes of their paths."""
        from ..tree.walk import params

        return cls.from_ids(param.id for param in params(module))

    @classmethod
    def from_path(cls, path: str) -> "ParamGroup":
        return cls.from_paths((path,))

    @classmethod
    def from_paths(cls, paths: Iterable[str]) -> "ParamGroup":
        """The parameters at exactly these paths; `select` fails if a module lacks one."""
        return cls(match=(MatchPaths(paths=_texts(paths)),))

    @classmethod
    def from_predicate(cls, predicate: "str | Callable[[Param], object]") -> "ParamGroup":
        """The parameters whose path contains a text, or of which a function is true.

        A group with a function can't be written to YAML, and can't tell by id and path alone.
        """
        if isinstance(predicate, str):
            return cls.from_predicates((predicate,))
        return cls(match=(MatchCallable(predicate=predicate),))

    @classmethod
    def from_predicates(cls, predicates: Iterable[str]) -> "ParamGroup":
        """The parameters whose path contains all of the texts; of none, each that has a path."""
        return cls(match=(MatchPredicates(predicates=_texts(predicates)),))

    @classmethod
    def from_any_predicates(cls, predicates: Iterable[str]) -> "ParamGroup":
        """The parameters whose path contains at least one of the texts."""
        return cls(match=(MatchAnyPredicates(predicates=_texts(predicates)),))

    @classmethod
    def from_regex(cls, regex: str) -> "ParamGroup":
        """The parameters in whose path the pattern is found, anywhere unless it is anchored by `^` and `$`."""
        return cls.from_regexes((regex,))

    @classmethod
    def from_regexes(cls, regexes: Iterable[str]) -> "ParamGroup":
        """The parameters in whose path all the patterns are found; of none, each that has a path."""
        return cls(match=(MatchRegexes(regexes=_texts(regexes)),))

    @classmethod
    def from_any_regexes(cls, regexes: Iterable[str]) -> "ParamGroup":
        """The parameters in whose path at least one of the patterns is found."""
        return cls(match=(MatchAnyRegexes(regexes=_texts(regexes)),))

    def fuse(self, other: "ParamGroup") -> "ParamGroup":
        """Select what this group or the other one accepts; the excludes of both are dropped, as in Burn."""
        check_group(other)
        return ParamGroup(match=_joined(self.match, other.match))

    def exclude(self, group: "ParamGroup") -> "ParamGroup":
        """This group without what `group` accepts, whose own excludes don't count, as in Burn."""
        check_group(group)
        return self.replace(excludes=_joined(self.excludes, group.match))

    def matches(self, param: "Param") -> bool:
        """True if `param` is meant. One that is in no module has an id and no path.

        It is a ModuleTreeError if a function of the group raised, or returned neither true nor false.
        """
        return self._holds(lambda rule: rule.matches(param))

    def matches_id_path(self, param_id: ParamId, path: str | None = None) -> bool:
        """True if the parameter with this id and path is meant; without a path only ids (and `all`) can tell.

        It is a ModuleTreeError if the group has a function, which needs the Param.
        """
        return self._holds(lambda rule: rule.accepts(param_id, (path,) if path else ()))

    def _holds(self, holds: "Callable[[ParamMatcher], bool]") -> bool:
        return any(map(holds, self.match)) and not any(map(holds, self.excludes))

    def select(self, module: "nn.Module", others: "Iterable[Param]" = ()) -> "list[Param]":
        """The Params of `module` that are meant, weights and states, in the order of `params`.

        Args:
            others: handles whose paths `module` has beside those of its Params.

        Raises:
            ParamPathError: `module` lacks a path that the group names exactly; the nearest one is named.
            ModuleTreeError: a function of the group raised, or returned neither true nor false.
        """
        from ..tree.walk import params

        every = params(module)
        paths = dict.fromkeys(path for param in (*others, *every) for path in (param.path, *param.aliases))
        # Asked of the rules, not of the result: a misspelled path beside others that match would go unnoticed.
        for rule in (*self.match, *self.excludes):
            for path in rule.named_paths():
                if path not in paths:
                    raise no_parameter(module, path, paths)
        return [param for param in every if self.matches(param)]


def check_group(group: object) -> None:
    if not isinstance(group, ParamGroup):
        raise TypeError(
            f"expected a ParamGroup, got {group!r}: ParamGroup.from_predicate makes one of a text in the path or of a"
            " function, from_paths one of paths"
        )


def selected(module: "nn.Module", group: ParamGroup | None) -> "list[Param]":
    """The Params of `module` in `group`; of none, all. Errors are those of `ParamGroup.select`.

    Raises:
        ParamPathError: the group matches nothing.
    """
    from ..tree.walk import params

    if group is None:
        return params(module)
    check_group(group)
    if not (chosen := group.select(module)):
        has = listed([param.path for param in params(module)])
        raise ParamPathError(f"{type(module).__name__} has no parameter in the group {group}; it has {has}")
    return chosen


def _texts(values: Iterable[object]) -> Any:
    """The list of a rule; a single text is returned as it is, for the rule to refuse."""
    return values if isinstance(values, str) else tuple(str(it) if isinstance(it, ParamId) else it for it in values)


def _joined(rules: tuple[ParamMatcher, ...], more: tuple[ParamMatcher, ...]) -> tuple[ParamMatcher, ...]:
    return (*rules, *(rule for rule in more if rule not in rules))
