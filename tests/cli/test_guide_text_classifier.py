"""docs/guide/text_classifier.md from an empty folder: its files, and its commands one after the other."""

import csv
import io
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from ..models.by_path.directories import bert
from .guides import DOCS, commands_of, run_commands, yaml_of

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
def test_the_guide_runs_from_an_empty_folder(
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
