"""The type of a tensor, and what a type checker says of three lines."""

from .svg import MARGIN, WIDTH, Picture


def draw() -> Picture:
    picture = Picture(
        "Typed tensors: backend, rank and kind are in the type, so mistakes are found before a run",
        330,
        more_style=".large{font-size:16px}",
    )
    parts = (
        ("Tensor[", ""),
        ("Autodiff[Cpu]", "t-blue"),
        (", ", ""),
        ("D2", "t-orange"),
        (", ", ""),
        ("Float", "t-green"),
        ("]", ""),
    )
    x, places = 84.0, {}
    for text, color in parts:
        width = len(text) * 9.6
        picture.text(x, 46, text, f"m b large {color}".strip(), width)
        places[text] = x, width
        x += width
    notes = (
        ("Autodiff[Cpu]", "blue", 118, ("backend", "where it lies, and whether", "gradients are tracked")),
        ("D2", "orange", 288, ("rank", "of dimensions:", "D1 to D8")),
        ("Float", "green", 402, ("kind", "Float, Int", "or Bool")),
    )
    for key, color, middle, (head, *below) in notes:
        start = places[key][0] + places[key][1] / 2
        picture.path(f"M{start:.1f} 54V64L{middle} 78V86", f"l-{color}")
        picture.text(middle, 102, head, f"b c t-{color}")
        for number, text in enumerate(below):
            picture.text(middle, 120 + number * 17, text, "s c")
    rows = (
        ("queries.matmul(keys.transpose())", "", True),
        ("scores + mask", "a Float and a Bool", False),
        ("scores.matmul(batch)", "rank 2 with rank 3", False),
        ("scores.without_autodiff().backward()", "Cpu tracks no gradients", False),
    )
    for number, (text, why, is_right) in enumerate(rows):
        y = 164 + number * 32
        color = "green" if is_right else "pink"
        picture.box(MARGIN, y, WIDTH - 2 * MARGIN, 27, color, 4)
        mark = f"M{MARGIN + 11} {y + 14}l4 4l7-9" if is_right else f"M{MARGIN + 12} {y + 9}l9 9m0-9l-9 9"
        picture.path(mark, f"l-{color}")
        picture.text(MARGIN + 32, y + 18, text, "m", len(text) * 7.0)
        picture.text(WIDTH - MARGIN - 8, y + 18, why, "s e")
    picture.lines(
        MARGIN, 310, ["Pyright and mypy say it in the editor; the same checks run with the program."], "s soft"
    )
    return picture
