"""Losses of all alignments of a target with a sequence: CTC and the transducer's.

The transducer's is computed by the forward-backward algorithm along anti-diagonals of the lattice (Graves 2012, section
2.4). A node (t, u) of the lattice is a time t and a number u of labels seen. A blank leads to (t + 1, u), a label to
(t, u + 1). All nodes with one t + u = n depend only on those with n - 1, so that a step computes them at once.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from ..._torch_compat.dispatch import ctc_losses
from ...errors import ArgumentError, AutodiffError, ShapeError, TargetError
from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank
from ..layer import FromConfig, expect_shape
from .configs import CTCLossConfig, Reduction, RNNTLossConfig
from .inputs import by_word, expect_integers, expect_range, loss_pair, mean_or_sum, readable, reduced, wide

_NEVER = float("-inf")


def arc_scores(scores: Tensor, targets: Tensor, blank: int, logits: bool) -> tuple[Tensor, Tensor]:
    """The log probabilities of blanks `[batch, time, length + 1]` and labels `[batch, time, length]`, half as float32.

    Args:
        scores: `[batch, time, length + 1, classes]`, logits or log probabilities.
        targets: `[batch, length]`.
        blank: the class of blanks.
    """
    if logits:
        blanks, labels, _ = _ArcsOfLogits.apply(scores, targets, blank)  # pyright: ignore[reportGeneralTypeIssues]
        return blanks, labels
    x = wide(scores)
    return x[..., blank], x[:, :, :-1].gather(3, _index(x, targets)).squeeze(3)


def minus_log_likelihood(blanks: Tensor, labels: Tensor, times: Tensor, lengths: Tensor) -> Tensor:
    """`[batch]`, -log of the probability of all paths from (0, 0) through the blank at (times - 1, lengths).

    Args:
        blanks, labels: as of `arc_scores`.
        times: `[batch]`, in 1..time.
        lengths: `[batch]`, in 0..length.
    """
    loss, _ = _Lattice.apply(blanks, labels, times, lengths)  # pyright: ignore[reportGeneralTypeIssues]
    return loss


def _index(scores: Tensor, targets: Tensor) -> Tensor:
    """The places of the scores of labels, for `gather` along the classes."""
    batch, length = targets.shape
    return targets[:, None, :, None].expand(batch, scores.shape[1], length, 1)


class _Once(Function):
    """The identity, whose derivative does not exist: without it, a second derivative would silently be 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(grad: Tensor, *_sources: Tensor) -> Tensor:
        return grad.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_grads: Tensor) -> Any:
        raise AutodiffError("RNNTLoss has no second derivative")


def _once(grad: Tensor, *sources: Tensor) -> Tensor:
    return _Once.apply(grad, *sources) if torch.is_grad_enabled() else grad  # pyright: ignore[reportReturnType]


class _ArcsOfLogits(Function):
    """Log probabilities of the arcs alone; the log_softmax of all classes is never stored."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, targets: Tensor, blank: int) -> tuple[Tensor, Tensor, Tensor]:
        x = wide(scores)
        norm = x.logsumexp(3)
        labels = x[:, :, :-1].gather(3, _index(x, targets)).squeeze(3) - norm[:, :, :-1]
        return x[..., blank] - norm, labels, norm

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: tuple[Tensor, Tensor, Tensor]) -> None:
        scores, targets, ctx.blank = inputs
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(scores, targets, output[2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        blanks, labels, _ = grads
        scores, targets, norm = ctx.saved_tensors
        grad = _ArcsOfLogits._gradient(scores.detach(), targets, norm, ctx.blank, blanks.detach(), labels.detach())
        return _once(grad, scores, blanks, labels), None, None

    @staticmethod
    def _gradient(scores: Tensor, targets: Tensor, norm: Tensor, blank: int, blanks: Tensor, labels: Tensor) -> Tensor:
        total = blanks + functional.pad(labels, (0, 1))
        grad = (wide(scores) - norm.unsqueeze(3)).exp_().mul_(-total.unsqueeze(3))
        grad[..., blank] += blanks
        grad[:, :, :-1].scatter_add_(3, _index(grad, targets), labels.unsqueeze(3))
        return grad.to(scores.dtype)


class _Lattice(Function):
    """The sum over all paths; its gradient by arc is the part of the paths' probability that takes the arc (eq. 20)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(blanks: Tensor, labels: Tensor, times: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        by_blank, by_label = _diagonals(blanks, labels)
        never = torch.full_like(by_blank[0, :, :1], _NEVER)
        alpha = torch.cat((torch.zeros_like(never), by_blank.new_full(by_blank[0, :, 1:].shape, _NEVER)), 1)
        alphas = [alpha]
        for blank, label in zip(by_blank[:-1].unbind(), by_label[:-1].unbind(), strict=True):
            alpha = torch.logaddexp(alpha + blank, torch.cat((never, alpha[:, :-1] + label), 1))
            alphas.append(alpha)
        table = torch.stack(alphas)
        end = _end(times, lengths)
        return -(table[end] + by_blank[end]), table

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        loss, _ = grads
        blanks, labels, times, lengths, table = ctx.saved_tensors
        sources = blanks, labels, loss
        of_blanks, of_labels = _Lattice._gradient(
            blanks.detach(), labels.detach(), loss.detach(), times, lengths, table
        )
        return _once(of_blanks, *sources), _once(of_labels, *sources), None, None

    @staticmethod
    def _gradient(
        blanks: Tensor, labels: Tensor, loss: Tensor, times: Tensor, lengths: Tensor, table: Tensor
    ) -> tuple[Tensor, Tensor]:
        by_blank, by_label = _diagonals(blanks, labels)
        before, after = table[:-1], table[1:]
        # Which part of a node's probability came by which arc; of nodes that no path reaches, none.
        blank_parts = (before + by_blank[:-1] - after).exp().nan_to_num()
        label_parts = (before[..., :-1] + by_label[:-1] - after[..., 1:]).exp().nan_to_num()
        seeds = torch.zeros_like(table).index_put(_end(times, lengths), -loss)
        node = seeds[-1]
        none = torch.zeros_like(node[:, :1])
        grads: list[tuple[Tensor, Tensor]] = [(torch.zeros_like(node), torch.zeros_like(node[:, 1:]))]
        for n in range(len(before) - 1, -1, -1):
            blank, label = node * blank_parts[n], node[:, 1:] * label_parts[n]
            node = seeds[n] + blank + torch.cat((label, none), 1)
            grads.append((blank, label))
        of_blanks, of_labels = (torch.stack(arcs[::-1]) for arcs in zip(*grads, strict=True))
        time = blanks.shape[1]
        return _undiagonal(of_blanks + seeds, time), _undiagonal(of_labels, time)


def _end(times: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The place of the last node of each sample in a table by diagonals."""
    return times + lengths - 1, torch.arange(len(times), device=times.device), lengths


def _diagonals(blanks: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The scores of the arcs from the nodes of each diagonal, `[time + length, batch, length + 1 and length]`."""
    label_arcs = _diagonal(functional.pad(labels, (0, 1), value=_NEVER))
    return _diagonal(blanks), label_arcs[..., :-1]


def _diagonal(x: Tensor) -> Tensor:
    """`[batch, time, width] -> [time + width - 1, batch, width]`: (t, u) becomes (t + u, u), what is new -infinity.

    Rows of `time + width` are read as rows that are one shorter, so that each begins one further on.
    """
    batch, time, width = x.shape
    rows = functional.pad(x.transpose(1, 2), (0, width), value=_NEVER).flatten(1)
    shifted = rows[:, : width * (time + width - 1)].reshape(batch, width, time + width - 1)
    return shifted.permute(2, 0, 1).contiguous()


def _undiagonal(x: Tensor, time: int) -> Tensor:
    """The reverse: `[diagonals, batch, width] -> [batch, time, width]`."""
    diagonals, batch, width = x.shape
    rows = functional.pad(x.permute(1, 2, 0).flatten(1), (0, width)).reshape(batch, width, diagonals + 1)
    return rows[..., :time].transpose(1, 2)


class CTCLoss(ChangesRank, FromConfig, Module):
    """-log of the probability of all alignments of the target with the sequence (Graves et al. 2006, eq. 3 and 8).

    The loss of a target without alignment is infinite, or 0 by `zero_infinity`; its gradient is 0. Other
    gradients are those with respect to logits whose `log_softmax` the inputs are, as torch computes them.

    Torch: `nn.CTCLoss`.
    Differs: `forward` gives a loss for each sequence; `forward_with_reduction` reduces; targets are padded, `[batch,
    length]`; a target without alignment does not make gradients NaN.
    """

    def __init__(self, config: CTCLossConfig) -> None:
        super().__init__()
        self.blank = config.blank
        self.zero_infinity = config.zero_infinity

    @lift
    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        """`[time, batch, classes], [batch, length], [batch], [batch] -> [batch]`.

        Args:
            log_probs: `log_softmax` of logits; half precision is computed in float32.
            targets: integers; those from each target's length on do not matter.
            input_lengths: integers in 0..time.
            target_lengths: integers in 0..length.

        Raises ShapeError or DTypeError for other inputs, ArgumentError if `blank` is no class, TargetError if a target
        is no class, or a length exceeds its dimension (on the CPU).
        """
        self._check(log_probs, targets, input_lengths, target_lengths)
        x = wide(log_probs)
        if not x.shape[1]:  # which torch refuses
            return log_probs.sum((0, 2))
        labels = targets.to(x.device, torch.int64)
        try:
            loss, _ = ctc_losses(x, labels, input_lengths, target_lengths, self.blank, True)
        except RuntimeError:
            expect_range(self, input_lengths, 0, x.shape[0], "input_lengths")
            expect_range(self, target_lengths, 0, targets.shape[1], "target_lengths")
            raise
        if self.zero_infinity:
            loss = loss.masked_fill(loss == torch.inf, 0)
        return loss.to(log_probs.dtype)

    @lift
    def forward_with_reduction(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        reduction: Reduction = "auto",
    ) -> Tensor:
        """As `forward`, `-> []`; "mean" ("auto") is that of losses divided by targets' lengths; no "batch_mean"."""
        word = mean_or_sum(self, reduction)
        loss = self.forward(wide(log_probs), targets, input_lengths, target_lengths)
        if word == "mean":
            loss = loss / target_lengths.to(loss.device).clamp_min(1)
        return by_word(loss, word).to(log_probs.dtype)

    def _check(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> None:
        expect_shape(self, log_probs, "time", "batch", "classes", name="log_probs")
        time, batch, classes = log_probs.shape
        if time == 0:
            raise ShapeError(f"CTCLoss: log_probs: expected a time above 0, got {list(log_probs.shape)}")
        lengths = {"input_lengths": input_lengths, "target_lengths": target_lengths}
        _expect_targets(self, batch, "length", classes, targets, lengths)
        try:
            expect_range(self, targets, 0, classes - 1)
        except TargetError:  # which may be behind the end of a target
            if not readable(target_lengths):
                raise
            position = torch.arange(targets.shape[1])
            expect_range(self, targets[position < target_lengths[:, None]], 0, classes - 1)


class RNNTLoss(ChangesRank, FromConfig, Module):
    """-log of the probability of all alignments of the target with the sequence (Graves 2012, eq. 16 and 17).
    Torch: `torchaudio.functional.rnnt_loss`.
    Differs: `blank` is 0 by default, torchaudio's is -1; `forward` gives a loss for each sequence.
    """

    def __init__(self, config: RNNTLossConfig) -> None:
        super().__init__()
        self.blank = config.blank
        self.logits = config.logits

    @lift
    def forward(self, logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        """`[batch, time, length + 1, classes], [batch, length], [batch], [batch] -> [batch]`.

        Beside the inputs and their gradient, memory for a few numbers for each sample, time and label is taken. The
        lengths of logits are in 1..time; targets, their lengths and errors are as of `CTCLoss`.

        Args:
            logits: or logarithms of probabilities, as the config says; half precision is computed in float32.
        """
        self._check(logits, targets, logit_lengths, target_lengths)
        position = torch.arange(targets.shape[1], device=targets.device)
        targets = targets.long().masked_fill(position >= target_lengths[:, None], 0)
        expect_range(self, targets, 0, logits.shape[3] - 1)
        blanks, labels = arc_scores(logits, targets, self.blank, self.logits)
        loss = minus_log_likelihood(blanks, labels, logit_lengths.long(), target_lengths.long())
        return loss.to(logits.dtype)

    @lift
    def forward_with_reduction(
        self,
        logits: Tensor,
        targets: Tensor,
        logit_lengths: Tensor,
        target_lengths: Tensor,
        reduction: Reduction = "auto",
    ) -> Tensor:
        """As `forward`, `-> []`, reduced as `MseLoss` does it."""
        return reduced(self, self.forward(logits, targets, logit_lengths, target_lengths), reduction)

    def _check(self, logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor) -> None:
        expect_shape(self, logits, "batch", "time", "length + 1", "classes", name="logits")
        batch, time, length, classes = logits.shape
        if time == 0 or length == 0:
            raise ShapeError(f"RNNTLoss: logits: expected a time and a length + 1 above 0, got {list(logits.shape)}")
        lengths = {"logit_lengths": logit_lengths, "target_lengths": target_lengths}
        _expect_targets(self, batch, length - 1, classes, targets, lengths)
        expect_range(self, logit_lengths, 1, time, "logit_lengths")
        expect_range(self, target_lengths, 0, length - 1, "target_lengths")


def _expect_targets(
    layer: CTCLoss | RNNTLoss, batch: int, length: int | str, classes: int, targets: Tensor, lengths: dict[str, Tensor]
) -> None:
    expect_shape(layer, targets, batch, length, name="targets")
    for name, tensor in lengths.items():
        expect_shape(layer, tensor, batch, name=name)
    for name, tensor in {"targets": targets, **lengths}.items():
        expect_integers(layer, tensor, name)
    if layer.blank >= classes:
        expected = f"one of the classes 0..{classes - 1}, got {layer.blank}"
        raise ArgumentError(f"{type(layer).__name__}: blank: expected {expected}")


COUNTERPARTS = [
    loss_pair(CTCLossConfig, nn.CTCLoss, "none"),
]
