"""TensorDataset: its batches are those of its items."""

import pytest
import torch
from torch.utils.data import default_collate

from burnlike.data import DataLoader, TensorDataset
from burnlike.errors import DataError, ShapeError

X, Y = torch.randn(7, 2, 3), torch.arange(7)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_of_the_items(workers: int) -> None:
    data = TensorDataset(X, Y)
    of = DataLoader(data, batch_size=3, seed=5, num_workers=workers)
    for step, (x, y) in enumerate(of):
        expected = default_collate([data[index] for index in of.indices(0, step)])
        assert torch.equal(x, expected[0])
        assert torch.equal(y, expected[1])


def test_a_dataset_of_the_users_that_makes_batches_and_fails_is_named() -> None:
    class Fails(TensorDataset):
        def batch(self, indices, device):
            raise KeyError("column")

    with pytest.raises(DataError, match="items 0, 1, 2 of Fails: KeyError: 'column'"):
        list(DataLoader(Fails(X, Y), batch_size=3))


@pytest.mark.parametrize("tensors", [(), (X, Y[:3]), (torch.tensor(1.0),)])
def test_tensors_that_do_not_fit_are_refused(tensors) -> None:
    with pytest.raises(ShapeError, match="the same number of rows"):
        TensorDataset(*tensors)
