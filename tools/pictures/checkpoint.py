"""What a checkpoint of a real run holds: its three files, and their tensors by bytes."""

import math

from .recorded import facts
from .svg import MARGIN, WIDTH, Picture

_BYTES = {"model.safetensors": 4, "optimizer.safetensors": 4}
_ABOUT = {
    "model.safetensors": ("blue", "the weights in full precision, and the id of each"),
    "optimizer.safetensors": ("green", "two moments for each weight, under its id"),
    "training.safetensors": ("gold", "everything else that the next step depends on"),
}
_PARTS = (
    ("random", "generators of torch, Python, NumPy"),
    ("loader", "epoch 30, position 0 of 1,298 items"),
    ("lr_scheduler", "current_iter 629"),
    ("counters", "step 630, best accuracy 99.13, kept: 378"),
)


def draw() -> Picture:
    files = facts("checkpoint")
    picture = Picture("The anatomy of a checkpoint: three safetensors files", 446)
    picture.text(MARGIN, 34, "runs/digits/checkpoints/step-00000630/", "m b")
    y = 50.0
    largest = max(it["bytes"] for it in files.values())
    for name, (color, about) in _ABOUT.items():
        file = files[name]
        picture.text(MARGIN, y + 18, name, f"m b t-{color}")
        picture.text(WIDTH - MARGIN, y + 18, f"{file['bytes']:,} bytes", "s e soft")
        picture.text(MARGIN, y + 36, about, "s")
        if name == "training.safetensors":
            for number, (part, text) in enumerate(_PARTS):
                picture.box(MARGIN, y + 46 + number * 26, 448, 22, color, 3)
                picture.mono(MARGIN + 10, y + 61 + number * 26, part)
                picture.text(MARGIN + 124, y + 61 + number * 26, text, "s")
            continue
        x, full = float(MARGIN), (WIDTH - 2 * MARGIN) * file["bytes"] / largest
        sizes = {it: math.prod(shape) * _BYTES[name] for it, shape in file["tensors"].items()}
        for tensor, size in sizes.items():
            width = full * size / file["bytes"]
            picture.box(x, y + 46, max(width, 1), 30, color, 2)
            if width > 60:
                text = tensor if name == "model.safetensors" else tensor.rpartition(".")[2]
                picture.text(x + 6, y + 65, text, "m", len(text) * 6.6)
            x += width
        picture.box(x, y + 46, MARGIN + full - x, 30, "plain", 2)
        if name == "model.safetensors":
            ids = ", ".join(f"{it} {file['ids'][it]}" for it in ("0.weight", "2.weight", "7.weight"))
            picture.text(MARGIN, y + 94, ids, "m soft", 448)
            y += 18
        y += 92
    picture.text(MARGIN, 430, "written into a hidden directory, synced, renamed: whole, or not there", "s soft")
    return picture
