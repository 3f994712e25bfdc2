"""One run in one go, and the same run stopped, killed and resumed: equal bits at the end."""

from .svg import MARGIN, WIDTH, Picture

_LEFT, _STEP, _STEPS = 34, 38, 10


def draw() -> Picture:
    picture = Picture("Resume: a run that was killed and resumed ends with the same bits as one that was not", 380)
    picture.text(MARGIN, 34, "in one go", "b s")
    _track(picture, 52, "blue", range(_STEPS + 1))
    picture.text(MARGIN, 92, "the same, killed and resumed", "b s")
    _track(picture, 126, "blue", range(5))
    picture.box(_x(4) - 11, 115, 22, 22, "gold", 4)
    lost = _x(6) + 16
    picture.raw(f'<path d="M{_x(4) + 11} 126H{lost}" class="l-pink" stroke-dasharray="4 4"/>')
    picture.path(f"M{lost - 6} 120l12 12m0-12l-12 12", "l-pink")
    picture.text(_x(4) + 18, 114, "a kill: two steps are lost", "s t-pink")
    picture.path(f"M{_x(4)} 138V176", "l-gold")
    _track(picture, 176, "green", range(4, _STEPS + 1))
    picture.text(_x(4) - 14, 180, "the last checkpoint", "s e t-gold")
    picture.path(f"M{_x(10)} 60V168", "edge")
    picture.box(_x(10) - 60, 76, 88, 24, "plain", 12)
    picture.text(_x(10) - 16, 93, "equal bits", "s c b")
    full = WIDTH - 2 * MARGIN
    picture.box(MARGIN, 204, full, 118, "gold")
    picture.text(MARGIN + 10, 225, "checkpoint: a directory that is there whole, or not at all", "b s")
    left = ("weights", "moments of the optimizer, by id", "learning rate schedule", "averages, early stopping, metrics")
    right = (
        "random generators: torch, CUDA,",
        "Python, NumPy",
        "position in the data, in mid-epoch",
        "losses since the last line",
    )
    picture.lines(MARGIN + 10, 248, left, "s", 19)
    picture.lines(MARGIN + 226, 248, right, "s", 19)
    picture.lines(
        MARGIN,
        346,
        [
            "What is computed twice is computed from the same state in the same order.",
            "burnlike verify-resume CONFIG proves it for a config of yours.",
        ],
        "s soft",
    )
    return picture


def _x(step: int) -> float:
    return _LEFT + step * _STEP


def _track(picture: Picture, y: float, color: str, steps: range) -> None:
    """A line with a dot for each step."""
    picture.path(f"M{_x(steps[0])} {y}H{_x(steps[-1])}", f"l-{color}")
    for step in steps:
        picture.raw(f'<circle cx="{_x(step)}" cy="{y}" r="4.5" class="t-{color}"/>')
