"""Newton-Schulz iterations, which make a matrix nearly orthogonal, for many matrices at once."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..gradients.norms import norms_of

MOST_VALUES = 1 << 24
"""Values of matrices that are iterated together, more only if one has more: the iterations need a few such buffers."""


def orthogonalized(
    matrices: Sequence[Tensor], coefficients: tuple[float, float, float], epsilon: float, steps: int, dtype: torch.dtype
) -> list[Tensor]:
    """U V^T of the singular value decomposition U S V^T of each matrix, roughly: S becomes about 0.7 to 1.2, not 1.

    X <- a X + (b A + c A A) X with A = X X^T, from X / max(norm of X, epsilon); Jordan et al. 2024, "Muon: An optimizer
    for hidden layers in neural networks". Matrices of one shape, or of that of the other's transpose, are iterated
    together.

    Args:
        matrices: of two dimensions.
        coefficients: a, b, c.
        epsilon: least norm that a matrix is divided by.
        steps: number of iterations.
        dtype: of the iterations and of the result.
    """
    found: list[Tensor] = list(matrices)
    for places in _batches(matrices):
        # Wide matrices have the smaller A.
        tall = [matrices[place].shape[0] > matrices[place].shape[1] for place in places]
        wide = [matrices[place].mT if is_tall else matrices[place] for place, is_tall in zip(places, tall, strict=True)]
        iterated = _iterated(torch.stack(wide), coefficients, epsilon, steps, dtype)
        for place, is_tall, matrix in zip(places, tall, iterated.unbind(), strict=True):
            found[place] = matrix.mT if is_tall else matrix
    return found


def _iterated(
    x: Tensor, coefficients: tuple[float, float, float], epsilon: float, steps: int, dtype: torch.dtype
) -> Tensor:
    """`[n, rows, columns] -> [n, rows, columns]`; rows <= columns."""
    a, b, c = coefficients
    x = (x / norms_of(x.unbind()).clamp_(min=epsilon)[:, None, None]).to(dtype)
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x


def _batches(matrices: Sequence[Tensor]) -> Iterator[list[int]]:
    """The places of matrices that are iterated together."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, matrix in enumerate(matrices):
        alike.setdefault(tuple(sorted(matrix.shape)), []).append(place)
    for (rows, columns), places in alike.items():
        size = max(1, MOST_VALUES // max(1, rows * columns))
        yield from (places[first : first + size] for first in range(0, len(places), size))
