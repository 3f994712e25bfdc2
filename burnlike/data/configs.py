"""Config of the text corpus."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from ..config import DatasetConfig, Meta
from ..config.bounds import Size
from ..config.file_paths import FilePath

if TYPE_CHECKING:
    from .codec import TextCodec
    from .sources.splits import Unlabeled
    from .text import TextCorpus

_MOST_WILD = 2

NO_TARGET = -100
"""The label of what does not count, as torch and transformers have it."""


class TextCorpusConfig(DatasetConfig["TextCorpus"], tag="Text", builds=".text"):
    """Text as UTF-8 bytes, so that the vocabulary is the 256 bytes and nothing is fitted; or as byte-pair tokens.

    Attributes:
        path: a text file, or a directory of them; None takes the source text of Python's standard library.
        validation_path: a file or directory for validation only; None splits `path`.
        pattern: which files of a directory are taken, as in `Path.glob`; hidden ones never are.
        validation_fraction: share of `path` that is kept for validation: whole files where there are several, the end
            of the text where there is one.
        context_length: tokens that the model sees at once.
        tokenizer: a file that `burnlike tokenizer` has written; None takes the bytes for tokens.

    Raises:
        DataError: by `init`: the text is missing, not text, empty, of one character only, or too short for one window.
    """

    path: FilePath | None = None
    validation_path: FilePath | None = None
    pattern: Annotated[str, Meta(min_length=1)] = "**/*"
    validation_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    context_length: Size = 128
    tokenizer: FilePath | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if PurePosixPath(self.pattern).is_absolute() or ".." in PurePosixPath(self.pattern).parts:
            yield "pattern", f"expected a pattern below the directory, such as '**/*.txt', got '{self.pattern}'"
        if PurePosixPath(self.pattern).parts.count("**") > _MOST_WILD:
            yield "pattern", f"expected at most {_MOST_WILD} times `**`, each of which looks into every directory"
        if self.validation_path is not None and self.path is None:
            yield "validation_path", "expected `path` to be set too: without it the corpus has its own validation files"

    @property
    def vocab_size(self) -> int | None:
        """Number of tokens: one for each byte; None with a tokenizer, which is not read for that."""
        return 256 if self.tokenizer is None else None

    def unlabeled(self, sources: Sequence[Any], facts: Mapping[str, Any], directory: Path) -> "Unlabeled":
        from .chat.codec import beginnings

        return beginnings(self.codec(facts, directory), sources)

    def codec(self, facts: Mapping[str, Any], directory: Path) -> "TextCodec":
        from .text import codec

        return codec(self, directory)
