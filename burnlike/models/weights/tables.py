"""All tables of weights, by name. Each file of this folder that has a `WeightTable` is found. Imports no torch."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from ...errors import RecordError, nearest
from . import __path__ as folder
from .table import WeightTable


@cache
def weight_tables() -> Mapping[str, WeightTable]:
    """The tables by their names."""
    modules = [importlib.import_module(f"{__package__}.{it.name}") for it in pkgutil.iter_modules(folder)]
    found = [it for module in modules for it in vars(module).values() if isinstance(it, WeightTable)]
    return {it.name: it for it in sorted(found, key=lambda table: table.name)}


def weight_table(name: str) -> WeightTable:
    """The table of that name.

    Raises:
        RecordError: there is none.
    """
    if name not in weight_tables():
        known = ", ".join(weight_tables())
        raise RecordError(
            f"there are no weights called '{name}'{nearest(name, [*weight_tables()])}; expected one of {known}"
        )
    return weight_tables()[name]
