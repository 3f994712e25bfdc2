"""Tokens in a file that may be larger than memory."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from .splits import existing, fingerprint_of

DTYPES = {"uint8": 1, "uint16": 2, "uint32": 4, "int32": 4, "int64": 8}


class MappedTokens:
    """Windows of `length + 1` tokens of a memory-mapped file; only what is read takes memory.

    Batches are `[n, length + 1]` int64.
    """

    draws = False

    def __init__(self, path: Path, dtype: str, length: int, *, start: int = 0, end: int | None = None) -> None:
        """Map a file; nothing is read.

        Args:
            path: `.npy`, or the bare numbers, little endian.
            dtype: of the numbers: one of `DTYPES`; a `.npy` file says it itself.
            length: tokens that a model reads.
            start, end: the range of tokens to take.

        Raises:
            DataError: it is no such file, or too short for one window.
        """
        self.tokens = _mapped(path, dtype)[start:end]
        self.path, self.length = path, length
        if len(self.tokens) < length + 1:
            raise DataError(f"{path}: expected at least {length + 1} tokens for one window, got {len(self.tokens)}")
        facts = (str(self.tokens.dtype), length, start, end)
        self.fingerprint = hashlib.sha256(fingerprint_of([path], *facts).encode()).hexdigest()

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // self.length

    def __getitem__(self, index: int, /) -> Tensor:
        """`[length + 1]` int64."""
        if not 0 <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        first = index * self.length
        return torch.from_numpy(self.tokens[first : first + self.length + 1].astype("int64"))

    def batch(self, indices: Sequence[int], device: torch.device) -> Tensor:
        """`[n, length + 1]` int64 on `device`."""
        return torch.stack([self[index] for index in indices]).to(device, non_blocking=True)


class TokenFile:
    """The tokens of one file, split, or of two.

    Attributes:
        train, valid: windows.
        vocab_size: of the model: one more than the largest token, where the config says so.
    """

    batcher = None

    def __init__(self, path: str, validation_path: str | None, dtype: str, length: int, fraction: float) -> None:
        """Map the files.

        Raises:
            DataError: one is missing, no file of tokens, or too short.
        """
        found = existing(path, "data.path")
        if validation_path is not None:
            self.train = MappedTokens(found, dtype, length)
            self.valid = MappedTokens(existing(validation_path, "data.validation_path"), dtype, length)
        else:
            cut = round(len(_mapped(found, dtype)) * (1 - fraction))
            self.train = MappedTokens(found, dtype, length, end=cut)
            self.valid = MappedTokens(found, dtype, length, start=cut)
        self.fingerprint = self.train.fingerprint


def _mapped(path: Path, dtype: str) -> Any:
    import numpy

    try:
        if path.suffix == ".npy":
            tokens: Any = numpy.load(path, mmap_mode="r", allow_pickle=False)
        else:
            size = path.stat().st_size
            if size == 0 or size % DTYPES[dtype]:
                raise DataError(f"{path}: expected numbers of {DTYPES[dtype]} bytes ({dtype}), got {size} bytes")
            tokens = numpy.memmap(path, numpy.dtype(dtype).newbyteorder("<"), mode="r")
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} can't be read as tokens: {error}") from error
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise DataError(f"{path}: expected one row of whole numbers, got {tokens.dtype} {list(tokens.shape)}")
    return tokens
