"""Configs of rows of text."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from ...config import DatasetConfig, Meta
from ...config.bounds import Size
from ...config.file_paths import FilePath
from ..chat.tokenizers import tokenizer_problem
from ..sources.configs import Character, Encoding, Fraction, Name, Seed

if TYPE_CHECKING:
    from ..sources.splits import Unlabeled
    from .rows import TextRows
    from .tokenizers import RowCodec


class TextRowsConfig(DatasetConfig["TextRows"], builds=".rows"):
    """The fields that all rows of text have; see `TextClassificationConfig`."""

    path: FilePath
    tokenizer: FilePath
    max_length: Size = 256
    validation_path: FilePath | None = None
    validation_fraction: Fraction = 0.1
    train_split: Name = "train"
    valid_split: Name = "validation"
    split_seed: Seed = 0
    delimiter: Character | None = None
    encoding: Encoding = "utf-8"

    targets: ClassVar[str] = ""
    """What an item has beside its tokens: `class`, `tags`, `text`, or nothing."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that have text."""
        raise NotImplementedError(f"{type(self).__name__} does not say its columns")

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that are read: those of the text and of the targets."""
        targets = (getattr(self, name, ()) for name in ("target", "tags"))
        return (*self.columns, *(it for target in targets for it in ([target] if isinstance(target, str) else target)))

    @property
    def context_length(self) -> int:
        """Tokens that the model sees at once at most."""
        return self.max_length

    def file_problems(self) -> Iterable[tuple[str, str]]:
        if problem := tokenizer_problem(self.tokenizer):
            yield "tokenizer", problem

    def unlabeled(self, sources: Sequence[Any], facts: Mapping[str, Any], directory: Path) -> "Unlabeled":
        from .rows import unlabeled

        return unlabeled(self, sources, facts, directory)

    def codec(self, facts: Mapping[str, Any], directory: Path) -> "RowCodec":
        from .tokenizers import RowCodec

        return RowCodec(self, directory)


class TextClassificationConfig(TextRowsConfig, tag="TextClassification"):
    """Texts, or pairs of texts, with classes, labels or numbers.

    Batches are mappings: `input_ids` and `attention_mask` `[n, length]` int64, `token_type_ids` for pairs if the
    tokenizer has them, and `labels`: `[n]` classes or numbers, `[n, labels]` zeros and ones. The texts of a step have
    like lengths, and are padded to the longest of their batch. It needs the extra `transformers`.

    Attributes:
        path: a file (`.csv`, `.tsv`, `.jsonl`, `.parquet`), or a directory that `save_to_disk` of `datasets` has
            written, whose parts `train`, `validation` and others are taken.
        text: the column of the text, or of two texts that belong together, such as [premise, hypothesis].
        target: the column to predict, or several.
        kind: whether targets are `classes`, `numbers`, or `labels`, of which a text may have any number: a list, names
            with separators, or several columns of 0 and 1.
        separator: between the names of labels.
        tokenizer: a directory with the files of a tokenizer, such as that of a model, or a `tokenizer.json`.
        max_length: tokens of a text at most, those that the tokenizer adds counted; what is longer is cut at its end.
        validation_path: a file for validation; None takes the part `valid_split` of a directory, or a share of `path`.
        validation_fraction: how large that share is.
        train_split, valid_split: names of the parts of a directory.
        split_seed: by which the share is drawn.
        delimiter: of CSV; None: commas, and in `.tsv` tabs.
        encoding: of CSV.

    Raises:
        DataError: by `init`: a file is missing or damaged, or a row is not what it should be, with its place.
    """

    targets: ClassVar[str] = "class"

    text: Name | Annotated[tuple[Name, ...], Meta(min_length=2, max_length=2)]
    target: Name | Annotated[tuple[Name, ...], Meta(min_length=1)]
    kind: Literal["classes", "numbers", "labels"] = "classes"
    separator: Name = "|"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.text,) if isinstance(self.text, str) else self.text

    @property
    def target_names(self) -> tuple[str, ...]:
        return (self.target,) if isinstance(self.target, str) else self.target

    def validate(self) -> Iterable[tuple[str, str]]:
        if both := [column for column in self.columns if column in self.target_names]:
            yield "target", f"expected a column other than the text '{both[0]}'"
        if len(self.target_names) > 1 and self.kind == "classes":
            yield "target", "expected one column of classes; several columns are `kind: numbers` or `kind: labels`"


class TaggedWordsConfig(TextRowsConfig, tag="TaggedWords"):
    """Sentences as lists of words, each with a tag, such as names or parts of speech.

    Batches are mappings: `input_ids`, `attention_mask` and `labels` `[n, length]` int64, where the first token of each
    word has the number of its tag, and others -100; `words` are lists of text. The fields that are not named here are
    those of `TextClassification`.

    Attributes:
        tokens: the column of lists of words; in CSV, words with spaces between them.
        tags: the column of lists of tags.
        path: also a file in the format of CoNLL (`.conll`, `.txt`, `.iob`, `.bio`): a word and its tag in each line, in
            the first and the last column, and an empty line between sentences. Comments are not read.
    """

    targets: ClassVar[str] = "tags"

    tokens: Name = "tokens"
    tags: Name = "tags"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.tokens,)


class TextPairsConfig(TextRowsConfig, tag="TextPairs"):
    """Texts and what is to be written for them, such as translations or summaries.

    Batches are mappings: `input_ids` and `attention_mask` `[n, length]`, and `labels` `[n, target length]`, int64, with
    -100 for padding. The fields that are not named here are those of `TextClassification`.

    Attributes:
        source: the column of the text that is read.
        target: the column of the text that is to be written.
        prefix: what each source begins with, such as "summarize: ".
        max_target_length: tokens of a target at most; None: `max_length`.
    """

    targets: ClassVar[str] = "text"

    source: Name = "source"
    target: Name = "target"
    prefix: str = ""
    max_target_length: Size | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.source,)


class TextsConfig(TextRowsConfig, tag="Texts"):
    """Texts alone, such as for a masked language model.

    Batches are mappings: `input_ids`, `attention_mask`, `special_tokens_mask` and `word_ids` `[n, length]` int64. The
    fields that are not named here are those of `TextClassification`.

    Attributes:
        text: the column of the text.
        path: also a text file (`.txt`), of which each line is a text.
    """

    text: Name = "text"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.text,)
