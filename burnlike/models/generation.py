"""Generation from language models, token by token: of whole batches, and of one sequence as a stream.

A model that can go on from what it has read, by a cache or a state, has a method `reader`; see `Reader`.
"""

import inspect
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import ArgumentError
from ..module.torch_objects.wrappers import is_sharded, unwrap
from .sampling import Sampler, SamplingOptions

if TYPE_CHECKING:
    from .speculation import DraftModel

_ASKS_AFTER = {"cpu": 1}
"""By device, the tokens after which the host asks if all sequences ended; 16 elsewhere: asking waits for the GPU."""


class GenerateOptions(SamplingOptions, total=False):
    """The keywords that `generate` of each language model takes: those of a draw, and ends. The temperature is 0.

    Attributes:
        stop_tokens: each ends a sequence, and is kept; the others go on until all have ended. None by default.
        pad_token: what ended sequences are filled up with; 0 by default.
        stop_when: function of the tokens added so far, int64 `[batch, n]`, that gives bool `[batch]`, True for the
            sequences that end with the last of them, such as `stop_texts`.
    """

    stop_tokens: tuple[int, ...]
    pad_token: int
    stop_when: Callable[[Tensor], Tensor] | None


def stop_tokens(model: nn.Module, codec: Any) -> tuple[int, ...]:
    """The tokens that end what a model writes: those of its data's codec and those of its own `generation_config`.

    Args:
        codec: has `stop_tokens`, as the codecs of data have them; None has none.
    """
    ends = getattr(getattr(unwrap(model), "generation_config", None), "eos_token_id", None)
    end_tokens = [ends] if isinstance(ends, int) else ends or []
    return tuple(sorted({*end_tokens, *getattr(codec, "stop_tokens", ())}))


def shown_length(model: nn.Module, codec: Any) -> int | None:
    """The most tokens that a model is shown: the windows of its data's codec, or for chats all that the model takes.

    A conversation without its beginning lacks the system prompt and the template's first tokens. A model that doesn't
    say how many tokens it takes is shown as many as conversations had in training.
    """
    trained = getattr(codec, "context_length", None)
    if not callable(getattr(codec, "chat", None)):
        return trained
    config: Any = getattr(unwrap(model), "config", None)
    if _is_of_transformers(unwrap(model)):
        return getattr(config.get_text_config(), "max_position_embeddings", None)
    return getattr(config, "max_sequence_length", None) or trained


class Reader(NamedTuple):
    """Reads sequences piece by piece.

    Attributes:
        first: the tokens that it begins with, int64 `[batch, n >= 1]`: the prompt, or the start of a second sequence.
        next_logits: called with the tokens that it has not seen yet, int64 `[batch, new]`: all of `first`, then one at
            a time; returns `[batch, vocab_size]`, of the token after them.
        longest: how many tokens a sequence may have; None for any number.
        reorder: called with int64 `[batch]`, the row whose sequence each row is to go on with, one of the same prompt.
        every_logits: as `next_logits`, but of the tokens after each of the new ones, `[batch, new, vocab_size]`.
        rewind: called with how many of the last tokens it is to forget.
        next_unchanged: as `next_logits`, where no code of the program has run since the call before, so that the model
            need not be compared with what it was; None for `next_logits`.
    """

    first: Tensor
    next_logits: Callable[[Tensor], Tensor]
    longest: int | None = None
    reorder: Callable[[Tensor], None] | None = None
    every_logits: Callable[[Tensor], Tensor] | None = None
    rewind: Callable[[int], None] | None = None
    next_unchanged: Callable[[Tensor], Tensor] | None = None

    def next_between(self, sampler: Sampler, stop_when: object) -> Callable[[Tensor], Tensor]:
        """`next_logits` for a loop that runs no code between its calls but a draw and `stop_when`."""
        runs_code = stop_when is not None or sampler.logits_processor is not None
        return self.next_logits if runs_code or self.next_unchanged is None else self.next_unchanged


def generate(model: nn.Module, reader: Reader, max_new_tokens: int, **options: Any) -> Tensor:
    """Add tokens one by one, with `model` in evaluation; its mode, and that of each part, is restored at the end.

    Returns:
        int64 `[batch, prompt + up to max_new_tokens]`.
    """
    tokens, longest = reader.first, reader.longest
    if tokens.ndim != 2 or tokens.shape[1] < 1:
        raise ArgumentError(f"generate: expected tokens [batch, sequence >= 1], got {list(tokens.shape)}")
    if longest is not None and tokens.shape[1] + max_new_tokens > longest:
        got = f"a prompt of {tokens.shape[1]} and max_new_tokens of {max_new_tokens}"
        raise ArgumentError(f"generate: expected at most {longest} tokens together (max_sequence_length), got {got}")
    return torch.cat((tokens, added_tokens(model, reader, max_new_tokens, **options).tokens), 1)


class Completions(NamedTuple):
    """Texts that were added to prompts.

    Attributes:
        tokens: those that were added, int64 `[rows, longest]`, a stop token with them, then `pad_token`.
        lengths: how many tokens of each row are its own, int64 `[rows]`.
        finished: bool `[rows]`, True where a stop token or `stop_when` ended the row, and not `max_new_tokens`.
        scores: of a search with beams the sum of the tokens' log-probabilities, divided by the length to the
            `length_penalty`, float32 `[rows]`; else None.
    """

    tokens: Tensor
    lengths: Tensor
    finished: Tensor
    scores: Tensor | None = None


def added_tokens(model: nn.Module, reader: Reader, max_new_tokens: int, **options: Any) -> Completions:
    """The Completions of what a reader begins with, with as many columns as the longest row needs."""
    tokens = reader.first
    at_once = _ASKS_AFTER.get(tokens.device.type, 16)
    steps = [*added_columns(model, reader, max_new_tokens, at_once, runs_alone=True, **options)]
    if not steps:
        none = torch.zeros(len(tokens), dtype=torch.int64, device=tokens.device)
        return Completions(tokens[:, :0], none, none.bool())
    ended = torch.stack([finished for _, finished in steps], 1)
    lengths = 1 + (~ended[:, :-1]).sum(1)
    return Completions(torch.cat([column for column, _ in steps], 1)[:, : int(lengths.max())], lengths, ended[:, -1])


def stream(
    model: nn.Module,
    prompt: Tensor,
    max_new_tokens: int,
    *,
    context_length: int | None = None,
    draft: "DraftModel | None" = None,
    **options: Unpack[GenerateOptions],
) -> Iterator[int]:
    """Continue one sequence token by token, without gradients; see `GenerateOptions`.

    The model is in evaluation until the last token is taken or the iterator is closed. A model with a cache or a state
    (burnlike's and those of transformers) reads each token once. Any other, and one whose longest sequence is full,
    reads the last tokens again for each new one.

    Args:
        model: any that gives logits `[1, n, vocab_size]` of tokens `[1, n]`; of two sequences, `prompt` is the first.
        prompt: int64 `[n]`, on any device.
        context_length: how many of the last tokens a model is shown at most. A recurrent one reads all in any case.
        draft: a small model that drafts several tokens, which the model then reads at once.

    Yields:
        The tokens that are added; a stop token is the last one.
    """
    if prompt.ndim != 1 or len(prompt) < 1:
        raise ArgumentError(f"stream: expected a prompt [tokens >= 1], got {list(prompt.shape)}")
    device = next((parameter.device for parameter in model.parameters()), prompt.device)
    tokens = prompt.to(device, torch.int64)[None]
    if draft is not None:
        yield from draft.tokens(model, tokens, max_new_tokens, context_length, **options)
        return
    reader = reader_of(model, tokens, max_new_tokens, context_length)
    with closing(added_columns(model, reader, max_new_tokens, 1, **options)) as steps:
        for added, _ in steps:
            yield int(added)


def reader_of(
    model: nn.Module,
    tokens: Tensor,
    max_new_tokens: int,
    context_length: int | None = None,
    mask_pad: Tensor | None = None,
) -> Reader:
    """The model's own reader as long as all tokens fit, then, or without one, the last tokens read again each time.

    `mask_pad` is bool `[batch, prompt]`, True where a shorter prompt is padded: on the left, and for a model of two
    sequences on the right.
    """
    reader = own_reader(model, tokens, max_new_tokens, context_length, mask_pad)
    # A second sequence goes on with no prompt, and a reader without a limit has room for any.
    if reader is not None and (reader.first is not tokens or reader.longest is None):
        return reader
    limits = [it for it in (reader and reader.longest, context_length) if it]
    most = min(limits) if limits else None
    seen, mask = tokens[:, :0], mask_pad
    is_ours = callable(getattr(model, "reader", None))
    takes_positions = mask_pad is not None and _takes_positions(model)

    def next_logits(new: Tensor, *, unchanged: bool = False) -> Tensor:
        nonlocal reader, seen, mask
        seen = torch.cat((seen, new), 1)
        if mask is not None:
            mask = functional.pad(mask, (0, seen.shape[1] - mask.shape[1]))
        if most is not None and seen.shape[1] > most:
            reader, seen = None, seen[:, -most:]  # what is cached has other positions
            mask = None if mask is None else mask[:, -most:]
        if reader is not None:
            return (reader.next_unchanged if unchanged and reader.next_unchanged else reader.next_logits)(new)
        masks: Any = {}
        if mask is not None:
            masks = {"mask_pad": mask} if is_ours else _masks_of(~mask, seen.shape[1], takes_positions)
        return _logits_of(model(seen, **masks))[:, -1]

    def reorder(rows: Tensor) -> None:
        nonlocal reader, seen
        seen = seen[rows]
        if reader is not None and reader.reorder is not None:
            reader.reorder(rows)
        else:
            reader = None  # all is read again

    return Reader(tokens, next_logits, most, reorder, next_unchanged=partial(next_logits, unchanged=True))


def _logits_of(output: Any) -> Tensor:
    """The logits `[batch, tokens, vocab_size]` of a language model; an ArgumentError names what another model gives."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if logits is None or logits.ndim != 3:
        got = f"{list(logits.shape)}" if isinstance(logits, Tensor) else type(output).__name__
        raise ArgumentError(f"generate: expected a language model, with logits [batch, tokens, vocab_size], got {got}")
    return logits


def own_reader(
    model: Any, tokens: Tensor, max_new_tokens: int, context_length: int | None, mask_pad: Tensor | None = None
) -> Reader | None:
    """The reader of a model that has one, or that is of transformers; None of any other. As of `reader_of`."""
    if callable(getattr(model, "reader", None)):
        longest = getattr(model.config, "max_sequence_length", None)
        limits = [it for it in (longest, context_length) if it is not None]
        masks = {} if mask_pad is None else {"mask_pad": mask_pad}
        return model.reader(tokens, min([tokens.shape[1] + max_new_tokens, *limits]), **masks)
    if not _is_of_transformers(model):
        return None
    twin = _native_twin(model, tokens.shape[1] + max_new_tokens)
    if twin is None:
        reader = _transformers_reader(model, tokens, mask_pad)
        if not model.config.is_encoder_decoder:
            return reader
        from .encoder_decoder.bart_steps import with_native_steps  # as the twin

        return with_native_steps(reader, model, tokens, mask_pad)
    if model.config.is_encoder_decoder:
        return twin.reader(tokens, mask_pad=mask_pad, start_token=_start_token(model))
    return own_reader(twin, tokens, max_new_tokens, context_length, mask_pad)


def native_decoder(model: Any, length: int) -> Any:
    """The native twin of a decoder of transformers with its parameters as they are now, for texts of up to `length`
    tokens; any other model as it is.
    """
    if not _is_of_transformers(model) or model.config.is_encoder_decoder:
        return model
    twin = _native_twin(model, length)
    return model if twin is None else twin


def _is_of_transformers(model: Any) -> bool:
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(model, transformers.PreTrainedModel)


def _native_twin(model: Any, length: int) -> Any:
    from .decoder_lm.transformers_twin import twin_of  # most programs need no tables of weights

    return twin_of(model, length)


def _start_token(model: Any) -> int:
    """The token with which the second sequences of an encoder-decoder of transformers begin."""
    starts = (getattr(it, "decoder_start_token_id", None) for it in (model.generation_config, model.config))
    start = next((it for it in starts if it is not None), None)
    if start is None:
        raise ArgumentError(f"stream: the config of this {type(model).__name__} has no decoder_start_token_id")
    return start


def _takes_positions(model: nn.Module) -> bool:
    return "position_ids" in inspect.signature(model.forward).parameters  # slow: it is asked once a generation


def _masks_of(mask: Tensor, count: int, takes_positions: bool) -> dict[str, Tensor]:
    """The arguments that say which tokens are no padding, and the positions of the last `count` ones without it."""
    masks = {"attention_mask": mask}
    # Without them transformers counts the padding on the left, too.
    if takes_positions:
        masks["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)[:, -count:]
    return masks


def _transformers_reader(model: Any, tokens: Tensor, mask_pad: Tensor | None) -> Reader:
    """A Reader over a model of transformers, which makes its own cache in its first call, and gives it with logits."""
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    past: Any = None
    seen, options, mask = tokens[:, :0], {}, None if mask_pad is None else ~mask_pad
    parameters = inspect.signature(model.forward).parameters
    always: dict[str, Any] = {"use_cache": True}
    if "output_router_logits" in parameters:  # the balance of experts fails where a mask is longer than the new tokens
        always["output_router_logits"] = False
    if model.config.is_encoder_decoder:
        tokens, options = (
            torch.full_like(tokens[:, :1], _start_token(model)),
            {"encoder_outputs": None, "tokens": tokens},
        )

    def every_logits(new: Tensor) -> Tensor:
        nonlocal past, seen, mask
        seen = torch.cat((seen, new), 1)
        shown = seen if past is None else new
        masks: Any = {} if mask is None else {"attention_mask": mask}
        if not options:
            if mask is not None:
                mask = functional.pad(mask, (0, seen.shape[1] - mask.shape[1]), value=True)
                masks = _masks_of(mask, shown.shape[1], "position_ids" in parameters)
            output = model(input_ids=shown, past_key_values=past, **always, **masks)
        else:
            if options["encoder_outputs"] is None:
                options["encoder_outputs"] = model.get_encoder()(options["tokens"], **masks)
            masks["encoder_outputs"] = options["encoder_outputs"]
            output = model(decoder_input_ids=shown, past_key_values=past, **always, **masks)
        past = getattr(output, "past_key_values", None)
        return _logits_of(output)[:, -new.shape[1] :]

    def rewind(count: int) -> None:
        nonlocal past, seen
        seen = seen[:, :-count]
        # A sliding window has lost what it would go back to.
        if getattr(past, "is_croppable", False) and not any(past.is_sliding):
            past.crop(-count)
        else:
            past = None  # all is read again

    def reorder(rows: Tensor) -> None:
        nonlocal past, seen
        seen = seen[rows]
        if hasattr(past, "reorder_cache"):
            past.reorder_cache(rows)
        else:
            past = None  # all is read again

    longest = longest if isinstance(longest, int) and longest > 0 else None
    reader = Reader(tokens, lambda new: every_logits(new)[:, -1], longest, reorder)
    # A draft's text begins with its prompt, a second sequence doesn't.
    return reader if options else reader._replace(every_logits=every_logits, rewind=rewind)


@torch.no_grad()
def added_columns(
    model: nn.Module,
    reader: Reader,
    max_new_tokens: int,
    at_once: int,
    *,
    runs_alone: bool = False,
    stop_tokens: tuple[int, ...] = (),
    pad_token: int = 0,
    stop_when: Callable[[Tensor], Tensor] | None = None,
    **sampling: Unpack[SamplingOptions],
) -> Generator[tuple[Tensor, Tensor]]:
    """Each new column of tokens, `[batch, 1]`, and the rows that have ended with it or before, bool `[batch]`.

    The model is in evaluation; tokens are drawn on the generator's device. After `at_once` tokens, and after so many
    more, it ends if all sequences have. `runs_alone` says that the caller runs no code of a program in between.
    """
    if max_new_tokens < 0:
        raise ArgumentError(f"generate: max_new_tokens: expected 0 or more, got {max_new_tokens}")
    sampler, tokens = Sampler(**sampling), reader.first
    next_logits = reader.next_between(sampler, stop_when) if runs_alone else reader.next_logits
    finished = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    stops = torch.tensor(stop_tokens, dtype=torch.int64, device=tokens.device)
    may_end = bool(stop_tokens) or stop_when is not None
    last, seen, prompt_length = tokens, tokens, tokens.shape[1]
    with in_evaluation(model):
        for count in range(1, max_new_tokens + 1):
            drawn = sampler.draw(next_logits(last), seen, prompt_length, finished if may_end else None)
            last = drawn.to(tokens.device)[:, None]
            if may_end:
                last = last.masked_fill(finished[:, None], pad_token)
                finished = finished | torch.isin(last[:, 0], stops)
            if sampler.reads_tokens or stop_when is not None:
                seen = torch.cat((seen, last), 1)
            if stop_when is not None:
                finished = finished | stop_when(seen[:, prompt_length:]).to(finished.device)
            yield last, finished
            if may_end and count % at_once == 0 and bool(finished.all()):
                break


@contextmanager
def in_evaluation(model: nn.Module) -> Iterator[None]:
    """Have a model in evaluation; its mode, and that of each part, is restored at the end."""
    # Of each part: a program may train with some of them, such as norms, in evaluation.
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training


def gathers_as_forward(model: nn.Module, *methods: str) -> None:
    """Let methods of a model under `fully_shard` gather its parameters, as its forward does; nothing for others."""
    if not is_sharded(model):
        return
    from torch.distributed.fsdp import register_fsdp_forward_method

    for name in methods:
        if name not in model.__dict__:  # else it is registered
            register_fsdp_forward_method(model, name)
