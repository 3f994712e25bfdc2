"""TextRows: rows of text as tokens, in parts; batches of them, padded; and new texts for predictions."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from ..configs import NO_TARGET
from ..dataset import Fingerprint, Fingerprinted
from ..sources.columns import Rows, Targets
from ..sources.rows import (
    CSV,
    KINDS,
    NO_TEXT,
    TABS,
    Dialect,
    Row,
    RowFile,
    bytes_of,
    lone_surrogate,
    row_file,
    row_parts,
    stream_rows,
    text_lines,
)
from ..sources.splits import Splits, Unlabeled, existing, histogram, named_parts, split
from ..sources.table_cells import cell, order, shown
from .configs import TaggedWordsConfig, TextClassificationConfig, TextPairsConfig, TextRowsConfig, TextsConfig
from .tokenizers import RowTokenizer, kept_files, tokenizer_at

_CONLL = (".conll", ".txt", ".iob", ".bio", ".iob2")
_NO_SENTENCE = "-DOCSTART-"


class LineFile:
    """Lines of text, those that are not empty, as rows of one column."""

    def __init__(self, path: Path, column: str, content: list[bytes] | None = None) -> None:
        self.path = path
        self._column = column
        self._content = content

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        for number, line in enumerate(text_lines(self.path, self._content), 1):
            if text := line.strip():
                yield number, {self._column: text}

    def place(self, line: int, column: str) -> str:
        return f"{self.path}:{line}"


class ConllFile:
    """Sentences of CoNLL: a word a line with its tag in the last column, and an empty line after each."""

    def __init__(self, path: Path, words: str, tags: str | None) -> None:
        self.path = path
        self._words, self._tags = words, tags

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        words: list[list[str]] = []
        begin = 1
        for number, line in enumerate(text_lines(self.path, None), 1):
            fields = line.split("\t") if "\t" in line else line.split()
            if not line.strip() or fields[0].startswith(_NO_SENTENCE):
                if words:
                    yield begin, self._row(words)
                words = []
                continue
            if self._tags is not None and len(fields) == 1:
                raise DataError(f"{self.path}:{number}: expected a word and its tag, got {shown(line.strip())}")
            if words and len(fields) != len(words[0]):
                lines = "sentences, one a line, are read from standard input (-)"
                raise DataError(
                    f"{self.path}:{number}: expected a word a line, with {len(words[0])} columns as in the line before,"
                    f" got {shown(line.strip())}; {lines if self._tags is None else 'take comments out of the file'}"
                )
            begin = begin if words else number
            words.append([field.strip() for field in fields])
        if words:
            yield begin, self._row(words)

    def _row(self, lines: list[list[str]]) -> Row:
        words: dict[str, Any] = {self._words: [line[0] for line in lines]}
        return words if self._tags is None else {**words, self._tags: [line[-1] for line in lines]}

    def place(self, line: int, column: str) -> str:
        return f"{self.path}:{line}"


def parts_of(config: TextRowsConfig) -> dict[str, RowFile]:
    """The files of a data set by their parts: `train`, `validation` if there is one, and others."""
    path = Path(config.path).expanduser()
    root = existing(config.path, "data.path", "directory" if path.is_dir() else "file")
    named_files = _named(config, root)
    if "" in named_files:
        parts = {"train": named_files[""]}
    else:
        train, valid, rest = named_parts(config, named_files, root)
        parts = {"train": train, **({} if valid is None else {"validation": valid}), **rest}
    if config.validation_path is not None:
        place = Path(config.validation_path).expanduser()
        other = existing(config.validation_path, "data.validation_path", "directory" if place.is_dir() else "file")
        named = _named(config, other)
        parts["validation"] = named.get(config.valid_split) or next(iter(named.values()))
    return parts


def _named(config: TextRowsConfig, path: Path) -> dict[str, RowFile]:
    return row_parts(path, _dialect(config, path)) if path.is_dir() else {"": opened(config, path)}


def opened(config: TextRowsConfig, path: Path, *, has_targets: bool = True) -> RowFile:
    """A file by the end of its name."""
    ending = path.suffix.lower()
    knows_conll = has_targets or ending != ".txt" or Path(config.path).suffix.lower() == ".txt"
    if isinstance(config, TaggedWordsConfig) and ending in _CONLL and knows_conll:
        return ConllFile(path, config.tokens, config.tags if has_targets else None)
    if ending == ".txt" and (isinstance(config, TextsConfig) or not has_targets) and len(config.columns) == 1:
        return LineFile(path, config.columns[0])
    return row_file(path, _dialect(config, path))


def streamed(config: TextRowsConfig, stream: Any) -> RowFile:
    """A text stream: JSON lines if it begins with a brace, CSV if its first line names the columns, else lines."""
    raw = bytes_of(stream)
    path, lines = Path("standard input"), BytesIO(raw).readlines()
    dialect = _dialect(config, path) or CSV
    head = lines[0].decode("utf-8-sig", errors="replace").strip() if lines else ""
    names = [it.strip(dialect.quote) for it in head.split(dialect.delimiter)]
    is_table = head.startswith("{") or set(config.columns) <= set(names)
    if is_table or len(config.columns) > 1:
        return stream_rows(raw, config.columns, dialect)
    return LineFile(path, next(iter(config.columns)), lines)


def _dialect(config: TextRowsConfig, path: Path) -> Dialect | None:
    base = TABS if KINDS.get(path.suffix.lower()) == "tabs" else CSV
    return base._replace(delimiter=config.delimiter or base.delimiter, encoding=config.encoding)


def texts_of(part: Rows, column: str) -> list[str]:
    """The texts of a column."""
    lists = []
    for line, row in part.rows:
        value = cell(part.file, line, row, column)
        if not isinstance(value, str) or not value.strip():
            got = "none" if value is None else shown(value)
            raise DataError(f"{part.file.place(line, column)}: '{column}': expected text, got {got}")
        lists.append(value)
    return lists


def lists_of(part: Rows, column: str) -> list[list[str]]:
    """The lists of a column: of text, the words between spaces."""
    sentences = []
    for line, row in part.rows:
        value = cell(part.file, line, row, column)
        words = value.split() if isinstance(value, str) else value
        if not isinstance(words, list) or not words or not all(isinstance(word, str | int) for word in words):
            wanted = "a list of text, or text with spaces"
            raise DataError(f"{part.file.place(line, column)}: '{column}': expected {wanted}, got {shown(value)}")
        sentences.append([str(word) for word in words])
    return sentences


class Ragged:
    """Lists of whole numbers of different lengths, in one tensor."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        self._ends = self.lengths.cumsum(0).tolist()
        self.values = torch.tensor([it for row in rows for it in row], dtype=torch.int32)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> Tensor:
        return self.values[self._ends[index - 1] if index else 0 : self._ends[index]].long()


class TokenRows(Fingerprinted):
    """Items are mappings of tensors, by the names of the columns, and lists of text.

    Attributes:
        columns: of each item, a list of numbers (`Ragged`), a row of a tensor, or anything else as it is.
        unreadable: rows that could not be read, and why.
        targets: the class of each item; None where they are none.
    """

    draws = False
    unreadable: Sequence[str] = ()

    def __init__(self, columns: Mapping[str, Any], fingerprint: Fingerprint = None) -> None:
        self.columns = dict(columns)
        self.fingerprint = fingerprint

    @property
    def targets(self) -> Tensor | None:
        labels = self.columns.get("labels")
        return labels if isinstance(labels, Tensor) and labels.dim() == 1 and not labels.is_floating_point() else None

    @property
    def lengths(self) -> Tensor:
        """The tokens of each item."""
        return self.columns["input_ids"].lengths

    def __len__(self) -> int:
        return len(self.columns["input_ids"])

    def __getitem__(self, index: int, /) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        return {name: column[index] for name, column in self.columns.items()}


class PaddingBatcher:
    """Makes batches of mappings: rows of different lengths are filled up at their ends to the longest of the batch."""

    makes = "padded texts"

    def __init__(self, pad_token: int) -> None:
        self._padding = {"input_ids": pad_token, "labels": NO_TARGET, "special_tokens_mask": 1, "word_ids": -1}

    def batch(self, items: Sequence[Mapping[str, Any]], device: torch.device) -> dict[str, Any]:
        """`[n, length]` int64 of each column of rows, with an `attention_mask`; other tensors are stacked."""
        batch: dict[str, Any] = {}
        for name, first in items[0].items():
            values = [item[name] for item in items]
            if not isinstance(first, Tensor):
                batch[name] = values
            elif first.dim() == 1 and not first.is_floating_point():
                batch[name] = _padded(values, self._padding.get(name, 0)).to(device)
            else:
                batch[name] = torch.stack(values).to(device)
        mask = _padded([torch.ones_like(item["input_ids"]) for item in items], 0).to(device)
        labels = {name: batch.pop(name) for name in ("labels",) if name in batch}
        return {"input_ids": batch.pop("input_ids"), "attention_mask": mask, **batch, **labels}


def _padded(rows: Sequence[Tensor], value: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([*rows], batch_first=True, padding_value=value)


class TextRows(Splits):
    """Rows of text as mappings of tokens, in parts.

    Attributes:
        vocab_size: number of different tokens.
        encode, decode: text to tokens and back.
    """

    def __init__(
        self, config: TextRowsConfig, facts: Mapping[str, Any] | None = None, directory: Path | None = None
    ) -> None:
        """Read the rows.

        Args:
            facts: what a run has learned of its data, in place of what is learned of this one.
            directory: where the run has its tokenizer.
        """
        path = tokenizer_at(config, directory)
        tokenizer = RowTokenizer(path)
        unreadable: list[str] = []
        parts = {name: _with_texts(config, file, unreadable) for name, file in parts_of(config).items()}
        for file, rows in parts.values():
            if not rows:
                first = f" that can be read; the first: {unreadable[0]}" if unreadable else ", got none"
                raise DataError(f"{file.path}: expected at least one row{first}")
        classes, encoded_parts = encoded(config, tokenizer, parts, None if facts is None else facts["classes"])
        self.vocab_size: int = tokenizer.facts["vocab_size"]
        identity = (classes, self.vocab_size, config.max_length, config.validation_fraction, config.split_seed)
        fingerprint = _hash(identity, encoded_parts.values())
        for dataset in encoded_parts.values():
            dataset.fingerprint = fingerprint
        encoded_parts["train"].unreadable = unreadable
        train: Any = encoded_parts.pop("train")
        valid: Any = encoded_parts.pop("validation", None)
        if valid is None:
            train, valid = split(train, config.validation_fraction, config.split_seed, config.path)
        names = [*config.target_names] if isinstance(config, TextClassificationConfig) else []
        super().__init__(
            train,
            valid,
            PaddingBatcher(tokenizer.pad_token),
            splits=encoded_parts,
            fingerprint=fingerprint,
            classes=classes,
            facts={**tokenizer.facts, "targets": names if getattr(config, "kind", "") == "numbers" else []},
            files=kept_files(path),
        )
        self._decode: Callable[[Any], str] = tokenizer.tokenizer.decode
        self._max_length = config.max_length

    def describe(self) -> list[str]:
        """The numbers of items, tokens, and of each class, and how long the texts are."""
        train: Any = self.train
        lengths, words = train.lengths, "lengths   of texts in tokens: "
        cut = int((lengths >= self._max_length).sum())
        first, bars = histogram(lengths)
        counted = f"; {cut:,} have max_length, {self._max_length}, or were cut to it" if cut else ""
        return [*super().describe(), f"{words}{first}{counted}", f"          {bars}"]

    def labels(self) -> list[int] | None:
        if self.classes is None or self.train[0]["labels"].dim() == 0:
            return None
        labels = (self.train[place]["labels"] for place in range(len(self.train)))
        return [number for label in labels for number in _numbers(label)]

    def examples(self, count: int) -> list[str]:
        """The first items to train on, as the tokens say them."""
        return [self._said(self.train[place]) for place in range(min(count, len(self.train)))]

    def _said(self, item: Mapping[str, Any]) -> str:
        text, labels, names = self._decode(item["input_ids"]), item.get("labels"), self.classes
        if labels is None:
            return text
        if names is None:
            return f"{text}\n-> {labels.tolist() if labels.is_floating_point() else self._decode(labels)}"
        return f"{text}\n-> {' '.join(names[number] for number in _numbers(labels)) or 'none'}"


def _with_texts(config: TextRowsConfig, file: RowFile, unreadable: list[str]) -> Rows:
    """The rows of a file without those whose texts no tokenizer can read, which are noted."""
    rows = []
    for line, row in file:
        if (name := next((it for it in config.used if lone_surrogate(row.get(it)) is not None), None)) is None:
            rows.append((line, row))
        else:
            unreadable.append(f"{file.place(line, name)}: '{name}': {NO_TEXT} {shown(lone_surrogate(row[name]))}")
    return Rows(file, rows)


def _numbers(labels: Tensor) -> list[int]:
    """The classes of an item: one, those of its tokens that have one, or those whose label is 1."""
    classes = labels.nonzero() if labels.is_floating_point() else labels
    return [it for it in classes.flatten().tolist() if it != NO_TARGET]


def encoded(
    config: TextRowsConfig, tokenizer: RowTokenizer, parts: Mapping[str, Rows], known_classes: Sequence[str] | None
) -> tuple[list[str] | None, dict[str, TokenRows]]:
    """The classes, those of the part `train` where none are known; and the items of each part."""
    if isinstance(config, TextClassificationConfig):
        targets = Targets(config.target_names, config.kind, config.separator)
        classes, labels = targets.read([*parts.values()], known_classes)
        encoded_parts = {name: columns_of(config, tokenizer, part) for name, part in parts.items()}
        for columns, part_labels in zip(encoded_parts.values(), labels, strict=True):
            columns["labels"] = part_labels.float() if part_labels.is_floating_point() else part_labels
        return classes, {name: TokenRows(columns) for name, columns in encoded_parts.items()}
    if isinstance(config, TaggedWordsConfig):
        return _tagged(config, tokenizer, parts, known_classes)
    encoded_parts = {name: columns_of(config, tokenizer, part) for name, part in parts.items()}
    if isinstance(config, TextPairsConfig):
        for columns, part in zip(encoded_parts.values(), parts.values(), strict=True):
            length = config.max_target_length or config.max_length
            tokens = tokenizer.texts(texts_of(part, config.target), None, length, is_target=True)
            columns["labels"] = Ragged(tokens["input_ids"])
    return None, {name: TokenRows(columns) for name, columns in encoded_parts.items()}


def columns_of(config: TextRowsConfig, tokenizer: RowTokenizer, part: Rows) -> dict[str, Any]:
    """Facts of the texts of a part, without their targets."""
    if isinstance(config, TaggedWordsConfig):
        words = lists_of(part, config.tokens)
        tokens, numbers = tokenizer.words(words, config.max_length)
        shown_words = [
            row[: max(word_numbers, default=-1) + 1] for row, word_numbers in zip(words, numbers, strict=True)
        ]
        return {"input_ids": Ragged(tokens), "word_ids": Ragged(numbers), "words": shown_words}
    texts = [texts_of(part, column) for column in config.columns]
    if isinstance(config, TextPairsConfig):
        texts[0] = [config.prefix + it for it in texts[0]]
    if isinstance(config, TextClassificationConfig | TextPairsConfig):
        encoding = tokenizer.texts(texts[0], texts[1] if len(texts) > 1 else None, config.max_length)
    else:
        encoding = tokenizer.marked(texts[0], config.max_length)
    return {name: Ragged(rows) for name, rows in encoding.items()}


def first_tokens(word_ids: Sequence[int]) -> list[bool]:
    """For each token, True if it is the first one of its word."""
    return [it >= 0 and (place == 0 or word_ids[place - 1] != it) for place, it in enumerate(word_ids)]


def _tagged(
    config: TaggedWordsConfig,
    tokenizer: RowTokenizer,
    parts: Mapping[str, Rows],
    known_classes: Sequence[str] | None,
) -> tuple[list[str], dict[str, TokenRows]]:
    tags = {name: _tags(config, part) for name, part in parts.items()}
    classes = (
        sorted({it for row in tags["train"] for it in row}, key=order) if known_classes is None else [*known_classes]
    )
    numbers = {it: number for number, it in enumerate(classes)}
    columns_of_parts = {}
    for name, part in parts.items():
        for (line, _), row in zip(part.rows, tags[name], strict=True):
            if unknown := [it for it in row if it not in numbers]:
                place = part.file.place(line, config.tags)
                raise DataError(f"{place}: '{config.tags}': '{unknown[0]:.40}' is a tag that the training has not")
        columns = columns_of(config, tokenizer, part)
        labels = []
        for place, row in enumerate(tags[name]):
            word_ids = columns["word_ids"][place].tolist()
            first = first_tokens(word_ids)
            labels.append(
                [numbers[row[it]] if is_first else NO_TARGET for it, is_first in zip(word_ids, first, strict=True)]
            )
        columns_of_parts[name] = TokenRows({**columns, "labels": Ragged(labels)})
    return classes, columns_of_parts


def _tags(config: TaggedWordsConfig, part: Rows) -> list[list[str]]:
    lists = lists_of(part, config.tags)
    for (line, _), words, tags in zip(part.rows, lists_of(part, config.tokens), lists, strict=True):
        if len(words) != len(tags):
            raise DataError(
                f"{part.file.place(line, config.tags)}: expected a tag for each of the {len(words)} words, got"
                f" {len(tags)}: {shown(tags)}"
            )
    return lists


def _hash(identity: Any, parts: Any) -> str:
    digest = hashlib.sha256(repr(identity).encode())
    for part in parts:
        for name, column in part.columns.items():
            digest.update(name.encode())
            tensors = (column.lengths, column.values) if isinstance(column, Ragged) else (column,)
            for tensor in tensors:
                digest.update(tensor.numpy().data if isinstance(tensor, torch.Tensor) else repr(tensor).encode())
    return digest.hexdigest()


def unlabeled(config: TextRowsConfig, sources: Sequence[Any], facts: Mapping[str, Any], directory: Path) -> Unlabeled:
    """New texts, whose targets are ignored: files of rows, of lines (`.txt`), and streams of either."""
    tokenizer = RowTokenizer(tokenizer_at(config, directory))
    names: list[str] = []
    columns: dict[str, list[Any]] = {}
    for source in sources:
        for file in _files(config, source):
            part = Rows(file, list(file))
            names += [f"{file.path}:{line}" for line, _ in part.rows]
            encoding = columns_of(config, tokenizer, part) if part.rows else {}
            if isinstance(config, TaggedWordsConfig):
                encoding |= {"words": lists_of(part, config.tokens)}  # all of them, also those without a token
            for name, column in encoding.items():
                columns.setdefault(name, []).extend(column[place] for place in range(len(column)))
    batch_columns: dict[str, Any] = {
        name: Ragged([row.tolist() for row in rows]) if isinstance(rows[0], torch.Tensor) else rows
        for name, rows in columns.items()
    }
    if isinstance(config, TextClassificationConfig):
        batch_columns["labels"] = Targets(config.target_names, config.kind).placeholder(len(names), facts)
    elif isinstance(config, TaggedWordsConfig) and names:
        marks = (first_tokens(batch_columns["word_ids"][place].tolist()) for place in range(len(names)))
        batch_columns["labels"] = Ragged([[0 if mark else NO_TARGET for mark in row_marks] for row_marks in marks])
    elif names and config.targets:
        batch_columns["labels"] = Ragged([[0]] * len(names))
    return Unlabeled(TokenRows(batch_columns or {"input_ids": Ragged([])}), names, PaddingBatcher(tokenizer.pad_token))


def _files(config: TextRowsConfig, source: Any) -> list[Any]:
    if not isinstance(source, Path):
        return [streamed(config, source)]
    endings = (*KINDS, ".txt", ".conll")
    paths = sorted(path for path in source.iterdir() if path.suffix in endings) if source.is_dir() else [source]
    return [opened(config, path, has_targets=False) for path in paths]
