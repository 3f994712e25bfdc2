"""The rules of a ParamGroup. Each looks at a parameter's id and paths. Imports no torch."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

from ..._patterns import Pattern, pattern_problem
from ...config import Config
from ...errors import ConfigError, ModuleTreeError
from ..identity.param_id import ParamId


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
