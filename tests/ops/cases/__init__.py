"""The table of native ops: what drives the tests that every op has to pass.

An op has its `CASES` in a file here, and a function `random_<op>`, which makes a call with hostile arguments.
"""

import importlib
import pkgutil

from ..op_case import OpCase

CASES: list[OpCase] = [
    case
    for module in pkgutil.iter_modules(__path__)
    for case in getattr(importlib.import_module(f"{__name__}.{module.name}"), "CASES", ())
]
