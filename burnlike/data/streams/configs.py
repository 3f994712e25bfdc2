"""Config of data that is larger than memory."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from ...config import Config, DatasetConfig, Meta
from ...config.bounds import Count, Size, at_most
from ...config.file_paths import FilePath, file_or
from ...errors import ConfigError
from ..chat.configs import TEMPLATES, ChatFormatConfig, Loss, OnLong, RowFormat, Thoughts
from ..sources.configs import Name, NumberType

if TYPE_CHECKING:
    from ..chat.codec import ChatCodec
    from ..codec import TextCodec
    from ..sources.splits import Unlabeled
    from .stream import Stream

_MIXED = at_most(65536, "more than 64 GiB that are mixed at a time is a shuffle of everything")


class StreamSourceConfig(Config):
    """Files of one kind: JSON lines, Parquet, or tokens.

    Attributes:
        path: a file, or a directory; it is read in the order of the names.
        weight: how much of each stretch of a training comes from here, beside the weights of the others; None, for all
            sources: every item once in a pass.
        pattern: which files of a directory are taken, as in `Path.glob`; hidden ones never are.
    """

    path: FilePath
    weight: Annotated[float, Meta(gt=0, lt=1e9)] | None = None
    pattern: Name = "**/*"

    def validate(self) -> Iterable[tuple[str, str]]:
        if PurePosixPath(self.pattern).is_absolute() or ".." in PurePosixPath(self.pattern).parts:
            yield "pattern", f"expected a pattern below the directory, such as '**/*.jsonl', got '{self.pattern}'"


class StreamChatConfig(Config):
    """Rows that are conversations, as `type: Chat` has them.

    Attributes:
        format, chat_template, system, loss, thoughts, on_long: as of `Chat`; `context_length` is the most tokens of
            one.
    """

    format: RowFormat | ChatFormatConfig | None = None
    chat_template: Annotated[str, file_or(*TEMPLATES)] | None = None
    system: Name | None = None
    loss: Loss = "answers"
    thoughts: Thoughts = "train"
    on_long: OnLong = "truncate"


class StreamConfig(DatasetConfig["Stream"], tag="Stream", builds=".stream"):
    """Shards of JSON lines (`.jsonl`), Parquet or tokens, which may be larger than memory, mixed by weights.

    The order is a function of seed, epoch and position alone: rows are shuffled within windows of blocks, blocks over
    everything. A run goes on in the middle by going to a place, with any number of workers and of processes.

    Text becomes tokens once, before the first step, in `~/.cache/burnlike`. Batches are `[n, context_length + 1]`
    int64; with `packing`, mappings of `input_ids`, `labels` and `position_ids`, `[n, context_length]` each; with `chat`
    those of `type: Chat`; with `columns`, mappings of the columns, or pairs of two, each of one type in all batches:
    that of Parquet's schema, or of the first 1,024 lines.

    Attributes:
        sources: where the shards are.
        text: the column of text, in JSON lines and Parquet.
        tokens: a column of lists of tokens, in place of `text`.
        columns: the columns that items are made of, in place of `text`: nothing becomes tokens.
        tokenizer: a file that `burnlike tokenizer` has written, or a directory with the files of a tokenizer of
            transformers; None takes the bytes for tokens.
        separator: what stands after each text, such as `<|endoftext|>`; None: the token by which a directory's
            tokenizer ends texts, or an empty line.
        chat: rows are conversations, in place of `text`.
        context_length: tokens that the model sees at once.
        packing: keep the documents of a window apart: positions begin at 0 with each, and no token is predicted from
            the document before.
        dtype: of bare numbers in `.bin` files; a `.npy` file, and a `.bin` with Megatron's `.idx`, says it itself.
        validation_path: a file or directory for validation, of any of the kinds.
        validation_items: how many of the first windows or rows of each source are kept for validation.
        shuffle_window_mib: how much is mixed row by row at a time; of Parquet so much is in memory.

    Raises:
        DataError: by `init`: a shard is missing, damaged, empty or of another kind.
    """

    sources: Annotated[tuple[StreamSourceConfig, ...], Meta(min_length=1)]
    text: Name = "text"
    tokens: Name | None = None
    columns: tuple[Name, ...] = ()
    tokenizer: FilePath | None = None
    separator: str | None = None
    chat: StreamChatConfig | None = None
    context_length: Size = 128
    packing: bool = False
    dtype: NumberType = "uint16"
    validation_path: FilePath | None = None
    validation_items: Count | None = None
    shuffle_window_mib: Annotated[int, Meta(ge=1), _MIXED] = 64

    def validate(self) -> Iterable[tuple[str, str]]:
        weighted = [source.weight is not None for source in self.sources]
        if any(weighted) and not all(weighted):
            yield (
                f"sources.{weighted.index(False)}.weight",
                "expected a weight, as the other sources have one; or none for all",
            )
        if (self.validation_path is None) == (self.validation_items is None):
            yield (
                "validation_items",
                "expected either validation_path, or validation_items: how many of the first windows or rows of each"
                " source are kept for validation, such as 100",
            )
        for name in ("tokens", "tokenizer", "packing", "chat"):
            if self.columns and getattr(self, name):
                yield name, "expected none beside `columns`, whose rows stay as they are"
        for name in ("tokenizer", "chat"):
            if self.tokens and getattr(self, name):
                yield name, "expected none beside `tokens`, a column that has tokens already"
        if self.chat and self.tokenizer is None:
            yield "tokenizer", "expected a directory with the files of a tokenizer, whose chat template writes `chat`"

    @property
    def vocab_size(self) -> int | None:
        """Number of tokens: one for each byte; None where a tokenizer or the files have them."""
        return None

    def init_with(self, facts: Mapping[str, Any], directory: Path) -> "Stream":
        kept = [file for name in ("tokenizer.json", "tokenizer") if (file := directory / name).exists()]
        return self.replace(tokenizer=str(kept[0])).init() if self.tokenizer and kept else self.init()

    def unlabeled(self, sources: Sequence[Any], facts: Mapping[str, Any], directory: Path) -> "Unlabeled":
        from ..chat.codec import beginnings

        if self.chat:
            raise ConfigError("data: Stream of chats has no inputs without targets; try burnlike generate --chat")
        return beginnings(self.codec(facts, directory), sources)

    def codec(self, facts: Mapping[str, Any], directory: Path) -> "TextCodec | ChatCodec":
        from .stream import codec

        return codec(self, directory)
