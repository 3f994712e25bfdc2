"""The public names, and the page of each: a name with its config or reference shares a page."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import burnlike
from burnlike._lazy import _listed
from burnlike.config import Config
from tools.tensor_api import functions_of

from .docstrings import inline, to_rst

PACKAGES = (
    *("config", "module", "nn", "models", "optim", "data", "train", "train.metrics", "record", "interop"),
    *("func", "mlax", "tensor", "backend", "ops", "errors"),
)
"""Below `burnlike`, in the order of the site."""
PURPOSES = {
    "": "One function of the package itself; all else is in the packages below.",
    "config": "Read YAML into typed configs, check them with `file:line:column`, write them back. Imports no torch.",
    "module": "Work on any `torch.nn.Module`: parameters with ids, freezing, visiting, mapping, printing, moving.",
    "nn": "Layers and losses, each with its Config.",
    "models": "Ready models, each with its Config, and readers and writers of the weights of other libraries.",
    "optim": "Optimizers whose state follows parameters by id, gradients, clipping, learning rate schedules.",
    "data": "Datasets of tables, texts, images and chats, batchers, and a data loader whose position can be saved.",
    "train": "Train: jobs, tasks, the Learner, checkpoints, runs, progress.",
    "train.metrics": "Measure predictions over an epoch. Each metric is a `torchmetrics.Metric`.",
    "record": "Save and load modules, optimizers and trainings, in any format and precision.",
    "interop": "Use burnlike from the code that you have: optimizers as in torch.optim, `fuse`, export to Rust.",
    "func": "Transform functions of modules by `torch.func`: gradients, vectorization, ensembles.",
    "mlax": "Handle modules as values, as MLAX does: filter, partition, combine.",
    "tensor": "Typed tensors, `Tensor[B, D, K]`: kinds, ranks, and the functions that take them.",
    "backend": "Devices of tensors, element types, and the functions that compute each operation.",
    "ops": "Native operations, each with its derivative and its reference in plain torch.",
    "errors": "Every exception that burnlike raises on purpose.",
}
"""The purpose of each package, for the index."""
ENDINGS = ("Config", "_reference")
"""What follows another public name on whose page this one is."""


class Name(NamedTuple):
    """A public name.

    Attributes:
        package: where it is public, without `burnlike.`; empty for the package itself.
        name: in the package.
        module: that defines it.
        value: what it names.
    """

    package: str
    name: str
    module: str
    value: Any

    @property
    def full(self) -> str:
        return ".".join(filter(None, ("burnlike", self.package, self.name)))


def _of_package(package: str) -> list[Name]:
    path = f"burnlike.{package}".rstrip(".")
    module = importlib.import_module(path)
    file = Path(module.__file__ or "")
    if "__all__" in vars(module):
        listed = _listed(stub if (stub := file.with_suffix(".pyi")).exists() else file)
        listed = {
            name: path if it == "." else importlib.util.resolve_name(it, path)
            for name, it in listed.items()
            if name in module.__all__
        }
    else:  # a module: what it defines
        ours = {name: it for name, it in vars(module).items() if inspect.isclass(it) or inspect.isfunction(it)}
        listed = {name: path for name, it in ours.items() if it.__module__ == path and not name.startswith("_")}
    return [Name(package, name, defined, getattr(module, name)) for name, defined in sorted(listed.items())]


@cache
def names() -> dict[str, Name]:
    """Every public name by its whole path; modules whose functions are public are packages here."""
    found: dict[str, Name] = {}
    for package in ("", *PACKAGES):
        for it in _of_package(package):
            if not inspect.ismodule(it.value):
                found[it.full] = it
            elif it.full.startswith("burnlike.tensor."):
                where = it.full.removeprefix("burnlike.")
                members = dict(functions_of(it.value)) or {
                    name: value for name, value in vars(it.value).items()
                    if inspect.isclass(value) and value.__module__.startswith(it.full) and name[0] != "_"
                }  # fmt: skip
                found |= {f"{it.full}.{n}": Name(where, n, v.__module__, v) for n, v in members.items()}
    return found


@cache
def homes() -> dict[str, str]:
    """Of each public name the one under which it is described: that of a package before that of `burnlike`."""
    first: dict[tuple[str, int], str] = {}
    for full, it in sorted(names().items(), key=lambda pair: (pair[1].package == "", pair[1].package == "models")):
        first.setdefault((it.name, id(it.value)), full)
    return {full: first[it.name, id(it.value)] for full, it in names().items()}


@cache
def pages() -> dict[str, list[Name]]:
    """The pages by their document, `reference/api/nn.Linear`, and what is on each."""
    found: dict[str, list[Name]] = {}
    for full in sorted({*homes().values()}):
        it = names()[full]
        stem = full
        for ending in ENDINGS:
            if full.endswith(ending) and (shorter := full.removesuffix(ending)) in names():
                stem = homes()[shorter]
        if it.package.startswith("tensor.") or it.package == "errors":  # one page for the module
            stem = f"burnlike.{it.package}"
        found.setdefault("reference/api/" + stem.removeprefix("burnlike."), []).append(it)
    return {
        page: sorted(them, key=lambda it: (len(it.name), it.name) if len(them) < 4 else (0, it.name))
        for page, them in found.items()
    }


def package_of(document: str) -> str:
    """The package of a page of names, without `burnlike.`."""
    them, whole = pages()[document], document.rpartition("/")[2]
    return them[0].package if them[0].package != whole else whole.rpartition(".")[0]


def by_package() -> dict[str, list[str]]:
    """The pages of names below the page of each package, as the site's navigation lists them."""
    found: dict[str, list[str]] = {package or "burnlike": [] for package in ("", *PACKAGES)}
    for document in pages():
        page = document.rpartition("/")[2]
        if page not in found:
            found[package_of(document) or "burnlike"].append(page)
    return found


def page_of(full: str) -> str:
    """The document that describes a public name."""
    home = homes()[full]
    return next(page for page, them in pages().items() if any(it.full == home for it in them))


def title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def page(document: str) -> str:
    """The text of a page of names."""
    them, package, whole = pages()[document], package_of(document), document.rpartition("/")[2]
    # In no table of contents, which would be drawn anew for each of 800 pages; the page of the package lists it.
    parts = [f":orphan:\n\n.. py:currentmodule:: {'burnlike.' + package if package else 'burnlike'}\n\n", title(whole)]
    parts.append(f"In :doc:`/reference/api/{package or 'burnlike'}`.\n\n")
    if len({it.package for it in them} & {whole}):
        parts.append(to_rst(inspect.getdoc(importlib.import_module(f"burnlike.{whole}")) or "") + "\n\n")
    for it in them:
        also = [full for full, home in homes().items() if home == it.full and full != it.full]
        parts.append(_entry(it))
        if also:
            parts.append("Also " + ", ".join(f"``{full}``" for full in also) + ".\n\n")
    return "".join(parts)


def _entry(it: Name) -> str:
    if inspect.isclass(it.value):
        inherited = "   :inherited-members: object\n" if it.full == "burnlike.tensor.Tensor" else ""
        return f".. autoclass:: {it.full}\n   :members:\n   :undoc-members:\n{inherited}\n{_keys(it.value)}"
    if inspect.isroutine(it.value):
        return f".. autofunction:: {it.full}\n\n"
    shown = " ".join(str(it.value).replace("typing.", "").split())
    text = "\n".join(f"   {line}" for line in to_rst(about(it)).splitlines())
    package = it.full.rpartition(".")[0]
    return f".. py:currentmodule:: {package}\n\n.. py:data:: {it.name}\n   :value: {shown}\n\n{text}\n\n"


def _keys(value: type) -> str:
    """Where the keys of a config are, in YAML."""
    from . import configs  # which links to the pages of names

    page = next((page for page, (_, _, classes) in configs.by_page().items() if value in classes), None)
    return f"All keys, with bounds and an example: :doc:`/reference/configs/{page}`.\n\n" if page else ""


def about(it: Name) -> str:
    """The docstring of a name; of a constant the text below it in the source."""
    if inspect.isclass(it.value) or inspect.isroutine(it.value):
        return inspect.getdoc(it.value) or ""
    body = ast.parse(inspect.getsource(importlib.import_module(it.module))).body
    targets = [getattr(line, "target", None) or next(iter(getattr(line, "targets", ())), None) for line in body]
    place = next((at for at, found in enumerate(targets) if isinstance(found, ast.Name) and found.id == it.name), -1)
    if place < 0:
        return ""
    while isinstance(targets[place], ast.Name):  # several names may share the text below the last one
        place += 1
    text = getattr(body[place], "value", None)
    return inspect.cleandoc(text.value) if isinstance(text, ast.Constant) else ""


def summary(it: Name) -> str:
    """The first sentence of its docstring."""
    first = " ".join(about(it).split("\n\n")[0].split())
    first = re.split(r"\. (?:Torch|Differs|Raises)\b|\s(?:Torch|Differs): ", first)[0]
    return re.split(r"(?<!\bal|\beq)\. (?=[A-Z`])", first)[0].rstrip(".") + "." if first else ""


def package_page(package: str) -> str:
    """The list of a package: each name with its first sentence, by the part of the package that defines it."""
    path = f"burnlike.{package}".rstrip(".")
    parts = [f".. py:module:: {path}\n\n", title(path)]
    parts.append(to_rst(inspect.getdoc(importlib.import_module(path)) or "") + "\n\n")
    here = [
        it
        for it in names().values()
        if it.package == package or (package == "tensor" and it.package.startswith("tensor."))
    ]
    groups: dict[str, list[Name]] = {}
    for it in here:
        group = it.module.removeprefix(f"{path}.").split(".")[0]
        groups.setdefault("others" if group == "burnlike" else group, []).append(it)
    for group, them in groups.items():
        module = f"{path}.{group}"
        if len(groups) > 1:
            doc = inspect.getdoc(importlib.import_module(module)) if module in _modules(path) else ""
            parts.append(title(group if not doc else inline(doc.splitlines()[0].split(". ")[0].rstrip(".")), "-"))
        parts.append(".. list-table::\n   :widths: 30 70\n\n")
        for it in them:
            parts.append(f"   * - :py:obj:`{it.name} <{homes()[it.full]}>`\n     - {inline(summary(it)) or '..'}\n")
        parts.append("\n")
    return "".join(parts)


def _modules(path: str) -> set[str]:
    module = importlib.import_module(path)
    return {f"{path}.{it.name}" for it in pkgutil.iter_modules(getattr(module, "__path__", []))}


def toctree(documents: list[str]) -> str:
    return ".. toctree::\n   :hidden:\n\n" + "".join(f"   /{it}\n" for it in documents) + "\n"


def missing() -> list[str]:
    """Public names that no page describes."""
    described = {it.full for them in pages().values() for it in them}
    return [full for full, home in homes().items() if home not in described]


def is_config(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Config)


VERSION = burnlike.__version__


def index(heading: str, about: str, documents: list[str], tells: Mapping[str, str] | None = None) -> str:
    """A page that lists others, with a sentence about each where `tells` has one."""
    tells = tells or {}
    links = "".join(f"* :doc:`/{it}`{': ' + inline(tells[it]) if it in tells else ''}\n" for it in documents)
    return title(heading) + to_rst(about) + "\n\n" + links + "\n" + toctree(documents)
