"""Parts that processes have of a model: some of its parameters (layers, experts, stages), or of its sequences.

Norms, the optimizer and the record are of the whole. Processes share layers by the plan of a model (tensor and sequence
parallelism), and the experts of each `MixtureOfExperts`. Sequences are shared by models whose attention learns of it.

In attention of models of transformers, rows may be no text each: parts of sequences that processes share, or prompts
with their answers.
"""

import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from ...errors import ConfigError
from ...module import ParamId, params
from ...module.printing.values import type_text
from ...module.torch_objects.wrappers import note_elsewhere
from ...nn.attention.attend import attend_parts, attend_visible, whole_keys
from ...nn.attention.shared_prompts import SharedPrompts, prompts_shared, shared_prompts
from ...nn.divided_sequence import NAME, DividedSequence, divided
from ...nn.transformer.feed_forward import DividedExperts, MixtureOfExperts
from ...optim import OptimizerAdaptor
from ...optim.core.sharded import OtherStages
from ...record import Record
from .mesh import Mesh

if TYPE_CHECKING:
    from .pipeline import Pipeline


_DIVIDED, _SHARED = "burnlike_divided", "burnlike_shared"
_ROPE = ("default", "linear", "llama3", "yarn")
"""Kinds of rotations that do not depend on the length of a sequence."""
_LAYERS = ("full_attention", "sliding_attention")
_TENSORS = ("position_ids", "cache_position")
"""Tensors that models hand to their attention, which it does not need."""


def use_divided_attention(model: Any) -> None:
    """Let a PreTrainedModel attend over the parts of all processes, where its sequences are divided.

    One whose attention can't be replaced keeps it, and is refused by the proof of the first step.

    Raises:
        ConfigError: its attention depends on the length of a sequence.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    if problem := dependence_on_length(model):
        raise _refusal(model, problem)
    AttentionInterface.register(_DIVIDED, _attention)
    AttentionMaskInterface.register(_DIVIDED, sdpa_mask)
    model.set_attn_implementation(_DIVIDED)


@contextmanager
def sharing_prompts(model: Any, layout: SharedPrompts) -> Iterator[None]:
    """Let a PreTrainedModel whose attention does not depend on the length of a sequence take its rows for prompts with
    their answers within the `with` block.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(_SHARED, _attention)  # without a kind of mask: the model makes none
    # Each once, as most modules have the config of the whole: its public setter sets the configs below it, too.
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}.values()
    before = [(it, it._attn_implementation) for it in configs if hasattr(it, "_attn_implementation")]
    try:
        for config, _ in before:
            config._attn_implementation_internal = _SHARED
        with prompts_shared(layout):
            yield
    finally:
        for config, name in before:
            config._attn_implementation_internal = name  # of it alone, not of those within it


def dependence_on_length(model: Any) -> str:
    """The way a model's attention depends on the length of a sequence; empty where it does not."""
    config = model.config.get_text_config()
    for kind in _rope_types(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)):
        if kind not in _ROPE:
            return f"its rotation ({kind}) depends on the length of a sequence"
    kinds = (it for it in getattr(config, "layer_types", None) or () if it not in _LAYERS)
    return next((f"it has layers of {kind}" for kind in kinds), "")


def _rope_types(parameters: Any) -> Iterator[str]:
    if isinstance(parameters, Mapping):
        yield from (str(parameters[name]) for name in ("rope_type", "type") if parameters.get(name) is not None)
        for nested in parameters.values():
            yield from _rope_types(nested)


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attention by transformers' interface: `[batch, heads, length, d_head] -> [batch, length, heads, d_head]`."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    sequence, shared = divided(module), shared_prompts()
    if sequence is None and shared is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    window = options.get("sliding_window")
    if "sliding_window" not in options and getattr(module.config, "sliding_window", None) is not None:
        raise _refusal(module, "it does not say the window of its attention")
    if unknown := [name for name, option in options.items() if isinstance(option, Tensor) and name not in _TENSORS]:
        raise _refusal(module, f"its attention takes {', '.join(unknown)}")
    d_head = query.shape[-1]
    if (scaling := options.get("scaling")) is not None and scaling != d_head**-0.5:
        query = query * (scaling * d_head**0.5)
    rules: dict[str, Any] = {"soft_cap": options.get("softcap"), "dropout": options.get("dropout", 0.0)}
    is_causal = options.get("is_causal")
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if sequence is None:
        if shared is None or not is_causal:
            raise _refusal(module, "its attention sees what is behind a position")
        attended = shared.attend(query, key, value, sliding_window=window, **rules)
    elif is_causal:
        attended = attend_parts(query, key, value, sequence, sliding_window=window, **rules)
    else:
        key, value = whole_keys(key, value, sequence)
        hidden = key.new_zeros(1, key.shape[2]).bool() if sequence.hidden is None else sequence.hidden
        visible = ~hidden[:, None, None].expand(-1, 1, query.shape[2], -1)
        attended = attend_visible(query, key, value, visible, **rules)
    return attended.unflatten(-1, (-1, value.shape[-1])), None


def _refusal(model: Any, problem: str) -> ConfigError:
    if shared_prompts() is not None:
        return ConfigError(f"{type_text(model)} can't read a prompt once for all of its answers: {problem}")
    return ConfigError(f"distributed.context: {type_text(model)} can't take parts of sequences: {problem}")


class PartOfModel:
    """The part of a model that a process has; the processes of a group have all of it together.

    Attributes:
        group: these processes.
        other_stages: what a norm of all gradients needs of the others.
    """

    other_stages: OtherStages

    def __init__(self, model: nn.Module, optimizer: Any, group: Any, device: torch.device) -> None:
        """Note the names of the whole model, and check that the optimizer fits it."""
        self.group, self._device = group, device
        self._names = [path for parameter in params(model) for path in (parameter.path, *parameter.aliases)]
        if isinstance(optimizer, OptimizerAdaptor):
            optimizer.check(model)

    def _share(self, model: nn.Module, optimizer: Any, counted_elsewhere: frozenset[ParamId]) -> None:
        """Let the optimizer step the parameters left here; other processes' norms count the ids `counted_elsewhere`."""

        def summed(values: Tensor) -> Tensor:
            total = values.to(self._device)
            dist.all_reduce(total, group=self.group)
            return total

        self.other_stages = OtherStages(summed, counted_elsewhere)
        if isinstance(optimizer, OptimizerAdaptor):
            optimizer.other_stages = self.other_stages
        elif isinstance(optimizer, torch.optim.Optimizer):
            kept = {id(parameter) for parameter in model.parameters()}
            for group in optimizer.param_groups:
                group["params"] = [it for it in group["params"] if id(it) in kept]

    def whole(self, record: Record) -> Record:
        """The record of the whole model, from those of its parts, on the first process of the group; all call it.

        What several processes have is taken from the first.
        """
        group = self.group
        rank, shapes = dist.get_rank(group), {name: (it.shape, it.dtype) for name, it in record.tensors.items()}
        parts: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(parts, (shapes, record.values, record.ids, record.aliases, record.states), group)
        tensors = dict(record.tensors) if rank == 0 else {}
        received_names = {*parts[0][0]}
        for sender, (theirs, *_) in enumerate(parts[1:], 1):
            for name, (shape, dtype) in theirs.items():
                if name in received_names:
                    continue
                received_names.add(name)
                if rank == sender:
                    dist.send(record.tensors[name].detach().contiguous().to(self._device), group=group, group_dst=0)
                elif rank == 0:
                    received = torch.empty(shape, dtype=dtype, device=self._device)
                    dist.recv(received, group=group, group_src=sender)
                    tensors[name] = received.cpu()
        if rank:
            return record
        _, values, ids, aliases, states = ([part[place] for part in parts] for place in range(5))
        place = {name: number for number, name in enumerate(self._names)}
        return Record(
            tensors={name: tensors[name] for name in sorted(tensors, key=lambda it: place.get(it, len(place)))},
            values=dict(ChainMap(*map(dict, values))),
            ids=dict(ChainMap(*map(dict, ids))),
            aliases={name: value for name, value in ChainMap(*map(dict, aliases)).items() if name not in tensors},
            source=record.source,
            states=frozenset().union(*states),
        )


class Stage(nn.Module):
    """One stage, as torch's PipelineStage takes it: its modules, and a forward that runs a step of a task on them."""

    def __init__(self, number: int, parts: Sequence[nn.Module], units: Sequence[nn.Module]) -> None:
        super().__init__()
        self.number = number
        self.parts = nn.ModuleList(parts)
        self.blocks = tuple(units)
        self.run: Callable[[int, Tensor | None, int], Tensor] = _not_begun

    def forward(self, received: Tensor, number: Tensor) -> Tensor:
        """Output of the stage for the micro-batch `number`, given what it received; the loss on the last stage."""
        return self.run(self.number, received if self.number else None, int(number))


def _not_begun(*_: Any) -> Tensor:
    raise RuntimeError("a stage runs within a step of the pipeline")


def divide_layers(model: nn.Module, mesh: DeviceMesh, plan: Mapping[str, str], pipeline: "Pipeline | None") -> None:
    """Divide the layers of a model, or of the stages of it here, among the processes of a mesh, in place.

    The plan of the job goes before what the model and its layers say themselves; see `interop.parallelize`.

    Raises:
        ConfigError: what has no plan, what is unknown in it, and sizes that do not divide, by paths and numbers.
    """
    from ...interop.parallel_plans import parallelize  # DTensors take time to import

    if pipeline is None:
        parallelize(model, mesh, plan)
    else:
        parallelize(model, mesh, {**_sequences_within(model, pipeline, plan), **plan}, pipeline.elsewhere)


def _sequences_within(model: nn.Module, pipeline: "Pipeline", plan: Mapping[str, str]) -> dict[str, str]:
    """The words by which each stage divides sequences by itself, where the model does so from block to block."""
    from ...interop.parallel_plans import plan_of

    words, units = plan_of(model, plan), pipeline.plan.units
    if "sequence_begin" not in words.get(units[0], ()) or "sequence_end" not in words.get(units[-1], ()):
        return {}
    sequence_words: dict[str, str] = {}
    for begin, end in pairwise([*pipeline.plan.begins, len(units)]):
        if end - begin == 1:
            sequence_words[units[begin]] = "sequence_begin sequence_end"
        elif end > begin:
            sequence_words |= {units[begin]: "sequence_begin", units[end - 1]: "sequence_end"}
    return sequence_words


class Experts(PartOfModel):
    """The experts of a model that this process has, and how it exchanges rows with those that have the others.

    Attributes:
        layers: the own experts of each layer.
    """

    def __init__(self, model: nn.Module, optimizer: Any, mesh: Mesh, device: torch.device) -> None:
        """Take the experts of other processes out of a model, in place.

        Raises:
            ConfigError: it has none, or their number can't be divided.
        """
        assert mesh.expert is not None
        divided = DividedExperts(mesh.expert.get_group())
        expert_layers = {name: module for name, module in model.named_modules() if isinstance(module, MixtureOfExperts)}
        if not expert_layers:
            raise ConfigError(
                f"distributed.expert: {type_text(model)} has no MixtureOfExperts whose experts processes could"
                " share; leave out `expert`, or take a model with `feed_forward: {type: Experts}`"
            )
        for name, layer in expert_layers.items():
            if (n_experts := len(layer.experts)) % divided.size:
                raise ConfigError(
                    f"distributed.expert: expected a divisor of the {n_experts} experts of '{name}', got {divided.size}"
                )
        super().__init__(model, optimizer, mesh.expert.get_group(), device)
        self.layers: list[list[nn.Module]] = []
        for layer in expert_layers.values():
            layer.__dict__[DividedExperts.NAME] = divided
            modules: Any = layer.experts._modules
            n_own = len(modules) // divided.size
            kept = range(divided.rank * n_own, (divided.rank + 1) * n_own)
            for number in range(len(modules)):
                if number not in kept:
                    del modules[str(number)]
            self.layers.append([*modules.values()])
        of_layers = {id(it) for modules in self.layers for module in modules for it in module.parameters()}
        after = params(model)
        note_elsewhere(model, {*self._names} - {path for it in after for path in (it.path, *it.aliases)})
        common = {it.id for it in after if id(it.tensor) not in of_layers}
        self._share(model, optimizer, frozenset(common if divided.rank else ()))


def divide_sequences(model: nn.Module, sequence: DividedSequence) -> None:
    """Let all parts of a model ask `sequence` whether they get parts of sequences."""
    # Past `__setattr__`, by which burnlike's modules would take it for one of their fields.
    for module in model.modules():
        module.__dict__[NAME] = sequence
    base: Any = getattr(sys.modules.get("transformers"), "PreTrainedModel", ())
    for module in model.modules():
        if isinstance(module, base):
            use_divided_attention(module)
