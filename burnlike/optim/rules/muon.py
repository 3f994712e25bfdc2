"""Muon: momentum, orthogonalized by Newton-Schulz iterations."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..._torch_compat import foreach
from ...errors import ConfigError, ShapeError
from ..core.sharded import shared_out, wholes_of
from ..gradients.clipping import norms_of
from .configs import MuonConfig
from .foreach_optimizer import ForeachRule
from .sgd import MomentumState

_NONE = torch.Size([0])
"""Shape of a velocity before the first step; no matrix has it."""

MOST_VALUES = 1 << 24
"""Values of matrices that are iterated together, more only if one has more: the iterations need a few such buffers."""


@dataclass(slots=True, eq=False)
class MuonState:
    """State of one parameter, in Burn's form."""

    momentum: MomentumState


class Muon(ForeachRule[MuonConfig, MuonState]):
    """v = momentum * v + (1 - dampening) * g; p = p * (1 - lr * decay) - lr * ratio * orthogonalized(v).

    With Nesterov's momentum it is orthogonalized(g + momentum * v). Jordan et al. 2024; burn-optim 0.22.1, muon.rs.
    Matrices of equal shape are orthogonalized together, so that a step of many small ones is few calls. Of divided ones
    each is orthogonalized by one rank.
    """

    state_type = MuonState
    elementwise = False
    exchanges = True

    def check_parameter(self, path: str, tensor: Tensor) -> None:
        if tensor.dim() != 2:
            raise ConfigError(
                f"Muon can't update '{path}' of shape {list(tensor.shape)}: {_needs_matrix(tensor)}; leave it to"
                " another rule, with Muon as a group for matrices: AdamWConfig(groups=(OptimizerGroupConfig(params="
                "ParamGroup.from_regex(r'^blocks.*weight$'), optimizer=MuonConfig()),)), in YAML {type: AdamW, groups:"
                " [{params: {match: [{type: Regexes, regexes: ['^blocks.*weight$']}]}, optimizer: {type: Muon}}]}"
            )
        super().check_parameter(path, tensor)

    def first(self, tensor: Tensor) -> MuonState:
        """A state without velocity: the first one is the gradient, whatever the dampening."""
        return MuonState(MomentumState(tensor.new_empty(_NONE)))

    def update(self, lr: float, tensors: list[Tensor], grads: list[Tensor], states: Sequence[MuonState]) -> None:
        config = self.config
        for tensor in tensors:
            if tensor.dim() != 2:
                raise ShapeError(f"Muon: {_needs_matrix(tensor)}: {list(tensor.shape)}")
        directions = self._directions(grads, [state.momentum for state in states])
        dtype = tensors[0].dtype if config.ns_dtype is None else torch.bfloat16

        def compute(matrices: list[Tensor]) -> list[Tensor]:
            return orthogonalized(matrices, config.ns_coefficients, config.epsilon, config.ns_steps, dtype)

        wholes = wholes_of(tensors)
        updates = shared_out(directions, wholes, compute, MOST_VALUES) if wholes is not tensors else compute(directions)
        if config.weight_decay:
            foreach.mul_(tensors, 1 - lr * config.weight_decay)
        for tensor, update, whole in zip(tensors, updates, wholes, strict=True):
            tensor.add_(update, alpha=-lr * self.ratio(whole.shape))

    def ratio(self, shape: Sequence[int]) -> float:
        """The factor of the learning rate for a matrix of this shape."""
        rows, columns = shape
        if self.config.adjust_lr_fn == "MatchRmsAdamW":
            return 0.2 * math.sqrt(max(rows, columns))
        if self.config.adjust_lr_fn == "OriginalTransposed":
            rows, columns = columns, rows
        return math.sqrt(max(1.0, rows / max(1, columns)))

    def _directions(self, grads: list[Tensor], momenta: Sequence[MomentumState]) -> list[Tensor]:
        """The matrices to orthogonalize; advances the velocities by a step."""
        momentum = self.config.momentum
        old: list[tuple[Tensor, Tensor]] = []
        for state, grad in zip(momenta, grads, strict=True):
            if state.velocity.shape == _NONE:  # the first step
                state.velocity = grad.clone(memory_format=torch.contiguous_format)
            elif state.velocity.shape == grad.shape:
                old.append((state.velocity, grad))
            else:
                shapes = f"{list(state.velocity.shape)}, its matrix {list(grad.shape)}"
                raise ShapeError(f"Muon: a velocity has shape {shapes}; load the state of this module")
        if old:
            velocities, its_grads = (list(it) for it in zip(*old, strict=True))
            foreach.mul_(velocities, momentum.momentum)
            foreach.add_(velocities, its_grads, alpha=1 - momentum.dampening)
        velocities = [state.velocity for state in momenta]
        return list(foreach.add(grads, velocities, alpha=momentum.momentum)) if momentum.nesterov else velocities


def _needs_matrix(tensor: Tensor) -> str:
    return f"Newton-Schulz iteration requires 2D tensors, got {tensor.dim()}D"


def orthogonalized(
    matrices: Sequence[Tensor], coefficients: tuple[float, float, float], epsilon: float, steps: int, dtype: torch.dtype
) -> list[Tensor]:
    """U V^T of the singular value decomposition U S V^T of each matrix, roughly: S becomes about 0.7 to 1.2, not 1.

    X <- a X + (b A + c A A) X with A = X X^T and the coefficients a, b, c, from X / max(norm of X, epsilon); Jordan et
    al. 2024, "Muon: An optimizer for hidden layers in neural networks". It is computed in `dtype`; matrices of one
    shape, or of that of the other's transpose, are iterated together.
    """
    results: list[Tensor] = list(matrices)
    for places in _batches(matrices):
        # Wide matrices have the smaller A.
        tall = [matrices[place].shape[0] > matrices[place].shape[1] for place in places]
        wide = [matrices[place].mT if is_tall else matrices[place] for place, is_tall in zip(places, tall, strict=True)]
        iterated = _iterated(torch.stack(wide), coefficients, epsilon, steps, dtype)
        for place, is_tall, matrix in zip(places, tall, iterated.unbind(), strict=True):
            results[place] = matrix.mT if is_tall else matrix
    return results


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
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, matrix in enumerate(matrices):
        alike.setdefault(tuple(sorted(matrix.shape)), []).append(place)
    # In lots: a stack of all matrices of a large model, and the products of it, would not fit beside the model.
    for (rows, columns), places in alike.items():
        size = max(1, MOST_VALUES // max(1, rows * columns))
        yield from (places[first : first + size] for first in range(0, len(places), size))
