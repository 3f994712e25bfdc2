"""The guide to images, command by command: from folders of images to predictions and ONNX."""

import csv
import random
import re
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageDraw

from burnlike.data import ImageFolderConfig
from burnlike.train import load_run
from burnlike.train.runs.logs import read_metrics

from ..cli.guides import DOCS, run_commands, yaml_of

GUIDE = (DOCS / "images.md").read_text()


def draw_shapes(folder: Path, count: int) -> None:
    """Circles, squares and crosses of many colours and sizes."""
    draw = random.Random(1)
    for name in ("circle", "square", "cross"):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            size = draw.randint(40, 60), draw.randint(40, 60)
            picture = Image.new("RGB", size, tuple(draw.randint(0, 90) for _ in range(3)))
            x, y, r = draw.randint(15, size[0] - 15), draw.randint(15, size[1] - 15), draw.randint(8, 13)
            box, colour = (x - r, y - r, x + r, y + r), tuple(draw.randint(150, 255) for _ in range(3))
            pen = ImageDraw.Draw(picture)
            if name == "circle":
                pen.ellipse(box, fill=colour)
            elif name == "square":
                pen.rectangle(box, fill=colour)
            else:
                pen.line(box, fill=colour, width=3)
                pen.line((x - r, y + r, x + r, y - r), fill=colour, width=3)
            picture.save(folder / name / f"{number}.{'jpg' if number % 2 else 'png'}")


@pytest.mark.slow
def test_the_guide_to_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    draw_shapes(tmp_path / "photos", 18)
    Path("shapes.yaml").write_text(yaml_of(GUIDE, "shapes.yaml"))
    (commands,) = re.findall(r"```bash\n(burnlike data.*?)```", GUIDE, re.DOTALL)
    run_commands(commands.splitlines(), monkeypatch, capsys)
    valid = [
        line for line in read_metrics(tmp_path / "runs" / "shapes" / "metrics.jsonl").lines if line["split"] == "valid"
    ]
    assert max(line["accuracy"] for line in valid) > 50
    with Path("classes.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert [row["name"] for row in rows] == sorted(
        f"photos/cross/{it}.{'jpg' if it % 2 else 'png'}" for it in range(18)
    )
    run = load_run("runs/shapes", best=True)
    assert run.classes == ["circle", "cross", "square"]
    assert run.step == max(valid, key=lambda line: (line["accuracy"], -line["loss"]))["step"]
    images = ImageFolderConfig(path="photos", size=(32, 32))
    new = images.unlabeled([Path("photos/cross")], {}, tmp_path)
    session = onnxruntime.InferenceSession("runs/shapes/exports/model.onnx", providers=["CPUExecutionProvider"])
    for place in (0, 7):
        (logits,) = session.run(None, {"x": resized(Path(rows[place]["name"])).numpy()})
        expected = torch.tensor([[float(rows[place][f"probabilities.{name}"]) for name in run.classes or ()]])
        torch.testing.assert_close(torch.tensor(logits).softmax(1), expected, rtol=1e-3, atol=1e-4)
    assert len(new.names) == 18


def resized(path: Path) -> torch.Tensor:
    """As `Resize` of the guide: `[1, 3, 32, 32]` in 0..1."""
    whole = ImageFolderConfig(path="photos").unlabeled([path], {}, path).dataset[0][0]
    return torch.nn.functional.interpolate(whole[None], (32, 32), mode="bilinear", antialias=True)
