"""The way of data: from a YAML file to a file of weights, each step a function of the one before."""

from .svg import MARGIN, WIDTH, Picture

_STAGES = (
    ("YAML", "plain", ("a text: can't import or run code",)),
    ("Config", "gold", ("typed and frozen; every mistake with file:line:column",)),
    ("Module", "orange", ("an nn.Module; each parameter has an id,", "computed by native ops where they gain")),
    ("gradients", "plain", ("torch's own backward pass; found by id",)),
    ("Optimizer", "green", ("states by id; clips, decays and updates in one pass",)),
    ("Record", "blue", ("named tensors, ids, plain values; copies nothing",)),
    ("file", "plain", ("safetensors, or Burn's formats, in any precision",)),
)


def draw() -> Picture:
    heights = [28 + 17 * (len(texts) - 1) for _, _, texts in _STAGES]
    picture = Picture("From YAML to a file: config, module, gradients, optimizer, record", 32 + sum(heights) + 22 * 6)
    y = 16.0
    for number, ((name, color, texts), height) in enumerate(zip(_STAGES, heights, strict=True)):
        picture.box(MARGIN, y, 92, height, color)
        picture.text(MARGIN + 46, y + height / 2 + 5, name, "b c")
        picture.lines(MARGIN + 104, y + 19, texts, "s", 17)
        if number < len(_STAGES) - 1:
            picture.arrow(MARGIN + 46, y + height, MARGIN + 46, y + height + 21)
        y += height + 22
    back = WIDTH - MARGIN - 4
    first, last = 16 + heights[0] + 22 + heights[1] + 22 + 14, y - 22 - heights[6] - 22 - heights[5] + 14
    picture.path(f"M{back - 12} {last}H{back}V{first}H{back - 8}")
    picture.raw(f'<polygon points="{back - 13},{first} {back - 6},{first - 4} {back - 6},{first + 4}" class="tip"/>')
    picture.text(back - 6, (first + last) / 2 + 34, "load", "s e soft")
    return picture
