"""New prompts for predictions: rows of the training's format without answers, or lines of text."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from ..dataset import Dataset, InMemDataset
from ..sources.row_files import bytes_of
from ..sources.rows import text_lines
from ..sources.unlabeled import Unlabeled
from .codec import ChatCodec, codec
from .configs import ChatConfig, ChatFormatConfig
from .files import file_source
from .formats import COLUMNS, Conversation, Format, WrongRow, expect_texts, format_named

_TEXT = ".txt"


def prompts(config: ChatConfig, sources: Sequence[Any], directory: Path) -> Unlabeled:
    """The prompts of files (`.txt`: one a line) and streams, as tokens, with the codec that decodes the answers."""
    run_codec = codec(config, directory)
    names: list[str] = []
    items: list[dict[str, Any]] = []
    for source in sources:
        for place, row in _rows(source):
            try:
                conversation = _prompt(config, row)
                expect_texts(conversation)
            except WrongRow as error:
                raise DataError(f"{place}: {error}") from error
            names.append(place)
            items.append({"input_ids": torch.tensor(run_codec.template.prompt(conversation))})
    dataset: Dataset[Any] = InMemDataset(items)
    return Unlabeled(dataset, names, PromptBatcher(run_codec))


def _rows(source: Any) -> Iterator[tuple[str, Any]]:
    """The place of each row, and the row: a text where it is a line of plain text."""
    if not isinstance(source, Path):
        name = Path("standard input")
        yield from _lines(text_lines(name, BytesIO(bytes_of(source)).readlines()), name)
    elif source.suffix.lower() == _TEXT:
        yield from _lines(text_lines(source), source)
    else:
        yield from file_source(source)


def _lines(lines: Iterable[str], name: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("{"):
            try:
                yield f"{name}:{number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{name}:{number}: expected a JSON object, or plain text: {error}") from error
        elif line.strip():
            yield f"{name}:{number}", line.strip()


def _prompt(config: ChatConfig, row: Any) -> Conversation:
    if isinstance(row, str):
        return Conversation([{"role": "user", "content": row}])
    return _format(config, row).prompt(row)


def _format(config: ChatConfig, row: Mapping[str, Any]) -> Format:
    """The format that the config names; else the one whose first column, before the answer's, the row has."""
    if isinstance(config.format, ChatFormatConfig):
        return format_named(config.format)
    first_columns = {name: columns[0] for name, columns in COLUMNS.items()}
    format_name = config.format or next((name for name, column in first_columns.items() if column in row), None)
    if format_name is None:
        raise WrongRow(f"expected one of the columns {', '.join(first_columns.values())}, got {', '.join(row)}")
    return format_named(format_name)


class PromptBatcher:
    """Makes mappings of `input_ids`, a list of prompts `[n]` int64, and their `codec`."""

    def __init__(self, run_codec: ChatCodec) -> None:
        self._codec = run_codec

    def batch(self, items: Sequence[Mapping[str, Tensor]], device: torch.device) -> dict[str, Any]:
        return {"input_ids": [it["input_ids"].to(device) for it in items], "codec": self._codec}
