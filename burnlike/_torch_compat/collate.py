"""The table by which a DataLoader puts samples together.

torch's documentation of `collate` shows this table as the way to add a type, but its module is private. Without it, a
DataLoader of typed tensors needs a `collate_fn`.
"""

from torch.utils.data._utils.collate import collate, default_collate_fn_map

__all__ = ["collate", "default_collate_fn_map"]
