"""The words of messages: types and values ("an int >= 1", "'abc' (a string)"), and hints at the key or type meant."""

import math
import numbers
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import msgspec.inspect as mi

from burnlike.errors import nearest, nearest_name

from . import registry
from .bounds import LARGEST_FLOAT
from .hiding import FromEnvironment
from .node import Node, child
from .plain import INVALID, number_hint, plain_value, resolve, string_options
from .registry import TAG_FIELD, ConfigType, bare_members_of, fields_of, is_role, lookup, members_of, type_in

LONGEST = 60
"""Characters of a value that are shown, and of a key or type that are compared with the allowed ones."""
_UNSAID = (sys.float_info.max, LARGEST_FLOAT)
"""Bounds of what only has to be finite."""
MOST_CHOICES = 16
"""Of a longer list, so many are shown."""
_KINDS = {int: "an int", float: "a float", str: "a string", bool: "a bool"}
_COMMA = re.compile(r"(-?[0-9]+),([0-9]*)", re.ASCII)
"""A decimal comma, or a comma at the end."""
_MEANT_AS_REFERENCE = re.compile(r"\$[A-Za-z_][\w.\[\]]*")
_LIKENESS = 0.75
"""Of a misspelling: `Sequentiall` means Sequential, and `QuickGelu` not Gelu."""
_MOST_FITTING = 4
"""More types that have a mapping's keys are not named."""
_DEEPEST = 8
"""Levels of configs in which the right place of a key is looked for."""


def describe(wanted: mi.Type) -> str:
    """The values that a type allows, with an article."""
    match wanted:
        case mi.Metadata() if _reason(wanted):
            finite = sys.float_info.max if isinstance(wanted.type, mi.FloatType) else None
            return describe(msgspec.structs.replace(wanted.type, le=finite))
        case mi.Metadata():
            return describe(wanted.type)
        case mi.UnionType():
            return " or ".join(map(describe, sorted(wanted.types, key=lambda it: isinstance(it, mi.NoneType))))
        case mi.IntType():
            return "an int" + _range(wanted)
        case mi.FloatType():
            return ("a finite number" if wanted.le == sys.float_info.max else "a number") + _range(wanted)
        case mi.StrType():
            pattern = f" matching /{wanted.pattern}/" if wanted.pattern else ""
            return "a string" + _size(wanted, "character") + pattern
        case mi.BoolType():
            return "true or false"
        case mi.NoneType():
            return "null"
        case mi.LiteralType():
            return choices([*map(show, wanted.values)])
        case mi.EnumType():
            return choices([show(member.value) for member in wanted.cls])
        case mi.ListType() | mi.VarTupleType():
            return f"a list{_size(wanted, 'item')} (each {describe(wanted.item_type)})"
        case mi.TupleType():
            return f"a list of {len(wanted.item_types)} items ({', '.join(map(describe, wanted.item_types))})"
        case mi.DictType():
            return f"a mapping{_size(wanted, 'key')} (each value {describe(wanted.value_type)})"
        case mi.StructType():
            return with_article(wanted.cls.__name__)
        case _:
            return "plain data (numbers, strings, true, false, null, lists, mappings with strings as keys)"


def got(node: Node, wanted: mi.Type | None = None) -> str:
    """The value as it was written, and its type if another one is wanted."""
    value = node.value
    if node.is_map:
        return "a mapping" if value else "an empty mapping"
    if node.is_list:
        return f"a list of {len(value)} item{'s' * (len(value) != 1)}"
    if value is None:
        return "nothing" if node.text == "" else "null"
    if node.is_secret:
        return _KINDS.get(str if isinstance(value, str) else type(value), "a value")
    shown = show_text(node.text) if node.text and not isinstance(value, str) else show(value)
    if isinstance(value, bool) or (
        wanted is not None and any(_is_of_kind(value, it) for it in bare_members_of(wanted))
    ):
        return shown
    kind = str if isinstance(value, FromEnvironment) else type(value)
    return f"{shown} ({_KINDS.get(kind) or with_article(kind.__name__)})"


def excess(node: Node, wanted: mi.Type) -> str:
    """The message about a number beyond a bound that has a reason (`bounds.at_most`); empty for all else."""
    value: Any = node.value
    for member in members_of(wanted):
        reason, number = _reason(member), member.type if isinstance(member, mi.Metadata) else member
        if not (reason and isinstance(number, mi.IntType | mi.FloatType)):
            continue
        kind: Any = numbers.Integral if isinstance(number, mi.IntType) else numbers.Real
        if not isinstance(value, kind) or isinstance(value, bool):
            continue
        if number.le is not None and number.le < value < math.inf:
            return f"expected at most {number.le} ({reason}), got {got(node, wanted)}"
        if number.ge == -(number.le or 0) and -math.inf < value < number.ge:
            return f"expected at least {number.ge} ({reason}), got {got(node, wanted)}"
    return ""


def _reason(wanted: mi.Type) -> str:
    return (wanted.extra or {}).get("reason", "") if isinstance(wanted, mi.Metadata) else ""


def hint(wanted: mi.Type, node: Node) -> str:
    """The value to write instead, for common slips; begins with `; `, or is empty."""
    kinds = bare_members_of(wanted)
    value, text = node.value, node.text
    if isinstance(value, str) and (options := string_options(wanted)):
        dtype = ELEMENT_TYPES.get(value.lower())
        if near := f"; did you mean '{dtype}'?" if dtype in options else nearest(value[:LONGEST], options):
            return near
    advice = ""
    if isinstance(value, str) and _MEANT_AS_REFERENCE.fullmatch(value):
        advice = f"a reference is ${{{value.strip('$')}}}"
    elif any(isinstance(kind, mi.NoneType) for kind in kinds) and value in ("None", "none", "nil"):
        advice = "write null"
    elif any(isinstance(kind, mi.IntType | mi.FloatType) for kind in kinds) and isinstance(value, int | float | str):
        advice = _number_advice(value, text, kinds)
    elif any(isinstance(kind, mi.BoolType) for kind in kinds) and isinstance(value, str):
        spelled = {"true": ("yes", "on", "y", "true"), "false": ("no", "off", "n", "false")}
        advice = next((f"write {ours}" for ours, theirs in spelled.items() if value.lower() in theirs), "")
    elif any(isinstance(kind, mi.StrType) for kind in kinds) and text and not isinstance(value, str):
        advice = f'put it in quotes: "{show_text(text)}"'
    elif any(isinstance(kind, mi.ListType | mi.VarTupleType) for kind in kinds) and text:
        advice = f"write [{show_text(text)}]"
    return f"; {advice}" if advice else ""


def choices(options: list[str], whole_list: str = "") -> str:
    """`'a'`, `'a' or 'b'`, `one of 'a', 'b', 'c'`; a long list is cut, with a word on where the whole one is."""
    if len(options) > MOST_CHOICES:
        more = f"... ({len(options)} in all{f'; {whole_list}' if whole_list else ''})"
        options = [*options[:MOST_CHOICES], more]
    return f"one of {', '.join(options)}" if len(options) > 2 else " or ".join(options)


def listed(keys: Iterable[str]) -> str:
    """Keys between commas; of many, the first ones and how many there are."""
    keys = [*keys]
    shown = [show_text(key) for key in keys[:MOST_CHOICES]]
    return ", ".join([*shown, f"... ({len(keys)} in all)"] if len(keys) > MOST_CHOICES else shown)


def with_article(noun: str) -> str:
    """`a noun` or `an owl`."""
    return f"an {noun}" if noun[0] in "aeiouAEIO" else f"a {noun}"


def show(value: Any) -> str:
    """A plain value on one line, strings in quotes, null and bools as YAML spells them."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"'{show_text(value)}'"
    return show_text(repr(value))


def show_text(text: str) -> str:
    """`text` on one line, printable and not too long to read; the reference of what the environment gave."""
    text = text.reference if isinstance(text, FromEnvironment) else text
    if len(text) > LONGEST:
        text = text[: LONGEST - 3] + "..."
    return text if text.isprintable() else repr(text)[1:-1]


def _is_of_kind(value: Any, wanted: mi.Type) -> bool:
    if isinstance(wanted, mi.LiteralType | mi.EnumType):
        options = wanted.values if isinstance(wanted, mi.LiteralType) else [member.value for member in wanted.cls]
        return type(value) in map(type, options)
    kinds: dict[type, Any] = {mi.IntType: int, mi.FloatType: int | float, mi.StrType: str}
    return isinstance(value, kinds.get(type(wanted), ()))


def _number_advice(value: int | float | str, text: str | None, kinds: Sequence[mi.Type]) -> str:
    """The way to write a number of another form, if the type takes that number."""
    if isinstance(value, str) and text is None:
        quoted_number = len(value) < LONGEST and isinstance(resolve(value), int | float)
        return "remove the quotes" if quoted_number else ""
    if isinstance(value, str):
        if match := _COMMA.fullmatch(value):
            value = ".".join(part for part in match.groups() if part)
            return f"write {value}" if _is_taken(resolve(value), kinds) else ""
        advice = number_hint(value)
        infinite = math.inf if "." in advice else 0  # the other hints are about leading zeros
        return advice if not infinite or _is_taken(infinite, kinds) else ""
    takes_floats = any(isinstance(kind, mi.FloatType) for kind in kinds)
    whole = isinstance(value, float) and not takes_floats and value.is_integer() and abs(value) < 2**63
    return f"write {int(value)}" if whole else ""


def _is_taken(value: Any, kinds: Sequence[mi.Type]) -> bool:
    numbers_only = [kind for kind in kinds if isinstance(kind, mi.IntType | mi.FloatType)]
    return any(plain_value(Node(value), kind) is not INVALID for kind in numbers_only)


def _range(wanted: mi.IntType | mi.FloatType) -> str:
    bounds = {">=": wanted.ge, ">": wanted.gt, "<=": wanted.le, "<": wanted.lt}
    shown = {sign: bound for sign, bound in bounds.items() if bound is not None and abs(bound) not in _UNSAID}
    text = " and ".join(f"{sign} {bound}" for sign, bound in shown.items())
    text = f"from {wanted.ge} to {wanted.le}" if shown.keys() == {">=", "<="} else text
    multiple = "" if wanted.multiple_of is None else f" that is a multiple of {wanted.multiple_of}"
    return (f" {text}" if text else "") + multiple


def _size(wanted: Any, unit: str) -> str:
    low, high = wanted.min_length, wanted.max_length
    if low is None and high is None:
        return ""
    size = f"at least {low}" if high is None else f"at most {high}" if not low else f"{low} to {high}"
    size = f"{low}" if low == high else size
    return f" of {size} {unit}{'s' * ((low if high is None else high) != 1)}"


def expected(wanted: mi.Type) -> str:
    """The values that a type allows, with the types or keys of a mapping."""
    return mapping_of(wanted.cls) if isinstance(wanted, mi.StructType) else describe(wanted)


def mapping_of(cls: ConfigType) -> str:
    """A mapping that is read as `cls`, with its types or keys."""
    if is_role(cls):
        return f"a mapping with `type:` ({types_below(cls)})"
    return f"a mapping with keys of {cls.__name__} ({', '.join(fields_of(cls)) or 'none'})"


def types_below(role: ConfigType) -> str:
    """The values of `type:` where `role` is expected."""
    registry.load_built_in()
    return (
        choices([show(tag) for tag in registry.imported(role)], "`burnlike schema --list` has all")
        or f"a type of {role.__name__}, but none is known"
    )


def missing_type(node: Node, role: ConfigType) -> str:
    """The message about a mapping without `type:` where `role` is expected, with the types that have its keys."""
    keys, types = set(node.value), registry.imported(role)
    is_long = len(types) > MOST_CHOICES  # so that the list is cut
    fitting = [tag for tag, cls in types.items() if is_long and keys and keys <= fields_of(cls).keys()]
    hint = f"; {choices([show(tag) for tag in fitting])} has these keys" if 0 < len(fitting) <= _MOST_FITTING else ""
    return f"missing key '{TAG_FIELD}'; expected {types_below(role)}{hint}"


def unknown_type(tag: Node, role: ConfigType) -> str:
    """The message about a `type:` that names no class of `role`."""
    if not isinstance(tag.value, str):
        return f"expected {types_below(role)}, got {got(tag)}"
    if cls := registry.untagged(role, tag.value):
        name = cls.__name__
        return f'{name} has no tag; write `class {name}({cls.__bases__[0].__name__}, tag="{tag.value}")`'
    near = (
        f"; did you mean '{meant}'?" if (meant := _meant_type(tag.value[:LONGEST], [*registry.imported(role)])) else ""
    )
    shown = f"'{show_text(tag.value)}'"
    if other := registry.other_role(tag.value, role):
        return f"{shown} is a type of {other}; {with_article(role.__name__)} is due: {types_below(role)}{near}"
    if near:
        return f"unknown type {shown}{near} A class of your own comes in by --import MODULE"
    due = f"{with_article(role.__name__)} is due: {types_below(role)}"
    return f"unknown type {shown}; {due}; a class of your own comes in by --import MODULE"


def _meant_type(name: str, tags: list[str]) -> str | None:
    """The type that a name stands for, or of which it is a misspelling; not one that computes something else."""
    plain = name.lower().replace("_", "")
    if plain in OTHER_FUNCTIONS:
        return None
    meant = OUR_TYPES.get(plain) or plain.removeprefix("lazy")
    return meant if meant in tags else nearest_name(meant, tags, likeness=_LIKENESS)


def path_elsewhere(root: ConfigType, node: Node, key: str, path: str, *, exactly: bool) -> str | None:
    """The right place of a key in the mapping at `path`, `training.epochs` for `epochs`: a field of about this name.

    The tree that it is read from says what stands where a role is due.
    """
    paths: dict[str, str] = {}
    _collect(root, node, "", paths, 0)
    paths = {name: place for name, place in paths.items() if place.rpartition(".")[0] != path}
    if exactly:
        return paths.get(key)
    near = nearest_name(key, [*paths]) or next((name for name in paths if name.endswith(f"_{key}")), None)
    return paths[near] if near else None


def _collect(cls: ConfigType, node: Node | None, path: str, paths: dict[str, str], depth: int) -> None:
    """Add the paths of the fields of `cls`, and of the classes below it that the node chooses, by the fields' keys."""
    for key, field in fields_of(cls).items():
        here = f"{path}.{key}" if path else key
        paths.setdefault(key, here)
        below = child(node, key) if node else None
        tag = type_in(below) if below else None
        for member in members_of(field.type) if depth < _DEEPEST else ():
            if not isinstance(member, mi.StructType):
                continue
            chosen = None if is_role(member.cls) or below is None else member.cls
            if tag is not None:
                chosen = lookup(member.cls, tag)
            if chosen is not None:
                _collect(chosen, below, here, paths, depth + 1)


# Whoever writes these names, which torch and others have for fields and types of configs, is told ours.
_OTHER_FIELDS = {
    "beta_1": "betas",
    "d_hidden": "hidden_size",
    "d_model": "hidden_size dim embed_dim embedding_dim n_embd normalized_shape",
    "d_ff": "dim_feedforward intermediate_size",
    "epsilon": "eps",
    "channels": "in_channels out_channels",
    "d_input": "in_features input_size",
    "d_output": "out_features",
    "lr": "learning_rate",
    "initial_lr": "learning_rate lr",
    "epochs": "max_epochs num_epochs",
    "n_epochs": "patience",
    "direction": "mode",
    "metric": "monitor",
    "n_heads": "n_head nhead num_attention_heads num_heads",
    "n_embedding": "num_embeddings",
    "n_layers": "num_hidden_layers num_layers",
    "prob": "p",
}
OUR_NAMES: dict[str, tuple[str, ...]] = {}
"""The names of fields that each may mean, the likeliest first."""
for _ours, _theirs in _OTHER_FIELDS.items():
    OUR_NAMES |= {name: (*OUR_NAMES.get(name, ()), _ours) for name in _theirs.split()}

ELEMENT_TYPES = {
    **dict.fromkeys(("double", "fp64"), "float64"),
    **dict.fromkeys(("float", "fp32", "single"), "float32"),
    **dict.fromkeys(("half", "fp16"), "float16"),
}
"""Names of element types that are none of burnlike's."""

_OTHER_NAMES = {
    "AdaptiveAvgPool2d": "globalaveragepooling2d",
    "BatchNorm": "batchnorm1d batchnorm2d batchnorm3d syncbatchnorm",
    "BinaryCrossEntropyLoss": "bceloss bcewithlogitsloss",
    "Concat": "cat concatenate",
    "CosineAnnealing": "cosineannealinglr",
    "Divide": "div",
    "EncoderDecoder": "transformer",
    "Fold4d": "fold",
    "Gru": "grucell",
    "HardSigmoid": "hsigmoid",
    "HardSwish": "hardsilu hswish",
    "InstanceNorm": "instancenorm1d instancenorm2d instancenorm3d",
    "Interpolate2d": "upsample upsamplingbilinear2d upsamplingnearest2d",
    "Linear": "dense fullyconnected",
    "LpLoss": "l1loss",
    "Lstm": "lstmcell",
    "MatMul": "bmm",
    "Multiply": "mul",
    "Negate": "neg",
    "Pad": (
        "constantpad1d constantpad2d constantpad3d reflectionpad1d reflectionpad2d reflectionpad3d "
        "replicationpad1d replicationpad2d replicationpad3d zeropad1d zeropad2d zeropad3d"
    ),
    "Permute": "transpose",
    "Reshape": "unflatten unsqueeze squeeze view",
    "Rnn": "rnnbase rnncell",
    "SiLU": "swish",
    "Subtract": "sub",
    "TransformerDecoder": "transformerdecoderlayer",
    "TransformerEncoder": "transformerencoderlayer",
    "Unfold4d": "unfold",
}
OUR_TYPES = {name: ours for ours, names in _OTHER_NAMES.items() for name in names.split()}
"""Types by other names, in small letters, that torch, Keras and papers have for them."""

_WITHOUT_TYPE = (
    "adaptivelogsoftmaxwithloss adaptivemaxpool1d adaptivemaxpool2d adaptivemaxpool3d alphadropout avgpool3d "
    "bilinear channelshuffle circularpad1d circularpad2d circularpad3d container crossmaplrn2d dataparallel "
    "dropout1d dropout2d dropout3d embeddingbag featurealphadropout fractionalmaxpool2d fractionalmaxpool3d "
    "linearcrossentropyloss logsoftmax lppool1d lppool2d lppool3d maxunpool1d maxunpool2d maxunpool3d module "
    "moduledict modulelist multilabelmarginloss multilabelsoftmarginloss nllloss nllloss2d parameterdict "
    "parameterlist rnncellbase softmax2d softmin tripletmarginwithdistanceloss"
)
OTHER_FUNCTIONS = frozenset(_WITHOUT_TYPE.split())
"""Layers of torch, in small letters, that no type computes: one of a similar name is not meant."""
