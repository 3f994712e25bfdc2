"""`to_burn`: any module as a crate of Rust."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor, nn

from .._lazy import resolve


def to_burn(
    module: nn.Module, example: Tensor | Sequence[Tensor] | Mapping[str, Tensor], out: str | os.PathLike[str]
) -> Path:
    """Write any module as a crate of Rust for Burn: `cd OUT && cargo run` compares it with the module.

    The struct has the layers that Burn has as fields, and a struct for each other module. Sizes of batches and
    sequences stay free. The module is written as it computes in evaluation mode.

    Args:
        example: what the module is called with: a tensor, several in order, or by name.
        out: the directory; it replaces nothing but an earlier export.

    Raises:
        NoCounterpartError: Burn has not something that the module does: it names the module, the operation and the line
            of the source. Nothing is written then.
        ArgumentError: the example does not fit the module's `forward`.
    """
    return resolve("burnlike.train.export.burn:write_module")(module, example, out)
