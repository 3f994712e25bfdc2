"""Configs as Burn's `Config::save` and `load` have them in JSON (burn-core 0.22.1, config.rs). Imports no torch.

A config that another one chooses (`type: Relu` here) is a variant there: `"Relu"`, `{"KaimingUniform": {"gain": 1.0}}`.
Sizes are arrays, paddings `"Valid"` or `{"Explicit": [1, 1]}`, options names in camel case. What Burn does not have is
written as in YAML, but for options of Burn's own configs, which Burn would pass over: these are refused.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import msgspec.inspect as mi

from burnlike.errors import ConfigError, Problem

from .emit import to_plain
from .hiding import escaped
from .node import Entries, Location, MappingEntry, Node, Tree, child
from .plain import string_options
from .registry import TAG_FIELD, ConfigType, default_of, fields_of, inlined_in, is_role, lookup, members_of, tag_of

SUFFIX = ".json"

_FIELDS: Mapping[str, Mapping[str, str]] = {
    "HardShrinkConfig": {"lambd": "lambda"},
    "SoftShrinkConfig": {"lambd": "lambda"},
    "ShrinkConfig": {"lambd": "lambda"},
    "SgdConfig": {"grad_clipping": "gradient_clipping"},
    "ModuleLrSchedulerConfig": {"groups": "scheduler_groups"},
}
"""Class -> the name here -> Burn's, of fields that are called otherwise."""
ONLY_HERE: Mapping[str, tuple[str, ...]] = {
    "ModuleOptimizerConfig": ("groups", "maximize", "skip_non_finite", "stochastic_rounding"),
    "AdaptiveMomentumConfig": ("moment_1", "moment_2"),
    "LionConfig": ("moment",),
    "SgdConfig": ("velocity",),
    "MuonConfig": ("grad_clipping", "ns_dtype"),
    "RotaryEncodingConfig": ("interleaved", "rotary_dim", "scaling"),
    "CosineAnnealingConfig": ("warmup_steps", "restart"),
    "ModuleLrSchedulerConfig": ("groups",),
}
"""Class, or one above it -> fields that Burn's config lacks, or that have another form there."""
_ALWAYS: Mapping[str, Mapping[str, Any]] = {
    "SwiGluConfig": {"layout": "Row"},
    "ModuleLrSchedulerConfig": {"scheduler_groups": []},
}
"""Class -> fields that only Burn's config has, with the one value that they may have."""
_PENALTIES = ("AdaGradConfig", "AdamConfig", "MuonConfig", "RmsPropConfig", "SgdConfig")
"""Classes whose weight_decay is `null` or `{"penalty": 0.1}` in Burn."""
_VARIANTS: Mapping[str, Mapping[str, str]] = {
    "ActivationConfig": {},
    "Initializer": {},
    "NormalizationConfig": {
        **{f"{name}Norm": name for name in ("Batch", "Group", "Instance", "Layer")},
        "RmsNorm": "Rms",
    },
    "GradientClipping": {"ClipByNorm": "Norm", "ClipByValue": "Value"},
    "LrSchedulerConfig": {
        **{
            f"{name}Lr": name
            for name in ("Constant", "Linear", "Exponential", "Noam", "Step", "Composed", "Sequential")
        },
        "CosineAnnealing": "Cosine",
    },
}
"""Role that is an enum in Burn -> the tag here -> the variant there, where it has another name."""
_OF_ONE_VALUE = ("ClipByNorm", "ClipByValue", "ConstantLr")
"""Tags of variants that have the value of their only field: `{"Norm": 1.0}`."""
_PADDINGS = {"Valid", "Same"}
_NOT_IN_YAML = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters of JSON that YAML, as which files are read, forbids or takes for line breaks."""
_SIZES = ("kernel_size", "stride", "strides", "dilation", "output_size", "scale_factor", "padding", "padding_out")
"""Fields of layers for several dimensions that are arrays in Burn."""


def to_burn_json(config: msgspec.Struct) -> str:
    """The config as Burn writes it.

    Raises:
        ConfigError: it has an option that Burn's config of this name lacks, or a number that JSON can't hold.
    """
    to_plain(config)  # raises if it holds what no file can
    plain = escaped(_written(config, type(config).__name__))
    text = json.dumps(plain, indent=2, ensure_ascii=False, default=lambda member: member.value)  # of an Enum
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def from_burn(tree: Tree, cls: ConfigType) -> Tree:
    """The tree of a JSON file as YAML would have it, for a config of `cls`; what is in YAML's form already stays."""
    is_enum = is_role(cls) and cls.__name__ in _VARIANTS
    return Tree(_variant(tree.root, cls) if is_enum else _struct(tree.root, cls), tree.problems)


def _written(config: msgspec.Struct, path: str) -> Any:
    cls = type(config)
    inlined, is_own = inlined_in(cls), not cls.__module__.startswith("burnlike.")
    match = re.search(r"(\d)dConfig$", cls.__name__)
    # The number of dimensions that sizes of a layer have; Fold4d has images, of two.
    dims = 0 if match is None else {"4": 2}.get(match[1], int(match[1]))
    renamed = _FIELDS.get(cls.__name__, {})
    missing = {name for base in cls.__mro__ for name in ONLY_HERE.get(base.__name__, ())}
    written: dict[str, Any] = {}
    for key, field in fields_of(cls).items():
        value, here = getattr(config, field.name), f"{path}.{key}"
        if key == inlined and value is not None:
            written |= {TAG_FIELD: tag_of(type(value)), **_written(value, path)}
            continue
        if is_own or inlined:
            if not inlined or value != default_of(field):
                written[key] = _value(value, field.type, here)
            continue
        if key in missing:
            if value != default_of(field):
                raise _refusal(here, f"Burn's {cls.__name__} has no such option, and would pass over it")
            continue
        if key in ("stride", "strides") and value is None:
            value = config.kernel_size  # pyright: ignore[reportAttributeAccessIssue] - of pools, whose default it is
        if key == "num_iters" and value is None:
            raise _refusal(here, "Burn's needs the number of steps")
        if key == "weight_decay" and cls.__name__ in _PENALTIES:
            value = {"penalty": value} if value else None
        elif key == "line_search_fn":
            value = value or "None"
        elif dims and _is_padding(field.type) and value not in _PADDINGS:
            # Both ends in one dimension, all four in two, one for each in three.
            value = {"Explicit": [value] * (3 if dims == 3 else 2 * dims) if isinstance(value, int) else value}
        elif dims > 1 and key in _SIZES and isinstance(value, int | float):
            value = [value] * dims
        written[renamed.get(key, key)] = _value(value, field.type, here)
    return written | {key: value for key, value in _ALWAYS.get(cls.__name__, {}).items() if key not in written}


def _value(value: Any, wanted: mi.Type, path: str) -> Any:
    match value:
        case msgspec.Struct():
            return _chosen(value, wanted, path)
        case dict():
            return {key: _value(it, _part_of(wanted), f"{path}.{key}") for key, it in value.items()}
        case list() | tuple():
            return [_value(it, _part_of(wanted, place), f"{path}.{place}") for place, it in enumerate(value)]
        case float() if not math.isfinite(value):
            raise _refusal(path, f"JSON has no {value}")
        case str() if value in string_options(wanted):
            return _camel(value)
    return value


def _chosen(config: msgspec.Struct, wanted: mi.Type, path: str) -> Any:
    """A config where any of its role may stand: a variant, or with its `type` where Burn has no such enum."""
    tag = tag_of(type(config))
    fields = _written(config, path)
    names = [it.cls.__name__ for it in _kinds(wanted) if isinstance(it, mi.StructType)]
    if tag is None or names == [type(config).__name__]:
        return fields
    if len(names) > 1 or names[0] not in _VARIANTS:
        return {TAG_FIELD: tag, **fields}
    name = _VARIANTS[names[0]].get(tag, tag)
    if tag == "Gelu":
        return "GeluApproximate" if fields["approximate"] else "Gelu"
    if tag in _OF_ONE_VALUE:
        return {name: next(iter(fields.values()))}
    return {name: fields} if fields else name


def _refusal(path: str, message: str) -> ConfigError:
    source, _, path = path.partition(".")
    return ConfigError.of([Problem(f"{message}; save the config as .yaml", path, source)])


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _struct(node: Node, cls: ConfigType) -> Node:
    """A mapping of Burn's as one of YAML, for a config of the class, or of the one that its `type` names."""
    if not node.is_map:
        return node
    tag = node.value.get(TAG_FIELD)
    if tag is not None and isinstance(tag.value.value, str):
        cls = lookup(cls, tag.value.value) or cls
    ours = {theirs: key for key, theirs in _FIELDS.get(cls.__name__, {}).items()}
    always = _ALWAYS.get(cls.__name__, {})
    fields = fields_of(cls)
    if inlined := inlined_in(cls):
        node = _read(node, fields[inlined].type)
    entries = Entries()
    for key, entry in node.value.items():
        name = str(ours.get(key, key))
        if key in always and entry.value.plain() == always[key]:
            continue
        value = entry.value
        if (field := fields.get(name)) is not None:
            value = _field(value, field, cls, name)
        entries[name] = entry._replace(value=value)
    return node.with_value(entries)


def _field(node: Node, field: mi.Field, cls: ConfigType, name: str) -> Node:
    if name == "weight_decay" and cls.__name__ in _PENALTIES:
        if node.value is None:
            return node.with_value(0.0)
        return node.value["penalty"].value if node.is_map and [*node.value] == ["penalty"] else node
    if name == "line_search_fn" and node.value == "None":
        return node.with_value(None)
    if node.is_map and [*node.value] == ["Explicit"] and _is_padding(field.type):
        return node.value["Explicit"].value
    return _read(node, field.type)


def _read(node: Node, wanted: mi.Type) -> Node:
    if node.is_list:
        return node.with_value([_read(it, _part_of(wanted, place)) for place, it in enumerate(node.value)])
    if structs := [it.cls for it in _kinds(wanted) if isinstance(it, mi.StructType)]:
        tag = child(node, TAG_FIELD)
        node = _variant(node, next((it for it in structs[:-1] if tag and lookup(it, str(tag.value))), structs[-1]))
    elif node.is_map:
        parts = {key: entry._replace(value=_read(entry.value, _part_of(wanted))) for key, entry in node.value.items()}
        return node.with_value(Entries(parts))
    if not isinstance(node.value, str):
        return node
    return Node({_camel(it): it for it in string_options(wanted)}.get(node.value, node.value), node.place)


def _variant(node: Node, role: ConfigType) -> Node:
    """A variant of an enum as a mapping with its `type`."""
    names = [*node.value] if node.is_map else [node.value]
    name = names[0] if len(names) == 1 and isinstance(names[0], str) else None
    if name is None or name == TAG_FIELD or role.__name__ not in _VARIANTS:
        return _struct(node, role)
    below = node.value[name].value if node.is_map else node.with_value(Entries())
    if name == "GeluApproximate" and not node.is_map:
        return _tagged("Gelu", node.place, {"approximate": MappingEntry(node.place, Node(True, node.place))})
    tag = {variant: tag for tag, variant in _VARIANTS[role.__name__].items()}.get(name, name)
    cls = lookup(role, tag)
    if cls is None:
        return node if not node.is_map else _struct(node, role)
    if tag in _OF_ONE_VALUE and not below.is_map:
        (field,) = (it for it in fields_of(cls) if fields_of(cls)[it].required)
        return _tagged(tag, node.place, {field: MappingEntry(below.place, below)})
    read = _struct(below, cls)
    return _tagged(tag, node.place, read.value) if read.is_map else node


def _tagged(tag: str, place: Location, fields: Mapping[str, MappingEntry]) -> Node:
    return Node(Entries({TAG_FIELD: MappingEntry(place, Node(tag, place)), **fields}), place)


def _kinds(wanted: mi.Type) -> list[Any]:
    """The types of values that a field takes, without their bounds."""
    bare = wanted.type if isinstance(wanted, mi.Metadata) else wanted
    return [it.type if isinstance(it, mi.Metadata) else it for it in members_of(bare)]


def _part_of(wanted: mi.Type, place: int | None = None) -> mi.Type:
    """The type of the item at a place of a list, or of the values of a mapping."""
    for kind in _kinds(wanted):
        match kind:
            case mi.DictType() if place is None:
                return kind.value_type
            case mi.ListType() | mi.VarTupleType() if place is not None:
                return kind.item_type
            case mi.TupleType() if place is not None and place < len(kind.item_types):
                return kind.item_types[place]
    return mi.AnyType()


def _is_padding(wanted: mi.Type) -> bool:
    return {*string_options(wanted)} == _PADDINGS
