"""A decoder-only transformer language model."""

from collections.abc import Generator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..._torch_compat.compiler import is_exporting
from ...errors import ArgumentError, ShapeError
from ...module import Content, Module
from ...nn.attention.configs import RotaryEncodingConfig
from ...nn.attention.masks import hidden_keys
from ...nn.attention.rotary_encoding import RotaryEncoding
from ...nn.attention.shared_prompts import shared_prompts
from ...nn.configs import DropoutConfig, EmbeddingConfig, LinearConfig
from ...nn.divided_sequence import divided, positions_in
from ...nn.initializers.configs import Normal
from ...nn.layer import divided_sequences, expect_shape
from ...nn.torch_counterpart import AnyLibrary
from ...tensor.torch_bridge.torch_function import lift
from ..by_path.configs import NewTokens
from ..generation import GenerateOptions, Reader, generate
from ..native_model import decodes_natively
from .block import DecoderBlock, DecoderCache, documents_of, norm_config, positions_of
from .configs import DecoderLmConfig, ExpertsPart, LearnedPositions, RotaryPositions
from .native_steps import NativeSteps, native_prompt, native_steps

EMBEDDING = Normal(std=0.02)


class DecoderLmOutput(NamedTuple):
    """The logits of a training, and what it adds to its loss.

    The balance is the mean over blocks of how unevenly experts were used, times the config's factor; None without them.
    """

    logits: Tensor
    balance: Tensor | None


@decodes_natively
class DecoderLm(AnyLibrary, Module):
    """Token numbers to the logits of the next token.

    Torch: -.

    Attributes:
        embedding: of the tokens; tied, its transpose is the head.
        position: Embedding of the positions, where they are learned; then `dropout` is of the sum of both.
        head: Linear `d_model -> vocab_size` without a bias, where there is one that is not tied.
    """

    def __init__(self, config: DecoderLmConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.config = config
        table = EmbeddingConfig(n_embedding=config.vocab_size, d_model=config.d_model, initializer=EMBEDDING)
        self.embedding = table.init(device)
        if isinstance(config.positions, LearnedPositions):
            self.position = table.replace(n_embedding=config.max_sequence_length).init(device)
            self.dropout = DropoutConfig(prob=config.dropout).init()
        rotary = _rotary(config, device)
        self.blocks = nn.ModuleList(DecoderBlock(config, device, rotary) for _ in range(config.n_layers))
        self.norm = norm_config(config).init(device)
        if config.head and not config.tied:
            head = LinearConfig(d_input=config.d_model, d_output=config.vocab_size, bias=False, initializer=EMBEDDING)
            self.head = head.init(device)
        if config.new_tokens:
            grow(self, config.new_tokens)

    @lift
    def forward(
        self,
        tokens: Tensor,
        mask_pad: Tensor | None = None,
        *,
        cache: DecoderCache | None = None,
        positions: Tensor | None = None,
        with_balance: bool = False,
    ) -> Tensor | DecoderLmOutput:
        """The logits of the token after each.

        Args:
            tokens: int64 `[batch, sequence]` in 0..vocab_size-1; with a cache the new ones only.
            mask_pad: bool `[batch, sequence]`, True where a token is padding, on either side. No position sees it, and
                it does not count as a position.
            cache: of the calls before, from `new_cache`; the new positions are written into it.
            positions: int64 `[batch, sequence]`, without a cache, of several documents in a row: they begin at 0 with
                each, and no document sees another. None: one document.
            with_balance: whether to give a DecoderLmOutput, with what a training adds to its loss for experts.

        Returns:
            `[batch, sequence, vocab_size]`, without a head `[batch, sequence, d_model]`; of the last token alone, with
            a sequence of 1, where the cache has `only_last`.

        Raises:
            ShapeError: the sequence is longer than `max_sequence_length` or than what the cache has room for.
            ArgumentError: the cache is of a model with more or fewer blocks.
        """
        output = self._forward(tokens, mask_pad, cache, positions)
        return output if with_balance else output.logits

    @property
    def has_balance(self) -> bool:
        """True if it has a mixture of experts, which a training keeps in balance."""
        return isinstance(self.config.feed_forward, ExpertsPart)

    @lift
    def forward_balance(self, tokens: Tensor, mask_pad: Tensor | None = None) -> DecoderLmOutput:
        """As `forward`, with what a training adds to its loss for a mixture of experts."""
        return self._forward(tokens, mask_pad, None, None)

    def get_input_embeddings(self) -> nn.Module:
        """The table of tokens, as of a model of transformers."""
        return self.embedding

    def get_output_embeddings(self) -> nn.Module | None:
        """The head, as of a model of transformers; None if it is the table of tokens, or there is none."""
        return getattr(self, "head", None)

    @torch.no_grad()
    def resize_token_embeddings(self, count: int, *, mean_resizing: bool = False) -> None:
        """Give the table and the head `count` tokens, as of a model of transformers; new rows are 0, or the mean."""
        if mean_resizing:
            from ...interop.adapters.layers import resize_tables

            resize_tables(self, count)
            return
        for table, dim in ((self.embedding, 0), (self.get_output_embeddings(), 1)):
            if table is not None:
                weight: Any = table.weight
                kept = min(count, weight.shape[dim])
                grown = weight.new_zeros(*weight.shape[:dim], count, *weight.shape[dim + 1 :])
                grown.narrow(dim, 0, kept).copy_(weight.narrow(dim, 0, kept))
                table.weight = nn.Parameter(grown, weight.requires_grad)
        self.config = self.config.replace(vocab_size=count, new_tokens=())

    def new_cache(self, batch: int, length: int | None = None) -> DecoderCache:
        """An empty cache for `length` positions, at most `max_sequence_length`; None for all of these."""
        longest = self.config.max_sequence_length
        length = longest if length is None else length
        if not 1 <= length <= longest:
            raise ArgumentError(f"DecoderLm: new_cache: length: expected 1 to {longest}, got {length}")
        blocks: Any = self.blocks
        caches = [block.attention.new_cache(batch, length) for block in blocks]
        return DecoderCache(caches, torch.zeros(batch, length, dtype=torch.bool, device=self.embedding.weight.device))

    def generate(
        self,
        tokens: Tensor,
        max_new_tokens: int,
        *,
        mask_pad: Tensor | None = None,
        use_cache: bool = True,
        **options: Unpack[GenerateOptions],
    ) -> Tensor:
        """Continue sequences token by token, in evaluation mode and without gradients; see `GenerateOptions`.

        Int64 `[batch, prompt] -> [batch, prompt + up to max_new_tokens]`; `mask_pad` is bool, True where a shorter
        prompt is padded, on the left; penalties take the padding for tokens, as in transformers, where `complete` has
        none. Without a cache of keys and values it only takes longer. With DynamicScaling the tokens may differ:
        cached keys keep the rotation that they got.

        Raises:
            ArgumentError: more tokens than `max_sequence_length`, padding on the right, or a model without a head.
        """
        if not self.config.head:
            raise ArgumentError("generate: expected a model with an output head, got one of head: false")
        expect_shape(self, tokens, "batch", "sequence", name="tokens")
        if mask_pad is not None:
            self._check_mask(mask_pad, tokens)
            if bool(mask_pad[:, -1:].any()):
                raise ArgumentError("generate: mask_pad: expected padding on the left, got rows that end in padding")
        longest = self.config.max_sequence_length
        if use_cache:
            length = min(tokens.shape[1] + max(max_new_tokens, 1), longest)
            return generate(self, self.reader(tokens, length, mask_pad), max_new_tokens, **options)
        seen, mask = tokens[:, :0], mask_pad

        def next_logits(new: Tensor) -> Tensor:
            nonlocal seen, mask
            seen = torch.cat((seen, new), 1)
            if mask is not None:
                mask = functional.pad(mask, (0, seen.shape[1] - mask.shape[1]))
            return self(seen, mask)[:, -1]

        return generate(self, Reader(tokens, next_logits, longest), max_new_tokens, **options)

    def reader(self, prompt: Tensor, length: int, mask_pad: Tensor | None = None) -> Reader:
        """A Reader with a cache for `length` positions; see `models.generation.Reader`.

        A prompt that is there several times, one after the other, is read once.
        """
        copies = _copies(prompt, mask_pad)
        cache, mask, is_first = self.new_cache(len(prompt) // copies, length), mask_pad, True
        steps: NativeSteps | None = None

        def read(new: Tensor, *, every: bool = False, unchanged: bool = False) -> Tensor:
            nonlocal cache, mask, steps, is_first
            if is_first:
                new, mask = new[::copies], None if mask is None else mask[::copies]
                steps = native_prompt(self, cache, new, mask)
            logits = (
                None if steps is None else steps.next_logits(new, every=every, unchanged=unchanged and not is_first)
            )
            if logits is None:
                if steps is not None:
                    steps.hand_back()
                cache.only_last = not every
                logits, steps = self(new, mask, cache=cache), native_steps(self, cache)
                logits = logits if every else logits[:, -1]
            if is_first and copies > 1:
                if steps is not None:
                    steps.hand_back()
                cache = cache.repeated(copies)
                logits, steps = logits.repeat_interleave(copies, 0), native_steps(self, cache)
            mask, is_first = None, False
            return logits

        def rewind(count: int) -> None:
            (cache if steps is None else steps).rewind(count)

        longest = self.config.max_sequence_length
        return Reader(
            *(prompt, read, longest, lambda rows: cache.reorder(rows), partial(read, every=True), rewind),
            partial(read, unchanged=True),
        )

    def _forward(
        self, tokens: Tensor, mask_pad: Tensor | None, cache: DecoderCache | None, positions: Tensor | None
    ) -> DecoderLmOutput:
        config = self.config
        longest = config.max_sequence_length
        sequence = divided(self)
        length = tokens.shape[-1] if sequence is None or sequence.length is None else sequence.length
        if (shared := shared_prompts()) is not None:
            length = shared.longest
        if tokens.ndim != 2 or length > longest:
            raise ShapeError(f"DecoderLm: expected tokens [batch, sequence <= {longest}], got {list(tokens.shape)}")
        if mask_pad is not None:
            self._check_mask(mask_pad, tokens)
        if cache is not None and len(cache.layers) != len(self.blocks):
            expected = f"a cache of {len(self.blocks)} blocks, from new_cache"
            raise ArgumentError(f"DecoderLm: cache: expected {expected}, got one of {len(cache.layers)}")
        documents = None
        if positions is not None:
            expect_shape(self, positions, *tokens.shape, name="positions")
            if cache is not None:
                raise ArgumentError("DecoderLm: positions: expected none with a cache, which is of one document a row")
            documents = None if sequence is not None else documents_of(positions)
        elif cache is not None:
            positions, mask_pad = cache.append(tokens, mask_pad)
        elif mask_pad is not None:
            positions = positions_of(mask_pad)
        x = self.embedding(tokens)
        if isinstance(config.positions, LearnedPositions):
            places = self.position.weight[positions_in(self, length)] if positions is None else self.position(positions)
            x = self.dropout(x + places)
        balances: list[Tensor] = []
        for index, block in enumerate(self.blocks):
            caches = None if cache is None else cache.layers[index]
            if self.has_balance:
                x, balance = block(x, mask_pad, positions, cache=caches, documents=documents, with_balance=True)
                balances.append(balance)
            else:
                x = block(x, mask_pad, positions, cache=caches, documents=documents)
        part = config.feed_forward
        balance = part.balance * torch.stack(balances).mean() if isinstance(part, ExpertsPart) else None
        if cache is not None and cache.only_last and sequence is None:
            x = x[:, -1:]
        return DecoderLmOutput(self._logits(self.norm(x)), balance)

    def _check_mask(self, mask_pad: Tensor, tokens: Tensor) -> None:
        hidden_keys(self, mask_pad, None, tokens.shape[0], tokens.shape[1], tokens.shape[1])

    def _logits(self, x: Tensor) -> Tensor:
        if not self.config.head:
            return x
        logits = self.embedding.project(x) if self.config.tied else self.head(x)
        cap = self.config.logit_soft_cap
        return logits if cap is None else (logits / cap).tanh() * cap

    def parallel_plan(self) -> Mapping[str, str]:
        """Processes share the tokens' vectors and logits; and each sequence between blocks, which experts lack."""
        plan = {"embedding": "embedding", "head": "vocab"}
        return plan if self.has_balance else plan | divided_sequences("blocks", self.blocks)

    def tensor_parallel_plan(self) -> dict[str, Any]:
        """The plan for torch's `parallelize_module`, as of `burnlike.interop.tensor_parallel_plan`.

        Example:
            parallelize_module(model, init_device_mesh("cuda", (8,)), model.tensor_parallel_plan())
        """
        from ...interop.parallel_plans import tensor_parallel_plan

        return tensor_parallel_plan(self)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Generator[tuple[str, nn.Module], None, None]:
        """As of torch; while the model is exported, each module once.

        The blocks share the tables of the rotation, and torch's `pipeline()` takes no modules that are there twice.
        """
        return super().named_modules(memo, prefix, remove_duplicate or is_exporting())

    def custom_content(self, content: Content) -> Content:
        content = content.add("embedding", self.embedding)
        if isinstance(self.config.positions, LearnedPositions):
            content = content.add("position", self.position).add("dropout", self.dropout)
        content = content.add("blocks", self.blocks).add("norm", self.norm)
        return content.add("head", self.head) if hasattr(self, "head") else content

    def pipeline_stages(self) -> dict[str, str]:
        """The places where a pipeline may cut it; a tied table is needed at both ends."""
        return {"blocks.*": "each"} | ({"embedding": "both"} if self.config.head and self.config.tied else {})


def grow(model: DecoderLm, new_tokens: NewTokens) -> DecoderLm:
    """Give a model rows for new tokens, in place; returns it, with a line about them for the user."""
    from ..by_path.build import give_tokens, numbers_of  # they import the layers of adapters

    model.burnlike_origin = (give_tokens(model, numbers_of(new_tokens)),)
    return model


def _copies(tokens: Tensor, mask_pad: Tensor | None) -> int:
    """The number of copies of each row of tokens, one after the other; 1 where some rows have more copies."""
    if len(tokens) < 2 or tokens.is_meta:
        return 1
    is_new = (tokens[1:] != tokens[:-1]).any(1)
    if mask_pad is not None:
        is_new = is_new | (mask_pad[1:] != mask_pad[:-1]).any(1)
    ends = [*(is_new.nonzero()[:, 0] + 1).tolist(), len(tokens)]
    sizes = {end - begin for begin, end in pairwise([0, *ends])}
    return sizes.pop() if len(sizes) == 1 else 1


def _rotary(config: DecoderLmConfig, device: torch.device | str | None) -> RotaryEncoding | None:
    positions = config.positions
    if not isinstance(positions, RotaryPositions):
        return None
    return RotaryEncodingConfig(
        max_sequence_length=config.max_sequence_length,
        d_model=config.head_size,
        theta=config.theta,
        interleaved=positions.interleaved,
        rotary_dim=positions.rotary_dim,
        scaling=positions.scaling,
    ).init(device)
