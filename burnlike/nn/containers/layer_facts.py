"""Facts of a layer that its config tells: its names, its inputs, its sizes. Imports no torch."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...config import Meta, ModuleConfig
from ...config.registry import tag_of
from ..roles import LayerFacts

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

_TAKEN = (
    "T_destination add_module apply apply_lora apply_reparameterization bfloat16 buffers call_super_init "
    "children clone compile cpu cuda custom_content custom_settings devices double dump_patches eval "
    "extra_repr float fork forward freeze get_buffer get_extra_state get_parameter get_submodule half "
    "into_record ipu load load_record load_state_dict map map_ materialize modules mtia named_buffers "
    "named_children named_modules named_parameters no_grad num_params param parameters params "
    "register_backward_hook register_buffer register_forward_hook register_forward_pre_hook "
    "register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook "
    "register_load_state_dict_pre_hook register_module register_parameter register_state_dict_post_hook "
    "register_state_dict_pre_hook requires_grad_ save set_extra_state set_submodule share_memory "
    "state_dict to to_device to_empty train training type unfreeze valid visit xpu zero_grad"
)
TAKEN = frozenset(_TAKEN.split())
"""The attributes of every module, which a layer in it can't take the names of."""


NAMED = Meta(
    min_length=1, extra_json_schema={"propertyNames": {"pattern": f"^{_NAME.pattern}$", "not": {"enum": sorted(TAKEN)}}}
)
"""Of a mapping by names of layers: what editors are told of them."""


def name_problem(name: str) -> str:
    """The problem with a name, or an empty string."""
    if not _NAME.fullmatch(name):
        return "expected a name of letters, digits and `_` that begins with a letter"
    if name in TAKEN:
        return f"'{name}' is an attribute of every module; use another name, such as '{name}_layer'"
    return ""


MASK = "attention_mask"
"""The input that says where texts are padded, as data of texts and models of transformers call it."""

Counts = tuple[int, int | None]
"""The least number of inputs and the largest; None for any number."""

_NOT_KNOWN = LayerFacts(inputs=(1, None))


def facts_of(config: ModuleConfig) -> LayerFacts:
    """The facts of a layer of burnlike; of models and of users' layers only that they take an input."""
    package, room, *_ = f"{type(config).__module__}.".split(".")
    if package != "burnlike":
        return _NOT_KNOWN
    return getattr(type(config), "facts", LayerFacts() if room == "nn" else _NOT_KNOWN)


def takes_tensors(config: ModuleConfig) -> bool:
    """True if each input of a layer is one tensor; containers hand on what their layers take."""
    return type(config).__module__.startswith("burnlike.") and not is_container(config)


def is_container(config: ModuleConfig) -> bool:
    return type(config).__module__.startswith(f"{__package__}.")


def input_counts(config: ModuleConfig) -> Counts:
    """The number of inputs of a layer; one or more where it is not known."""
    return config.input_counts or facts_of(config).inputs


class Size(NamedTuple):
    """A size that is known, and the words for where from."""

    number: int
    origin: str


Sizes = Mapping[str, Size]
"""What is known of a tensor: the size of its `last` dimension, and of its second one, the `channels`."""

Problems = list[tuple[str, str]]


def sizes_after(layer: ModuleConfig, before: Sizes, path: str, problems: Problems) -> Sizes:
    """The output sizes of the layer at `path`, as far as its input sizes tell; problems get what does not fit."""
    config: Any = layer
    match tag_of(type(layer)) if is_container(layer) else None:
        case "Sequential":
            return _chain(config.layers, before, path, problems)
        case "Residual":
            after = _chain(config.layers, before, path, problems)
            return before if config.shortcut is None else after
        case "Repeat":
            after = sizes_after(config.layer, before, f"{path}.layer", problems)
            return sizes_after(config.layer, after, f"{path}.layer", problems) if config.times > 1 else after
    facts = facts_of(layer)
    if facts.last is not None:
        return _through(config, "last", *facts.last, before, path, problems)
    if facts.channels is not None:
        return _through(config, "channels", *facts.channels, before, path, problems)
    if facts.keeps == "channels" and "channels" in before:
        return {"channels": before["channels"]}
    return before if facts.keeps == "all" else {}


def chain_sizes(layers: Any) -> Iterable[tuple[str, str]]:
    """Mismatches among layers in a row, each with its path in their config."""
    problems: Problems = []
    _chain(layers, {}, "", problems)
    return problems


def _chain(layers: Any, sizes: Sizes, path: str, problems: Problems) -> Sizes:
    named = layers if isinstance(layers, dict) else dict(enumerate(layers))
    for name, layer in named.items():
        sizes = sizes_after(layer, sizes, _join(path, f"layers.{name}"), problems)
    return sizes


def _through(
    config: Any, dimension: str, taken: str, result: str, before: Sizes, path: str, problems: Problems
) -> Sizes:
    size = before.get(dimension)
    if taken and size is not None and (expected_by_layer := _field(config, taken)) != size.number:
        problems.append((_join(path, taken), f"expected {size.number}, {size.origin}, got {expected_by_layer}"))
    if not result:
        return {}
    return {dimension: Size(_field(config, result), f"the {result.partition('.')[0]} of {path}")}


def _field(config: Any, name: str) -> int:
    field, _, place = name.partition(".")
    value = getattr(config, field)
    return value[int(place)] if place else value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
