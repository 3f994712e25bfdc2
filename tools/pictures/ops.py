"""The passes over memory of RMS normalization: torch's ops on a CPU, and one native op."""

from .svg import MARGIN, WIDTH, Picture

_STEPS = (("pow", True), ("mean", False), ("mul", True), ("mul", True))
"""The ops that read a value of each element, and whether they write one, too."""


def draw() -> Picture:
    picture = Picture("Ops: torch reads and writes all elements seven times, one native op twice", 334)
    picture.text(MARGIN, 32, "y = x / √(mean(x²) + ε) · weight", "m b", 32 * 7.5)
    picture.text(MARGIN, 62, "torch's ops, one after the other", "b s")
    picture.text(WIDTH - MARGIN, 62, "all elements: 4 reads, 3 writes", "s e t-orange")
    _bus(picture, 122)
    for number, (name, writes) in enumerate(_STEPS):
        x = MARGIN + 6 + number * 112
        picture.box(x, 74, 92, 28, "orange")
        picture.text(x + 46, 93, name, "m c")
        picture.arrow(x + 28, 122, x + 28, 104, "l-orange", "t-orange")
        if writes:
            picture.arrow(x + 64, 102, x + 64, 120, "l-orange", "t-orange")
    picture.text(MARGIN, 190, "burnlike.ops.rms_norm", "b s")
    picture.text(WIDTH - MARGIN, 190, "1 read, 1 write", "s e t-green")
    _bus(picture, 250)
    picture.box(MARGIN + 6, 202, 428, 28, "green")
    picture.text(WIDTH / 2, 221, "x², mean, root, product: in registers and cache", "s c")
    picture.arrow(MARGIN + 34, 250, MARGIN + 34, 232, "l-green", "t-green")
    picture.arrow(WIDTH - MARGIN - 42, 230, WIDTH - MARGIN - 42, 248, "l-green", "t-green")
    picture.lines(
        MARGIN,
        302,
        [
            "Such ops wait for memory, not for arithmetic: less traffic is less time.",
            "The backward pass needs x and the weight, nothing else is kept.",
        ],
        "s soft",
    )
    return picture


def _bus(picture: Picture, y: float) -> None:
    picture.box(MARGIN, y, WIDTH - 2 * MARGIN, 26, "plain", 3)
    picture.text(WIDTH / 2, y + 18, "memory", "s c soft")
