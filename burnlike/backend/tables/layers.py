"""Functions of layers and losses: linear maps, lookups, normalization, attention."""

# pyright: reportReturnType=false

from typing import Protocol

from torch import Tensor


class LayerOps(Protocol):
    """Linear maps, lookups, normalization, attention and losses, on Float tensors."""

    def linear(self, tensor: Tensor, weight: Tensor, bias: Tensor | None, /) -> Tensor:
        """`[.., d_in], [d_in, d_out], [d_out] -> [.., d_out]`."""

    def embedding(self, weights: Tensor, indices: Tensor, /) -> Tensor:
        """Rows by their indices, `[n, d], [batch, length] -> [batch, length, d]`."""

    def attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        scale: float,
        softcap: float | None,
        is_causal: bool,
        /,
    ) -> Tensor:
        """`[batch, heads, q, d], [batch, heads, k, d], [batch, heads, k, dv] -> [batch, heads, q, dv]`.

        Scores are scaled, capped, hidden where `mask` is True or a key comes after the query (the last query is at the
        last key), then `bias` is added. A query that sees no key gives 0.
        """

    def attention_fallback(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        scale: float,
        softcap: float | None,
        is_causal: bool,
        /,
    ) -> Tensor:
        """The same by the formula."""

    def layer_norm(self, tensor: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, /) -> Tensor:
        """Mean 0 and variance 1 along the last dimension, then gamma and beta: `[.., d], [d], [d] -> [.., d]`."""

    def batch_norm(
        self, tensor: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, epsilon: float, /
    ) -> Tensor:
        """(x - mean) / sqrt(variance + epsilon) * gamma + beta; all but x and epsilon are `[channels]`."""

    def batch_norm_train(
        self, tensor: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, /
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Normalized by the batch itself; also its mean and biased variance, `[channels]`, detached."""

    def ctc_loss(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int, /
    ) -> Tensor:
        """`[t, n, classes], [n, s], [n], [n] -> [n]`, the loss of each sample."""

    def cross_entropy_with_logits(self, logits: Tensor, probs: Tensor, /) -> Tensor:
        """Minus the mean over rows of sum(log_softmax(logits) * probs) along the last dimension, `[1]`."""
