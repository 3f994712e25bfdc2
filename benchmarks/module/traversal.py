"""Visiting a model of 1,000 parameters beside `list(model.named_parameters())`.

Of a plain tree and a burnlike one, 500 layers of two parameters in blocks of ten: the first visit, which walks the tree
(the ids are there already), and later ones, which only see that it is the same.
"""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks._harness import Comparison, compare, main
from burnlike.module import Module, params, visit
from burnlike.module.tree import walk

BLOCKS, LAYERS = 50, 10


class Layer(Module):
    """What a burnlike layer holds: sizes, a weight, a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.d_input = 1
        self.d_output = 1
        self.weight = nn.Parameter(torch.zeros(1, 1))
        self.bias = nn.Parameter(torch.zeros(1))


class Layers(Module):
    def __init__(self, make: Callable[[], nn.Module], count: int) -> None:
        super().__init__()
        self.layers = [make() for _ in range(count)]


def plain() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(*(nn.Linear(1, 1) for _ in range(LAYERS))) for _ in range(BLOCKS)))


def burnlike() -> nn.Module:
    return Layers(lambda: Layers(Layer, LAYERS), BLOCKS)


def run(repeats: int) -> list[Comparison]:
    """Measure both trees; the bar of a first visit is three times the list."""
    results = []
    for name, model in (("plain", plain()), ("burnlike", burnlike())):
        assert len(params(model)) == 1000

        def visited(model: nn.Module = model) -> None:
            visit(model, lambda param: None)

        def forgotten() -> None:
            walk._WALKS.clear()

        def listed(model: nn.Module = model) -> None:
            list(model.named_parameters())

        for what, before, bar in (("first", forgotten, 1 / 3), ("later", lambda: None, 1.0)):
            results.append(
                compare(
                    f"{what} visit of 1,000 parameters, {name}",
                    visited,
                    listed,
                    theirs_name="named_parameters",
                    bar=bar,
                    repeats=4 * repeats,
                    before_ours=before,
                )
            )
    return results


if __name__ == "__main__":
    main(__doc__ or "", run)
