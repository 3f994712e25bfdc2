"""Write docs/support/torch.md and versions.md from the code: `python -m tools.support`."""

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable

import torch
from torch import nn, optim
from torch.optim import lr_scheduler

from burnlike.config import LrSchedulerConfig, OptimizerConfig, registry
from burnlike.interop import torch_counterparts

from .nn_api import families
from .pages import DOCS, table

FOLDER = DOCS / "support"
BASES = {"Container", "LRScheduler", "Module", "Optimizer", "RNNBase", "RNNCellBase"}
"""Classes of torch that others derive from."""
LISTS = {"ModuleList": "a list field", "ModuleDict": "a dict field", "ParameterList": "a list field"}
LISTS |= {"ParameterDict": "a dict field", "DataParallel": "`distributed` of a job"}
"""What has another form here than a class."""
_HEAD = """# Beside torch

Each class of `torch.nn` and `torch.optim` of torch {torch} is in a row: what burnlike has for it, and whether
`interop.from_torch` and `interop.to_torch` convert it with its weights. Where there is nothing, use torch's own
class: any `torch.nn.Module` may be a part of a burnlike module, keeps its place in ids and records, and trains with
the Learner. [Layers and losses](../nn.md) has the other direction: each layer of burnlike, whether Burn has it, and
how it differs from torch's. `make docs` writes this page from the code, and the tests compare it.
"""
_VERSIONS = """# Versions and machines

What burnlike needs, and where it was run. [Building](../building.md#what-was-tried) has more of what was tried.

{versions}
| machine | state |
| --- | --- |
| Linux on x86-64 | the suite runs there; kernels for the baseline, AVX2, AVX-512, and AVX-512 with bfloat16 |
| Linux on aarch64 | cross-compiled, and run under emulation (ops, a training); not on a real machine |
| NVIDIA GPUs | the kernels compile (`make cuda-compile`); nothing was run on a GPU yet |
| macOS, Windows | not yet; without native kernels (`BURNLIKE_NATIVE=0`) most is plain torch, but nobody has tried |

`make test-torch TORCH=2.12.0 PYTHON=3.12` runs the suite with another torch and Python; what differs between versions
of torch is in `burnlike/_torch_compat`, where a test of each private name says what would break.

## What else is supported

| of what | where |
| --- | --- |
| families of transformers that `fuse` makes faster | [which models fuse makes faster](../fuse_support.md) |
| layers, losses, optimizers and schedules of torch | [beside torch](torch.md) |
| layers and losses of Burn | [layers and losses](../nn.md), [the tensor API](../tensor_api.md) |
| file formats, and what each can hold | [formats](../formats.md#what-each-format-can-hold) |
| kinds of parallelism, and which go together | [parallelism](../parallelism.md#together) |
| what later versions will read | [compatibility](../compatibility.md) |
| instruction sets of CPUs | [building](../building.md#instruction-sets) |

## Not yet

- Nothing was run on a GPU or on an Arm processor by us.
- Of what torchtitan does for clusters, [a list says what is missing](../parallelism/torchtitan.md).
- [Beside torch](torch.md) lists the layers, losses, optimizers and schedules that only torch has.
- Where a result differs from Burn's, [deviations](../deviations.md) says how, and why.
"""


def classes(module: object, base: type) -> list[str]:
    """The public classes of a module of torch below `base`."""
    found = [(name, it) for name, it in vars(module).items() if inspect.isclass(it) and issubclass(it, base)]
    return sorted(name for name, _ in found if name not in BASES and not name.startswith(("_", "Lazy")))


def ours_by_torch() -> dict[str, list[str]]:
    """Of each class of `torch.nn` the layers of burnlike whose docstrings name it."""
    found: dict[str, list[str]] = {}
    for row in (row for family in families() for row in family.rows):
        for name in re.findall(r"\bnn\.(\w+)", row.torch):
            found.setdefault(name, []).append(f"`{row.name}`")
    return found


def _alike(names: Iterable[str], role: type) -> dict[str, list[str]]:
    registry.load_built_in()
    ours = {tag.lower().removesuffix("lr"): tag for tag in registry.imported(role)}
    return {it: [f"`{ours[key]}`"] for it in names if (key := it.lower().removesuffix("lr")) in ours}


def _part(title: str, names: list[str], ours: dict[str, list[str]], converts: Callable[[str], bool] | None) -> str:
    same: dict[tuple[str, ...], list[str]] = {}
    for name in (it for it in names if it in ours):
        conversion = [] if converts is None else ["yes" if converts(name) else "no"]
        told = ", ".join(sorted(set(ours[name])))
        same.setdefault(("the same name" if told == f"`{name}`" else told, *conversion), []).append(f"`{name}`")
    rows = [("", ", ".join(them), *told) for told, them in sorted(same.items(), key=lambda it: -len(it[1]))]
    heads = ("torch", "burnlike", *(() if converts is None else ("converted",)))
    missing = ", ".join(f"`{it}`" for it in names if it not in ours)
    number = sum(it not in ours for it in names)
    return table(f"## {title}", heads, rows) + f"\nNot yet, {number} of {len(names)}: {missing}.\n"


def pages() -> dict[str, str]:
    """The texts by the names of the files."""
    layers, losses = [], []
    for name in classes(nn, nn.Module):
        (losses if "Loss" in name else layers).append(name)
    kept = {it.__name__: ["kept as it is"] for it in torch_counterparts.KEPT}
    pairs = {kind.__name__: [f"`{it.layer}`" for it in found] for kind, found in torch_counterparts.of_torch().items()}
    ours = ours_by_torch() | kept | pairs | {name: [text] for name, text in LISTS.items()}
    converted = {*kept, *pairs}
    optimizers = classes(optim, optim.Optimizer)
    schedules = classes(lr_scheduler, lr_scheduler.LRScheduler)
    beside = [
        _HEAD.format(torch=torch.__version__.partition("+")[0]),
        _part("Layers", layers, ours, converted.__contains__),
        _part("Losses", losses, ours, converted.__contains__),
        _part("Optimizers", optimizers, _alike(optimizers, OptimizerConfig), None),
        _part("Learning rate schedules", schedules, _alike(schedules, LrSchedulerConfig), None),
    ]
    return {"torch.md": "".join(beside), "versions.md": _VERSIONS.format(versions=_versions())}


def _versions() -> str:
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    pythons = [it.rpartition(" ")[2] for it in project["classifiers"] if re.search(r"Python :: 3\.\d+$", it)]
    needs = dict(re.match(r"([\w.-]+)(.*)", it).groups() for it in project["dependencies"])  # pyright: ignore[reportOptionalMemberAccess]
    pinned = re.search(r"^torch==([\d.]+)", (DOCS.parent / "requirements-torch.lock").read_text(), re.MULTILINE)
    rows = [
        ("", "Python", ", ".join(pythons), "3.11"),
        ("", "torch", needs.pop("torch"), pinned[1] if pinned else ""),
        *(("", name, bound, "") for name, bound in needs.items()),
    ]
    return table("", ("needs", "versions", "the suite runs with"), rows).lstrip()


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
