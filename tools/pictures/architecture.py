"""The parts of the package as floors: each imports only those below it."""

from .svg import MARGIN, WIDTH, Picture

_FLOORS = (
    ("plain", (("cli", "the commands"),)),
    ("pink", (("train", "jobs from YAML, the loop, tasks, processes, runs, export"),)),
    ("orange", (("models", "ready models, weights"), ("interop", "torch's own interfaces"))),
    ("orange", (("nn", "layers"), ("optim", "rules, steps"), ("data", "sets, loader"))),
    ("blue", (("record", "state to files and back"), ("func", "torch.func of modules"))),
    ("orange", (("mlax", "modules as pytrees"), ("module", "ids, the walk, Param"))),
    ("green", (("tensor", "typed: backend, rank, kind"), ("backend", "tables of functions"))),
    ("green", (("ops", "native ops, each with its reference"), ("csrc", "their C++ and CUDA"))),
    ("gold", (("config", "YAML to frozen structs"), ("random", "keys"))),
    ("plain", (("_*.py", "one door each: files, patterns, environment, torch's private names"),)),
)
_HEIGHT, _GAP = 46, 8


def draw() -> Picture:
    picture = Picture(
        "The parts of burnlike, each above those that it imports", 32 + len(_FLOORS) * (_HEIGHT + _GAP) - _GAP
    )
    y = 16.0
    for color, parts in _FLOORS:
        letters = [max(len(text), 8) + 3 for _, text in parts]
        room = WIDTH - 2 * MARGIN - _GAP * (len(parts) - 1)
        x = float(MARGIN)
        for (name, text), count in zip(parts, letters, strict=True):
            width = room * count / sum(letters)
            picture.box(x, y, width, _HEIGHT, color)
            picture.text(x + 10, y + 19, name, f"b t-{color}" if color != "plain" else "b")
            picture.text(x + 10, y + 36, text, "s")
            x += width + _GAP
        y += _HEIGHT + _GAP
    return picture
