"""torch's pytrees: `torch.func`, `torch.compile` and activation checkpointing look into what is registered here.

torch has no public module for them. Without them, modules and typed tensors could be no arguments of `torch.func`.
`broadcast_prefix` is the rule by which `torch.func.vmap` reads `in_dims` and `out_dims`.
"""

from torch.utils._pytree import (
    SUPPORTED_NODES as SUPPORTED_NODES,
    GetAttrKey as GetAttrKey,
    MappingKey as MappingKey,
    TreeSpec as TreeSpec,
    _broadcast_to_and_flatten as broadcast_prefix,
    register_pytree_node as register_pytree_node,
    tree_flatten as tree_flatten,
    tree_flatten_with_path as tree_flatten_with_path,
    tree_leaves as tree_leaves,
    tree_map as tree_map,
    tree_map_only as tree_map_only,
    tree_unflatten as tree_unflatten,
)

__all__ = ["broadcast_prefix"]
