"""What is said of a path at which a module has no parameter."""

from collections.abc import Collection

from ..errors import ParamPathError, nearest


def no_parameter(module: object, path: str, known: Collection[str]) -> ParamPathError:
    """The error that `module` has no parameter at `path`, with what may be meant among the `known` paths."""
    inside = [name for name in known if name.startswith(f"{path}.")]
    if inside:
        hint = f"; '{path}' is a module that holds {len(inside)}, such as '{inside[0]}'"
    else:
        hint = nearest(path, list(known))
    return ParamPathError(f"{type(module).__name__} has no parameter '{path}'{hint}")
