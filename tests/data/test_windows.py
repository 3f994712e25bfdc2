"""Windows over tokens and their batches."""

import pytest
import torch

from burnlike.data import TokenBatcher, TokenWindows
from burnlike.errors import DataError


def test_every_token_but_the_first_is_predicted_once() -> None:
    tokens = torch.arange(21, dtype=torch.uint8)
    windows = TokenWindows(tokens, 5)
    assert len(windows) == 4
    targets = torch.cat([windows[i][1:] for i in range(len(windows))])
    assert targets.tolist() == list(range(1, 21))
    assert len(TokenWindows(tokens[:20], 5)) == 3


def test_stride_sets_the_distance_of_starts() -> None:
    windows = TokenWindows(torch.arange(10), 3, stride=2)
    assert [windows[i].tolist() for i in range(len(windows))] == [
        [0, 1, 2, 3],
        [2, 3, 4, 5],
        [4, 5, 6, 7],
        [6, 7, 8, 9],
    ]


def test_windows_are_views_and_end_where_they_end() -> None:
    tokens = torch.arange(9, dtype=torch.uint8)
    windows = TokenWindows(tokens, 4)
    assert windows[1].data_ptr() == tokens.data_ptr() + 4
    for index in (-1, 2):
        with pytest.raises(IndexError):
            windows[index]


def test_too_few_tokens_for_one_window_is_an_error() -> None:
    with pytest.raises(DataError, match="at least 6 tokens for one window of 5, got 5"):
        TokenWindows(torch.arange(5), 5)
    assert len(TokenWindows(torch.arange(6), 5)) == 1


def test_batch_stacks_in_order_as_int64() -> None:
    windows = TokenWindows(torch.tensor([0, 255, 7, 200, 9], dtype=torch.uint8), 2)
    batch = TokenBatcher().batch([windows[1], windows[0]], torch.device("cpu"))
    assert batch.dtype == torch.int64
    assert batch.tolist() == [[7, 200, 9], [0, 255, 7]]
