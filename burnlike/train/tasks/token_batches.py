"""Batches of tokens and how models take them, whole or in parts; proofs that a model keeps packed documents apart, and
that it gives for parts of sequences, which processes share, what it gives for the whole.

A batch is `[n, length + 1]` integer tokens, or a mapping as models of transformers take it, `[n, length]` each:
`input_ids`, `labels` (of the same positions; -100 does not count), and `attention_mask` or, of packed documents,
`position_ids`, which begin at 0 with each document. Other tensors go to a model of transformers that takes their names:
those of images, of any shape.
"""

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor, nn

from ..._torch_compat.fake_tensors import is_fake
from ...data.configs import NO_TARGET
from ...errors import ConfigError, DataError
from ...module.printing.values import type_text
from ...module.torch_objects.wrappers import own_class, unwrap
from ...nn.divided_sequence import DividedSequence, divided, sequence_of
from ...optim.core.sharded import whole as gathered
from ..learner.steps import evaluation_mode
from ..parallel.single_process import SingleProcess
from ..parallel.step_output import StepOutput
from .task import REST, Task, added_loss, batch_text, logits_of, parameters_of

_LONGEST_PROOF = 256
"""Of how many tokens of a sequence the proof is."""
_CLOSE = {torch.float64: 1e-6, torch.float32: 1e-4}
_CLOSE_IN_16_BITS = 5e-2


def logits_tolerance(dtype: torch.dtype) -> float:
    """The largest distance between logits that are equal but for rounding, relative to the largest of them.

    Sums are added in another order, and some softmax is in float32 in any case.
    """
    return _CLOSE.get(dtype, _CLOSE_IN_16_BITS)


def own_parts(model: nn.Module, *tensors: Tensor, fill: float = NO_TARGET) -> tuple[Tensor, ...]:
    """This process's parts of tensors `[batch, sequence, ...]`, in the loss of a model with `distributed.context`.

    The model is then to be called with the part of its inputs, and the loss is that of the own positions, a StepOutput
    with their number. Tensors of integers are filled up with `fill`, the first one with 0, so that all parts are as
    long. Without `context` the tensors are returned.

    Example:
        def loss(model, batch):
            tokens, targets = own_parts(model, batch[:, :-1], batch[:, 1:])
            found = functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
            return StepOutput(found, int((targets != -100).sum()))
    """
    sequence = sequence_of(model)
    if sequence is None:
        return tensors
    first, *others = tensors
    sequence.begin(first.shape[1], first.device)
    return sequence.own(first), *(sequence.own(it, fill) for it in others)


def own_parts_of(model: nn.Module, inputs: Any, targets: Tensor, logits: Callable[[Any], Tensor]) -> tuple[Any, Tensor]:
    """This process's parts of a batch, and as it is where no sequences are divided.

    Args:
        model: what gets the inputs.
        inputs: int64 tokens `[batch, length]`, or a mapping of `input_ids` and more in the names of transformers.
        targets: `[batch, length]`, filled up with -100.
        logits: runs the model on inputs, `[batch, length, ...]`.

    Raises:
        ConfigError: the model does not give for parts of a sequence what it gives for the whole.
        DataError: an input is not of the tokens' shape.
    """
    sequence = sequence_of(model)
    if sequence is None:
        return inputs, targets
    named = inputs if isinstance(inputs, Mapping) else {"input_ids": inputs}
    if not (sequence.is_proven or is_fake(targets)):
        _expect_same(model, sequence, named, logits)
    return _own(model, sequence, named), sequence.own(targets, NO_TARGET)


def _own(model: nn.Module, sequence: DividedSequence, named: Mapping[str, Any]) -> dict[str, Tensor]:
    """The parts of the model's inputs; where its positions are is in them, or the model's layers know it."""
    from ...models.decoder_lm.block import documents_of, positions_of

    tokens: Tensor = named["input_ids"]
    length, names = tokens.shape[1], {*parameters_of(own_class(unwrap(model)).forward)}
    if length % sequence.n_pieces and model.training and getattr(model, "has_balance", False):
        raise ConfigError(
            f"distributed.context: expected sequences of a multiple of {sequence.n_pieces} tokens, since padding would"
            f" count in the balance of experts, got {length}; set the context_length or max_length of `data`"
        )
    mask, positions = named.get("attention_mask"), named.get("position_ids")
    hidden = None if mask is None else mask == 0
    documents = None if positions is None else documents_of(positions)
    if positions is None:
        every = torch.arange(length, device=tokens.device).expand_as(tokens)
        positions = every if hidden is None or "mask_pad" not in names else positions_of(hidden)
    sequence.begin(length, tokens.device, hidden, documents)
    whole = {name: it for name, it in named.items() if name not in ("attention_mask", "position_ids")}
    if names & {"position_ids", "positions"}:
        whole["position_ids"] = positions
    for name, value in whole.items():
        if not isinstance(value, Tensor) or value.shape[:2] != tokens.shape:
            got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise DataError(
                f"distributed.context: expected '{name}' of the tokens' shape {list(tokens.shape)}, got {got}"
            )
    return {name: sequence.own(it) for name, it in whole.items()}


@torch.no_grad()
def _expect_same(
    model: nn.Module, sequence: DividedSequence, named: Mapping[str, Any], logits: Callable[[Any], Tensor]
) -> None:
    """Prove on some tokens of a batch that the model, in evaluation, gives the same for parts as for the whole."""
    some = {name: value[:1, :_LONGEST_PROOF] if isinstance(value, Tensor) else value for name, value in named.items()}
    try:
        device = some["input_ids"].device
        with evaluation_mode(model), torch.random.fork_rng(devices=[]), torch.autocast(device.type, enabled=False):
            whole = gathered(logits(some))
            logits_of_parts = gathered(logits(_own(model, sequence, some)))
        counts = sequence.places < whole.shape[1]
        if sequence.hidden is not None:  # what padding gives does not matter
            counts = counts & ~sequence.hidden[0, sequence.places]
        logits_of_parts, expected = logits_of_parts[0, counts], sequence.own(whole)[0, counts]
        largest = expected.abs().max().item() if len(expected) else 0.0
        apart = (logits_of_parts - expected).abs().max().item() if len(expected) else 0.0
        problem = not apart <= logits_tolerance(logits_of_parts.dtype) * (largest or 1.0)
        if sequence.agree(problem):
            name = type_text(model)
            raise ConfigError(
                f"distributed.context: {name} does not give for parts of a sequence what it gives for the whole, as it"
                " does more with a sequence than attention that knows of its parts; leave out `context`, or take"
                " DecoderLm, an encoder, or a model of transformers that attends by its AttentionInterface"
            )
        sequence.is_proven = True
    finally:
        sequence.end()


_NAMES = ("input_ids", "attention_mask", "position_ids")
_LONGEST, _SHORTEST = 9, 3
_SAME = {torch.float64: 1e-9, torch.float32: 1e-5}
"""How far logits may change, relative to the largest of them, that depend on nothing which was changed."""


def with_addition(loss: Tensor, addition: Tensor | None) -> Tensor:
    """A loss with the model's own addition to it, if there is one."""
    return loss if addition is None else loss + addition


class Predicted(NamedTuple):
    """Logits `[n, length, vocab_size]`, their target tokens `[n, length]`, and the model's own addition to the loss."""

    logits: Tensor
    targets: Tensor
    balance: Tensor | None


def predicted(model: nn.Module, batch: Any) -> Predicted:
    """Run a model on a batch; targets that do not count are -100.

    Raises:
        DataError: it is no batch of tokens.
        ConfigError: the documents are packed, and the model takes no positions.
    """
    inputs, targets = _inputs_and_targets(model, batch)
    inputs, targets = own_parts_of(model, inputs, targets, lambda it: logits_and_addition(model, it)[0])
    logits, balance = logits_and_addition(model, inputs)
    return Predicted(logits, targets, balance)


def _inputs_and_targets(model: nn.Module, batch: Any) -> tuple[Mapping[str, Tensor], Tensor]:
    if isinstance(batch, Tensor):
        _expect_tokens(batch, "batches", 2)
        return {"input_ids": batch[:, :-1]}, batch[:, 1:]
    if not isinstance(batch, Mapping) or not {"input_ids", "labels"} <= {*batch}:
        raise DataError(
            "LanguageModel: expected batches that are mappings of `input_ids` and `labels`, or [n, length + 1] integer"
            f" tokens, got {batch_text(batch)}"
        )
    labels = batch["labels"]
    for name in ("input_ids", "labels"):
        _expect_tokens(batch[name], f"`{name}`", 1)
    if labels.shape != batch["input_ids"].shape:
        shapes = f"{list(batch['input_ids'].shape)} and {list(labels.shape)}"
        raise DataError(f"LanguageModel: expected `input_ids` and `labels` of one shape, got {shapes}")
    labels = labels.long()
    if "position_ids" in batch:  # the first token of a document follows from nothing
        labels = labels.masked_fill(batch["position_ids"] == 0, NO_TARGET)
    targets = torch.cat((labels[:, 1:], torch.full_like(labels[:, :1], NO_TARGET)), 1)
    taken = {*_NAMES, *parameters_of(own_class(unwrap(model)).forward)} - {"labels"}
    return {name: value for name, value in batch.items() if name in taken and isinstance(value, Tensor)}, targets


def _expect_inputs(model: nn.Module, names: Iterable[str]) -> None:
    """Refuse a model that does not take what a processor of images gives."""
    taken = parameters_of(own_class(unwrap(model)).forward)
    if missing := [name for name in names if name not in ("labels", *taken)]:
        raise ConfigError(
            f"{type_text(model)} takes no {', '.join(missing)}, which the processor in data.tokenizer makes of images;"
            " take the model that it is of: `path` and `tokenizer` of one directory"
        )


def expect_positions(
    model: nn.Module, longest: int, answer: int = 0, remedy: str = "leave out longer ones by data.on_long: drop"
) -> None:
    """Refuse a model that reads fewer tokens of a sequence than the longest one has, with those of its `answer`; `{}`
    in the remedy becomes their number.
    """
    most = most_positions(unwrap(model))
    if most is None or longest + answer <= most:
        return
    more = f" and {answer} of an answer (task.max_tokens)" if answer else ""
    raise ConfigError(
        f"data.max_length: expected texts of at most {most} tokens, which {type_text(model)} reads, got {longest}{more}"
        f"; {remedy.format(most)}"
    )


def most_positions(module: nn.Module) -> int | None:
    """The number of positions of our model, or of one of transformers with a table of them; None for any number."""
    config: Any = getattr(module, "config", None)
    if not callable(getattr(config, "get_text_config", None)):
        return getattr(config, "max_sequence_length", None)
    longest = getattr(config.get_text_config(), "max_position_embeddings", None)
    for name, table in (*module.named_parameters(), *module.named_buffers()):
        rows = table.shape[0] if _POSITIONS.search(name) and table.dim() == 2 else 0
        if longest and 0 <= rows - longest <= _MORE_ROWS:
            # RoBERTa's first position is the row after that of padding.
            padding = getattr(module.get_submodule(name.rpartition(".")[0]), "padding_idx", None)
            return longest if padding is None else longest - padding - 1
    return None


_POSITIONS = re.compile(r"(wpe|pos(ition)?s?_|_pos).*(?<!\.weights)$")
"""The names that models of transformers give to tables of positions; those of sines, `weights`, grow."""
_MORE_ROWS = 2
"""Rows of such a table before that of the first position, as OPT has them."""


def _expect_tokens(value: Any, what: str, least: int) -> None:
    if not isinstance(value, Tensor) or value.is_floating_point() or value.dim() != 2 or value.shape[1] < least:
        got = f"{value.dtype}{list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        length = "length + 1" if least > 1 else "length"
        raise DataError(f"LanguageModel: expected {what} of [n, {length}] integer tokens, got {got}")


def logits_and_addition(model: nn.Module, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    """The logits, and in training the model's own addition to the loss, such as the balance of experts."""
    tokens, more = arguments_of(model, inputs)
    if model.training and getattr(model, "has_balance", False):
        return model(*tokens, with_balance=True, **more)
    output = model(*tokens, **more)
    added = added_loss(model, output)
    if added is not None and divided(unwrap(model)) is not None:
        raise ConfigError(
            f"distributed.context: the loss of {type_text(model)} has a term beside cross-entropy,"
            " which is of whole sequences; set output_router_logits to false (model.options), or leave out the context"
        )
    return logits_of(output), added


def arguments_of(model: nn.Module, inputs: Mapping[str, Tensor]) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    """The inputs under the names of the model's `forward`: transformers', or those of burnlike's `DecoderLm`.

    A model that takes no mask gets none: padding is on the right, where nothing that is before sees it.
    """
    named = parameters_of(own_class(unwrap(model)).forward)
    if "position_ids" in inputs and not {"position_ids", "positions"} & {*named}:
        raise ConfigError(_refusal(model, "it takes no positions"))
    if "input_ids" not in named:
        more: dict[str, Any] = {}
        if "position_ids" in inputs:
            more["positions"] = inputs["position_ids"]
        if "attention_mask" in inputs and "mask_pad" in named:
            more["mask_pad"] = inputs["attention_mask"] == 0
        return (inputs["input_ids"],), more
    keywords: dict[str, Any] = {name: value for name, value in inputs.items() if name in named}
    if "use_cache" in named or (REST in named and hasattr(unwrap(model), "generation_config")):
        keywords["use_cache"] = False  # with a cache transformers does not see that documents are packed
    return (), keywords


@torch.no_grad()
def expect_apart(model: nn.Module, batch: Mapping[str, Any], parallel: SingleProcess | None = None) -> bool:
    """Prove on a few tokens of a batch that the model, in evaluation, keeps packed documents apart.

    Documents in one row give the logits that each gives alone, and those of the later ones stay when the first one is
    changed: bit by bit, or up to rounding in float32.

    Args:
        parallel: the processes that have a part of the model each, in a pipeline; all call it.

    Returns:
        whether there were values to try it with: on the meta device there are none.

    Raises:
        ConfigError: they see each other, or have other positions; the message names the model.
    """
    tokens: Tensor = batch["input_ids"][0]
    if tokens.is_meta or is_fake(tokens):
        return False
    size = min(_LONGEST, max(_SHORTEST, len(tokens) // 3))
    tokens = tokens.repeat(-(-3 * size // len(tokens)))
    with evaluation_mode(model), torch.random.fork_rng(devices=[]):
        problem = _problem(model, tokens[: 3 * size], size, parallel or SingleProcess())
        dtype = next((it.dtype for it in model.parameters() if it.is_floating_point()), torch.float32)
        if parallel is None and problem == _MIXED and dtype.itemsize == 2:
            # In 16 bits it may be rounding alone, such as that of a choice of experts: float32 tells.
            problem = _problem(copy.deepcopy(model).float(), tokens[: 3 * size], size, SingleProcess())
    if problem:
        raise ConfigError(_refusal(model, problem))
    return True


class PackedTask(Task):
    """A task whose batches may have packed documents: proofs, each made once, that its models keep these apart."""

    def __init__(self) -> None:
        self._data: Any = None
        self._apart: WeakSet[nn.Module] = WeakSet()  # weak, so that no model is kept alive

    def take_data(self, data: Any) -> None:
        self._data = data

    def try_out(self, model: nn.Module, parallel: SingleProcess | None = None) -> None:
        """Refuse a model that does not keep the documents of the data's first item apart, or takes no such images."""
        if self._data is None or not len(self._data.train):
            return
        expect_positions(model, longest_of(self._data))
        item = self._data.train[0]
        if isinstance(item, Mapping) and "pictured" in item:
            _expect_inputs(model, self._data.batcher.batch([item], torch.device("cpu")))
        if isinstance(item, Mapping) and "position_ids" in item:
            device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
            batch = {name: torch.as_tensor(value)[None].to(device) for name, value in item.items()}
            self.expect_apart(model, batch, parallel)

    def expect_apart(self, model: nn.Module, batch: Any, parallel: SingleProcess | None = None) -> None:
        """Refuse a model that does not keep the documents of a batch apart, if they are packed."""
        if not (isinstance(batch, Mapping) and "position_ids" in batch and "input_ids" in batch):
            return
        if unwrap(model) not in self._apart and expect_apart(model, batch, parallel):
            self._apart.add(unwrap(model))


def longest_of(data: Any) -> int:
    """The number of tokens of the longest item to train on or to validate on; 0 where no lengths are known."""
    parts = (getattr(data, name, None) for name in ("train", "valid"))
    lengths = (getattr(getattr(part, "conversations", part), "lengths", None) for part in parts)  # of packed ones
    return max((int(torch.as_tensor(it).max()) for it in lengths if it is not None and len(it)), default=0)


_MIXED = "what one document of a row says changes with another"


def _problem(model: nn.Module, tokens: Tensor, size: int, parallel: SingleProcess) -> str:
    """The problem of the tokens when they are packed as three documents; empty where there is none."""
    sizes = [size, size - 1, size + 1]
    documents = tokens.split(sizes)
    alone = torch.cat([_of_rows(model, document, [len(document)], parallel) for document in documents])
    packed = _of_rows(model, tokens, sizes, parallel)
    different = tokens[tokens != tokens[0]]
    filler = different[0] if len(different) else (tokens[0] == 0).long()
    changed = _of_rows(model, torch.cat((filler.expand(size), tokens[size:])), sizes, parallel)
    problem, largest = "", alone.abs().max().item() or 1.0 if len(packed) else 1.0
    if len(packed) and (changed - packed)[size:].abs().max().item() > _SAME.get(alone.dtype, 0.0) * largest:
        problem = _MIXED
    elif len(packed) and (packed - alone).abs().max().item() > logits_tolerance(alone.dtype) * largest:
        problem = "documents in one row do not give what each gives alone"
    return parallel.with_predictions(problem)


def _of_rows(model: nn.Module, tokens: Tensor, sizes: list[int], parallel: SingleProcess) -> Tensor:
    """Logits `[length, vocab_size]` of documents of these sizes in one row; none where another process has them."""
    positions = torch.cat([torch.arange(size, device=tokens.device) for size in sizes])
    batch = {"input_ids": tokens[None], "position_ids": positions[None]}
    output = parallel.measure(lambda part: StepOutput(torch.zeros(()), 1, logits_and_addition(model, part)[0]), batch)
    return tokens[:0] if output.predictions is None else output.predictions[0]


def _refusal(model: nn.Module, problem: str) -> str:
    name = type_text(model)
    return f"{name} can't be trained on packed documents: {problem}; set data.packing: false, or take another model"
