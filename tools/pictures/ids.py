"""The state of an optimizer follows parameters by their ids, where a model got other names in another order."""

from .svg import MARGIN, Picture

_BOX, _ROW = 136, 46
_COLORS = ("blue", "orange")


def draw() -> Picture:
    picture = Picture("Ids: the optimizer's state follows each parameter through a rename", 262)
    columns = [MARGIN + place * (_BOX + 20) for place in range(3)]
    heads = [("the model before", ""), ("the optimizer's state", "found by id"), ("the model after", "")]
    for x, (head, below) in zip(columns, heads, strict=True):
        picture.text(x, 34, head, "b s")
        picture.text(x, 51, below, "s soft")
    top, bottom = 66, 66 + _ROW + 24
    before = {"hidden.weight": top, "head.weight": bottom}
    after = {"body.0.weight": bottom, "classifier.weight": top}
    ids = ("llii…dosq", "an0n…9qvu")
    for number, ((old, old_y), (new, new_y)) in enumerate(zip(before.items(), after.items(), strict=True)):
        color, state_y = _COLORS[number], top + number * (_ROW + 24)
        middle = state_y + _ROW / 2
        picture.path(f"M{columns[0] + _BOX} {old_y + _ROW / 2}H{columns[1]}", f"l-{color}")
        start, end = columns[1] + _BOX, columns[2]
        picture.path(
            f"M{start} {middle}C{start + 10} {middle} {end - 10} {new_y + _ROW / 2} {end} {new_y + _ROW / 2}",
            f"l-{color}",
        )
        for x, y, name in ((columns[0], old_y, old), (columns[2], new_y, new)):
            picture.box(x, y, _BOX, _ROW, color)
            picture.text(x + 9, y + 19, name, "m", len(name) * 6.9)
            picture.text(x + 9, y + 37, ids[number], f"m t-{color}", len(ids[number]) * 6.9)
        picture.box(columns[1], state_y, _BOX, _ROW, color)
        picture.text(columns[1] + 9, state_y + 19, ids[number], f"m b t-{color}", len(ids[number]) * 6.9)
        picture.text(columns[1] + 9, state_y + 37, "moments, step", "s")
    picture.lines(
        MARGIN,
        222,
        [
            "Other names, another order: each state still meets its parameter.",
            "By number, as torch.optim counts, the two would change places.",
        ],
        "s soft",
    )
    return picture
