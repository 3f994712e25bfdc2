"""The table of native ops: what drives the tests that every op has to pass. An op has its cases in a file here."""

import importlib
import pkgutil

from ..op_case import OpCase

CASES: list[OpCase] = [
    case
    for module in pkgutil.iter_modules(__path__)
    for case in importlib.import_module(f"{__name__}.{module.name}").CASES
]
