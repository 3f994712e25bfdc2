"""Calls of Burn's layers, from those of burnlike's and of torch's."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import fx

from .expressions import Expr, Statement
from .layers import tag_of
from .tracing import LayerCall, Place

Tensors = list[fx.Node]


class UnknownCall(Exception):
    """A call of a layer that Burn's has not: the layer is written as a struct instead."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def call_of(writer: Any, field: str, call: LayerCall, tensors: Tensors) -> list[Expr]:
    """The tensors that a call of the layer in `field` gives, in the order in which torch's or burnlike's gives them."""
    tag = tag_of(call.leaf.twin) or ""
    is_torch = call.leaf.layer is not call.leaf.twin
    taken = _Arguments(writer, call, tensors)
    rule = (_OF_TORCH if is_torch else {}).get(tag) or _RULES.get(tag)
    if rule is not None:
        found = rule(writer, f"{field}.forward", taken)
    else:
        arguments = [taken.tensor(name).text for name in call.inputs if taken.is_tensor(name)]
        found = [Expr(f"{field}.forward({', '.join(arguments)})")]
    taken.expect_all_taken()
    return found


class _Arguments:
    """The arguments of a call; those that are left at the end are a call that Burn's layer has not."""

    def __init__(self, writer: Any, call: LayerCall, tensors: Tensors) -> None:
        self.writer, self.call, self.tensors = writer, call, tensors
        self.left = dict(call.inputs)

    def is_tensor(self, name: str) -> bool:
        return isinstance(self.call.inputs.get(name), Place)

    def node(self, name: str) -> fx.Node:
        self.left.pop(name, None)
        return self.tensors[self.call.inputs[name]]

    def tensor(self, name: str) -> Expr:
        return self.writer.argument(self.node(name))

    def optional(self, name: str) -> Expr | None:
        """A tensor that may not be given."""
        if not self.is_tensor(name):
            if self.left.get(name) is None:
                self.left.pop(name, None)
            return None
        return self.tensor(name)

    def plain(self, name: str, default: Any) -> Any:
        value = self.call.inputs.get(name, default)
        self.left.pop(name, None)
        return value

    def refuse(self) -> None:
        raise UnknownCall(self.call.leaf.path)

    def expect_all_taken(self) -> None:
        if self.left:
            self.refuse()


_STATES = {"Lstm": ("cell", "hidden"), "Rnn": ("hidden",), "Gru": ("",)}


def _state(writer: Any, name: str, values: list[Expr]) -> str:
    """The state that a recurrent layer begins with."""
    if not values:
        return "None"
    if name == "Gru":
        return f"Some({values[0].text})"
    writer.function.needs.add(f"burn::nn::{name}State")
    return f"Some({name}State::new({', '.join(it.text for it in values)}))"


def _users(writer: Any) -> set[int]:
    """Which of the tensors that the call gives are used."""
    return {it.args[1] for it in writer.node.users if it in writer.all.live}


def _outputs(writer: Any, call: str, name: str, is_pair: bool) -> list[Expr]:
    """What a recurrent layer gives: the outputs, and the tensors of the state."""
    if not is_pair:
        return [Expr(call)]
    users = _users(writer)
    if users <= {0}:
        return [Expr(f"{call}.0"), *[Expr("")] * len(_STATES[name])]
    output, state = writer.value("output"), writer.value("state", is_parts=name != "Gru")
    head = f"let ({output.expr.text}, {state.expr.text}) = "
    writer.function.statements.append(Statement([output, state], call, head=head))
    if name == "Gru":
        return [output.expr, state.expr]
    parts = []
    for place, part in enumerate(_STATES[name], 1):
        at = place if name != "Lstm" else {"cell": 1, "hidden": 2}[part]
        is_used = (3 - at if writer.torch_state and name == "Lstm" else at) in users
        parts.append(writer.let(state.expr.dot(part), part) if is_used else Expr(""))
    return [output.expr, *parts]


def _ours(name: str, *, both: bool) -> Callable[..., list[Expr]]:
    is_pair = name != "Gru" or both

    def rule(writer: Any, call: str, taken: _Arguments) -> list[Expr]:
        writer.torch_state = False
        x, given = taken.tensor("x"), taken.call.inputs.get("state")
        places = [] if given is None else [given] if isinstance(given, Place) else [*given]
        taken.left.pop("state", None)
        if any(not isinstance(it, Place) for it in places):
            taken.refuse()
        state = _state(writer, name, [writer.argument(taken.tensors[it]) for it in places])
        return _outputs(writer, f"{call}({x.text}, {state})", name, is_pair)

    return rule


def _theirs(name: str, *, both: bool) -> Callable[..., list[Expr]]:
    """`nn.LSTM`, `nn.GRU` and `nn.RNN` of one layer: states have a dimension more, and the cell comes last."""

    def rule(writer: Any, call: str, taken: _Arguments) -> list[Expr]:
        writer.torch_state = True
        layer: Any = taken.call.leaf.layer
        node = taken.node("input")
        if node.meta["val"].dim() != 3:
            taken.refuse()
        given = taken.plain("hx", None)
        places = [] if given is None else [given] if isinstance(given, Place) else [*given]
        values = [writer.argument(taken.tensors[it]) for it in places]
        if not both:
            added = ".unsqueeze_dim::<3>(0)"
            values = [
                Expr(it.text.removesuffix(added)) if it.text.endswith(added) else it.dot("squeeze_dim::<2>(0)")
                for it in values
            ]
        text = f"{call}({writer.argument(node).text}, {_state(writer, name, values[::-1])})"
        users = _users(writer)
        if name == "Gru" and not both:
            output = writer.let(Expr(text), "output")
            at = int(layer.batch_first)
            return [
                output,
                Expr(
                    f"{output.text}.slice_dim({at}, -1..).swap_dims(0, {at})"
                    if at
                    else f"{output.text}.slice_dim(0, -1..)"
                ),
            ]
        found = _outputs(writer, text, name, True)
        output, states = found[0], found[:0:-1]
        if users <= {0}:
            return [output, *states]
        return [output, *(it if both else it.dot("unsqueeze_dim::<3>(0)") for it in states)]

    return rule


def _attention(writer: Any, call: str, taken: _Arguments) -> list[Expr]:
    query, key, value = taken.tensor("query"), taken.optional("key"), taken.optional("value")
    if key is None and value is None:
        made = f"MhaInput::self_attn({query.text})"
    else:
        key = query if key is None else key
        made = f"MhaInput::new({query.text}, {key.text}, {(key if value is None else value).text})"
    for name in ("mask_pad", "mask_attn"):
        if (mask := taken.optional(name)) is not None:
            made += f".{name}({mask.text})"
    has_weights = taken.plain("need_weights", True)
    writer.function.needs.add("burn::nn::attention::MhaInput")
    if not has_weights:
        return [Expr(f"{call}({made}).context")]
    return _of_attention(writer, Expr(f"{call}({made})"), ("weights", "context"))


def _of_attention(writer: Any, call: Expr, order: tuple[str, ...]) -> list[Expr]:
    users = _users(writer)
    if len(users) < 2:
        return [call.dot(name) for name in order]
    output = writer.value("output", is_parts=True)
    writer.function.statements.append(Statement([output], call.text))
    return [writer.let(output.expr.dot(name), name) for name in order]


def _torch_attention(writer: Any, call: str, taken: _Arguments) -> list[Expr]:
    nodes = [taken.node(name) for name in ("query", "key", "value")]
    if any(it.meta["val"].dim() != 3 for it in nodes):
        taken.refuse()
    query, key, value = (writer.argument(it) for it in nodes)
    same = nodes[0] is nodes[1] is nodes[2]
    made = f"MhaInput::self_attn({query.text})" if same else f"MhaInput::new({query.text}, {key.text}, {value.text})"
    made += _torch_masks(writer, taken, {"key_padding_mask": "mask_pad", "attn_mask": "mask_attn"}, nodes[0])
    taken.plain("is_causal", False)
    has_weights = taken.plain("need_weights", True)
    is_average = taken.plain("average_attn_weights", True)
    writer.function.needs.add("burn::nn::attention::MhaInput")
    if not has_weights:
        return [Expr(f"{call}({made}).context")]
    context, weights = _of_attention(writer, Expr(f"{call}({made})"), ("context", "weights"))
    return [context, weights.dot("mean_dim(1).squeeze_dim::<3>(1)") if is_average else weights]


def _torch_masks(writer: Any, taken: _Arguments, names: Mapping[str, str], x: fx.Node) -> str:
    """Masks of torch, True where they hide, by the names of the methods that Burn's input takes them by."""
    text = ""
    for theirs, ours in names.items():
        if not taken.is_tensor(theirs):
            taken.optional(theirs)
            continue
        node = taken.node(theirs)
        mask, value = writer.argument(node), node.meta["val"]
        if value.dtype.is_floating_point or value.dim() != 2:
            taken.refuse()
        if ours.endswith("mask_attn"):
            rows, columns = value.shape
            batch = writer.size(x.meta["val"].shape[0])
            mask = mask.dot(f"unsqueeze::<3>().expand([{batch}, {writer.size(rows)}, {writer.size(columns)}])")
        text += f".{ours}({mask.text})"
    return text


def _stack(writer: Any, call: str, taken: _Arguments) -> list[Expr]:
    names = [name for name in taken.call.inputs if taken.is_tensor(name)]
    first = [name for name in names if "mask" not in name]
    kind = "Encoder" if len(first) == 1 else "Decoder"
    made = f"Transformer{kind}Input::new({', '.join(taken.tensor(it).text for it in first)})"
    made += "".join(f".{it}({taken.tensor(it).text})" for it in names if it not in first)
    for name in [*taken.left]:
        taken.optional(name)
    writer.function.needs.add(f"burn::nn::transformer::Transformer{kind}Input")
    return [Expr(f"{call}({made})")]


def _torch_stack(*names: tuple[str, str]) -> Callable[..., list[Expr]]:
    def rule(writer: Any, call: str, taken: _Arguments) -> list[Expr]:
        first = [it for it in ("src", "tgt", "memory") if it in taken.call.inputs]
        nodes = [taken.node(it) for it in first]
        kind = "Encoder" if len(first) == 1 else "Decoder"
        made = f"Transformer{kind}Input::new({', '.join(writer.argument(it).text for it in nodes)})"
        made += _torch_masks(writer, taken, dict(names), nodes[0])
        for name in ("is_causal", "tgt_is_causal", "memory_is_causal"):
            taken.plain(name, None)
        writer.function.needs.add(f"burn::nn::transformer::Transformer{kind}Input")
        return [Expr(f"{call}({made})")]

    return rule


def _cross(writer: Any, call: str, taken: _Arguments) -> list[Expr]:
    query, context, mask = taken.tensor("query"), taken.tensor("context"), taken.optional("mask")
    given = "None" if mask is None else f"Some({mask.text})"
    return [Expr(f"{call}({query.text}, {context.text}, {given})")]


def _rotary(writer: Any, call: str, taken: _Arguments) -> list[Expr]:
    x, start = taken.tensor("x"), taken.plain("start", 0)
    taken.optional("positions")
    return [Expr(f"{call}({x.text})" if start == 0 else f"{call.replace('.forward', '.apply')}({x.text}, {start})")]


def _embedding(writer: Any, call: str, taken: _Arguments) -> list[Expr]:
    name = "input" if "input" in taken.call.inputs else "indices"
    node = taken.node(name)
    rank, indices = node.meta["val"].dim(), writer.argument(node)
    if rank == 1:
        return [Expr(f"{call}({indices.dot('unsqueeze()').text}).squeeze_dim::<2>(0)")]
    if rank != 2:
        taken.refuse()
    return [Expr(f"{call}({indices.text})")]


def _plain(writer: Any, call: str, taken: _Arguments) -> list[Expr]:
    """A layer of one tensor, where `nn.ConvTranspose2d` may be given a size as well."""
    node = taken.node(next(iter(taken.call.inputs)))
    layer = taken.call.leaf.layer
    dims = next((it for it in (1, 2, 3) if type(layer).__name__.endswith(f"{it}d")), None)
    if node.meta["val"].dim() != (dims or 0) + 2:
        taken.refuse()
    taken.optional("output_size")
    return [Expr(f"{call}({writer.argument(node).text})")]


_RULES: dict[str, Callable[..., list[Expr]]] = {
    **{name: _ours(name, both=False) for name in ("Lstm", "Gru", "Rnn")},
    **{f"Bi{name}": _ours(name, both=True) for name in ("Lstm", "Gru", "Rnn")},
    "MultiHeadAttention": _attention,
    "CrossAttention": _cross,
    "TransformerEncoder": _stack,
    "TransformerDecoder": _stack,
    "RotaryEncoding": _rotary,
    "Embedding": _embedding,
}
_OF_TORCH: dict[str, Callable[..., list[Expr]]] = {
    **{name: _theirs(name, both=False) for name in ("Lstm", "Gru", "Rnn")},
    **{f"Bi{name}": _theirs(name, both=True) for name in ("Lstm", "Gru", "Rnn")},
    "MultiHeadAttention": _torch_attention,
    "TransformerEncoder": _torch_stack(
        ("src_key_padding_mask", "mask_pad"), ("src_mask", "mask_attn"), ("mask", "mask_attn")
    ),
    "TransformerDecoder": _torch_stack(
        ("tgt_key_padding_mask", "target_mask_pad"),
        ("tgt_mask", "target_mask_attn"),
        ("memory_key_padding_mask", "memory_mask_pad"),
        ("memory_mask", "memory_mask_attn"),
    ),
    **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"), _plain),
}
