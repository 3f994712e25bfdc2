"""A program whose model is made at its top, which each process that it starts runs again; run by test_ranks.py."""

import json
import multiprocessing
import sys
from pathlib import Path

from torch import nn

from burnlike.module import Module, Param, params


class Net(Module):
    """A burnlike module draws its ids when it is built."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = Param.from_data([1.0, 2.0])
        self.layer = nn.Linear(2, 2)


def ids(module: nn.Module) -> dict[str, str]:
    """The id at every path."""
    return {param.path: str(param.id) for param in params(module)}


AT_THE_TOP = ids(Net())


def write(path: Path) -> None:
    """The ids that were drawn while this file was imported, and those that are drawn now."""
    path.write_text(json.dumps({"top": AT_THE_TOP, "later": ids(Net())}))


if __name__ == "__main__":
    method, folder = sys.argv[1:]
    context = multiprocessing.get_context(method)
    ranks = [context.Process(target=write, args=(Path(folder, f"{rank}.json"),)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
        assert process.exitcode == 0
    write(Path(folder, "parent.json"))
