"""Tokens in a file that may be larger than memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..._regular_file import regular_size
from ...errors import DataError
from ..dataset import FileFingerprint, Fingerprint, Fingerprinted
from .configs import TokensConfig
from .splits import existing

DTYPES = {"uint8": 1, "uint16": 2, "uint32": 4, "int32": 4, "int64": 8}


class MappedTokens(Fingerprinted):
    """Windows of `length + 1` tokens of a memory-mapped file; only what is read takes memory.

    Batches are `[n, length + 1]` int64.

    Attributes:
        vocab_size: a token that is not below it is an error; None leaves that to the model.
    """

    draws = False

    def __init__(
        self,
        path: Path,
        dtype: str,
        length: int,
        *,
        start: int = 0,
        end: int | None = None,
        fingerprint: Fingerprint = None,
    ) -> None:
        """Map a file; nothing is read.

        Args:
            path: `.npy`, or the bare numbers, little endian.
            dtype: of the numbers: one of `DTYPES`; a `.npy` file says it itself.
            length: tokens that a model reads.
            start, end: the range of tokens to take.
            fingerprint: a hash of the data; None is that of the file.

        Raises:
            DataError: it is no such file, or too short for one window.
        """
        self.tokens = mapped(path, dtype)[start:end]
        self.path, self.length, self.start = path, length, start
        self.vocab_size: int | None = None
        if len(self.tokens) < length + 1:
            raise DataError(f"{path}: expected at least {length + 1} tokens for one window, got {len(self.tokens)}")
        facts = (str(self.tokens.dtype), length, start, end)
        self.fingerprint = fingerprint or FileFingerprint({"": path}, *facts)

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // self.length

    def __getitem__(self, index: int, /) -> Tensor:
        """`[length + 1]` int64."""
        if not 0 <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        first = index * self.length
        window = torch.from_numpy(self.tokens[first : first + self.length + 1].astype("int64"))
        expect_known(window, self.vocab_size, self.path, self.start + first)
        return window

    def batch(self, indices: Sequence[int], device: torch.device) -> Tensor:
        """`[n, length + 1]` int64 on `device`."""
        return torch.stack([self[index] for index in indices]).to(device, non_blocking=True)


class TokenFile(Fingerprinted):
    """The tokens of one file, split, or of two.

    Attributes:
        train, valid: windows.
    """

    batcher = None

    def __init__(self, config: TokensConfig) -> None:
        dtype, length = config.dtype, config.context_length
        files = {"train": existing(config.path, "data.path", "file")}
        cut = None
        if config.validation_path is not None:
            files["valid"] = existing(config.validation_path, "data.validation_path", "file")
        else:
            cut = round(len(mapped(files["train"], dtype)) * (1 - config.validation_fraction))
        self.fingerprint = FileFingerprint(files, dtype, length, cut)
        self.train = MappedTokens(files["train"], dtype, length, end=cut, fingerprint=self._fingerprint)
        last = files.get("valid", files["train"])
        self.valid = MappedTokens(last, dtype, length, start=cut or 0, fingerprint=self._fingerprint)

    def expect_vocabulary(self, size: int) -> None:
        """Make tokens that a model of so many doesn't know errors of the data, which name their places."""
        self.train.vocab_size = self.valid.vocab_size = size


def expect_known(tokens: Tensor, vocab_size: int | None, path: Path, first: int) -> None:
    """Refuse tokens `[n]` that are not below `vocab_size`; the first of them is token `first` of the file."""
    if vocab_size is None:
        return
    wrong = ((tokens < 0) | (tokens >= vocab_size)).nonzero().flatten().tolist()
    if wrong:
        raise DataError(
            f"{path}: expected tokens in 0..{vocab_size - 1} (model.vocab_size), got"
            f" {tokens[wrong[0]].item()} as token {first + wrong[0]} of the file, counted from 0"
        )


def mapped(path: Path, dtype: str) -> Any:
    """The numbers of a file, memory-mapped: `.npy`, or bare ones of this type in little endian."""
    import numpy

    try:
        size = regular_size(path)
        if path.suffix == ".npy":
            tokens: Any = numpy.lib.format.open_memmap(path, mode="r")
        else:
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
