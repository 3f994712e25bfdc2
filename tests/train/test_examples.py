"""The examples and guides of training run as a user would run them; the bigram table and sampling."""

import csv
import math
import random
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image, ImageDraw
from safetensors.torch import load_file
from torch import nn

from burnlike.data import ImageFolderConfig
from burnlike.models.generation import stop_tokens
from burnlike.train import LanguageModelConfig, bigram_loss, load_run, sample
from burnlike.train.runs.logs import read_metrics
from burnlike.train.tasks.language_model import ALPHAS
from tests.marks import slow, weekly
from tests.processes import HANGS_S

from ..cli.guides import DOCS, run_commands, yaml_of

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
SMALL = {
    "classify_digits": (["--epochs", "2"], r"test loss \d\.\d+\ntest accuracy 0\.[4-9]\d+"),
    "custom_loop": (["--steps", "60"], r"step 60  error of the averaged weights 0\.\d+"),
    "gan": (["--steps", "40", "--save-every", "20"], r"step 40  distance from the origin \d\.\d+"),
    "lora_fine_tune": (["--epochs", "1"], r"validation loss 4\.\d+\nadapters: .*adapters.safetensors"),
    "byte_pair_lm": (
        ["--steps", "4", "--characters", "40000", "--vocab-size", "300"],
        r"perplexity      \d+\.\d of 300 tokens\nsample: def ",
    ),
}

LONGER = {"classify_digits", "lora_fine_tune"}


def run(name: str, out: Path, *arguments: str) -> str:
    command = [sys.executable, EXAMPLES / f"{name}.py", "--out", out, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_tried() -> None:
    assert SMALL.keys() == {file.stem for file in EXAMPLES.glob("*.py")}


# Each is a process that imports torch and trains for seconds; some for many.
@pytest.mark.parametrize("name", [*slow(*sorted(SMALL.keys() - LONGER)), *weekly(*sorted(LONGER))])
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    arguments, expected = SMALL[name]
    printed = run(name, tmp_path / "run", *arguments)
    assert re.search(expected, printed), printed


@pytest.mark.weekly
@pytest.mark.parametrize("name", SMALL)
def test_an_example_that_is_run_again_trains_nothing(name: str, tmp_path: Path) -> None:
    arguments, expected = SMALL[name]
    first, again = (run(name, tmp_path / "run", *arguments) for _ in range(2))
    assert re.findall(expected, again) == re.findall(expected, first)


@pytest.mark.weekly
def test_a_gan_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    run("gan", tmp_path / "whole", "--steps", "40", "--save-every", "10")
    for steps in ("20", "40"):
        run("gan", tmp_path / "parts", "--steps", steps, "--save-every", "10")
    for record in ("generator", "discriminator"):
        file = f"checkpoints/step-00000040/{record}.safetensors"
        whole, parts = (load_file(tmp_path / it / file) for it in ("whole", "parts"))
        assert {name: it.tolist() for name, it in whole.items()} == {name: it.tolist() for name, it in parts.items()}


def by_hand(train: list[int], valid: list[int], vocab_size: int, alpha: float) -> float:
    pairs, firsts = Counter(pairwise(train)), Counter(train[:-1])
    losses = [-math.log((pairs[a, b] + alpha) / (firsts[a] + alpha * vocab_size)) for a, b in pairwise(valid)]
    return sum(losses) / len(losses)


def test_loss_is_that_of_counting_by_hand_with_the_best_alpha() -> None:
    train, valid = torch.randint(0, 6, (500,)), torch.randint(0, 6, (80,))
    expected = {alpha: by_hand(train.tolist(), valid.tolist(), 6, alpha) for alpha in ALPHAS}
    found = bigram_loss(train.to(torch.uint8), valid.to(torch.uint8), vocab_size=6)
    assert found.alpha == min(expected, key=expected.__getitem__)
    assert found.loss == pytest.approx(expected[found.alpha], rel=1e-12)


def test_counting_in_pieces_loses_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    train, valid = torch.randint(0, 256, (1000,)), torch.randint(0, 256, (50,))
    whole = bigram_loss(train, valid)
    monkeypatch.setattr("burnlike.train.tasks.language_model._CHUNK", 7)
    assert bigram_loss(train, valid) == whole


def test_a_text_that_repeats_itself_is_predicted_almost_surely() -> None:
    text = torch.tensor([0, 1, 2] * 1000)
    assert bigram_loss(text, text, vocab_size=3).loss < 1e-4


class Counting(nn.Module):
    """Says that the token after t is t + 1 (of 10), almost surely; notes what it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[list[int]] = []

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        self.shown.append(tokens[0].tolist())
        return 50.0 * nn.functional.one_hot((tokens + 1) % 10, 10).float()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_continues_the_prompt_and_shows_the_context_only(temperature: float) -> None:
    model = Counting().train()
    added = sample(model, torch.tensor([3, 4]), length=4, context_length=3, temperature=temperature)
    assert added.tolist() == [5, 6, 7, 8]
    assert model.shown == [[3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7]]
    assert model.training


def test_draws_depend_on_the_seed_only() -> None:
    class Flat(nn.Module):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return torch.zeros(1, tokens.shape[1], 10)

    def draw(seed: int) -> list[int]:
        return sample(Flat(), torch.tensor([0]), length=50, context_length=1, seed=seed).tolist()

    first = draw(1)
    torch.rand(3)
    before = torch.get_rng_state()
    assert draw(1) == first != draw(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert set(first) == set(range(10))


@pytest.mark.parametrize(("ends", "of_data", "answer"), [
    (None, (), "567890"), (8, (), "567"), ([9, 7], (), "56"), ([9, 8], (6,), "5"), (8, (9,), "567"),
])  # fmt: skip
def test_an_answer_ends_where_the_model_or_its_data_say(ends: Any, of_data: tuple[int, ...], answer: str) -> None:
    class Codec:
        context_length, stop_tokens = None, frozenset(of_data)

        def decode(self, tokens: torch.Tensor) -> str:
            return "".join(map(str, tokens.tolist()))

    model: Any = Counting()
    model.generation_config = SimpleNamespace(eos_token_id=ends)
    prompt = torch.tensor([3, 4])
    task = LanguageModelConfig(sample_length=6).init()
    assert task.predict(model, {"input_ids": [prompt], "codec": Codec()}, {}) == [{"answer": answer}]
    stops = stop_tokens(model, Codec())
    assert stops == tuple(sorted({*of_data, *([] if ends is None else ends if isinstance(ends, list) else [ends])}))
    assert sample(model, prompt, length=6, context_length=3, stops=stops).tolist() == [*map(int, answer)]


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
