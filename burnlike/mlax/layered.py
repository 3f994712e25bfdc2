"""Layers in series or in parallel, with MLAX's rules for keys and updated layers."""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from ..errors import ArgumentError
from ..random.key import Key
from .applying import call_options, forward_arguments, restore_mode, set_mode, unpaired
from .module import Module
from .sequence import ModuleSeq


class _Layered(Module):
    def __init__(self, layers: Iterable[nn.Module]) -> None:
        self.layers = ModuleSeq(layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> nn.Module:
        return self.layers[index]

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.layers)

    def _keys(self, rng: Any) -> list[Any]:
        """The key for each layer: made from its position, so that other layers don't change it."""
        return [rng.fold_in(index) if isinstance(rng, Key) else rng for index in range(len(self.layers))]

    def _called(self, inputs: list[Any] | None, x: Any, rng: Any, inference_mode: bool | None) -> list[Any]:
        """The output of each layer, for its item of `inputs`, or, without them, the output of the one before.

        Updated layers take their places.
        """
        keys, outputs = self._keys(rng), []
        if inputs is not None and len(inputs) != len(keys):
            raise ArgumentError(f"{type(self).__name__}: {len(keys)} layers need as many inputs, got {len(inputs)}")
        changed = set_mode(self, inference_mode)
        try:
            for index, key in enumerate(keys):
                layer = self.layers[index]
                mode = not self.training if inference_mode is None else inference_mode
                given = x if inputs is None else inputs[index]
                x, updated = unpaired(layer(given, **call_options(layer, key, mode, f"layer {index} ")), layer)
                outputs.append(x)
                if updated is not layer:
                    self.layers[index] = updated
        finally:
            restore_mode(changed, inference_mode)
        return outputs

    def _in_series(self, x: Any, rng: Any, inference_mode: bool | None) -> Any:
        return [x, *self._called(None, x, rng, inference_mode)][-1]

    def _in_parallel(self, x: Any, rng: Any, inference_mode: bool | None) -> list[Any]:
        return self._called(list(x), None, rng, inference_mode)


class _SplitKeys(_Layered):
    def _keys(self, rng: Any) -> list[Any]:
        """The keys as MLAX 0.2.2 gives them: one for each layer that needs one, and the key itself to a single one."""
        needing = [index for index, layer in enumerate(self.layers) if forward_arguments(layer)[1]]
        made = [rng] * len(needing)
        if isinstance(rng, Key) and len(needing) != 1:
            made = rng.split(len(needing))
        keys = dict(zip(needing, made, strict=True))
        return [keys.get(index) for index in range(len(self.layers))]


class Series(_Layered):
    """Layers, any iterable, one after the other. Each that takes a key gets that of its position, `rng.fold_in(index)`.

    A forward may return `y` or `(y, self)`.
    """

    def forward(self, x: Any, rng: Any = None, inference_mode: bool | None = None) -> tuple[Any, "Series"]:
        """The output of the last layer, and this module with updated layers."""
        return self._in_series(x, rng, inference_mode), self


class Parallel(_Layered):
    """Layers, any iterable, side by side, each with an input of its own. Keys are given as by `Series`.

    A forward may return `y` or `(y, self)`.
    """

    def forward(self, x: Iterable[Any], rng: Any = None, inference_mode: bool | None = None) -> Any:
        """The outputs as a list, and this module with updated layers; ValueError for more or fewer inputs than
        layers.
        """
        return self._in_parallel(x, rng, inference_mode), self


class SeriesRng(_SplitKeys):
    """As `Series`, with keys as MLAX 0.2.2 splits them: among the layers that need one, unsplit if it is just one."""

    def forward(self, x: Any, rng: Any, inference_mode: bool | None = None) -> tuple[Any, "SeriesRng"]:
        return self._in_series(x, rng, inference_mode), self


class ParallelRng(_SplitKeys):
    """As `Parallel`, with keys as MLAX 0.2.2 splits them: among the layers that need one, unsplit if it is just one."""

    def forward(self, x: Iterable[Any], rng: Any, inference_mode: bool | None = None) -> Any:
        return self._in_parallel(x, rng, inference_mode), self
