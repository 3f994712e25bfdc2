"""Masks of attention: True is what is hidden."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import DTypeError
from ..layer import expect_shape


class GeneratePaddingMask(NamedTuple):
    """Padded tokens, int64 `[batch, length]`, and where they are padded: bool, True where a token is the padding."""

    tensor: Tensor
    mask: Tensor


def generate_autoregressive_mask(batch_size: int, seq_length: int, device: torch.device | str | None = None) -> Tensor:
    """The mask that hides from each position those behind it: bool `[batch_size, seq_length, seq_length]`, items alike.

    Example:
        >>> generate_autoregressive_mask(1, 3)
        tensor([[[False,  True,  True],
                 [False, False,  True],
                 [False, False, False]]])
    """
    hidden = torch.ones(seq_length, seq_length, dtype=torch.bool, device=device).triu(1)
    return hidden.expand(batch_size, seq_length, seq_length)


def generate_padding_mask(
    pad_token: int,
    tokens_list: Sequence[Sequence[int]],
    seq_length: int | None = None,
    device: torch.device | str | None = None,
    *,
    fixed: bool = False,
) -> GeneratePaddingMask:
    """Token sequences of different lengths as one tensor, and the mask that hides their padding.

    Example:
        >>> generate_padding_mask(0, [[5], [6, 7]]).mask
        tensor([[False,  True],
                [False, False]])

    Args:
        pad_token: what sequences are filled up with; where it is among the tokens it is hidden, too.
        seq_length: longer sequences are cut; None cuts none.
        fixed: whether the result is `seq_length` long even if all sequences are shorter.
    """
    longest = max(map(len, tokens_list), default=1)
    length = longest if seq_length is None else seq_length if fixed else min(longest, seq_length)
    rows = [[*tokens[:length], *[pad_token] * (length - len(tokens))] for tokens in tokens_list]
    tensor = torch.tensor(rows, dtype=torch.int64, device=device).reshape(len(rows), length)
    return GeneratePaddingMask(tensor, tensor == pad_token)


def hidden_keys(
    layer: object, mask_pad: Tensor | None, mask_attn: Tensor | None, batch: int, queries: int, keys: int
) -> Tensor | None:
    """Both masks joined: bool `[batch, 1, 1 or queries, keys]`, or None without any.

    Raises ShapeError if a mask is not `[batch, keys]`, or `[batch, queries, keys]`; DTypeError if it is not bool.
    """
    if mask_pad is not None:
        _expect_bool(layer, "mask_pad", mask_pad)
        expect_shape(layer, mask_pad, batch, keys, name="mask_pad")
        mask_pad = mask_pad[:, None, None]
    if mask_attn is not None:
        _expect_bool(layer, "mask_attn", mask_attn)
        expect_shape(layer, mask_attn, batch, queries, keys, name="mask_attn")
        mask_attn = mask_attn[:, None]
    if mask_pad is None or mask_attn is None:
        return mask_attn if mask_pad is None else mask_pad
    return mask_pad | mask_attn


def causally_visible(
    query: Tensor,
    key: Tensor,
    mask_pad: Tensor | None = None,
    sliding_window: int | None = None,
    documents: Tensor | None = None,
) -> Tensor:
    """The causal mask, bool `[batch or 1, 1, queries, keys]`: keys at or before a query, in the window, no padding.

    Queries and keys are places, int64 `[queries]` and `[keys]`; mask_pad is bool `[batch, keys]`, True where a key is
    hidden; documents are int64 `[batch, sequence]`, the document that each place is of, which is all that it sees. A
    query always sees itself, padding or not, so that its weights are numbers.
    """
    distance = query[:, None] - key
    visible = distance >= 0
    if sliding_window is not None:
        visible = visible & (distance < sliding_window)
    visible = visible[None, None]
    if documents is not None:
        visible = visible & (documents[:, None, query, None] == documents[:, None, None, key])
    return visible if mask_pad is None else visible & (~mask_pad[:, None, None] | (distance == 0))


def _expect_bool(layer: object, name: str, mask: Tensor) -> None:
    if mask.dtype is not torch.bool:
        raise DTypeError(f"{type(layer).__name__}: {name}: expected bool, True where it hides, got {mask.dtype}")
