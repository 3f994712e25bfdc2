"""The scores of `evaluate` are those of what `predict` writes for the same files, for each task and kind of data."""

import csv
import io
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sklearn.metrics as sk
import torch
from PIL import Image

from burnlike.train import Job, PlainRenderer, RunDir, TrainConfig, load_run
from burnlike.train.job.loaded_run import evaluate_run, predictions

Scores = Mapping[str, float]
COMMON = """
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 2, batch_size: 7}
device: cpu
threads: 1
"""
KINDS = ("blue", "green", "red")
PEOPLE, PLACES, VERBS = ("ada", "alan", "grace"), ("paris", "rome"), ("met", "saw")
MACRO: Any = {"average": "macro", "zero_division": 0}


def of_classes(rows: Sequence[Mapping[str, Any]], truth: Sequence[str]) -> Scores:
    """Scores of rows with a class and the probabilities of all, beside the true classes."""
    names = sorted(set(truth))
    probabilities = [[row[f"probabilities.{it}"] for it in names] for row in rows]
    marks = [[int(it == name) for name in names] for it in truth]
    classes = [row["class"] for row in rows]
    return {
        "loss": sk.log_loss(truth, probabilities, labels=names),
        "accuracy": 100 * sk.accuracy_score(truth, classes),
        "recall": 100 * sk.recall_score(truth, classes, **MACRO),
        "f_beta_score": 100 * sk.f1_score(truth, classes, **MACRO),
        "auroc": 100 * sk.roc_auc_score(marks, probabilities, average="macro"),
        "auc_pr": 100 * sk.average_precision_score(marks, probabilities, average="macro"),
    }


def of_labels(rows: Sequence[Mapping[str, Any]], truth: Sequence[Sequence[str]]) -> Scores:
    names = sorted({it for labels in truth for it in labels})
    probabilities = [[row[f"probabilities.{it}"] for it in names] for row in rows]
    found, marks = ([[int(it in own) for it in names] for own in part] for part in ([r["labels"] for r in rows], truth))
    return {
        "hamming": 100 * (1 - sk.hamming_loss(marks, found)),
        "recall": 100 * sk.recall_score(marks, found, **MACRO),
        "auroc": 100 * sk.roc_auc_score(marks, probabilities, average="macro"),
    }


def of_numbers(rows: Sequence[Mapping[str, Any]], truth: Sequence[Mapping[str, float]]) -> Scores:
    names = [*truth[0]]
    return {"loss": sk.mean_squared_error(*([[row[it] for it in names] for row in part] for part in (truth, rows)))}


def of_standardized_numbers(rows: Sequence[Mapping[str, Any]], truth: Sequence[Mapping[str, float]]) -> Scores:
    """Errors in the targets' own units, of each target and their means."""
    errors = {"mae": sk.mean_absolute_error, "rmse": sk.root_mean_squared_error, "r2": sk.r2_score}
    scores: dict[str, float] = {}
    for metric, error in errors.items():
        of_each = {it: error([row[it] for row in truth], [row[it] for row in rows]) for it in truth[0]}
        scores |= {metric: sum(of_each.values()) / 2, **{f"{metric}.{name}": it for name, it in of_each.items()}}
    return scores


def of_masks(rows: Sequence[Mapping[str, Any]], truth: Sequence[torch.Tensor]) -> Scores:
    found, pixels = (torch.stack([*it]).flatten() for it in ([row["mask"] for row in rows], truth))
    return {"accuracy": 100 * sk.accuracy_score(pixels, found), "recall": 100 * sk.recall_score(pixels, found, **MACRO)}


def of_tags(rows: Sequence[Mapping[str, Any]], truth: Sequence[Sequence[tuple[str, int, int]]]) -> Scores:
    found = [{(it["label"], it["start"], it["end"]) for it in row["spans"]} for row in rows]
    right = sum(len(one & {*other}) for one, other in zip(found, truth, strict=True))
    return {"span_f1": 200 * right / sum(map(len, [*found, *truth]))}


def of_texts(rows: Sequence[Mapping[str, Any]], truth: Sequence[str]) -> Scores:
    from torchmetrics.functional.text import word_error_rate

    return {"word_error_rate": 100 * word_error_rate([row["text"] for row in rows], [*truth]).item()}


class Case(NamedTuple):
    """A kind of data and a task.

    Attributes:
        config: of the run, in the folder.
        write: writes the data of a name and this number of items there, and gives what is true of them.
        scores: of the rows of `predict`, and the truth.
        source: what `predict` gets, of such a name.
    """

    config: str
    write: Callable[[Path, str, random.Random], list[Any]]
    scores: Callable[[Any, Any], Scores]
    source: str


def rows_of_classes(folder: Path, name: str, draw: random.Random) -> list[Any]:
    points = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(40)]
    truth = [KINDS[(x > 0.3) + (x + y > draw.gauss(0, 1))] for x, y in points]
    write_rows(folder / name, [{"x": x, "y": y, "kind": it} for (x, y), it in zip(points, truth, strict=True)])
    return truth


def rows_of_labels(folder: Path, name: str, draw: random.Random) -> list[Any]:
    points = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(40)]
    truth = [[name for name, it in zip(("hot", "wet"), it, strict=True) if it > draw.gauss(0, 1)] for it in points]
    write_rows(
        folder / name, [{"x": x, "y": y, "kind": "|".join(it)} for (x, y), it in zip(points, truth, strict=True)]
    )
    return truth


def rows_of_numbers(folder: Path, name: str, draw: random.Random) -> list[Any]:
    points = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(40)]
    truth = [{"price": 3 * x + 100 + draw.gauss(0, 1), "days": y * x} for x, y in points]
    write_rows(folder / name, [{"x": x, "y": y, **it} for (x, y), it in zip(points, truth, strict=True)])
    return truth


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)


def photo(draw: random.Random, kind: int) -> Image.Image:
    noise = [draw.randrange(150) for _ in range(12 * 10 * 3)]
    image = Image.frombytes("RGB", (12, 10), bytes(noise))
    band = tuple(120 if it == kind else 30 for it in range(3))
    for x in range(5):
        for y in range(10):
            image.putpixel((x, y), band)
    return image


def photos(folder: Path, name: str, draw: random.Random) -> list[Any]:
    """Images of classes that the left side alone tells: mirrored and cut images are told otherwise."""
    for number in range(30):
        (folder / name / KINDS[number % 3]).mkdir(parents=True, exist_ok=True)
        photo(draw, (number + (number % 5 == 0)) % 3).save(folder / name / KINDS[number % 3] / f"{number:02}.png")
    return [path.parent.name for path in sorted((folder / name).glob("*/*.png"))]


def masks(folder: Path, name: str, draw: random.Random) -> list[Any]:
    (folder / name).mkdir()
    (folder / f"{name}_masks").mkdir()
    truth = []
    for number in range(12):
        mask = torch.zeros(10, 12, dtype=torch.int64)
        mask[:, : draw.randint(3, 9)] = 1
        mask[: draw.randint(1, 4)] = 2
        image = Image.frombytes(
            "RGB", (12, 10), bytes(draw.randrange(90) + 60 * int(it) for it in mask.flatten() for _ in "rgb")
        )
        image.save(folder / name / f"{number:02}.png")
        Image.fromarray(mask.byte().numpy()).save(folder / f"{name}_masks" / f"{number:02}.png")
        truth.append(mask)
    return truth


def sentences(draw: random.Random) -> list[list[str]]:
    return [
        [draw.choice(PEOPLE), draw.choice(VERBS), draw.choice(PEOPLE), "in", draw.choice(PLACES)] for _ in range(40)
    ]


def texts_of_classes(folder: Path, name: str, draw: random.Random) -> list[Any]:
    found = sentences(draw)
    truth = [KINDS[PEOPLE.index(words[0] if draw.random() < 0.8 else draw.choice(PEOPLE))] for words in found]
    write_rows(folder / name, [{"t": " ".join(it), "kind": kind} for it, kind in zip(found, truth, strict=True)])
    return truth


def tagged(folder: Path, name: str, draw: random.Random) -> list[Any]:
    found = sentences(draw)
    write_rows(folder / name, [{"tokens": it, "tags": ["B-PER", "O", "B-PER", "O", "B-LOC"]} for it in found])
    return [[("PER", 0, 1), ("PER", 2, 3), ("LOC", 4, 5)]] * len(found)


def pairs(folder: Path, name: str, draw: random.Random) -> list[Any]:
    found = sentences(draw)
    truth = [" ".join(words[2::-1]) for words in found]
    write_rows(folder / name, [{"source": " ".join(it), "target": own} for it, own in zip(found, truth, strict=True)])
    return truth


def write_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<pad>", "<unk>", "</s>", *PEOPLE, *PLACES, *VERBS, "in"]
    tokenizer = Tokenizer(models.WordLevel({it: number for number, it in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(path))


MLP = "{type: Mlp, sizes: [2, 8, %d]}"
CLASS_METRICS = "[{type: Accuracy}, {type: Recall}, {type: FBetaScore}, {type: Auroc}, {type: AucPr}]"
TABLE = "validation_path: valid{0}, target: kind"
MIXED = """
transforms:
- {type: RandomResizedCrop, size: [8, 8], scale: [0.3, 1.0]}
- {type: RandomHorizontalFlip, prob: 1.0}
- {type: Resize, size: [8, 8], parts: [valid]}
- {type: MixUp}
"""
OF_WORDS = """
model:
  type: Graph
  inputs: [input_ids, attention_mask]
  nodes:
    embed: {type: Embedding, n_embedding: 11, d_model: 8, from: input_ids}
    seen: {type: Embedding, n_embedding: 2, d_model: 8, from: attention_mask}
    sum: {type: Add, from: [embed, seen]}
    %s
"""
CASES = {
    "classes of CSV": Case(
        f"data: {{type: Csv, path: train.csv, {TABLE.format('.csv')}, standardize: true}}\nmodel: {MLP % 3}\n"
        f"task: {{type: Classification, class_weights: balanced, label_smoothing: 0.1}}\nmetrics: {CLASS_METRICS}",
        rows_of_classes, of_classes, "{}.csv",
    ),
    "classes of JSON lines, drawn": Case(
        f"data: {{type: JsonLines, path: train.jsonl, {TABLE.format('.jsonl')}}}\nmodel: {MLP % 3}\n"
        "transforms: [{type: Sampler, ratio: 0.4}]\n"
        f"task: {{type: Classification, focal_gamma: 2.0}}\nmetrics: {CLASS_METRICS}",
        rows_of_classes, of_classes, "{}.jsonl",
    ),
    "labels": Case(
        f"data: {{type: Csv, path: train.csv, {TABLE.format('.csv')}, kind: labels}}\nmodel: {MLP % 2}\n"
        "task: {type: Classification, multi_label: true}\nmetrics: [{type: Hamming}, {type: Recall}, {type: Auroc}]",
        rows_of_labels, of_labels, "{}.csv",
    ),
    "numbers": Case(
        "data: {type: Csv, path: train.csv, validation_path: valid.csv, target: [price, days], kind: numbers}\n"
        f"model: {MLP % 2}\ntask: {{type: Regression}}",
        rows_of_numbers, of_numbers, "{}.csv",
    ),
    "standardized numbers": Case(
        "data: {type: Csv, path: train.csv, validation_path: valid.csv, target: [price, days], kind: numbers,"
        " standardize_targets: true}\n"
        f"model: {MLP % 2}\ntask: {{type: Regression}}\nmetrics: [{{type: Mae}}, {{type: Rmse}}, {{type: R2}}]",
        rows_of_numbers, of_standardized_numbers, "{}.csv",
    ),
    "sizes of the data": Case(
        "data: {type: Csv, path: train.csv, validation_path: valid.csv, target: kind, columns: {x: {kind: number}}}\n"
        "model: {type: Mlp, hidden: [8]}\ntask: {type: Classification}\nmetrics: [{type: Accuracy}]",
        rows_of_classes, lambda rows, truth: {"accuracy": of_classes(rows, truth)["accuracy"]}, "{}.csv",
    ),
    "images": Case(
        "data: {type: ImageFolder, path: train, validation_path: valid}\n"
        "model: {type: Sequential, layers: [{type: Flatten}, {type: Linear, d_input: 192, d_output: 3}]}\n"
        f"task: {{type: Classification}}\nmetrics: {CLASS_METRICS}{MIXED}",
        photos, of_classes, "{}",
    ),
    "images, classes of the data": Case(
        "data: {type: ImageFolder, path: train, validation_path: valid}\n"
        "model: {type: ResNet, stem: Small, depths: [1], widths: [4], stem_channels: 4}\n"
        f"task: {{type: Classification}}\nmetrics: {CLASS_METRICS}",
        photos, of_classes, "{}",
    ),
    "masks": Case(
        "data: {type: ImageFolder, path: train, masks: train_masks, validation_fraction: 0.3}\n"
        "model: {type: Conv2d, channels: [3, 3], kernel_size: [3, 3], padding: Same}\n"
        "task: {type: Segmentation}\nmetrics: [{type: Accuracy}, {type: Recall}]\n"
        "transforms: [{type: RandomHorizontalFlip, prob: 1.0}, {type: RandomCrop, padding: 3}]",
        masks, of_masks, "{}",
    ),
    "texts": Case(
        "data: {type: TextClassification, path: train.csv, validation_path: valid.csv, text: t, target: kind,"
        " tokenizer: tok.json}"
        + OF_WORDS % "mean: {type: Mean, dims: [1]}\n    head: {type: Linear, d_input: 8, d_output: 3}"
        + f"task: {{type: Classification}}\nmetrics: {CLASS_METRICS}",
        texts_of_classes, of_classes, "{}.csv",
    ),
    "tags": Case(
        "data: {type: TaggedWords, path: train.jsonl, validation_path: valid.jsonl, tokenizer: tok.json}"
        + OF_WORDS % "head: {type: Linear, d_input: 8, d_output: 3}"
        + "task: {type: TokenClassification}\nmetrics: [{type: SpanF1}]",
        tagged, of_tags, "{}.jsonl",
    ),
    "tags, classes of the data": Case(
        "data: {type: TaggedWords, path: train.jsonl, validation_path: valid.jsonl, tokenizer: tok.json}\n"
        "model: {type: TokenTagger, encoder: {type: BertEncoder, vocab_size: 11, max_sequence_length: 16, d_model: 8,"
        " n_layers: 1, n_heads: 2, d_ff: 8}}\n"
        "task: {type: TokenClassification}\nmetrics: [{type: SpanF1}]",
        tagged, of_tags, "{}.jsonl",
    ),
    "pairs": Case(
        "data: {type: TextPairs, path: train.csv, validation_path: valid.csv, tokenizer: tok.json}\n"
        "model: {type: EncoderDecoder, vocab_size: 11, d_model: 8, d_head: 4, n_layers: 1, n_heads: 2, d_ff: 8}\n"
        "task: {type: SequenceToSequence, validation_tokens: 3, max_tokens: 3}\nmetrics: [{type: WordErrorRate}]",
        pairs, of_texts, "{}.csv",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_evaluate_is_predict(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case, draw = CASES[name], random.Random(5)
    if "tokenizer" in case.config:
        pytest.importorskip("transformers")
        write_tokenizer(tmp_path / "tok.json")
    parts = ("train",) if name == "masks" else ("train", "valid")
    truth = {part: case.write(tmp_path, case.source.format(part), draw) for part in parts}
    config = TrainConfig.from_yaml(case.config + COMMON, "job.yaml")
    with closing(RunDir.create(tmp_path / "run")) as run:
        Job(config).run(run, PlainRenderer(io.StringIO()))
    loaded = load_run(tmp_path / "run")
    rows = {part: [*predictions(loaded, [Path(case.source.format(part))])] for part in parts}
    for split in (*parts, "all") if name != "masks" else ("all",):
        asked = parts if split == "all" else (split,)
        found = evaluate_run(loaded, split, notes={})
        expected = case.scores([row for it in asked for row in rows[it]], [own for it in asked for own in truth[it]])
        assert found.items == sum(len(truth[it]) for it in asked)
        assert {key: found.values[key] for key in expected} == pytest.approx(expected, rel=1e-5), split
        assert not any(math.isnan(it) for it in expected.values())
