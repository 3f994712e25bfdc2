"""Write docs/nn.md from the code: `python -m tools.nn_api`, or `--check` to compare only.

The introduction is `tools/nn_introduction.md`. Each layer and loss is one row: its config with the defaults, and the
`Torch:` and `Differs:` lines of the class's docstring.
"""

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from burnlike import nn
from burnlike.config import Config, ModuleConfig, registry

from .pages import DOCS, beside_torch, main, table

PAGE = DOCS / "nn.md"
INTRODUCTION = Path(__file__).parent / "nn_introduction.md"
FAMILIES = (
    *("linear", "embedding", "conv", "pool", "interpolate", "norm", "activation", "dropout"),
    *("blocks", "recurrent", "attention", "transformer", "similarity", "operations", "containers", "loss"),
)
BURNS = set(json.loads((DOCS.parent / "tests" / "burn" / "names.json").read_text())["burn-nn"].split())
"""The names that burn-nn exports."""


class Row(NamedTuple):
    """One layer or loss.

    Attributes:
        name: of the class.
        layer: the name, and whether Burn has it.
        config: the config as one writes it, with the defaults.
        torch: what torch has for it.
        differs: how that differs, or `-`.
    """

    name: str
    layer: str
    config: str
    torch: str
    differs: str


class Family(NamedTuple):
    """A folder or a file of layers, and its rows."""

    title: str
    rows: list[Row]


def shown(value: Any) -> str:
    """A default as one writes it: a config by its class, with the fields that are not its own defaults."""
    if not isinstance(value, Config):
        return repr(value)
    given = [
        f"{field.name}={shown(getattr(value, field.name))}"
        for field in msgspec.structs.fields(value)
        if getattr(value, field.name) != field.default
    ]
    return f"{type(value).__name__}({', '.join(given)})"


def signature_of(config: type[ModuleConfig]) -> str:
    """The config as one writes it: needed fields by name, the others with their defaults."""
    parts = []
    for field in msgspec.structs.fields(config):
        if field.default is not msgspec.NODEFAULT:
            parts.append(f"{field.name}={shown(field.default)}")
        elif field.default_factory is not msgspec.NODEFAULT:
            parts.append(f"{field.name}={shown(field.default_factory())}")
        else:
            parts.append(field.name)
    return f"{config.__name__}({', '.join(parts)})"


def configs() -> dict[str, type[ModuleConfig]]:
    """The configs of the layers of `burnlike.nn` by the names of the layers."""
    registry.load_built_in()
    found: dict[str, Any] = dict(registry.imported(ModuleConfig))
    ours = (config for config in found.values() if config.__module__.startswith("burnlike.nn."))
    return {config.__name__.removesuffix("Config"): config for config in ours}


def row_of(name: str, config: type[ModuleConfig]) -> Row:
    """The row of a layer."""
    doc = inspect.getdoc(getattr(nn, name)) or ""
    layer = f"`{name}`" if name in BURNS else f"`{name}` (not in Burn)"
    return Row(name, layer, f"`{signature_of(config)}`", *beside_torch(doc))


def families() -> list[Family]:
    """Everything public, in the order of the page; a family without a place in it comes last."""
    by_family: dict[str, list[Row]] = {name: [] for name in FAMILIES}
    for name, config in configs().items():
        by_family.setdefault(getattr(nn, name).__module__.split(".")[2], []).append(row_of(name, config))
    return [
        Family(inspect.getdoc(importlib.import_module(f"burnlike.nn.{name}")) or name, sorted(rows))
        for name, rows in by_family.items()
        if rows
    ]


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION.read_text()]
    for title, rows in families():
        heading = title.splitlines()[0].rstrip(".")
        parts.append(table(f"### {heading}", ("layer", "config", "torch", "difference"), rows))
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(main("tools.nn_api", page, PAGE))
