"""The masks that attention takes."""

import torch

from burnlike.nn import generate_autoregressive_mask, generate_padding_mask


def test_a_position_is_hidden_from_those_before_it() -> None:
    mask = generate_autoregressive_mask(2, 3)
    assert mask.dtype is torch.bool
    assert mask.tolist() == [[[False, True, True], [False, False, True], [False, False, False]]] * 2


def test_sequences_are_padded_to_the_longest() -> None:
    found = generate_padding_mask(9, [[1, 2], [], [3, 4, 5]])
    assert found.tensor.tolist() == [[1, 2, 9], [9, 9, 9], [3, 4, 5]]
    assert found.mask.tolist() == [[False, False, True], [True, True, True], [False, False, False]]
    assert found.tensor.dtype is torch.int64


def test_long_sequences_are_cut() -> None:
    assert generate_padding_mask(0, [[1, 2], [3, 4, 5]], 2).tensor.tolist() == [[1, 2], [3, 4]]
    assert generate_padding_mask(0, [[1], [3, 4]], 5).tensor.tolist() == [[1, 0], [3, 4]]


def test_the_length_may_be_fixed() -> None:
    assert generate_padding_mask(0, [[1], [3, 4]], 3, fixed=True).tensor.tolist() == [[1, 0, 0], [3, 4, 0]]
    assert generate_padding_mask(0, [[1], [3, 4]], 1, fixed=True).tensor.tolist() == [[1], [3]]


def test_no_sequences() -> None:
    assert generate_padding_mask(0, []).tensor.shape == (0, 1)
