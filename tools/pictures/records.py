"""A module, its record and its file: what is where, and that nothing is copied whole."""

from .svg import MARGIN, WIDTH, Picture

_FILE = (
    (34, "plain", "size"),
    (128, "blue", "header"),
    (104, "green", "values"),
    (82, "green", ""),
    (62, "green", ""),
    (38, "green", ""),
)


def draw() -> Picture:
    picture = Picture("Records: a module's state as named tensors, and the safetensors file that it becomes", 434)
    full = WIDTH - 2 * MARGIN
    picture.card(MARGIN, 16, full, "nn.Module", ["layers, parameters, buffers: any module of PyTorch"], "orange")
    picture.arrow(34, 65, 34, 97)
    picture.text(46, 86, "save: refers, copies nothing", "s")
    picture.arrow(446, 97, 446, 65)
    picture.text(434, 86, "load: all or nothing", "s e")
    record = (
        "names → tensors · ids of parameters · other names of tied tensors",
        "which are buffers · plain values: numbers, texts, lists, maps",
    )
    picture.card(MARGIN, 98, full, "Record", record, "blue")
    picture.arrow(34, 164, 34, 214)
    picture.lines(46, 184, ["in blocks: convert (float32 →", "bfloat16), write, in threads"], "s", 17)
    picture.arrow(446, 214, 446, 164)
    picture.lines(434, 184, ["straight into the memory", "of the module"], "s e", 17)
    picture.text(MARGIN, 238, "model.safetensors", "m b")
    x = MARGIN
    for width, color, text in _FILE:
        picture.box(x, 248, width, 40, color, 3)
        if text:
            picture.text(x + width / 2, 273, text, "s c")
        x += width
    picture.path(f"M{MARGIN + 34} 290L{MARGIN} 306M{MARGIN + 162} 290L{WIDTH - MARGIN} 306", "edge")
    picture.box(MARGIN, 306, full, 74, "blue", 3)
    rows = (
        ('"0.weight": {"dtype": "BF16", "shape": [16, 1, 3, 3], ...}', "m"),
        ("burnlike.ids, .aliases, .states, .values, .versions", "m"),
        ("burnlike.checksums: one of the header, one of each tensor", "m"),
    )
    for number, (text, classes) in enumerate(rows):
        picture.text(MARGIN + 10, 327 + number * 20, text, classes, len(text) * 7.2)
    picture.lines(
        MARGIN,
        404,
        [
            "Every reader of safetensors opens it. It is written beside its name, synced,",
            "and renamed: a kill at any moment leaves the old file or the new one.",
        ],
        "s soft",
    )
    return picture
