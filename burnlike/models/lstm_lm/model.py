"""A recurrent language model."""

from collections.abc import Mapping
from typing import NamedTuple, Unpack

import torch
from torch import Tensor, nn

from ...module import Content, Module
from ...nn.configs import DropoutConfig, EmbeddingConfig, LinearConfig
from ...nn.initializers.configs import Uniform
from ...nn.layer import expect_shape
from ...nn.recurrent.configs import LstmConfig
from ...nn.recurrent.recurrent import LstmState
from ...tensor.torch_bridge.torch_function import lift
from ..generation import GenerateOptions, Reader, gathers_as_forward, generate
from .configs import LstmLmConfig


class LstmLmOutput(NamedTuple):
    """Logits `[batch, sequence, vocab_size]`; the state after the last token, `[n_layers, batch, d_hidden]` twice."""

    logits: Tensor
    state: LstmState


class LstmLm(Module):
    """Token numbers to the logits of the next token, by layers of LSTM (Zaremba et al. 2014).

    `forward` reads each sequence by itself. `forward_state` takes the state before the first token and returns the one
    after the last. For backpropagation through windows of a long text, detach it in between:
    `state.map_state(torch.detach)`.
    """

    def __init__(self, config: LstmLmConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.config = config
        self.embedding = EmbeddingConfig(
            n_embedding=config.vocab_size, d_model=config.d_model, initializer=Uniform(min=-0.1, max=0.1)
        ).init(device)
        sizes = [config.d_model] + [config.d_hidden] * (config.n_layers - 1)
        self.layers = nn.ModuleList(
            LstmConfig(d_input=size, d_hidden=config.d_hidden, bias=True).init(device) for size in sizes
        )
        self.dropout = DropoutConfig(prob=config.dropout).init()
        head = LinearConfig(d_input=config.d_hidden, d_output=config.vocab_size)
        self.head = None if config.tied_head else head.init(device)

    def parallel_plan(self) -> Mapping[str, str]:
        """Processes share the tokens' vectors and logits; each has the whole LSTM."""
        return {"embedding": "embedding", "head": "vocab"}

    @lift
    def forward(self, tokens: Tensor) -> Tensor:
        """Int64 `[batch, sequence >= 1]` in 0..vocab_size-1 `-> [batch, sequence, vocab_size]`, from zeros."""
        return self._forward(tokens, None).logits

    @lift
    def forward_state(self, tokens: Tensor, state: LstmState | None = None) -> LstmLmOutput:
        """As `forward`, from a state of two tensors `[n_layers, batch, d_hidden]`; gives that after the last token."""
        return self._forward(tokens, state)

    def generate(self, tokens: Tensor, max_new_tokens: int, **options: Unpack[GenerateOptions]) -> Tensor:
        """Continue sequences token by token, in evaluation mode and without gradients; see `GenerateOptions`.

        Int64 `[batch, prompt] -> [batch, prompt + up to max_new_tokens]`; without a prompt it is an ArgumentError.
        """
        return generate(self, self.reader(tokens), max_new_tokens, **options)

    def reader(self, prompt: Tensor, length: int | None = None) -> Reader:
        """A Reader of sequences of any length; see `models.generation.Reader`."""
        gathers_as_forward(self, "forward_state")
        state: LstmState | None = None

        def next_logits(new: Tensor) -> Tensor:
            nonlocal state
            logits, state = self.forward_state(new, state)
            return logits[:, -1]

        def reorder(rows: Tensor) -> None:
            nonlocal state
            state = None if state is None else LstmState(*(it[:, rows] for it in state))

        return Reader(prompt, next_logits, reorder=reorder)

    def _forward(self, tokens: Tensor, state: LstmState | None) -> LstmLmOutput:
        expect_shape(self, tokens, "batch", "sequence", name="tokens")
        if state is not None:
            for name, tensor in zip(("cell", "hidden"), state, strict=True):
                expect_shape(self, tensor, len(self.layers), tokens.shape[0], self.config.d_hidden, name=name)
        x, states = self.embedding(tokens), []
        for index, layer in enumerate(self.layers):
            before = None if state is None else LstmState(state.cell[index], state.hidden[index])
            x, after = layer(self.dropout(x), before)
            states.append(after)
        return LstmLmOutput(self._logits(self.dropout(x)), LstmState.stack(states, 0))

    def _logits(self, x: Tensor) -> Tensor:
        # Torch's kernel has time first in memory. Of values in another order than their shape's, torch makes a copy in
        # any case, and then adds the bias in a pass of its own.
        x = x.contiguous()
        return self.embedding.project(x) if self.head is None else self.head(x)

    def custom_content(self, content: Content) -> Content:
        content = content.add("embedding", self.embedding).add("layers", self.layers).add("dropout", self.dropout)
        return content if self.head is None else content.add("head", self.head)
