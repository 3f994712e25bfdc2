"""Which classes `type:` can name: the tagged subclasses of a role that are imported, built-in ones first of all.

Classes come from the parts of burnlike named here by string, from modules that the user names with `--import`, and from
the entry point group `burnlike.configs`. Nothing in a YAML file can import anything.
"""

import importlib
from typing import Any


def upward(target: str) -> Any:
    """The object `module:name`, imported now: for calls into parts that stand above this one."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
