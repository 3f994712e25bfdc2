"""Names in texts, hidden words and second sequences, from files and directories of transformers, by commands."""

import csv
import io
import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.cli.main import main
from burnlike.train import Interrupted, Job, RunDir, TrainConfig

from .test_generative import StopAt

transformers = pytest.importorskip("transformers")

PEOPLE, PLACES, VERBS = ["ada", "alan", "grace", "emmy"], ["paris", "rome", "vienna"], ["met", "saw", "left"]
ENGLISH, FRENCH = ["one", "two", "three", "four"], ["un", "deux", "trois", "quatre"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
COMMON = """\
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 3e-3}
output: {precision: float32}
"""
CONFIGS = {
    "tags": """\
data: {type: TaggedWords, path: tags.jsonl, tokenizer: bert, max_length: 24}
model: {type: Pretrained, path: bert}
task: {type: TokenClassification}
metrics: [{type: SpanF1}, {type: FBetaScore}]
training: {epochs: 3, batch_size: 16, keep_best: {metric: span_f1}}
""",
    "hidden": """\
data: {type: Texts, path: texts.txt, tokenizer: bert, max_length: 24}
model: {type: Pretrained, path: bert}
task: {type: MaskedLanguageModel, whole_words: true, mask_prob: 0.3}
metrics: [{type: Accuracy}, {type: Perplexity}]
training: {epochs: 4, batch_size: 16}
""",
    "pairs": """\
data: {type: TextPairs, path: pairs.csv, tokenizer: t5, max_length: 24}
model: {type: Pretrained, path: t5}
task: {type: SequenceToSequence, validation_tokens: 6}
metrics: [{type: Bleu, max_n: 1}, {type: WordErrorRate}]
training: {epochs: 8, batch_size: 16}
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories of tiny models, with a tokenizer, and the files that the configs name."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    place, draw = tmp_path_factory.mktemp("tasks"), random.Random(1)
    words = [*SPECIAL, *PEOPLE, *PLACES, *VERBS, "in", "the", "city", *ENGLISH, *FRENCH]
    tokenizer = Tokenizer(models.WordPiece({it: number for number, it in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.decoder = normalizers.Lowercase(), decoders.WordPiece()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    torch.manual_seed(1)
    sizes: Any = {"vocab_size": len(words), "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}
    bert = transformers.BertConfig(**sizes, num_hidden_layers=1, max_position_embeddings=32)
    t5 = transformers.T5Config(
        vocab_size=len(words), d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, dropout_rate=0.0,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=3,
    )  # fmt: skip
    for name, model in (
        ("bert", transformers.BertForMaskedLM(bert)),
        ("t5", transformers.T5ForConditionalGeneration(t5)),
    ):
        model.save_pretrained(place / name)
        fast.save_pretrained(place / name)
    rows, lines, pairs = [], [], ["source,target"]
    for _ in range(140):
        sentence = [
            draw.choice(PEOPLE),
            draw.choice(VERBS),
            draw.choice(PEOPLE),
            "in",
            "the",
            "city",
            draw.choice(PLACES),
        ]
        tags = ["B-PER", "O", "B-PER", "O", "O", "O", "B-LOC"]
        rows.append(json.dumps({"tokens": sentence, "tags": tags}))
        lines.append(" ".join(sentence))
        numbers = [draw.randrange(4) for _ in range(draw.randint(1, 3))]
        pairs.append(",".join(" ".join(words[it] for it in numbers) for words in (ENGLISH, FRENCH)))
    for name, text in (("tags.jsonl", rows), ("texts.txt", lines), ("pairs.csv", pairs)):
        (place / name).write_text("\n".join(text) + "\n")
    for name, config in CONFIGS.items():
        (place / f"{name}.yaml").write_text(config + COMMON)
    return place


@pytest.fixture
def _within(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def done(*arguments: str) -> None:
    assert main([*arguments]) == 0, arguments


def measured(name: str) -> dict[str, float]:
    return json.loads(Path(f"runs/{name}/results.json").read_text())["values"]["valid"]


def predicted(name: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    done("predict", name, "-")
    return [*csv.DictReader(io.StringIO(capsys.readouterr().out))]


@pytest.mark.slow
@pytest.mark.usefixtures("_within")
@pytest.mark.filterwarnings("default")  # of transformers and torchao
def test_tags(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    done("check", "tags.yaml")
    done("train", "tags.yaml")
    assert measured("tags")["span_f1"] > 95
    text = json.dumps({"tokens": ["Grace", "saw", "Emmy", "in", "the", "city", "Rome"]})
    (row,) = predicted("tags", text + "\n", monkeypatch, capsys)
    assert json.loads(row["tokens"])[0] == "Grace"
    assert json.loads(row["tags"]) == ["B-PER", "O", "B-PER", "O", "O", "O", "B-LOC"]
    spans = json.loads(row["spans"])
    assert spans[2] == {"label": "LOC", "start": 6, "end": 7, "text": "Rome"}
    done("evaluate", "tags")


@pytest.mark.slow
@pytest.mark.usefixtures("_within")
@pytest.mark.filterwarnings("default")
def test_hidden_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    done("check", "hidden.yaml")
    done("train", "hidden.yaml")
    assert measured("hidden")["perplexity"] < 15
    (row,) = predicted("hidden", "ada met emmy in the [MASK] rome\n", monkeypatch, capsys)
    assert row["text"] == "ada met emmy in the city rome"
    assert json.loads(row["found"]) == ["city"]
    config = TrainConfig.load("hidden.yaml", ["training.epochs=1", "training.steps_per_epoch=6"])
    whole = Job(config)
    with closing(RunDir.create("whole")) as run:
        whole.run(run)
    with pytest.raises(Interrupted), closing(RunDir.create("stopped")) as run:
        Job(config).run(run, interrupter=StopAt(3))
    resumed = Job(config)
    with closing(RunDir.open("stopped")) as run:
        resumed.run(run)
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.usefixtures("_within")
@pytest.mark.filterwarnings("default")
def test_pairs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    done("check", "pairs.yaml")
    done("train", "pairs.yaml")
    found = measured("pairs")
    assert found["bleu"] > 60
    rows = predicted("pairs", "source\none two\nfour\n", monkeypatch, capsys)
    assert [row["text"] for row in rows][1] == "quatre"
