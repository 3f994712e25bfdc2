"""Tasks of tokens: losses beside transformers' own, what is hidden and predicted, in programs and from YAML."""

import csv
import io
import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.cli.main import main
from burnlike.errors import ConfigError, DataError, ShapeError
from burnlike.models import EncoderDecoderConfig
from burnlike.train import (
    Interrupted,
    Job,
    MaskedLanguageModel,
    MaskedLanguageModelConfig,
    RunDir,
    SequenceToSequence,
    SequenceToSequenceConfig,
    TokenClassification,
    TrainConfig,
)

from .test_generative import StopAt

transformers = pytest.importorskip("transformers")


GENERATOR = torch.Generator().manual_seed(5)
VOCAB, MASK = 30, 4
MASKED_FACTS = {"mask_token": MASK, "special_tokens": [0, 1, 2, MASK], "vocab_size": VOCAB}


def bert(kind: Any, **options: Any) -> nn.Module:
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, **options
    )
    return kind(config).double().eval()


def texts(n: int = 4, length: int = 9) -> dict[str, Tensor]:
    tokens = torch.randint(5, VOCAB, (n, length), generator=GENERATOR)
    tokens[:, 0], mask = 1, torch.ones_like(tokens)
    tokens[0, 6:], mask[0, 6:] = 0, 0
    return {"input_ids": tokens, "attention_mask": mask}


def test_token_classification_is_the_loss_of_transformers() -> None:
    model = bert(transformers.BertForTokenClassification, num_labels=3)
    batch = texts() | {"labels": torch.randint(3, (4, 9), generator=GENERATOR)}
    batch["labels"][:, 0] = batch["labels"][0, 6:] = -100
    output = TokenClassification().train_step(model, batch)
    torch.testing.assert_close(output.loss, model(**batch).loss)
    assert (output.size, output.logits) == (4 * 8 - 3, True)
    with pytest.raises(ShapeError, match=r"TokenClassification: expected \[n, length, classes\] logits and"):
        TokenClassification().train_step(model, batch | {"labels": batch["labels"][:, 1:]})


def test_tags_of_words_and_their_spans() -> None:
    class Tagger(nn.Module):
        def forward(self, input_ids: Tensor) -> Tensor:
            return functional.one_hot(input_ids, 4).double()

    labels = torch.tensor([[-100, 0, 0, -100, 0, 0], [-100, 0, -100, -100, -100, -100]])
    tokens = torch.tensor([[0, 1, 2, 0, 0, 3], [0, 3, 3, 3, 0, 0]])
    words = [["Ada", "Lovelace", "met", "Babbage"], ["Turing"]]
    facts = {"classes": ["O", "B-PER", "I-PER", "B-LOC"]}
    first, second = TokenClassification().predict(
        Tagger(), {"input_ids": tokens, "labels": labels, "words": words}, facts
    )
    assert first["tokens"] == words[0]
    assert first["tags"] == ["B-PER", "I-PER", "O", "B-LOC"]
    assert first["spans"] == [
        {"label": "PER", "start": 0, "end": 2, "text": "Ada Lovelace"},
        {"label": "LOC", "start": 3, "end": 4, "text": "Babbage"},
    ]
    assert second["tags"] == ["B-LOC"]
    (only,) = TokenClassification().predict(Tagger(), (tokens[:1], labels[:1]), {"classes": None})
    assert only == {"tags": ["1", "2", "0", "3"], "spans": [
        {"label": label, "start": place, "end": place + 1} for place, label in enumerate("1203")
    ]}  # fmt: skip


def test_each_word_has_a_tag_also_without_a_token() -> None:
    """Tokens say by `word_ids` which words they are of: the second word has none, the last is behind the end."""

    class Tagger(nn.Module):
        def forward(self, input_ids: Tensor) -> Tensor:
            return functional.one_hot(input_ids, 4).double()

    batch = {
        "input_ids": torch.tensor([[0, 1, 3, 3, 0]]),
        "word_ids": torch.tensor([[-1, 0, 2, 2, -1]]),
        "labels": torch.tensor([[-100, 0, 0, -100, -100]]),
        "words": [["Ada", "\u200b", "Rome", "again"]],
    }
    (row,) = TokenClassification().predict(Tagger(), batch, {"classes": ["O", "B-PER", "I-PER", "B-LOC"]})
    assert (row["tokens"], row["tags"]) == (batch["words"][0], ["B-PER", "O", "B-LOC", "O"])
    assert [(it["text"], it["label"]) for it in row["spans"]] == [("Ada", "PER"), ("Rome", "LOC")]


class Shown(nn.Module):
    """Keeps what it is shown."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        self.tokens = input_ids
        return torch.zeros(*input_ids.shape, VOCAB, requires_grad=True)


def masked(**fields: Any) -> MaskedLanguageModel:
    task = MaskedLanguageModel(MaskedLanguageModelConfig(**fields))
    task.take_facts(MASKED_FACTS)
    return task


def test_tokens_are_hidden_as_in_bert() -> None:
    tokens = torch.randint(5, VOCAB, (400, 100), generator=GENERATOR)
    tokens[:, ::10], model = 1, Shown()
    torch.manual_seed(3)
    output = masked().train_step(model, {"input_ids": tokens})
    chosen = output.targets != -100
    assert not chosen[:, ::10].any()
    assert abs(chosen[:, 1:10].double().mean() - 0.15) < 0.01
    shown, true = model.tokens[chosen], tokens[chosen]
    assert torch.equal(output.targets[chosen], true)
    assert torch.equal(model.tokens[~chosen], tokens[~chosen])
    assert abs((shown == MASK).double().mean() - (0.8 + 0.1 / VOCAB)) < 0.02
    assert abs((shown == true).double().mean() - (0.1 + 0.1 / VOCAB)) < 0.02
    assert output.size == int(chosen.sum())


def test_what_a_task_of_tokens_lacks_is_named() -> None:
    task = MaskedLanguageModel(MaskedLanguageModelConfig())
    task.take_facts({**MASKED_FACTS, "vocab_size": None})
    with pytest.raises(ConfigError, match="needs the number of tokens, which neither data nor model say"):
        task.train_step(Shown(), texts())
    writer = SequenceToSequence(SequenceToSequenceConfig(max_tokens=3, end_token=1))
    with pytest.raises(ConfigError, match="Shown has no generate, which writes tokens"):
        writer.predict(Shown(), texts(), {"classes": None})


def test_the_choice_is_of_the_generator_in_training_and_fixed_in_a_validation() -> None:
    batch, model, task = texts(6, 40), Shown(), masked(mask_prob=0.3)

    def choice(step: Any, batch: Any, seed: int) -> Tensor:
        torch.manual_seed(seed)
        return step(model, batch).targets

    assert torch.equal(choice(task.train_step, batch, 1), choice(task.train_step, batch, 1))
    assert not torch.equal(choice(task.train_step, batch, 1), choice(task.train_step, batch, 2))
    fixed = choice(task.valid_step, batch, 1)
    assert torch.equal(fixed, choice(task.valid_step, batch, 2))
    padded = {name: functional.pad(it[2:3], (0, 5)) for name, it in batch.items()}
    assert torch.equal(choice(task.valid_step, padded, 3)[:, :40], fixed[2:3])  # whatever stands beside and behind it
    assert len({tuple((row != -100).tolist()) for row in fixed}) == 6


def test_whole_words_are_hidden() -> None:
    words = torch.arange(60).div(3, rounding_mode="floor").expand(20, 60).clone()
    words[:, 57:] = -1
    batch = {"input_ids": torch.randint(5, VOCAB, (20, 60), generator=GENERATOR), "word_ids": words}
    batch["special_tokens_mask"] = words < 0
    chosen = masked(whole_words=True, mask_prob=0.4).train_step(Shown(), batch).targets != -100
    assert torch.equal(chosen[:, ::3], chosen[:, 1::3])
    assert torch.equal(chosen[:, ::3], chosen[:, 2::3])
    assert not chosen[:, 57:].any()
    assert 0.3 < chosen[:, :57].double().mean() < 0.5
    with pytest.raises(DataError, match=r"task.whole_words: expected batches with `word_ids`"):
        masked(whole_words=True).train_step(Shown(), {"input_ids": batch["input_ids"]})


def test_masked_language_model_is_the_loss_of_transformers() -> None:
    model, task, batch = bert(transformers.BertForMaskedLM), masked(mask_prob=0.4), texts()
    output = task.valid_step(model, batch)
    shown = Shown()
    task.valid_step(shown, batch)
    theirs = model(input_ids=shown.tokens, attention_mask=batch["attention_mask"], labels=output.targets)
    torch.testing.assert_close(output.loss, theirs.loss)
    with pytest.raises(ConfigError, match=r"task.mask_token: expected the number of the mask token"):
        MaskedLanguageModel().train_step(model, batch)
    with pytest.raises(
        DataError, match=r"expected \[n, length\] tokens, or a mapping of `input_ids`, got torch.float32"
    ):
        task.train_step(model, torch.zeros(2, 3))


def test_masked_tokens_are_filled_in() -> None:
    class Next(nn.Module):
        def forward(self, input_ids: Tensor) -> Tensor:
            return 9 * functional.one_hot(input_ids.roll(1, 1) + 1, VOCAB).double()

    batch = {"input_ids": torch.tensor([[1, 7, MASK, 12, MASK, 0]])}
    (row,) = masked().predict(Next(), batch, MASKED_FACTS)
    assert (row["tokens"], row["found"]) == ([7, 8, 12, 13], [8, 13])
    assert min(row["probabilities"]) > 0.99
    (row,) = masked().predict(Next(), batch, MASKED_FACTS | {"decode": lambda it: " ".join(map(str, it.tolist()))})
    assert (row["text"], row["found"]) == ("7 8 12 13", ["8", "13"])
    unknown = batch | {"special_tokens_mask": torch.tensor([[1, 0, 0, 0, 0, 1]])}
    (row,) = masked().predict(Next(), unknown, MASKED_FACTS | {"special_tokens": [0, 1, 7, MASK]})
    assert row["tokens"] == [7, 8, 12, 13]


def t5() -> Any:
    torch.manual_seed(2)
    config = transformers.T5Config(
        vocab_size=VOCAB, d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2, dropout_rate=0.0,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


def pairs() -> dict[str, Tensor]:
    labels = torch.randint(2, VOCAB, (4, 5), generator=GENERATOR)
    labels[:, 4], labels[1, 3], labels[1, 4] = 1, 1, -100
    return texts() | {"labels": labels}


def test_sequence_to_sequence_is_the_loss_of_transformers() -> None:
    model, batch = t5(), pairs()
    output = SequenceToSequence().train_step(model, batch)
    torch.testing.assert_close(output.loss, model(**batch).loss)
    assert output.size == 19


@pytest.fixture
def own() -> nn.Module:
    torch.manual_seed(2)
    return EncoderDecoderConfig(vocab_size=VOCAB, d_model=8, n_layers=1, n_heads=2, d_head=4, d_ff=16).init().double()


def test_sequence_to_sequence_of_burnlikes_model(own: Any) -> None:
    batch = pairs()
    own.eval()
    output = SequenceToSequence().train_step(own, batch)
    before = torch.cat([torch.zeros(4, 1, dtype=torch.int64), batch["labels"][:, :-1].clamp(min=0)], 1)
    logits = own(batch["input_ids"], before, batch["attention_mask"])
    torch.testing.assert_close(output.loss, functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten()))
    task = SequenceToSequence(SequenceToSequenceConfig(max_tokens=6, end_token=1))
    rows = task.predict(own, {name: it for name, it in batch.items() if name != "labels"}, {"classes": None})
    for row, tokens, mask in zip(rows, batch["input_ids"], batch["attention_mask"], strict=True):
        alone = own.generate(tokens[None], 6, attention_mask=mask[None], stop_tokens=(1,))[0, 1:]
        assert row == {"tokens": alone.tolist()}


def test_no_more_tokens_are_written_than_a_decoder_has_positions() -> None:
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    sizes |= {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "max_position_embeddings": 12}
    model = transformers.BartForConditionalGeneration(
        transformers.BartConfig(vocab_size=40, eos_token_id=None, forced_eos_token_id=None, **sizes)
    ).eval()
    rows = SequenceToSequence(SequenceToSequenceConfig(max_tokens=30)).predict(model, pairs(), {})
    assert [len(row["tokens"]) for row in rows] == [12] * 4


def test_the_first_token_of_generation_config_is_not_made_up() -> None:
    sizes = {"num_layers": 1, "num_heads": 1, "d_model": 8, "d_kv": 8, "d_ff": 8}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=9, **sizes))
    model.config.decoder_start_token_id, model.generation_config.decoder_start_token_id = None, 3
    own = EncoderDecoderConfig(vocab_size=9, d_model=8, n_layers=1, n_heads=2, d_head=4, d_ff=8).init()
    assert SequenceToSequence().tokens_of(model) == {"eos_token_id": 1, "pad_token_id": 0}
    assert SequenceToSequence().tokens_of(own)["decoder_start_token_id"] == 0


def test_second_sequences_are_written() -> None:
    model, batch = t5(), pairs()
    task = SequenceToSequence(SequenceToSequenceConfig(max_tokens=6, validation_tokens=4))
    rows = task.predict(model, batch, {"decode": lambda it: " ".join(map(str, it.tolist()))})
    for row, tokens, mask in zip(rows, batch["input_ids"], batch["attention_mask"], strict=True):
        alone = model.generate(tokens[None], attention_mask=mask[None], max_new_tokens=6, do_sample=False)[0, 1:]
        assert row == {"text": " ".join(str(it) for it in alone.tolist() if it > 1)}
    assert any(row["text"] for row in rows)
    output = task.valid_step(model, batch)
    assert (output.predictions.shape, output.logits) == ((4, 4), False)
    torch.testing.assert_close(output.loss, model(**batch).loss)


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
