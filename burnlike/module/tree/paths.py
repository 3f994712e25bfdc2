"""Error messages about paths at which a module has no parameter, or another one than expected."""

from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest

from ...errors import ParamPathError, nearest


def no_parameter(module: object, path: str, paths: Collection[str]) -> ParamPathError:
    """The error that `module` has no parameter at `path`, with what may be meant among `paths`, which it has."""
    inside = [name for name in paths if name.startswith(f"{path}.")]
    if inside:
        hint = f"; '{path}' is a module that holds {len(inside)}, such as '{inside[0]}'"
    else:
        hint = nearest(path, list(paths)) or f"; it has {listed([*paths])}"
    return ParamPathError(f"{type(module).__name__} has no parameter '{path}'{hint}")


def first_difference(ours: Iterable[str], theirs: Iterable[str]) -> tuple[str, str] | None:
    """The first two paths that differ, in quotes; `nothing` where one side has ended. None if there are none."""
    pairs = zip_longest(ours, theirs)
    return next(((_quoted(mine), _quoted(other)) for mine, other in pairs if mine != other), None)


def _quoted(path: str | None) -> str:
    return "nothing" if path is None else f"'{path}'"


def listed(paths: Sequence[str]) -> str:
    """The first few paths, in quotes, and how many more there are."""
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return (", ".join(map(_quoted, paths[:5])) or "none") + more
