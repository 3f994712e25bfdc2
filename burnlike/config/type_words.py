"""What messages say of types and keys: the types of a role, the keys of a class, and where a misplaced key belongs."""

import msgspec.inspect as mi

from burnlike.errors import nearest, nearest_name

from .node import Node, child
from .registry import (
    TAG_FIELD,
    ConfigType,
    fields_of,
    imported,
    is_role,
    load_built_in,
    lookup,
    members_of,
    other_role,
    untagged,
)
from .words import MOST_CHOICES, choices, describe, got, show, show_text, with_article

LONGEST = 60
"""Characters of a key or type that are compared with the known ones."""
_LIKENESS = 0.75
"""Of a misspelling: `Sequentiall` means Sequential, and `QuickGelu` not Gelu."""
_MOST_FITTING = 4
"""More types that have a mapping's keys are not named."""
_DEEPEST = 8
"""Levels of configs in which the right place of a key is looked for."""


def near_option(text: str, options: list[str]) -> str:
    """The hint at the option that is meant by a text."""
    known = ELEMENT_TYPES.get(text.lower())
    return f"; did you mean '{known}'?" if known in options else nearest(text, options)


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
    load_built_in()
    return (
        choices([show(tag) for tag in imported(role)], "`burnlike schema --list` has all")
        or f"a type of {role.__name__}, but none is known"
    )


def missing_type(node: Node, role: ConfigType) -> str:
    """The message about a mapping without `type:` where `role` is expected, with the types that have its keys."""
    keys, known = set(node.value), imported(role)
    is_long = len(known) > MOST_CHOICES  # so that the list is cut
    fitting = [tag for tag, cls in known.items() if is_long and keys and keys <= fields_of(cls).keys()]
    hint = f"; {choices([show(tag) for tag in fitting])} has these keys" if 0 < len(fitting) <= _MOST_FITTING else ""
    return f"missing key '{TAG_FIELD}'; expected {types_below(role)}{hint}"


def unknown_type(given: Node, role: ConfigType) -> str:
    """The message about a `type:` that names no class of `role`."""
    if not isinstance(given.value, str):
        return f"expected {types_below(role)}, got {got(given)}"
    if forgotten := untagged(role, given.value):
        name = forgotten.__name__
        return f'{name} has no tag; write `class {name}({forgotten.__bases__[0].__name__}, tag="{given.value}")`'
    near = f"; did you mean '{meant}'?" if (meant := _meant(given.value[:LONGEST], [*imported(role)])) else ""
    shown = f"'{show_text(given.value)}'"
    if other := other_role(given.value, role):
        return f"{shown} is a type of {other}; {with_article(role.__name__)} is due: {types_below(role)}{near}"
    if near:
        return f"unknown type {shown}{near} A class of your own comes in by --import MODULE"
    due = f"{with_article(role.__name__)} is due: {types_below(role)}"
    return f"unknown type {shown}; {due}; a class of your own comes in by --import MODULE"


def _meant(name: str, known: list[str]) -> str | None:
    """The type that a name stands for, or of which it is a misspelling; not one that computes something else."""
    plain = name.lower().replace("_", "")
    if plain in OTHER_FUNCTIONS:
        return None
    meant = OUR_TYPES.get(plain) or plain.removeprefix("lazy")
    return meant if meant in known else nearest_name(meant, known, likeness=_LIKENESS)


def path_elsewhere(root: ConfigType, node: Node, key: str, path: str, *, exactly: bool) -> str | None:
    """The right place of a key in the mapping at `path`, `training.epochs` for `epochs`: a field of about this name.

    The tree that it is read from says what stands where a role is due.
    """
    paths: dict[str, str] = {}
    _collect(root, node, "", paths, 0)
    paths = {name: it for name, it in paths.items() if it.rpartition(".")[0] != path}
    if exactly:
        return paths.get(key)
    found = nearest_name(key, [*paths]) or next((name for name in paths if name.endswith(f"_{key}")), None)
    return paths[found] if found else None


def _collect(cls: ConfigType, node: Node | None, path: str, paths: dict[str, str], depth: int) -> None:
    for key, field in fields_of(cls).items():
        here = f"{path}.{key}" if path else key
        paths.setdefault(key, here)
        below = child(node, key) if node else None
        for member in members_of(field.type):
            if isinstance(member, mi.StructType) and depth < _DEEPEST:
                chosen = _chosen(member.cls, below)
                if chosen is not None:
                    _collect(chosen, below, here, paths, depth + 1)


def _chosen(cls: ConfigType, node: Node | None) -> ConfigType | None:
    """The class that stands where `cls` is due; None where that is not known."""
    tag = child(node, TAG_FIELD) if node else None
    if tag and isinstance(tag.value, str):
        return lookup(cls, tag.value)
    return None if is_role(cls) or node is None else cls


# What torch and others call the fields and types of configs: whoever writes these names is told ours.
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
