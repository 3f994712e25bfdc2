"""Config of conversations and instructions."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from ...config import Config, DatasetConfig, field
from ...config.bounds import Size
from ...config.file_paths import FilePath, file_or
from ...config.roles import Built
from ..sources.configs import Fraction, Name, Seed
from .tokenizers import tokenizer_problem

if TYPE_CHECKING:
    from ..sources.splits import Unlabeled
    from .codec import ChatCodec
    from .formats import Conversation
    from .preferences import PreferenceData, PromptData
    from .splits import ChatData

RowFormat = Literal["messages", "prompt_completion", "alpaca", "sharegpt"]
Loss = Literal["answers", "all", "last_answer"]
Thoughts = Literal["train", "leave_out"]
OnLong = Literal["truncate", "drop", "error"]
Role = Literal["system", "developer", "user", "assistant", "tool"]
TEMPLATES = ("chatml", "alpaca", "plain")
"""Names of templates that burnlike has: see `templates.py`."""


class ChatFormatConfig(Config):
    """The form of rows of conversations: texts with names of columns in braces, or one column with all messages.

    Attributes:
        system, user, assistant: texts such as `"{question}"` or `"{title}: {body}"`; without `system` there is none.
            Two braces stand for one.
        messages: the column that has a list of messages, in place of the texts.
        role, content: the keys of a message in it.
        roles: what the column calls a role -> `system`, `user`, `assistant` or `tool`.
    """

    system: Name | None = None
    user: Name | None = None
    assistant: Name | None = None
    messages: Name | None = None
    role: Name = "role"
    content: Name = "content"
    roles: dict[str, Role] = field(default_factory=dict)

    def validate(self) -> Iterable[tuple[str, str]]:
        texts = {name: text for name in ("system", "user", "assistant") if (text := getattr(self, name)) is not None}
        if self.messages is not None and texts:
            yield "messages", f"expected either a column of messages or texts, got both: {', '.join(texts)}"
        if self.messages is None and not {"user", "assistant"} <= {*texts}:
            yield "user", 'expected `user` and `assistant`, such as "{question}" and "{answer}", or `messages`'
        if self.messages is None and self.roles:
            yield "roles", "expected none without `messages`"
        named = 0
        for name, text in texts.items():
            try:
                columns = columns_of(text)
            except ValueError as error:
                yield name, f"{error}, got {text!r}"
                continue
            named += len(columns)
            if name == "assistant" and not columns:
                yield name, f'expected the name of a column in braces, such as "{{answer}}", got {text!r}'

    @property
    def texts(self) -> dict[str, str]:
        """The texts by role, in the order of a conversation."""
        texts = {name: getattr(self, name) for name in ("system", "user", "assistant")}
        return {name: text for name, text in texts.items() if text is not None}


def columns_of(text: str) -> list[str]:
    """The names of columns in the braces of a text; a ValueError if there is more than names in them."""
    try:
        parts = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise ValueError(f"expected pairs of braces around names of columns ({error})") from error
    for name, spec, conversion in parts:
        if not name or spec or conversion:
            raise ValueError("expected nothing but the name of a column between braces")
    return [name for name, _, _ in parts]


class ConversationsConfig(DatasetConfig[Built]):
    """Role of conversations that the chat template of a tokenizer writes.

    Attributes:
        tokenizer: a directory with the files of a tokenizer of transformers, such as that of a model.
        chat_template: `chatml`, `alpaca`, `plain` (the messages, one after the other) or the path of a Jinja template,
            in place of the tokenizer's.
        system: what a conversation begins with that has no system message.
        thoughts: whether what is thought before an answer is learned (`train`), or left out of the text (`leave_out`).
        max_length: tokens of a conversation.
        new_tokens: texts that are one token each, which the tokenizer gets if it lacks them; besides those of
            `model.new_tokens`.
        path: a file (`.jsonl`, `.json`, `.csv`, `.tsv`, `.parquet`), or a directory: of such files, as the Hub has them
            (`train-00000-of-00001.parquet`, `test.jsonl`, ...), or one that `save_to_disk` of `datasets` has written.
        validation_path: a file or directory for validation; None takes the part `validation` of `path`, or a share.
        validation_fraction: how large that share is.
        train_split, valid_split: names of the parts of a directory.
        split_seed: by which the share is drawn, and conversations are packed.
    """

    tokenizer: FilePath
    chat_template: Annotated[str, file_or(*TEMPLATES)] | None = None
    system: Name | None = None
    thoughts: Thoughts = "train"
    max_length: Size = 1024
    new_tokens: tuple[Name, ...] = ()
    path: FilePath
    validation_path: FilePath | None = None
    validation_fraction: Fraction = 0.1
    train_split: Name = "train"
    valid_split: Name = "validation"
    split_seed: Seed = 0

    def file_problems(self) -> Iterable[tuple[str, str]]:
        if problem := tokenizer_problem(self.tokenizer):
            yield "tokenizer", problem

    @property
    def context_length(self) -> int:
        """Tokens that the model sees at once at most."""
        return self.max_length

    def unlabeled(self, sources: Sequence[Any], facts: Mapping[str, Any], directory: Path) -> "Unlabeled":
        from .codec import prompts

        return prompts(self._with_tokens(facts), sources, directory)

    def prompt_in(self, row: Mapping[str, Any]) -> "Conversation":
        """The messages of a row before its answer; a WrongRow or a DataError where it has none."""
        from .preferences import format_of_prompts

        return format_of_prompts(row).read(row)

    def codec(self, facts: Mapping[str, Any], directory: Path) -> "ChatCodec":
        from .codec import codec

        return codec(self._with_tokens(facts), directory)

    def _with_tokens(self, facts: Mapping[str, Any]) -> Self:
        """The config with the new tokens of the model, too, which a run has kept."""
        return self.replace(new_tokens=tuple(facts.get("new_tokens", ())))


class PreferencesConfig(ConversationsConfig["PreferenceData"], tag="Preferences", builds=".preferences:PreferenceData"):
    """Pairs of answers to a prompt, of which one is preferred, or answers that are desirable or not.

    The chat template of a tokenizer writes them.

    Rows of pairs have `chosen` and `rejected`, each a text, a message or messages; and before them `prompt` (a text or
    messages), `messages`, `conversations`, or `instruction` and `input`, or nothing where both answers are whole
    conversations. Batches are mappings `[n, 2, length]` int64, the chosen one first: `input_ids`, `labels` (-100:
    before the answer) and `attention_mask`, and `margin`, `[n]` float32, that of the rows or 0. Rows of single answers
    have `completion` in place of the two, or are conversations with their answer, and `label` or `kto_tag`; batches are
    then `[n, length]` with `desirable`, `[n]` float32. It needs the extra `transformers`.

    Attributes:
        on_long: whether a longer pair is cut at its ends (`truncate`), left out (`drop`), or an error.
        packing: whether a row of twice `max_length` has several pairs, whose conversations don't see each other.

    Raises:
        DataError: by `init`: a file is missing or damaged, a row is no pair, or nothing is left to learn.
    """

    format: ClassVar[None] = None
    loss: ClassVar[Loss] = "last_answer"

    on_long: OnLong = "truncate"
    packing: bool = False

    def unlabeled(self, sources: Sequence[Any], facts: Mapping[str, Any], directory: Path) -> "Unlabeled":
        from .preferences import whole_conversations

        return whole_conversations(self, sources, directory)


class PromptsConfig(ConversationsConfig["PromptData"], tag="Prompts", builds=".preferences:PromptData"):
    """Prompts, as the chat template of a tokenizer writes them, whose answers a model writes while it trains.

    Rows have `prompt` (a text or messages), `messages`, `conversations`, `instruction` and `input`, or `question`, and
    may have `system` beside it; answers at the end are left out. Functions of rewards get the other columns. Batches
    are mappings of lists: `input_ids`, int64 `[n]` each, `messages` and `rows`. It needs the extra `transformers`.

    Attributes:
        max_length: tokens of a prompt.
        on_long: whether a longer one is left out (`drop`), or an error.

    Raises:
        DataError: by `init`: a file is missing or damaged, a row has no prompt, or none is left.
    """

    format: ClassVar[None] = None
    loss: ClassVar[Loss] = "answers"
    packing: ClassVar[bool] = False

    on_long: Literal["drop", "error"] = "error"


class ChatConfig(ConversationsConfig["ChatData"], tag="Chat", builds=".splits:ChatData"):
    """Conversations and instructions, as the chat template of a tokenizer writes them, with the loss on the answers.

    Batches are mappings `[n, length]` int64: `input_ids`, `labels` (-100: no loss), and with packing `position_ids`,
    which begin at 0 with each conversation, else `attention_mask`; with images also what the processor in the directory
    of the tokenizer gives, such as `pixel_values`. It needs the extra `transformers`.

    Attributes:
        format: `messages`, `prompt_completion`, `alpaca` (instruction, input, output), `sharegpt`
            (conversations of from and value), or one of your own. None finds it by the columns.
        loss: on which tokens: of the `answers`, `all` of them, or of the `last_answer`.
        max_length: tokens of a conversation, and of a row of several.
        on_long: whether a longer one is cut at its end (`truncate`), left out (`drop`), or an error.
        packing: whether a row has several conversations, which don't see each other; else each has a row, padded.

    Raises:
        DataError: by `init`: a file is missing or damaged, a row is not of the format, the tokenizer has no template,
            or nothing is left to learn.
    """

    format: RowFormat | ChatFormatConfig | None = None
    loss: Loss = "answers"
    on_long: OnLong = "truncate"
    packing: bool = False

    def prompt_in(self, row: Mapping[str, Any]) -> "Conversation":
        from .codec import format_for

        return format_for(row, self.format).prompt(row)
