"""Tasks of tokens beside language models: a class for each, masked ones, and another sequence of them.

Batches are mappings in the convention of transformers: `input_ids` `[n, length]`, `attention_mask` (0 where a token is
padding) and `labels`, of which -100 does not count.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...data.configs import NO_TARGET
from ...errors import ConfigError, DataError, ShapeError
from ...module.printing.values import type_text
from ...module.torch_objects.wrappers import unwrap
from ...ops._divided import divided_logits, rows_of
from ...ops.cross_entropy import unrounded_loss
from ..learner.steps import StepOutput
from ..metrics.outputs import OUTSIDE, spans_of
from .configs import MaskedLanguageModelConfig, SequenceToSequenceConfig, TokenClassificationConfig
from .supervised import class_names
from .task import MeasuredTask, added_loss, call, inputs_and_targets, inputs_of, logits_for_loss, logits_of
from .token_batches import most_positions, own_parts_of


def _token_output(logits: Tensor, labels: Tensor, name: str, smoothing: float = 0.0) -> StepOutput:
    """The mean cross-entropy of `[n, length, classes]` logits over the `[n, length]` labels that count."""
    if logits.dim() != 3 or labels.shape != logits.shape[:2]:
        raise ShapeError(
            f"{name}: expected [n, length, classes] logits and [n, length] labels, got logits of {list(logits.shape)}"
            f" and labels of {list(labels.shape)}"
        )
    labels = labels.long()
    loss = unrounded_loss(rows_of(logits), labels.flatten(), ignore_index=NO_TARGET, label_smoothing=smoothing)
    size = labels.numel() if labels.is_meta else int((labels != NO_TARGET).sum())
    return StepOutput(loss, size, logits.detach(), labels, logits=True)


def _named(inputs: Any) -> dict[str, Any]:
    return dict(inputs) if isinstance(inputs, Mapping) else {"input_ids": inputs}


class TokenClassification(MeasuredTask):
    """Cross-entropy of `[n, length, classes]` logits with `[n, length]` classes, over the tokens that have one.

    Batches are `(inputs, targets)`, or mappings with `labels`. Metrics get the logits and the labels.
    """

    unit = "tokens"

    def __init__(self, config: TokenClassificationConfig | None = None) -> None:
        self.config = config or TokenClassificationConfig()

    def step(self, model: nn.Module, batch: Any, *, is_training: bool) -> StepOutput:
        smoothing = self.smoothing(is_training=is_training)
        inputs, labels = inputs_and_targets(batch)
        inputs, labels = own_parts_of(model, inputs, labels, lambda it: logits_of(call(model, it)))
        return _token_output(logits_for_loss(model, inputs), labels, "TokenClassification", smoothing)

    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The `tags` of each item, one for each of its words, and its `spans` of labels with the places of their words.

        Words are where the placeholder of a label is not -100, in text those of `words`. A word of these has the tag O
        where it has no token: the tokenizer drops its characters, or the text is longer than `max_length`.
        """
        best = logits_of(call(model, inputs_of(batch))).argmax(2)
        named = batch if isinstance(batch, Mapping) else {"labels": batch[1]}
        labels, words, word_ids = (named.get(it) for it in ("labels", "words", "word_ids"))
        names = class_names(facts, int(best.max()) + 1 if best.numel() else 0)
        rows = []
        for place, numbers in enumerate(best):
            is_first = slice(None) if labels is None else labels[place] != NO_TARGET
            tags = [names[it] for it in numbers[is_first].tolist()]
            row_words = None if words is None else [*words[place]]
            if row_words is not None and word_ids is not None:
                of_word = dict(zip(word_ids[place][is_first].tolist(), tags, strict=True))
                tags = [of_word.get(index, OUTSIDE) for index in range(len(row_words))]
            spans = [it._asdict() for it in spans_of(tags)]
            row: dict[str, Any] = {"tags": tags, "spans": spans}
            if row_words is not None:
                row = {"tokens": row_words, **row}
                for span in spans:
                    span["text"] = " ".join(row_words[span["start"] : span["end"]])
            rows.append(row)
        return rows


class MaskedLanguageModel(MeasuredTask):
    """Finds tokens that are hidden, as BERT is trained (Devlin et al. 2019, section 3.1).

    Of those that are chosen, 80 % become the mask token, 10 % another one, and 10 % stay.

    Batches are `[n, length]` tokens, or mappings of `input_ids`, with `special_tokens_mask` (1: never chosen) and
    `word_ids` (a number for the tokens of each word) where they are known. In training the choice is drawn anew for
    each batch, from torch's generator; where the model is measured it depends on the item alone.
    """

    unit = "tokens"

    def __init__(self, config: MaskedLanguageModelConfig | None = None) -> None:
        self.config = config or MaskedLanguageModelConfig()
        self._facts: Mapping[str, Any] = {}

    def take_facts(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def step(self, model: nn.Module, batch: Any, *, is_training: bool) -> StepOutput:
        named = _named(inputs_of(batch))
        tokens = named.get("input_ids")
        if not isinstance(tokens, Tensor) or tokens.dim() != 2 or tokens.is_floating_point():
            got = f"{tokens.dtype}{list(tokens.shape)}" if isinstance(tokens, Tensor) else type(batch).__name__
            raise DataError(f"MaskedLanguageModel: expected [n, length] tokens, or a mapping of `input_ids`, got {got}")
        if is_training or tokens.is_meta:
            draws = torch.rand(*tokens.shape, 3, device=tokens.device)
        else:
            draws = self._fixed_draws(tokens, named)
        hidden, labels = self._hidden(tokens, named, draws, model)
        shown = {**named, "input_ids": hidden} if isinstance(batch, Mapping) else hidden
        shown, labels = own_parts_of(model, shown, labels, lambda it: logits_of(call(model, it)))
        return _token_output(logits_for_loss(model, shown), labels, "MaskedLanguageModel")

    def _hidden(
        self, tokens: Tensor, named: Mapping[str, Any], draws: Tensor, model: nn.Module
    ) -> tuple[Tensor, Tensor]:
        """The tokens that the model is shown, and those that it is to find (-100 for others); by draws in 0..1."""
        choice, words = draws[..., 0], named.get("word_ids")
        if self.config.whole_words:
            if words is None:
                raise DataError("task.whole_words: expected batches with `word_ids`, which this data has not")
            choice = choice.gather(1, words.clamp(min=0))  # that of the word's number
        chosen = (choice < self.config.mask_prob) & ~self._special(tokens, named)
        vocab_size = self._facts.get("vocab_size") or getattr(getattr(model, "config", None), "vocab_size", None)
        if vocab_size is None:
            raise ConfigError("task: MaskedLanguageModel needs the number of tokens, which neither data nor model say")
        other = (draws[..., 2] * vocab_size).to(tokens.dtype)
        shown = torch.where(draws[..., 1] < 0.8, self._mask_token(), torch.where(draws[..., 1] < 0.9, other, tokens))
        return torch.where(chosen, shown.to(tokens.dtype), tokens), torch.where(chosen, tokens.long(), NO_TARGET)

    def _mask_token(self) -> int:
        token = self.config.mask_token
        token = self._facts.get("mask_token") if token is None else token
        if token is None:
            raise ConfigError(
                "task.mask_token: expected the number of the mask token, since the data does not say it: its tokenizer"
                " has none, or it is no text"
            )
        return int(token)

    def _special(self, tokens: Tensor, named: Mapping[str, Any]) -> Tensor:
        special = torch.zeros_like(tokens, dtype=torch.bool)
        if (mask := named.get("special_tokens_mask")) is not None:
            special = special | mask.bool()
        if (mask := named.get("attention_mask")) is not None:
            special = special | ~mask.bool()
        for token in self._facts.get("special_tokens") or ():
            special = special | (tokens == token)
        return special

    def _fixed_draws(self, tokens: Tensor, named: Mapping[str, Any]) -> Tensor:
        """`[n, length, 3]` in 0..1, by the tokens of each item alone, whatever pads it."""
        attended = named.get("attention_mask")
        kept = torch.ones_like(tokens) if attended is None else attended
        rows = []
        for row, counts in zip(tokens.cpu(), kept.bool().cpu(), strict=True):
            digest = hashlib.sha256(row[counts].long().numpy().tobytes()).digest()
            # Seven bytes: a seed is an int64.
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
            drawn = torch.ones(len(row), 3)
            drawn[counts] = torch.rand(int(counts.sum()), 3, generator=generator)
            rows.append(drawn)
        return torch.stack(rows).to(tokens.device)

    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Each item with the likeliest tokens in the places of its mask tokens, these and their probabilities."""
        named = _named(inputs_of(batch))
        tokens, decode = named["input_ids"], facts.get("decode")
        self.take_facts(facts)
        best = logits_of(call(model, inputs_of(batch))).double().softmax(2).max(2)
        added = named.get("special_tokens_mask")  # not the token of unknown words, which is special too
        is_masked, is_added = tokens == self._mask_token(), self._special(tokens, named) if added is None else added > 0
        filled = torch.where(is_masked, best.indices, tokens)
        rows = []
        for place, mask in enumerate(is_masked):
            text = filled[place][~is_added[place] | mask]
            predicted = best.indices[place][mask]
            rows.append(
                {
                    "text" if decode else "tokens": decode(text.cpu()) if decode else text.tolist(),
                    "found": [decode(it.reshape(1).cpu()) for it in predicted] if decode else predicted.tolist(),
                    "probabilities": best.values[place][mask].tolist(),
                }
            )
        return rows


class SequenceToSequence(MeasuredTask):
    """Cross-entropy of each token of a second sequence, given the first one and the tokens before it (T5, BART).

    Batches are `(input_ids, labels)`, or mappings with `labels`. The decoder is shown the labels moved by one, behind
    its start token. Metrics get the logits and the labels; with `validation_tokens`, tokens that the model writes.
    """

    unit = "tokens"

    def __init__(self, config: SequenceToSequenceConfig | None = None) -> None:
        self.config = config or SequenceToSequenceConfig()
        self._facts: Mapping[str, Any] = {}

    def take_facts(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def step(self, model: nn.Module, batch: Any, *, is_training: bool) -> StepOutput:
        smoothing = self.smoothing(is_training=is_training)
        inputs, labels = inputs_and_targets(batch)
        before = labels.roll(1, 1).masked_fill(labels.roll(1, 1) == NO_TARGET, self._token(model, "pad") or 0)
        before[:, 0] = self._token(model, "start") or 0
        with divided_logits():
            output = call(model, {**_named(inputs), "decoder_input_ids": before})
        result = _token_output(logits_of(output), labels, "SequenceToSequence", smoothing)
        added = added_loss(model, output)
        return result if added is None else result._replace(loss=result.loss + added)

    def valid_step(self, model: nn.Module, batch: Any) -> StepOutput:
        output = super().valid_step(model, batch)
        if not self.config.validation_tokens:
            return output
        if output.loss.is_meta:  # nothing can be written without values; metrics get what has the form of tokens
            written = output.predictions.argmax(2)
        else:
            written = self._written(model, inputs_of(batch), self.config.validation_tokens)
        targets, end = output.targets, self._token(model, "end")
        if end is not None:  # the texts that `predict` writes have no end token either
            written, targets = (it.masked_fill(it == end, NO_TARGET) for it in (written, targets))
        return output._replace(predictions=written, targets=targets, logits=False)

    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The `text` that the model writes for each item; its `tokens` where the data can't turn them into text."""
        self.take_facts(facts)
        decode = facts.get("decode")
        written = self._written(model, inputs_of(batch), self.config.max_tokens).cpu()
        rows = [row[row != NO_TARGET] for row in written]
        if not decode:
            return [{"tokens": row.tolist()} for row in rows]
        unsaid = torch.tensor([it for it in (self._token(model, "end"), self._token(model, "pad")) if it is not None])
        return [{"text": decode(row[~torch.isin(row, unsaid)])} for row in rows]

    def _token(self, model: nn.Module, which: str) -> int | None:
        """The number of the `start`, `end` or `pad` token: of the task, the model or the data; None if none says it."""
        name = {"start": "decoder_start_token_id", "end": "eos_token_id", "pad": "pad_token_id"}[which]
        token = getattr(self.config, f"{which}_token", None)
        if token is None:
            token = getattr(getattr(model, "config", None), name, None)
        if token is None:
            token = self._facts.get(f"{which}_token")
        return token[0] if isinstance(token, list) else token

    def tokens_of(self, model: nn.Module) -> dict[str, int | None]:
        """The tokens that second sequences begin with, end with and are filled up with, as transformers calls them."""
        tokens = {"eos_token_id": self._token(model, "end"), "pad_token_id": self._token(model, "pad") or 0}
        if (start := self._token(model, "start")) is None and hasattr(model, "generation_config"):
            return tokens  # it may say the first one, and has none of ours
        return {**tokens, "decoder_start_token_id": start or 0}

    def _written(self, model: Any, inputs: Any, count: int) -> Tensor:
        """Up to `count` tokens for each item, the likeliest: `[n, length]`, -100 behind the end token."""
        named = {name: value for name, value in _named(inputs).items() if name in ("input_ids", "attention_mask")}
        end, pad = self._token(model, "end"), self._token(model, "pad") or 0
        count = min(count, most_positions(unwrap(model)) or count)
        if not callable(getattr(model, "generate", None)):
            raise ConfigError(f"task: SequenceToSequence: {type_text(model)} has no generate, which writes tokens")
        if hasattr(model, "generation_config"):  # of transformers
            start = self._token(model, "start")
            generated = model.generate(
                **named, max_new_tokens=count, do_sample=False, num_beams=1, decoder_start_token_id=start,
                eos_token_id=end, pad_token_id=pad,
            )  # fmt: skip
        else:
            stops = () if end is None else (end,)
            generated = model.generate(
                named["input_ids"], count, attention_mask=named.get("attention_mask"),
                start_token=self._token(model, "start") or 0, stop_tokens=stops, pad_token=pad,
            )  # fmt: skip
        tokens = generated[:, 1:]
        if end is None:
            return tokens
        is_over = (tokens == end).long().cumsum(1) - (tokens == end).long()
        return tokens.masked_fill(is_over > 0, NO_TARGET)
