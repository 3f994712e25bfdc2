"""How a DataLoader puts samples together."""

import pytest
import torch

from burnlike._torch_compat import collate


class Sample:
    """What torch does not know."""


def test_default_collate_fn_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(collate.default_collate_fn_map, Sample, lambda batch, *, collate_fn_map=None: len(batch))
    loader = torch.utils.data.DataLoader([Sample()] * 3, batch_size=3)  # pyright: ignore[reportArgumentType]
    assert [*loader] == [3]


def test_collate() -> None:
    batch = collate.collate([torch.zeros(2), torch.ones(2)], collate_fn_map=collate.default_collate_fn_map)
    assert batch.tolist() == [[0.0, 0.0], [1.0, 1.0]]
