"""Rows of text: tokens beside transformers' own, batches, labels, tags, pairs, files and streams, and what is wrong."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from burnlike.cli.main import main
from burnlike.data import (
    DataLoader,
    TaggedWordsConfig,
    TextClassificationConfig,
    TextPairsConfig,
    TextRows,
    TextsConfig,
)
from burnlike.errors import ConfigError, DataError
from burnlike.train import Job, TrainConfig

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "##s", "very", "long", "plot"]
REVIEWS = [("a good film", "pos"), ("bad plot", "neg"), ("a very very long bad film", "neg"), ("good films", "pos")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory `bert` with a tokenizer, and a bare `tokenizer.json`."""
    made: Any = Tokenizer(models.WordPiece({it: place for place, it in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [("[CLS]", 2), ("[SEP]", 3)]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special
    )
    made.add_special_tokens(WORDS[:5])
    made.save(str(tmp_path / "tokenizer.json"))
    names = {
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=inputs, **names).save_pretrained(
        tmp_path / "bert"
    )
    return tmp_path


def rows(path: Path, found: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(it) + "\n" for it in found))
    return str(path)


def reviews(folder: Path, **options: Any) -> Any:
    path = rows(folder / "reviews.jsonl", [{"review": text, "label": label} for text, label in REVIEWS])
    fields = {"path": path, "text": "review", "target": "label", "tokenizer": str(folder / "bert"), **options}
    return TextClassificationConfig(**fields)


def theirs(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder / "bert")


def items(data: Any) -> list[dict[str, Any]]:
    """All items, in the order of the file."""
    whole = data.train.dataset
    return [whole[it] for it in range(len(whole))]


def test_batches_are_those_of_transformers_tokenizer(folder: Path) -> None:
    data = reviews(folder, validation_fraction=0.3).init()
    batch = data.batcher.batch(items(data), torch.device("cpu"))
    expected = theirs(folder)([text for text, _ in REVIEWS], padding=True, return_tensors="pt")
    assert [*batch] == ["input_ids", "attention_mask", "labels"]
    for name in ("input_ids", "attention_mask"):
        assert torch.equal(batch[name], expected[name])
    assert data.classes == ["neg", "pos"]
    assert batch["labels"].tolist() == [1, 0, 0, 1]
    assert data.facts == {
        "vocab_size": 13, "special_tokens": [0, 1, 2, 3, 4], "mask_token": 4, "pad_token": 0, "start_token": None,
        "end_token": 3, "padding": 0, "targets": [],
    }  # fmt: skip


def test_texts_are_cut_and_pairs_have_types(folder: Path) -> None:
    found = [{"p": "a very long film", "h": "bad", "y": 0.5}, {"p": "plot", "h": "a good film", "y": -1.0}]
    path = rows(folder / "pairs.jsonl", found)
    config = TextClassificationConfig(
        path=path, text=("p", "h"), target="y", kind="numbers", tokenizer=str(folder / "bert"), max_length=6,
        validation_fraction=0.5,
    )  # fmt: skip
    data = config.init()
    batch = data.batcher.batch(items(data), torch.device("cpu"))
    texts = [it["p"] for it in found], [it["h"] for it in found]
    expected = theirs(folder)(*texts, truncation=True, max_length=6, padding=True, return_tensors="pt")
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        assert torch.equal(batch[name], expected[name])
    assert batch["labels"].tolist() == [0.5, -1.0]
    assert batch["labels"].dtype == torch.float32
    assert data.facts["targets"] == ["y"]


def test_labels_of_a_list_and_of_columns(folder: Path) -> None:
    found = [{"t": "a", "tags": ["x", "z"], "p": 1, "q": 0}, {"t": "bad", "tags": [], "p": 0, "q": True}]
    path = rows(folder / "tags.jsonl", found)
    options: Any = {
        "path": path,
        "text": "t",
        "kind": "labels",
        "tokenizer": str(folder / "bert"),
        "validation_fraction": 0.5,
    }
    for target, classes, expected in (
        ("tags", ["x", "z"], [[1, 1], [0, 0]]),
        (("p", "q"), ["p", "q"], [[1, 0], [0, 1]]),
    ):
        data = TextClassificationConfig(target=target, **options).init()
        assert data.classes == classes
        assert [it["labels"].tolist() for it in items(data)] == expected


def test_a_bare_tokenizer_file_gives_the_same_tokens_and_knows_its_special_ones(folder: Path) -> None:
    ours, bare = (reviews(folder, tokenizer=str(folder / it)).init() for it in ("bert", "tokenizer.json"))
    assert all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(items(ours), items(bare), strict=True))
    assert (bare.facts["pad_token"], bare.facts["mask_token"]) == (0, 4)
    assert [*bare.files] == ["tokenizer/tokenizer.json"]
    assert {"tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json"} <= {*ours.files}


def test_directories_of_datasets_and_parquet_have_the_rows_of_json(folder: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    ours = reviews(folder).init()
    whole = datasets.Dataset.from_list([{"review": a, "label": b} for a, b in REVIEWS])
    whole.to_parquet(str(folder / "reviews.parquet"))
    other = reviews(folder, path=str(folder / "reviews.parquet")).init()
    assert other.fingerprint == ours.fingerprint
    numbered = whole.class_encode_column("label")
    parts = {"train": numbered, "validation": numbered.select([1, 0]), "extra": numbered.select([2])}
    datasets.DatasetDict(parts).save_to_disk(str(folder / "saved"))
    data = reviews(folder, path=str(folder / "saved")).init()
    assert data.classes == ["neg", "pos"]
    assert (len(data.train), len(data.valid), [*data.splits]) == (4, 2, ["extra"])
    assert [data.valid[it]["labels"].item() for it in range(2)] == [0, 1]
    assert torch.equal(data.splits["extra"][0]["input_ids"], items(ours)[2]["input_ids"])


@pytest.mark.parametrize("name", ["ner.jsonl", "ner.conll", "ner.csv"])
def test_the_first_token_of_a_word_has_its_tag(folder: Path, name: str) -> None:
    path = folder / name
    sentences = [(["good", "films"], ["O", "B-X"]), (["a", "plot", "films"], ["B-Y", "O", "B-X"])]
    if name == "ner.conll":
        blocks = ["\n".join(f"{word} _ {tag}" for word, tag in zip(*it, strict=True)) for it in sentences]
        path.write_text("-DOCSTART- -X- O\n\n" + "\n\n".join(blocks))
    elif name == "ner.csv":
        path.write_text("tokens,tags\n" + "".join(f"{' '.join(a)},{' '.join(b)}\n" for a, b in sentences))
    else:
        rows(path, [{"tokens": a, "tags": b} for a, b in sentences])
    config = TaggedWordsConfig(path=str(path), tokenizer=str(folder / "bert"), validation_fraction=0.5)
    data = config.init()
    batch = data.batcher.batch(items(data), torch.device("cpu"))
    assert data.classes == ["B-X", "B-Y", "O"]
    assert batch["input_ids"].tolist() == [[2, 6, 8, 9, 3, 0], [2, 5, 12, 8, 9, 3]]
    assert batch["labels"].tolist() == [[-100, 2, 0, -100, -100, -100], [-100, 1, 2, 0, -100, -100]]
    assert batch["words"] == [it for it, _ in sentences]
    shown = "\n".join([*data.describe(), *data.examples(1)])
    assert ("classes   B-X 1, B-Y 0, O 1" in shown) == ("-> O B-X" in shown)
    new = config.unlabeled([io.StringIO("films a good\n")], {**data.facts, "classes": data.classes}, folder)
    assert new.dataset[0]["labels"].tolist() == [-100, 0, -100, 0, 0, -100]
    lines = folder / "new.txt"
    lines.write_text("films a good\ngood plot\n")
    new = config.unlabeled([lines], {**data.facts, "classes": data.classes}, folder)
    assert new.names == [f"{lines}:1", f"{lines}:2"]
    assert new.dataset[0]["labels"].tolist() == [-100, 0, -100, 0, 0, -100]
    (folder / "new.conll").write_text(lines.read_text())
    with pytest.raises(DataError, match=r"new\.conll:2: expected a word a line, with 3 columns"):
        config.unlabeled([folder / "new.conll"], {**data.facts, "classes": data.classes}, folder)
    comments = folder / "comments.conll"
    comments.write_text("# text = good\ngood B-X\n\nplot O\n")
    with pytest.raises(DataError, match=r"comments\.conll:2: .* with 4 columns as in the line before.*; take comments"):
        TaggedWordsConfig(path=str(comments), tokenizer=str(folder / "bert")).init()


def test_pairs_of_texts_are_padded_apart(folder: Path) -> None:
    path = rows(folder / "pairs.jsonl", [{"en": "a film", "de": "good"}, {"en": "bad", "de": "a very long plot"}])
    config = TextPairsConfig(
        path=path, source="en", target="de", prefix="very ", tokenizer=str(folder / "bert"), max_target_length=5,
        validation_fraction=0.5,
    )  # fmt: skip
    data = config.init()
    batch = data.batcher.batch(items(data), torch.device("cpu"))
    assert batch["input_ids"].tolist() == [[2, 10, 5, 8, 3], [2, 10, 7, 3, 0]]
    assert batch["labels"].tolist() == [[2, 6, 3, -100, -100], [2, 5, 10, 11, 3]]
    assert batch["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 1, 0]]


def test_texts_alone_say_their_words_and_special_tokens(folder: Path) -> None:
    (folder / "texts.txt").write_text("good films\n\na plot\nbad\n")
    config = TextsConfig(path=str(folder / "texts.txt"), tokenizer=str(folder / "bert"))
    batch = config.init().batcher.batch(items(config.init()), torch.device("cpu"))
    assert batch["word_ids"].tolist() == [[-1, 0, 1, 1, -1], [-1, 0, 1, -1, -1], [-1, 0, -1, -1, -1]]
    assert batch["special_tokens_mask"].tolist() == [[1, 0, 0, 0, 1], [1, 0, 0, 1, 1], [1, 0, 1, 1, 1]]
    with pytest.raises(DataError, match=r"texts.txt: expected a file of rows \(.csv"):
        reviews(folder, path=str(folder / "texts.txt")).init()


def test_new_texts_come_from_lines_and_rows(folder: Path) -> None:
    config = reviews(folder)
    data = config.init()
    facts = {**json.loads(json.dumps(data.facts)), "classes": data.classes}
    (folder / "new.txt").write_text("bad film\ngood\n")
    csv = "label,review\n,bad film\nignored,good\n"
    lines = "".join(json.dumps({"review": it}) + "\n" for it in ("bad film", "good"))
    for source in (folder / "new.txt", io.StringIO("bad film\n\ngood"), io.StringIO(csv), io.StringIO(lines)):
        found = config.unlabeled([source], facts, folder)
        batch = found.batcher.batch([found.dataset[it] for it in range(2)], torch.device("cpu"))
        assert batch["input_ids"].tolist() == [[2, 7, 8, 3], [2, 6, 3, 0]]
        assert batch["labels"].tolist() == [0, 0]
    assert list(found.names) == ["standard input:1", "standard input:2"]


def test_the_tokenizer_of_a_run_is_taken_where_there_is_one(folder: Path) -> None:
    config = reviews(folder)
    data: TextRows = config.init()
    for name, file in data.files.items():
        (folder / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "data" / name).write_bytes(file.read_bytes())
    facts = {**data.facts, "classes": data.classes}
    gone = config.replace(tokenizer=str(folder / "gone"))
    assert gone.init_with(facts, folder / "data").fingerprint == data.fingerprint
    assert len(gone.unlabeled([io.StringIO("good\n")], facts, folder / "data").names) == 1
    codec = gone.codec(facts, folder / "data")
    assert codec.decode(codec.encode("a good film")) == "a good film"
    with pytest.raises(DataError, match=r"data.tokenizer: there is no file or directory .*gone; expected a directory"):
        gone.init()


def test_the_order_of_padded_batches_goes_on_after_a_stop(folder: Path) -> None:
    found = [{"review": " ".join(["film"] * (it * 7 % 19 + 1)), "label": "xy"[it % 2]} for it in range(40)]
    data = reviews(folder, path=rows(folder / "many.jsonl", found)).init()

    def loader(**options: Any) -> DataLoader[Any, Any]:
        return DataLoader(data.train, data.batcher, batch_size=4, seed=5, **options)

    whole = [it["input_ids"] for it in loader()]
    stopped = loader()
    first = [batch["input_ids"] for _, batch in zip(range(4), stopped, strict=False)]
    resumed = loader()
    resumed.load_state_dict(stopped.state_dict())
    again = [*first, *(it["input_ids"] for it in resumed)]
    assert all(torch.equal(a, b) for a, b in zip(whole, again, strict=True))
    padding = sum(int((it == 0).sum()) for it in whole)
    assert padding < 0.15 * sum(it.numel() for it in whole)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"review": "", "label": "pos"}, r"reviews.jsonl:5:12: 'review': expected text, got ''"),
        ({"review": 3, "label": "pos"}, r"reviews.jsonl:5:12: 'review': expected text, got 3"),
        ({"review": "a", "label": None}, r"reviews.jsonl:5:26: 'label': expected a class, got none"),
        ({"label": "pos"}, r"reviews.jsonl:5:1: there is no column 'review'"),
    ],
)
def test_a_row_that_is_wrong_is_named(folder: Path, row: dict[str, Any], message: str) -> None:
    config = reviews(folder)
    with Path(config.path).open("a") as file:
        file.write(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=message):
        config.init()


def test_tags_must_be_as_many_as_words(folder: Path) -> None:
    path = rows(folder / "ner.jsonl", [{"tokens": ["a", "film"], "tags": ["O"]}])
    with pytest.raises(DataError, match=r"ner.jsonl:1:35: expected a tag for each of the 2 words, got 1"):
        TaggedWordsConfig(path=path, tokenizer=str(folder / "bert")).init()


def test_configs_that_contradict_and_files_that_are_none(folder: Path) -> None:
    with pytest.raises(ConfigError, match="target: expected a column other than the text 'review'"):
        reviews(folder, target="review")
    with pytest.raises(ConfigError, match="target: expected one column of classes"):
        reviews(folder, target=("a", "b"))
    (folder / "bad.json").write_text("{}")
    with pytest.raises(DataError, match=r"bad.json: expected a tokenizer.json of tokenizers"):
        reviews(folder, tokenizer=str(folder / "bad.json")).init()
    with pytest.raises(DataError, match=r"data.path: there is no file or directory .*none.csv"):
        reviews(folder, path=str(folder / "none.csv")).init()


def test_a_text_that_is_too_long_for_the_model_is_found_before_the_training(folder: Path) -> None:
    texts = [{"review": "film " * (20 if number == 30 else 1), "label": "ab"[number % 2]} for number in range(32)]
    path = rows(folder / "r.jsonl", texts)
    encoder = {"vocab_size": 13, "d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8, "max_sequence_length": 16}
    config = TrainConfig.from_dict(
        {
            "data": {"type": "TextClassification", "path": path, "text": "review", "target": "label",
                     "tokenizer": str(folder / "bert")},
            "model": {"type": "BertClassifier", "encoder": encoder, "n_classes": 2},
            "task": {"type": "Classification"},
            "optimizer": {"type": "AdamW"},
            "lr_scheduler": {"type": "ConstantLr", "lr": 0.01},
            "training": {"batch_size": 2},
        }
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"BertEncoder: tokens: expected \[batch, sequence <= 16\], got \[2, 22\]"):
        Job(config)
    Job(config.replace(data=config.data.replace(max_length=16)))


LONE = "bad \ud800 plot"
"""Half of a pair of UTF-16, as JSON may have it and UTF-8 may not."""
SOUND = {"t": "a good film", "k": "x", "tokens": ["a", "film"], "tags": ["O", "O"], "s": "a", "d": "bad"}


@pytest.mark.parametrize(
    ("kind", "columns", "lone"),
    [
        (TextClassificationConfig, {"text": "t", "target": "k"}, {"t": LONE}),
        (TextClassificationConfig, {"text": "t", "target": "k"}, {"k": LONE}),
        (TextsConfig, {"text": "t"}, {"t": LONE}),
        (TextPairsConfig, {"source": "s", "target": "d"}, {"d": LONE}),
        (TaggedWordsConfig, {}, {"tokens": ["a", LONE]}),
        (TaggedWordsConfig, {}, {"tags": ["O", LONE]}),
    ],
    ids=lambda it: str(it),
)
def test_a_row_that_is_no_text_is_left_out_where_bad_items_are(
    folder: Path, kind: Any, columns: dict[str, str], lone: dict[str, Any]
) -> None:
    path = rows(folder / "lone.jsonl", [SOUND, SOUND, {**SOUND, **lone}, SOUND, {**SOUND, "other": LONE}])
    config = kind(path=path, tokenizer=str(folder / "bert"), validation_fraction=0.25, **columns)
    data = config.init()
    assert len(data.train) + len(data.valid) == 4
    loader = DataLoader(data.train, data.batcher, batch_size=2, on_bad_item="skip")
    assert loader.skipped == 1
    with pytest.raises(
        DataError, match=rf"lone.jsonl:3:\d+: '{next(iter(lone))}': expected text, got half of a UTF-16"
    ):
        DataLoader(data.train, data.batcher, batch_size=2)
    if set(lone) & {"t", "tokens"}:
        facts = {**data.facts, "classes": data.classes}
        with pytest.raises(DataError, match=r"lone.jsonl:3:\d+: .*expected text, got half of a UTF-16 pair"):
            config.unlabeled([Path(path)], facts, folder)


def text_of(file: str, tokens: Any) -> str:
    return Tokenizer.from_file(file).decode(list(map(int, tokens)), skip_special_tokens=False)


@pytest.fixture
def learned(tmp_path: Path) -> str:
    """A file of `burnlike tokenizer`."""
    (tmp_path / "some.txt").write_text("".join(f"a text of words {it}\n" for it in range(50)))
    assert main(["tokenizer", str(tmp_path / "some.txt"), "--vocab-size", "300", "--out", f"{tmp_path}/t.json"]) == 0
    return f"{tmp_path}/t.json"


def test_a_tokenizer_of_the_command_has_what_tasks_of_texts_need(folder: Path, learned: str) -> None:
    data = reviews(folder, tokenizer=learned).init()
    names = ("pad_token", "start_token", "end_token", "mask_token")
    assert [data.facts[it] for it in names] == [0, 1, 2, 4]
    assert data.facts["special_tokens"] == [0, 1, 2, 3, 4]
    tokens = data.train.dataset[0]["input_ids"].tolist()
    assert (tokens[0], tokens[-1]) == (1, 2)
    assert text_of(learned, tokens) == "<s>a good film</s>"
    path = rows(folder / "pairs.jsonl", [{"p": "a text", "h": "of words", "y": "x"}] * 2)
    config = TextClassificationConfig(
        path=path, text=("p", "h"), target="y", tokenizer=learned, validation_fraction=0.5
    )
    item = items(config.init())[0]
    before, after = item["input_ids"][item["token_type_ids"] == 0], item["input_ids"][item["token_type_ids"] == 1]
    assert (text_of(learned, before), text_of(learned, after)) == ("<s>a text</s>", "of words</s>")


def test_texts_to_write_have_an_end(folder: Path, learned: str) -> None:
    path = rows(folder / "pairs.jsonl", [{"en": "words", "de": "a text"}, {"en": "a", "de": "text of words and more"}])
    config = TextPairsConfig(path=path, source="en", target="de", tokenizer=learned, validation_fraction=0.5)
    data = config.init()
    assert [text_of(learned, it["labels"]) for it in items(data)] == ["a text</s>", "text of words and more</s>"]
    cut = items(config.replace(max_target_length=3).init())
    assert [len(it["labels"]) for it in cut] == [3, 3]
    assert [int(it["labels"][-1]) for it in cut] == [2, 2]
