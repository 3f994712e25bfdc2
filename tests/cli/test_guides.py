"""Guides of docs/guide that are run as they stand: their configs, and their commands one after the other."""

import csv
import io
import random
import re
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.module import params
from burnlike.train import Job, RunDir, TrainConfig

from ..models.by_path.directories import bert
from .guides import DOCS, commands_of, run_commands, yaml_of

MODELS_GUIDE = (Path(__file__).parents[2] / "docs/guide/yaml_models.md").read_text()
MODELS = dict(re.findall(r"^## (.*?)\n.*?```yaml\n(.*?)```", MODELS_GUIDE, re.DOTALL | re.MULTILINE))
SHORT = ["training.steps_per_epoch=3", "training.epochs=1", "training.validation_steps=1", "device=cpu", "threads=1"]


def test_there_are_four() -> None:
    assert [*MODELS] == ["Attention by hand", "A Highway network", "A variational autoencoder", "A Perceiver"]


@pytest.mark.parametrize("name", MODELS)
def test_it_is_checked_and_trained(name: str, tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(MODELS[name])
    assert main(["check", str(file)]) == 0
    assert main(["check", "--shapes", str(file)]) == 0
    job = Job(TrainConfig.load(file, SHORT))
    before = {it.path: it.tensor.detach().clone() for it in params(job.model, "weight")}
    with closing(RunDir.create(tmp_path / "run")) as run:
        job.run(run)
    for it in params(job.model, "weight"):
        assert it.tensor.isfinite().all()
        assert not torch.equal(it.tensor, before[it.path]), it.path


def test_attention_by_hand_is_torchs() -> None:
    config = TrainConfig.from_yaml(MODELS["Attention by hand"]).model
    values = {**config.to_dict(), "outputs": ["q", "k", "v", "joined"]}
    values["nodes"] = {name: node for name, node in values["nodes"].items() if name not in ("mean", "head")}
    model = ModuleConfig.from_dict(values).init("cpu").double()
    q, k, v, found = model(torch.rand(2, 1, 8, 8, dtype=torch.float64))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k.mT, v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_the_loss_of_the_autoencoder_is_that_of_the_paper() -> None:
    config = TrainConfig.from_yaml(MODELS["A variational autoencoder"]).model
    values = {**config.to_dict(), "outputs": ["loss", "restored", "mean", "log_variance"]}
    model = ModuleConfig.from_dict(values).init("cpu").double()
    image = torch.rand(3, 64, dtype=torch.float64)
    loss, restored, mean, log_variance = model(image)
    posterior = torch.distributions.Normal(mean, (log_variance / 2).exp())
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    divergence = torch.distributions.kl_divergence(posterior, prior).sum(1)
    expected = ((restored - image).square().sum(1) / 2 + divergence).mean()
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)


TABLE_GUIDE = (DOCS / "table.md").read_text()


def _row(number: int, drawn: random.Random) -> dict[str, str]:
    color, income = drawn.choice(["red", "green", "blue", ""]), drawn.gauss(3000, 500)
    born = date(1950, 1, 1) + timedelta(days=drawn.randrange(20_000))
    buys = (color == "red") or (income > 3200 and born.year > 1970)
    return {
        "id": str(number),
        "color": color,
        "born": str(born),
        "income": "" if drawn.random() < 0.2 else f"{income:.2f}",
        "member": drawn.choice(["yes", "no"]),
        "bought": "yes" if buys else "no",
    }


def _write(name: str, rows: list[dict[str, str]]) -> None:
    with Path(name).open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.slow
def test_the_guide_to_tables_runs_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    drawn = random.Random(0)
    rows = [_row(number, drawn) for number in range(400)]
    new = [_row(number, drawn) for number in range(100)]
    _write("people.csv", rows)
    _write("new.csv", [{name: it for name, it in row.items() if name != "bought"} for row in new])
    text = yaml_of(TABLE_GUIDE, "people.yaml")
    Path("people.yaml").write_text(text)
    said = {line.split()[1]: it for line, it in run_commands(commands_of(TABLE_GUIDE), monkeypatch, capsys).items()}
    assert "color   category, 3 different: blue, green, red; " in said["data"]
    with Path("bought.csv").open() as file:
        found = [*csv.DictReader(file)]
    assert [*found[0]] == re.findall(r"^(name,class.*)$", TABLE_GUIDE, re.MULTILINE)[0].split(",")
    assert found[0]["name"] == "new.csv:2"
    right = [one["class"] == other["bought"] for one, other in zip(found, new, strict=True)]
    assert sum(right) >= 80
    # The error of the guide, for a config without the rules.
    Path("people.yaml").write_text(re.sub(r"  columns:\n(    .*\n)+", "", text))
    assert main(["train", "people.yaml"]) == 2
    assert "people.csv:2:" in (message := capsys.readouterr().err)
    assert "data.columns.color" in message


GUIDE = (DOCS / "text_classifier.md").read_text()
GOOD, BAD = ("wonderful", "fine", "moving", "great"), ("dull", "poor", "boring", "bad")
OTHERS = ("a", "the", "film", "story", "and", "far", "too", "long", "of", "with", "in", "one")


def _files() -> None:
    """A CSV file, and a tiny BERT with a tokenizer of its words."""
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", *GOOD, *BAD, *OTHERS)
    bert(Path("bert"), vocab_size=len(words), max_position_embeddings=64)
    Path("words.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(vocab="words.txt").save_pretrained("bert")
    drawn = random.Random(0)
    with Path("reviews.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(400):
            text = drawn.choices(OTHERS, k=drawn.randint(2, 12))
            text.insert(drawn.randrange(len(text)), drawn.choice((GOOD, BAD)[number % 2]))
            writer.writerow([" ".join(text), ("good", "bad")[number % 2]])


@pytest.mark.slow
def test_the_guide_to_text_classifiers_runs_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _files()
    Path("reviews.yaml").write_text(
        yaml_of(GUIDE, "reviews.yaml").replace("2e-5", "3e-3")
    )  # as the guide says of a tiny one
    said = run_commands(commands_of(GUIDE), monkeypatch, capsys)
    assert len(said) == 6
    found = next(list(csv.DictReader(io.StringIO(out))) for line, out in said.items() if "echo" in line)
    assert found[0]["class"] == "good"
    assert [*found[0]] == re.findall(r"columns: `(.*?)`", GUIDE)[0].split(",")
    with Path("reviews.csv").open() as file, Path("classes.csv").open() as other:
        pairs = [
            (row["label"], found["class"])
            for row, found in zip(csv.DictReader(file), csv.DictReader(other), strict=True)
        ]
    assert sum(label == given for label, given in pairs) > 0.95 * len(pairs)
    _read_by_transformers()


def _read_by_transformers() -> None:
    model = transformers.AutoModelForSequenceClassification.from_pretrained("runs/reviews")
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained("runs/reviews/data/tokenizer")
    with torch.no_grad():
        logits = model(**tokenizer(["a dull film", "the great story"], return_tensors="pt")).logits
    assert [model.config.id2label[it] for it in logits.argmax(1).tolist()] == ["bad", "good"]
