"""Jobs for texts: classes of texts and of pairs, tags of words, texts to write, conversations, text to continue."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...data.codec import SPECIAL_TOKENS, train_tokenizer
from ...errors import DataError
from .writing import Draft, Key, Place, Sheet, number

_CHATML = ("<|im_start|>", "<|im_end|>")
_SMALLEST_VOCABULARY, _LARGEST_VOCABULARY, _STEP = 384, 4096, 64
_CHARACTERS_OF_A_TOKEN = 80
"""Characters of the texts for each token of the vocabulary, so that a token is seen about twenty times."""
_LONGEST = 256
_SHARE = 0.95
_TOKENS = 600_000
"""Tokens that a training reads in about a minute: a small transformer, on two cores."""
_MOST_EPOCHS, _FEWEST_EPOCHS = 30, 3
_SMALL = {"d_model": 64, "n_layers": 2, "n_heads": 4, "d_ff": 128}
_WIDER = {**_SMALL, "d_model": 128, "d_ff": 256}
"""Of classifiers: of docstrings of five packages 1 to 9 points more were right than by `_SMALL`; of pairs 8 fewer."""
_RARE = 0.4
"""Share of an equal share below which a class is rare."""


class Tokens:
    """A tokenizer that was trained on texts.

    Attributes:
        size: of its vocabulary.
        content: of its file, a `tokenizer.json`.
    """

    def __init__(self, texts: Sequence[str], more_specials: Sequence[str] = ()) -> None:
        characters = sum(map(len, texts))
        wanted = characters // _CHARACTERS_OF_A_TOKEN // _STEP * _STEP
        tokenizer = train_tokenizer(texts, max(_SMALLEST_VOCABULARY, min(_LARGEST_VOCABULARY, wanted)))
        tokenizer.add_special_tokens([*more_specials])
        self._tokenizer = tokenizer
        self.size: int = tokenizer.get_vocab_size()
        self.content = tokenizer.to_str(pretty=True).encode() + b"\n"
        self.reason = (
            f"byte pairs, learned of these {number(len(texts), 'text')} with {number(characters, 'character')}"
        )

    def counts(self, texts: Sequence[str | tuple[str, ...]]) -> list[int]:
        """The number of tokens of each text, or pair of texts."""
        return [len(it.ids) for it in self._tokenizer.encode_batch([*texts])]


def length_key(counts: Sequence[int], name: str = "max_length", item: str = "text") -> Key:
    """The length at which texts, or pairs of texts, are cut, which nearly all have."""
    enough = sorted(counts)[int((len(counts) - 1) * _SHARE)] + 2
    length = max(8, min(_LONGEST, -(-enough // 8) * 8))
    cut = sum(count > length for count in counts)
    cut_items = number(cut, f"{item} is", f"{item}s are")
    return Key(name, length, f"tokens; the longest {item} has {max(counts):,}, {cut_items} cut")


def _filled(sheet: Sheet, column: str, wanted: str = "text") -> list[str]:
    """The texts of a column, of which none may be empty: the job's own data would refuse it."""
    texts = sheet.texts(column)
    if gaps := sum(not text.strip() for text in texts):
        raise DataError(
            f"{sheet.path}: expected {wanted} in '{column}' of each row, {number(gaps, 'row has', 'rows have')} none;"
            " take them out of the file"
        )
    return texts


def tokens_read(counts: Sequence[int], length: Key) -> int:
    """Tokens of texts that are cut at a length."""
    longest: Any = length.value
    return sum(min(count, longest) for count in counts)


def epochs_of(tokens: int) -> int:
    return max(_FEWEST_EPOCHS, min(_MOST_EPOCHS, _TOKENS // max(1, tokens)))


def texts_draft(place: Place, sheet: Sheet, columns: Sequence[str], target: str) -> Draft:
    """Classes of the texts of a column, or of the pairs of texts of two."""
    classes, is_pairs = Counter(_filled(sheet, target, "a class")), len(columns) > 1
    item = "pair" if is_pairs else "text"
    rows = [*zip(*(_filled(sheet, it) for it in columns), strict=True)]
    tokens = Tokens([text for row in rows for text in row])
    counts = tokens.counts([row if is_pairs else row[0] for row in rows])
    length = length_key(counts, item=item)
    others = [column for column in sheet.columns if column not in (*columns, target)]
    reason = "free texts that are compared" if is_pairs else "free text"
    data = [
        Key("type", "TextClassification"),
        *place.path_keys(sheet),
        Key("text", [*columns] if is_pairs else columns[0],
            f"{reason}; not read: {', '.join(others[:5])}" if others else reason),
        Key("target", target, classes_reason(classes)),
        Key("tokenizer", place.beside("tokenizer.json"), tokens.reason),
        length,
        Key("validation_fraction", 0.2, f"{item}s that the training does not see, which say how good the model is"),
    ]  # fmt: skip
    n_classes = Key("n_classes", len(classes), "as the target has")
    if is_pairs:
        reason = "one transformer reads each text; its vectors of both say the class of the pair"
        model = _encoder_model("Siamese", reason, tokens, length, _SMALL, n_classes)
    else:
        reason = "a transformer that reads a text in both directions"
        model = _encoder_model("TextClassifier", reason, tokens, length, _WIDER, n_classes)
    task, weighed = task_key(classes)
    return Draft(
        f"{number(len(rows), item)} of {number(len(classes), 'class', 'classes')}",
        [
            Key("data", data),
            model,
            task,
            Key("metrics", [{"type": "Accuracy"}, {"type": "FBetaScore"}],
                f"share of right {item}s; mean F1 of classes"),
            # From 2e-3, two of four trainings missed the order of words, such as `not good`; pairs lost 3% from 1e-3.
            *_optimizer(2e-3 if is_pairs else 1e-3),
            training_key(epochs_of(tokens_read(counts, length)), 16, "f_beta_score" if weighed else "accuracy"),
            *OUTPUT,
        ],
        [("column", "kind", "job"),
         *((it, f"free text, {_mean(counts)} tokens {'of both ' * is_pairs}on average", "read") for it in columns),
         (target, f"{len(classes)} classes", "target"), *((it, "", "not read") for it in others)],
        {place.file("tokenizer.json"): tokens.content},
        next_steps=("burnlike evaluate {run}", "burnlike predict {run} {data} --out classes.csv"),
    )  # fmt: skip


def words_draft(place: Place, sentences: Sequence[tuple[Sequence[str], Sequence[str]]], keys: list[Key]) -> Draft:
    """Tags of words, such as names and parts of speech."""
    if not sentences:
        raise DataError(f"{place.data}: expected words with tags, got none")
    texts = [" ".join(words) for words, _ in sentences]
    tags = Counter(tag for _, row in sentences for tag in row)
    tokens = Tokens(texts)
    counts = tokens.counts(texts)
    length = length_key(counts)
    is_spans = any(tag[:2] in ("B-", "I-") for tag in tags)
    data = [
        Key("type", "TaggedWords"),
        *place.path_keys(None),
        *keys,
        Key("tokenizer", place.beside("tokenizer.json"), tokens.reason),
        length,
        Key("validation_fraction", 0.2, "sentences that the training does not see"),
    ]
    n_tags = Key("n_classes", len(tags), f"tags: {', '.join(sorted(tags)[:8])}{', ...' * (len(tags) > 8)}")
    metric = "SpanF1" if is_spans else "Accuracy"
    reason = "names that are found whole, with their kind" if is_spans else "share of right words"
    return Draft(
        f"{number(len(sentences), 'sentence')}, {number(len(tags), 'tag')}",
        [
            Key("data", data),
            _encoder_model("TokenTagger", "a transformer that reads both ways", tokens, length, _SMALL, n_tags),
            Key("task", {"type": "TokenClassification"}),
            Key("metrics", [{"type": metric}], reason),
            *_optimizer(3e-3),
            training_key(epochs_of(tokens_read(counts, length)), 16, "span_f1" if is_spans else "accuracy"),
            *OUTPUT,
        ],
        [("tag", "words"), *((tag, f"{count:,}") for tag, count in tags.most_common(12))],
        {place.file("tokenizer.json"): tokens.content},
    )


def pairs_draft(place: Place, sheet: Sheet, source: str, target: str) -> Draft:
    """Texts, and what is to be written for them."""
    sources, targets = _filled(sheet, source), _filled(sheet, target)
    tokens = Tokens([*sources, *targets])
    read, written = tokens.counts(sources), tokens.counts(targets)
    length, target_length = length_key(read), length_key(written, "max_target_length")
    data = [
        Key("type", "TextPairs"),
        *place.path_keys(sheet),
        Key("source", source, "the text that is read"),
        Key("target", target, "the text that is to be written"),
        Key("tokenizer", place.beside("tokenizer.json"), f"{tokens.reason}; {SPECIAL_TOKENS['eos']} ends a text"),
        length,
        target_length,
        Key("validation_fraction", 0.1, "pairs that the training does not see"),
    ]
    seen = tokens_read(read, length) + tokens_read(written, target_length)
    model = {"type": "EncoderDecoder", "vocab_size": tokens.size, "d_head": 16, **_SMALL}
    return Draft(
        number(len(sources), "pair of texts", "pairs of texts"),
        [
            Key("data", data),
            Key("model", model, "an encoder of the source, and a decoder that writes the target"),
            Key("task", [
                Key("type", "SequenceToSequence"),
                Key("validation_tokens", target_length.value, "a validation lets the model write as many"),
            ]),
            Key("metrics", [{"type": "RougeL"}], "the longest common sequence of what is written and what is right"),
            *_optimizer(3e-3),
            training_key(epochs_of(seen), 16, "loss"),
            *OUTPUT,
        ],
        [("column", "kind", "job"), (source, f"free text, {_mean(read)} tokens on average", "source"),
         (target, f"free text, {_mean(written)} tokens on average", "target")],
        {place.file("tokenizer.json"): tokens.content},
        next_steps=("burnlike evaluate {run}", "burnlike predict {run} {data} --out texts.csv"),
    )  # fmt: skip


def chat_draft(place: Place, rows: Sequence[Any], chat_format: str, texts: Sequence[str]) -> Draft:
    """Conversations, with the loss on the answers; `texts` are those of all messages."""
    tokens = Tokens(texts, _CHATML)
    # Each message has its role, two marks and two ends of lines beside its text.
    per_row = max(1, round(len(texts) / len(rows)))
    counts = tokens.counts(texts)
    typical = sum(counts) // len(rows) + 6 * per_row
    length = max(64, min(_LONGEST, -(-2 * typical // 32) * 32))
    pad = SPECIAL_TOKENS["pad"]
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": _CHATML[1], "pad_token": pad,
                "model_max_length": length}  # fmt: skip
    data = [
        Key("type", "Chat"),
        *place.path_keys(None),
        Key("format", chat_format, "by the names of the columns"),
        Key("tokenizer", place.beside("tokenizer"), tokens.reason),
        Key("chat_template", "chatml", "how roles and messages are written, as the tokenizer says nothing of it"),
        Key("max_length", length, f"tokens; a conversation has about {typical:,}"),
        Key("loss", "answers", "the model learns what the assistant says"),
        Key("validation_fraction", 0.1, "conversations that the training does not see"),
    ]
    model = {"type": "DecoderLm", "vocab_size": tokens.size, "max_sequence_length": length, **_SMALL}
    epochs = epochs_of(min(typical, length) * len(rows))
    return Draft(
        f"{number(len(rows), 'conversation')}, {number(len(texts), 'message')}",
        [
            Key("data", data),
            Key("model", model, "small, from nothing; {type: Pretrained, path: DIR} goes on with one of transformers"),
            Key("task", {"type": "LanguageModel", "sample_length": 0}),
            Key("metrics", [{"type": "Perplexity", "pad_token": -100}], "among how many tokens the model hesitates"),
            *_optimizer(3e-3),
            training_key(epochs, 16, "loss"),
            *OUTPUT,
        ],
        [("data", "has"), ("conversations", f"{len(rows):,}"), ("messages", f"{len(texts):,}"),
         ("format", chat_format), ("tokens", f"{tokens.size:,} different")],
        {
            place.file("tokenizer/tokenizer.json"): tokens.content,
            place.file("tokenizer/tokenizer_config.json"): json.dumps(settings, indent=1).encode() + b"\n",
        },
        next_steps=("burnlike generate {run} --chat",),
    )  # fmt: skip


def corpus_draft(place: Place, files: Sequence[Path], size: int) -> Draft:
    """A language model of a text file, or of those of a folder."""
    context = 128
    while context > 16 and size * 0.1 < context * 8:  # the validation must have some windows
        context //= 2
    data = [
        Key("type", "Text", "text as bytes: nothing is fitted, and any language and sign has its tokens"),
        *place.path_keys(None),
        *([Key("pattern", "**/*.txt", "other files of the folder are not read")] if len(files) > 1 else []),
        Key("context_length", context, "bytes that the model sees at once"),
        Key("validation_fraction", 0.1, "whole files where there are several, else the end of the text"),
    ]
    model = {"type": "DecoderLm", "vocab_size": 256, "max_sequence_length": context, "d_model": 96, "n_layers": 3,
             "n_heads": 4, "d_ff": 256}  # fmt: skip
    steps = max(25, min(150, size // (16 * context)))
    training = [
        Key("epochs", 4, "each ends with a validation and a checkpoint"),
        Key("steps_per_epoch", steps, "so that it takes about a minute; left out, an epoch is all of the text once"),
        Key("batch_size", 16, f"pieces of {context} bytes"),
        Key("validation_steps", 20, "the validation at the end takes all"),
        Key("keep_best", {"metric": "loss"}, "the result has the weights of the best validation"),
    ]
    return Draft(
        f"{number(len(files), 'text file')}, {size:,} bytes",
        [
            Key("data", data),
            Key("model", model, "a small decoder: RMS norm, rotary positions, SwiGLU"),
            Key("task", {"type": "LanguageModel", "sample_length": 200}, "predicts each byte from those before it"),
            Key("optimizer", {"type": "AdamW", "beta_2": 0.95, "weight_decay": 0.1,
                              "grad_clipping": {"type": "ClipByGlobalNorm", "threshold": 1.0}}),
            Key("lr_scheduler", {"type": "CosineAnnealing", "initial_lr": 4e-3, "warmup_steps": 10},
                "rises for some steps, then falls to 0 along a cosine"),
            Key("training", training),
            *OUTPUT,
        ],
        [("data", "has"), ("files", f"{len(files):,}"), ("bytes", f"{size:,}")],
        next_steps=("burnlike generate {run}",),
    )  # fmt: skip


def task_key(classes: Counter[str]) -> tuple[Key, bool]:
    """The task for classes, and True if the rare one of two is weighed.

    Of several classes none is: on four public tables weights lost 0.02 to 0.09 of the accuracy, and the mean recall of
    the classes changed by -0.09 to 0.03.
    """
    fewest, count = classes.most_common()[-1]
    task = {"type": "Classification"}
    if count >= _RARE * classes.total() / len(classes):
        return Key("task", task), False
    reason = f"'{fewest}' has {count / classes.total():.1%} of the rows"
    if len(classes) > 2:
        return Key("task", task, f"{reason}; `class_weights: balanced` would let it count as much as others"), False
    return Key("task", {**task, "class_weights": "balanced"}, f"{reason}; without weights it is seldom predicted"), True


def training_key(epochs: int, batch_size: int, metric: str, *more: Key) -> Key:
    """The `training:` of a job."""
    return Key("training", [
        Key("epochs", epochs, "about a minute on a laptop; more may be better"),
        Key("batch_size", batch_size),
        Key("keep_best", {"metric": metric}, "the result has the weights of the best validation"),
        *more,
    ])  # fmt: skip


def _encoder_model(
    kind: str, reason: str, tokens: Tokens, length: Key, sizes: Mapping[str, int], n_classes: Key
) -> Key:
    """A small model over an encoder of texts."""
    encoder = {"vocab_size": tokens.size, "max_sequence_length": length.value, **sizes}
    return Key("model", [Key("type", kind, reason), Key("encoder", encoder), n_classes])


OUTPUT = (Key("output", {"precision": "float32"}, "of the weights in model.safetensors"),)


def _optimizer(rate: float) -> list[Key]:
    return [
        Key("optimizer", {"type": "AdamW", "weight_decay": 0.01}),
        Key("lr_scheduler", {"type": "CosineAnnealing", "initial_lr": rate, "warmup_steps": 10},
            "rises for some steps, then falls to 0 along a cosine"),
    ]  # fmt: skip


def classes_reason(classes: Counter[str]) -> str:
    """The number of the classes, and how many items the largest have."""
    shown = ", ".join(f"{name} {count:,}" for name, count in classes.most_common(5))
    return f"{number(len(classes), 'class', 'classes')}: {shown}{', ...' * (len(classes) > 5)}"


def _mean(counts: Sequence[int]) -> int:
    return round(sum(counts) / len(counts))
