"""Curves of two trainings with the same seed: `precision: bfloat16` and `int8_mixed`.

`char_gpt/` has the lines of `burnlike train char_gpt --set training.precision=P --set data.validation_fraction=0.01
--set threads=1`.
"""

import json
from pathlib import Path

from .loss import plot
from .svg import MARGIN, WIDTH, Picture

RUNS = Path(__file__).with_name("char_gpt")
STEPS = 2000


def draw() -> Picture:
    picture = Picture("The loss of a training in bfloat16 and in int8_mixed, over the steps", 392)
    series = {"bfloat16": "blue", "int8_mixed": "orange"}
    for place, (split, name) in enumerate({"train": "training", "valid": "validation"}.items()):
        picture.text(MARGIN, 32 + 192 * place, f"loss of the {name}", "b")
        curves = [(precision, color, _curve(precision, split)) for precision, color in series.items()]
        plot(picture, 46 + 192 * place, STEPS, curves, False)
    picture.text(WIDTH - MARGIN, 380, "steps", "s soft e")
    for step in range(0, STEPS, 500):
        picture.text(56 + step / STEPS * (WIDTH - 130), 380, str(step), "s soft c")
    return picture


def _curve(precision: str, split: str) -> list[tuple[float, float]]:
    lines = map(json.loads, (RUNS / f"{precision}.jsonl").read_text(encoding="utf-8").splitlines())
    return [(it["step"], it["loss"]) for it in lines if it["split"] == split]
