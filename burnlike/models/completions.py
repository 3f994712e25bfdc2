"""Completions of prompts of different lengths, several of each, in batches."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..ops.decode_step import MOST_ROWS
from .beams import Beams
from .encoder_decoder.model import EncoderDecoder
from .generation import Completions, GenerateOptions, Reader, added_columns, added_tokens, native_decoder, reader_of
from .sampling import sampler_of

_FEW_ROWS, _CACHED_TOKENS = 8, 16_384


def complete(
    model: nn.Module,
    prompts: Sequence[Tensor],
    max_new_tokens: int,
    *,
    n_samples: int = 1,
    beams: Beams | None = None,
    batch_size: int | None = None,
    context_length: int | None = None,
    **options: Unpack[GenerateOptions],
) -> Completions:
    """Continue prompts of any lengths, each `n_samples` times, in evaluation mode and without gradients.

    The rows of the result are the samples of the first prompt, then those of the second, and so on, without the
    prompts; `torch.arange(tokens.shape[1]) < lengths[:, None]` is True where a token was written.

    A batch has prompts of similar lengths, the shorter ones padded, or where a model knows no padding of one length.
    As each row is written as it would be alone, only draws depend on `batch_size`.

    Args:
        model: as of `stream`.
        prompts: int64 `[n >= 1]` each.
        n_samples: texts of each prompt; with beams the best ones, the best first.
        beams: a search for likely texts in place of draws, or of the likeliest token each time.
        batch_size: rows of a batch; None for those that native steps take at once on the CPU, of long texts down to 8
            so that no more than 16,384 tokens are cached, elsewhere for all.
        context_length: as of `stream`.
    """
    if beams is not None:
        beams.check(n_samples, options)
    copies = 1 if beams is None else beams.num_beams  # beams of a prompt are in one batch
    per_unit = 1 if beams is None else n_samples
    parts: list[Completions] = []
    order: list[int] = []
    for batch, reader in _batches(
        model, prompts, max_new_tokens, n_samples, copies, batch_size, context_length, options
    ):
        order += batch
        if beams is None:
            parts.append(added_tokens(model, reader, max_new_tokens, **options))
        else:
            parts.append(beams.search(model, reader, max_new_tokens, n_samples, **options))
    rows = torch.tensor([unit * per_unit + row for unit in order for row in range(per_unit)])
    return _joined(parts, rows.to(parts[0].tokens.device), options.get("pad_token", 0))


def stream_several(
    model: nn.Module,
    prompts: Sequence[Tensor],
    max_new_tokens: int,
    *,
    n_samples: int = 1,
    batch_size: int | None = None,
    context_length: int | None = None,
    **options: Unpack[GenerateOptions],
) -> Iterator[tuple[int, int]]:
    """Continue prompts as `complete` does, and give each token as it comes.

    The model is in evaluation while a batch is written, until its last token is taken or the iterator is closed.

    Args:
        model, prompts, max_new_tokens, n_samples, batch_size, context_length, options: as of `complete`.

    Yields:
        The row of what `complete` gives, and its next token; a stop token is the last one of its row.
    """
    batches = _batches(model, prompts, max_new_tokens, n_samples, 1, batch_size, context_length, options)
    for batch, reader in batches:
        ended = [False] * len(batch)
        with closing(added_columns(model, reader, max_new_tokens, 1, **options)) as steps:
            for column, finished in steps:
                tokens = zip(batch, column[:, 0].tolist(), ended, strict=True)
                yield from ((row, token) for row, token, has_ended in tokens if not has_ended)
                ended = finished.tolist()


def _batches(
    model: nn.Module,
    prompts: Sequence[Tensor],
    max_new_tokens: int,
    n_samples: int,
    copies: int,
    batch_size: int | None,
    context_length: int | None,
    options: GenerateOptions,
) -> Iterator[tuple[list[int], Reader]]:
    """The numbers of the texts of each batch, the shortest prompts first, and the reader of their prompts.

    Several texts of a prompt have numbers in a row; where each is in `copies` rows, a prompt has one number.
    """
    if not len(prompts) or any(prompt.ndim != 1 or len(prompt) < 1 for prompt in prompts):
        got = [list(prompt.shape) for prompt in prompts]
        raise ArgumentError(f"complete: expected prompts of one dimension, of 1 token or more each, got {got}")
    for name, count in (("n_samples", n_samples), ("batch_size", batch_size)):
        if count is not None and count < 1:
            raise ArgumentError(f"complete: {name}: expected 1 or more, got {count}")
    device = next((parameter.device for parameter in model.parameters()), prompts[0].device)
    length = max(map(len, prompts)) + max_new_tokens
    model = native_decoder(model, length)  # once for all batches
    at_once = min(MOST_ROWS, max(_FEW_ROWS, _CACHED_TOKENS // length))
    most = batch_size or (at_once if device.type == "cpu" else len(prompts) * max(n_samples, copies))
    units = [prompt.to(device, torch.int64) for prompt in prompts for _ in range(n_samples if copies == 1 else 1)]
    pads, batches = _padding_of(model, options), list[list[int]]()
    for unit in sorted(range(len(units)), key=lambda unit: len(units[unit])):
        is_full = not batches or (len(batches[-1]) + 1) * copies > max(most, copies)
        if is_full or not (pads or len(units[batches[-1][0]]) == len(units[unit])):
            batches.append([])
        batches[-1].append(unit)
    for batch in batches:
        tokens, mask_pad = _padded([units[unit] for unit in batch for _ in range(copies)], pads or "left")
        yield batch, reader_of(model, tokens, max_new_tokens, context_length, mask_pad)


def stop_texts(decode: Callable[[Tensor], str], texts: Sequence[str]) -> Callable[[Tensor], Tensor]:
    """The `stop_when` that ends a row in whose text, across tokens, one of `texts` is.

    Args:
        decode: gives the text of tokens `[n]`, such as that of a codec.
    """
    if not all(texts):
        raise ArgumentError("stop_texts: expected texts of at least one character, got an empty one")
    # A token has one byte at least; before it one token more, as some decoders drop a space at the beginning.
    most = max((len(text.encode()) for text in texts), default=0) + 1

    def has_stopped(added: Tensor) -> Tensor:
        ends = (decode(row) for row in added[:, -most:].cpu())
        return torch.tensor([any(text in end for text in texts) for end in ends])

    return has_stopped


def _padding_of(model: Any, options: GenerateOptions) -> str | None:
    """The side on which shorter prompts are padded; None for a model that knows no padding, and for penalties that
    would see it.
    """
    is_pair = isinstance(model, EncoderDecoder) or getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    if not is_pair and sampler_of(options).reads_tokens:
        return None
    if callable(getattr(model, "reader", None)):
        # Native steps of an EncoderDecoder know padding on the right alone.
        side = "right" if is_pair else "left"
        return side if "mask_pad" in inspect.signature(model.reader).parameters else None
    if "attention_mask" not in inspect.signature(model.forward).parameters:
        return None
    return "right" if is_pair else "left"


def _padded(rows: Sequence[Tensor], side: str) -> tuple[Tensor, Tensor | None]:
    """The rows as one tensor, and where it is padding, None without any."""
    tokens = nn.utils.rnn.pad_sequence([*rows], batch_first=True, padding_side=side)
    lengths = torch.tensor([[len(row)] for row in rows], device=tokens.device)
    places = torch.arange(tokens.shape[1], device=tokens.device)
    mask_pad = places >= lengths if side == "right" else places < tokens.shape[1] - lengths
    return tokens, mask_pad if len({*map(len, rows)}) > 1 else None


def _joined(parts: Sequence[Completions], order: Tensor, pad_token: int) -> Completions:
    """The rows of all batches in the order of the prompts."""
    longest = max(part.tokens.shape[1] for part in parts)
    filled = [nn.functional.pad(part.tokens, (0, longest - part.tokens.shape[1]), value=pad_token) for part in parts]
    places = order.argsort()
    columns = [*zip(*parts, strict=True)][1:]
    others: Any = (None if column[0] is None else torch.cat(column)[places] for column in columns)
    return Completions(torch.cat(filled)[places], *others)
