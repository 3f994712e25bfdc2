"""Images in conversations: their places in messages, their tokens, and the inputs that a processor makes of them.

A template writes one mark for each image; the processor of a model (of transformers: a tokenizer and an image processor
in one) writes as many tokens as the image has in its place. Pixels are read again in each epoch, and not kept.
"""

import copy
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from ..sources.images import pil_image, read_picture
from .conversations import ConversationBatcher, Conversations, ConversationTokens
from .files import Source
from .formats import Conversation, Messages, WrongRow, image_parts
from .templates import Encoded, Pictured, Row, WrongConversation

_COLUMNS = ("images", "image")
_MARK = "<image>"
"""The mark of an image in the texts of LLaVA's and LLaMA-Factory's rows, whatever the template writes."""
_PROCESSORS = ("processor_config.json", "preprocessor_config.json")


def _placed(messages: Messages, count: int) -> Messages:
    """The messages with parts for the images of a column."""
    if image_parts(messages):
        return messages
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    if users and not any(_MARK in messages[user]["content"] for user in users):
        first = messages[users[0]]["content"]
        begun = {**messages[users[0]], "content": [*_empty(count), {"type": "text", "text": first}]}
        return [*messages[: users[0]], begun, *messages[users[0] + 1 :]]
    return [
        {**it, "content": _split(it["content"])} if place in users and _MARK in it["content"] else it
        for place, it in enumerate(messages)
    ]


def _empty(count: int) -> list[dict[str, Any]]:
    return [{"type": "image", "image": None} for _ in range(count)]


def _split(text: str) -> list[dict[str, Any]]:
    """The parts of a text with marks."""
    texts = [{"type": "text", "text": it} for it in text.split(_MARK)]
    parts = [texts[0], *chain.from_iterable(zip(_empty(len(texts) - 1), texts[1:], strict=True))]
    return [part for part in parts if part["type"] == "image" or part["text"]]


def _file(value: Any, source: Source) -> Path:
    if not isinstance(value, str):
        raise WrongRow(
            f"image: expected the path of a file, got {type(value).__name__}; save the images of the rows as files"
        )
    if "://" in value or value.startswith("data:"):
        raise WrongRow(
            f"image: expected the path of a file, got {value!r:.60}; nothing is downloaded: save it as a file"
        )
    path = source.directory / value
    if not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(source.root)):
        raise WrongRow(
            f"image: expected a path within the folder of the data, {source.root}, got {value!r:.200}; put images, or a"
            " link to their folder, beside the conversations"
        )
    if os.path.isfile(path):  # false also of pixels as text, which are too long for a name
        return path
    raise WrongRow(f"image: there is no file {str(path)[:200]}; paths are relative to the file of the conversations")


def image_column(row: Mapping[str, Any], reason: str = "") -> str:
    """The column of a row that has images, '' without one; a DataError where a reason is given to have none."""
    column = next((it for it in _COLUMNS if row.get(it)), "")
    if column and reason:
        raise DataError(
            f"data: rows have images in the column '{column}', and {reason}. Leave out the column, or rename it where"
            " it has no images"
        )
    return column


class ImageReader:
    """The processor of a model, read when the first image comes."""

    def __init__(self, directory: Path, tokenizer: Any, pad_token: int) -> None:
        """Take the directory of the processor, and the tokenizer that it uses in place of its own."""
        self._directory, self._tokenizer, self._pad_token = directory, tokenizer, pad_token

    @staticmethod
    def is_in(directory: Path) -> bool:
        """True if a directory has a processor."""
        return any((directory / processor).is_file() for processor in _PROCESSORS)

    def with_images(self, conversation: Conversation, row: Mapping[str, Any], source: Source) -> Conversation:
        """The conversation with a file for each image: of its part, or else the next of the column `images` or `image`.

        Images of a column stand where parts without a file are; else at `<image>` in the texts of the user; else before
        the first text. Paths are relative to the directory of the rows.
        """
        reason = f"data.tokenizer: {self._directory} has no processor of images ({', '.join(_PROCESSORS)})"
        column = image_column(row, "" if self.is_in(self._directory) else f"{reason}: its model sees none")
        listed: Any = row[column] if column else []
        files = listed if isinstance(listed, list) else [listed]
        messages = _placed(conversation.messages, len(files)) if files else conversation.messages
        empty = [it for it in image_parts(messages) if it["image"] is None]
        if len(files) != len(empty):
            where = f"parts of type image without a file or {_MARK} in texts of the user"
            raise WrongRow(
                f"{column or 'images'}: expected {len(empty)} images, one for each of the {where}, got {len(files)}"
            )
        remaining = iter(files)
        for part in image_parts(messages):
            part["image"] = _file(next(remaining) if part["image"] is None else part["image"], source)
        return Conversation(messages, conversation.tools)

    @cached_property
    def _marks(self) -> list[str]:
        """Tokens that may be the mark of an image; read without the processor, which texts alone don't need."""
        added = self._tokenizer.get_added_vocab() if self.is_in(self._directory) else ()
        return [it for it in added if "image" in it.lower() or "img" in it.lower()]

    @cached_property
    def processor(self) -> Any:
        """The processor, by its files alone: no code of it runs, and nothing is downloaded."""
        from transformers import AutoProcessor

        pil_image()
        where = f"data.tokenizer: {self._directory}"
        files_alone = {"trust_remote_code": False, "local_files_only": True}
        try:
            processor = AutoProcessor.from_pretrained(str(self._directory), **files_alone)
        except Exception as error:  # damaged files make exceptions of many kinds
            text = " ".join(str(error).split())
            more = "; pip install 'burnlike[torchvision]'" if "orchvision" in text else ""
            raise DataError(f"{where} has no processor of images that transformers reads: {text}{more}") from error
        if not hasattr(processor, "image_processor"):
            raise DataError(f"{where} has no processor of images ({', '.join(_PROCESSORS)}): its model sees none")
        if getattr(processor, "image_token", None) is None:
            raise DataError(f"{where}: a {type(processor).__name__} marks no images in texts; take another model")
        processor.tokenizer = copy.deepcopy(self._tokenizer)
        processor.tokenizer.pad_token = self._tokenizer.convert_ids_to_tokens(self._pad_token)
        return processor

    def pictured(self, rows: Sequence[Row], conversation: Conversation) -> list[Row]:
        """The rows with the tokens of images in place of their marks; each row has the first images, or all.

        Raises:
            WrongConversation: the template writes other marks, an image can't be read, or the processor takes others.
            DataError: there is no processor.
        """
        files = [part["image"] for part in image_parts(conversation.messages)]
        if not files and not any(mark in row.text for row in rows for mark in self._marks):
            return [row._replace(pictured=Pictured(row.text)) for row in rows]
        processor = self.processor
        counts = [row.text.count(processor.image_token) for row in rows]
        if max(counts) != len(files):
            raise WrongConversation(
                f"the chat template writes {max(counts)} marks {processor.image_token} for {len(files)} images; take"
                " such marks out of the texts, or name the model's own template by data.chat_template"
            )
        try:
            pictures = [read_picture(file) for file in files]
            return [
                self._expanded(row, files[:count], pictures[:count]) for row, count in zip(rows, counts, strict=True)
            ]
        except Exception as error:  # processors of many kinds raise errors of many kinds
            raise WrongConversation(" ".join(str(error).split())) from error

    def _expanded(self, row: Row, files: Sequence[Path], pictures: Sequence[Any]) -> Row:
        inputs = self._processed([row.text], [pictures], return_text_replacement_offsets=True)
        marks = next(iter(inputs.get("text_replacement_offsets", ())), [])
        parts, end = [], 0
        for mark in marks:
            parts += [row.text[end : mark["span"][0]], mark["replacement"]]
            end = mark["span"][1]
        text = "".join([*parts, row.text[end:]])
        if self.processor.tokenizer(text, add_special_tokens=False)["input_ids"] != [*inputs["input_ids"][0]]:
            name = type(self.processor).__name__
            raise DataError(f"a {name} writes more into a text than tokens of images; take another model")

        def moved(place: int) -> int:
            return place + sum(len(it["replacement"]) - len(it["text"]) for it in marks if it["span"][1] <= place)

        spans = [(moved(begin), moved(end)) for begin, end in row.spans]
        first = None if row.first is None else moved(row.first)
        return Row(text, spans, first, Pictured(row.text, files, [it["new_span"] for it in marks]))

    def inputs(self, texts: Sequence[str], images: Sequence[Sequence[Path]]) -> Mapping[str, Tensor]:
        """The inputs of the model for texts with marks, padded on the right."""
        pictures = [[read_picture(file) for file in files] for files in images]
        return self._processed(texts, pictures, padding=True, padding_side="right", return_tensors="pt")

    def _processed(self, texts: Sequence[str], pictures: Sequence[Sequence[Any]], **options: Any) -> Mapping[str, Any]:
        options |= {"images": pictures} if any(pictures) else {}
        return self.processor(text=[*texts], add_special_tokens=False, **options)


class PicturedTokens(ConversationTokens):
    """Conversations as tokens, with their texts and images.

    Attributes:
        pictured: the text and images of each row.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pictured: list[Pictured] = []

    def append(self, row: Encoded) -> None:
        super().append(row)
        self.pictured.append(row.pictured)


class PicturedConversations(Conversations):
    """Items are mappings of `input_ids` and `labels`, int64 `[n]` each, and `pictured`: the text, and its images."""

    rows: PicturedTokens

    def __getitem__(self, index: int, /) -> dict[str, Any]:
        return {**super().__getitem__(index), "pictured": self.rows.pictured[self.indices[index]]}


class PicturedBatcher(ConversationBatcher):
    """Makes mappings of `input_ids`, `labels` and `attention_mask`, `[n, length]` int64, padded on the right, and of
    what else the processor gives: `pixel_values`, `image_grid_thw`, `token_type_ids`, ...
    """

    makes = "padded conversations with images"

    def __init__(self, pad_token: int, reader: ImageReader) -> None:
        super().__init__(pad_token)
        self._reader = reader

    def batch(self, items: Sequence[Mapping[str, Any]], device: torch.device) -> dict[str, Any]:
        batch = super().batch(items, device)
        pictured: list[Pictured] = [item["pictured"] for item in items]
        inputs = self._reader.inputs([it.text for it in pictured], [it.images for it in pictured])
        shape, length = inputs["input_ids"].shape, batch["input_ids"].shape[1]
        for name, value in inputs.items():
            if name not in (*batch, "labels"):
                if value.shape[:2] == shape:  # of tokens: a cut conversation has fewer, one with an end added has more
                    missing = value.new_zeros(len(value), max(length - shape[1], 0), *value.shape[2:])
                    value = torch.cat((value[:, :length], missing), 1)
                batch[name] = value.to(device, non_blocking=True)
        return batch
