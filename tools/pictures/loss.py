"""Curves of a real run: the loss of training and validation, and the accuracy of the validation."""

from collections.abc import Callable, Sequence

from burnlike.train.view.report.chart import value_axis

from .recorded import lines
from .svg import MARGIN, WIDTH, Picture

_Points = Sequence[tuple[float, float]]
_LEFT, _RIGHT = 56, 74


def draw() -> Picture:
    picture = Picture("Curves of a training of digits: loss and accuracy over the steps", 392)
    steps = float(max(it["step"] for it in lines()))

    def of(split: str, name: str) -> _Points:
        return [(it["step"], it[name]) for it in lines() if it["split"] == split and name in it]

    picture.text(MARGIN, 32, "loss", "b")
    picture.text(MARGIN + 34, 32, "logarithmic", "s soft")
    plot(
        picture,
        46,
        steps,
        [("training", "blue", of("train", "loss")), ("validation", "orange", of("valid", "loss"))],
        True,
    )
    picture.text(MARGIN, 224, "accuracy of the validation, %", "b")
    plot(picture, 238, steps, [("validation", "orange", of("valid", "accuracy"))], False)
    picture.text(WIDTH - MARGIN, 380, "steps", "s soft e")
    for number in range(0, int(steps) + 1, 210):
        picture.text(_LEFT + number / steps * (WIDTH - _LEFT - _RIGHT), 380, str(number), "s soft c")
    return picture


def plot(picture: Picture, top: float, steps: float, series: Sequence[tuple[str, str, _Points]], is_log: bool) -> None:
    height = 122
    axis = value_axis([y for _, _, points in series for _, y in points], may_be_log=is_log, from_zero=False)
    place: Callable[[float], float] = lambda value: top + (1 - axis.place(value)) * height  # noqa: E731
    for tick in axis.ticks():
        picture.path(f"M{_LEFT} {place(tick):.1f}H{WIDTH - _RIGHT}", "edge")
        picture.text(_LEFT - 8, place(tick) + 4, axis.label(tick), "s soft e")
    labels: list[float] = []
    for name, color, points in series:
        path = "L".join(f"{_LEFT + x / steps * (WIDTH - _LEFT - _RIGHT):.1f} {place(y):.1f}" for x, y in points)
        picture.raw(f'<path d="M{path}" class="l-{color}" stroke-linejoin="round"/>')
        y = place(points[-1][1]) + 4
        labels.append(y if not labels or abs(y - labels[-1]) > 16 else labels[-1] - 16)
        picture.text(WIDTH - _RIGHT + 6, labels[-1], name, f"s t-{color}")
