"""The order of a pass, computed on demand, and the mixture of sources."""

import pickle

import pytest
import torch

from burnlike.data.streams.order import STRETCH, BlockOrder, Interleave


def order(window_bytes: int = 40) -> BlockOrder:
    """103 items from 7 on, in blocks of 10, of which 4 are mixed at a time."""
    edges = torch.tensor([*range(7, 110, 10), 110])
    return BlockOrder(edges, edges.diff(), window_bytes)


def test_a_pass_is_a_permutation_and_another_for_each_pass_and_seed() -> None:
    first = order().take(3, 0, 0, 103)
    assert sorted(first.tolist()) == [*range(7, 110)]
    others = [order().take(seed, number, 0, 103) for seed, number in ((3, 1), (4, 0))]
    assert all(not torch.equal(it, first) and sorted(it.tolist()) == [*range(7, 110)] for it in others)


@pytest.mark.parametrize("start", [0, 1, 39, 40, 77, 102])
def test_an_order_is_the_same_from_whatever_position_it_is_asked_for(start: int) -> None:
    whole, fresh = order().take(3, 2, 0, 103), order()
    assert torch.equal(fresh.take(3, 2, start, 103), whole[start:])
    pieces = [fresh.take(3, 2, it, min(it + 7, 103)) for it in range(0, 103, 7)]
    assert torch.equal(torch.cat(pieces), whole)
    assert torch.equal(pickle.loads(pickle.dumps(fresh)).take(3, 2, start, 103), whole[start:])


def test_neighbours_in_a_pass_come_from_few_blocks() -> None:
    taken = order().take(3, 0, 0, 103)
    blocks = (taken - 7) // 10
    assert len(set(blocks[:40].tolist())) <= 5
    assert len(set(order(10**6).take(3, 0, 0, 103)[:40].sub(7).div(10, rounding_mode="floor").tolist())) > 7


def test_without_a_seed_the_order_is_that_of_the_items() -> None:
    assert order().take(None, 5, 2, 6).tolist() == [9, 10, 11, 12]


def test_a_mixture_is_exact_in_each_stretch_and_even_within_it() -> None:
    mixture = Interleave([7, 2, 1])
    sources, numbers = mixture.take(3, 0, 3 * STRETCH)
    for stretch in sources.split(STRETCH):
        assert torch.bincount(stretch).tolist() == [7000, 2000, 1000]
    for source in range(3):
        assert numbers[sources == source].tolist() == [*range(int((sources == source).sum()))]
    counts = torch.stack([torch.bincount(it, minlength=3) for it in sources.split(100)])
    assert (counts - torch.tensor([70, 20, 10])).abs().max() <= 2
    again = Interleave([0.7, 0.2, 0.1]).take(3, 12_345, 23_456)
    assert torch.equal(again[0], sources[12_345:23_456])
    assert torch.equal(again[1], numbers[12_345:23_456])


def test_shares_that_are_no_whole_numbers_add_up_and_each_source_has_one() -> None:
    assert Interleave([1, 1, 1]).counts == [3334, 3333, 3333]
    assert Interleave([1, 1e-6]).counts == [STRETCH - 1, 1]
