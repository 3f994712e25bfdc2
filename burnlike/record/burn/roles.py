"""Tells which tensors of Burn's files are states: running statistics and other buffers. Imports no torch."""

from ..outline import Outline

_RUNNING = ("running_mean", "running_var")


def told_states(outline: Outline) -> frozenset[str]:
    """Those that Burn's files show to be states: parameters that are no floats, and the statistics of BatchNorm.

    Only records that differ from this need to say which tensors are states.
    """
    return frozenset(
        name for name in outline.ids if outline.entries[name].kind != "float" or name.rpartition(".")[2] in _RUNNING
    )
