"""New texts for predictions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..configs import NO_TARGET
from ..sources.columns import Rows
from ..sources.row_files import KINDS
from ..sources.targets import Targets
from ..sources.unlabeled import Unlabeled
from .batches import PaddingBatcher, Ragged, TokenRows
from .configs import TaggedWordsConfig, TextClassificationConfig, TextRowsConfig
from .reading import lists_of, opened, streamed
from .rows import columns_of, first_tokens
from .tokenizers import RowTokenizer, tokenizer_at


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
        name: Ragged([it.tolist() for it in rows]) if isinstance(rows[0], torch.Tensor) else rows
        for name, rows in columns.items()
    }
    if isinstance(config, TextClassificationConfig):
        batch_columns["labels"] = Targets(config.target_names, config.kind).placeholder(len(names), facts)
    elif isinstance(config, TaggedWordsConfig) and names:
        marks = (first_tokens(batch_columns["word_ids"][place].tolist()) for place in range(len(names)))
        batch_columns["labels"] = Ragged([[0 if it else NO_TARGET for it in row_marks] for row_marks in marks])
    elif names and config.targets:
        batch_columns["labels"] = Ragged([[0]] * len(names))
    return Unlabeled(TokenRows(batch_columns or {"input_ids": Ragged([])}), names, PaddingBatcher(tokenizer.pad_token))


def _files(config: TextRowsConfig, source: Any) -> list[Any]:
    if not isinstance(source, Path):
        return [streamed(config, source)]
    endings = (*KINDS, ".txt", ".conll")
    paths = sorted(it for it in source.iterdir() if it.suffix in endings) if source.is_dir() else [source]
    return [opened(config, it, has_targets=False) for it in paths]
