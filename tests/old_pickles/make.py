"""Writes the pickles of `samples.py` and the facts that today's version is held to:

    python -m tests.old_pickles.make

It was run once, by the version before `module/`, `optim/` and `tensor/` were divided into folders, and is kept to tell
how the files came about. Run by a later version it would write pickles of that.
"""

import json
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from burnlike.module import seed_param_ids

from .samples import MODULES, OTHERS, describe

FILES = Path(__file__).parent / "files"


def main() -> None:
    FILES.mkdir(exist_ok=True)
    torch.manual_seed(0)
    seed_param_ids(0)
    facts: dict[str, Any] = {}
    for name, make in {**MODULES, **OTHERS}.items():
        value, file = make(), FILES / f"{name}.pt"
        torch.save(value, file)
        names = sorted(torch.serialization.get_unsafe_globals_in_checkpoint(file))
        (FILES / f"{name}.pkl").write_bytes(pickle.dumps(value))
        facts[name] = {"is": describe(value), "weights_only": names if loads(file, names) else None}
        if facts[name]["weights_only"] is None:
            file.unlink()
    lines = [f"{json.dumps(name)}: {json.dumps(fact, ensure_ascii=False)}" for name, fact in facts.items()]
    (FILES / "facts.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def loads(file: Path, names: list[str]) -> bool:
    """Whether `weights_only` takes the file where the program trusts `names`."""
    trusted = [getattr(import_module(module), name) for module, _, name in (full.rpartition(".") for full in names)]
    try:
        with torch.serialization.safe_globals(trusted):
            torch.load(file, weights_only=True)
    except pickle.UnpicklingError:
        return False
    return True


if __name__ == "__main__":
    main()
