"""Calls of Burn's layers, from those of burnlike's and of torch's."""

from collections.abc import Callable
from typing import Any

from torch import fx

from .expressions import Expr, Statement
from .layers import tag_of
from .tracing import LayerCall, Place
from .values import rank_of, value_of

_MASKS = {
    "key_padding_mask": "mask_pad",
    "attn_mask": "mask_attn",
    "src_key_padding_mask": "mask_pad",
    "src_mask": "mask_attn",
    "mask": "mask_attn",
    "tgt_key_padding_mask": "target_mask_pad",
    "tgt_mask": "target_mask_attn",
    "memory_key_padding_mask": "memory_mask_pad",
    "memory_mask": "memory_mask_attn",
}
"""Masks of torch's layers, True where they hide, and the methods that Burn's inputs take them by."""
_HINTS = ("is_causal", "tgt_is_causal", "memory_is_causal")
"""Arguments of torch's layers that repeat what a mask says."""
_STATES = {"Lstm": ("cell", "hidden"), "Rnn": ("hidden",), "Gru": ("",)}
"""The parts of a recurrent layer's state in Burn; torch's come in the reverse order."""


class NotBurns(Exception):
    """Layers called as Burn's can't be, or whose tensors other modules read: they are written as structs instead."""

    def __init__(self, paths: set[str]) -> None:
        super().__init__(", ".join(sorted(paths)))
        self.paths = paths


def call_of(w: Any, field: str, call: LayerCall, tensors: list[fx.Node]) -> list[Expr]:
    """The tensors that a call of the layer in `field` gives, in the order in which torch's or burnlike's gives them."""
    taken = _Call(w, call, tensors)
    text = _RULES.get(taken.tag, _plain)(w, f"{field}.forward", taken)
    if any(value is not None and name not in _HINTS for name, value in taken.left.items()):
        taken.refuse()
    return text


class _Call:
    """A call: its arguments are taken one by one; those that are left at the end are what Burn's layer has not."""

    def __init__(self, w: Any, call: LayerCall, tensors: list[fx.Node]) -> None:
        self.w, self.call, self.tensors = w, call, tensors
        self.tag = tag_of(call.leaf.twin) or ""
        self.layer: Any = call.leaf.layer
        self.is_torch = call.leaf.layer is not call.leaf.twin
        self.left = dict(call.inputs)

    def refuse(self) -> None:
        raise NotBurns({self.call.leaf.path})

    def take(self, name: str, default: Any = None) -> Any:
        """An argument; for a tensor its node, for a struct of tensors a list of nodes."""
        value = self.left.pop(name, default)
        if isinstance(value, list | tuple):
            if not all(isinstance(it, Place) for it in value):
                self.refuse()
            return [self.tensors[it] for it in value]
        return self.tensors[value] if isinstance(value, Place) else value

    def tensor(self, name: str) -> Expr:
        return self.w.argument(self.take(name))

    def optional(self, name: str) -> Expr | None:
        return self.tensor(name) if isinstance(self.left.get(name), Place) else None

    def names(self) -> list[str]:
        """The names of the tensors that are left."""
        return [name for name, value in self.left.items() if isinstance(value, Place)]

    def users(self) -> set[int]:
        """The numbers of the call's tensors that are used."""
        return {user.args[1] for user in self.w.node.users if user in self.w.all.live}

    def masks(self, x: fx.Node) -> str:
        """Calls that give an input its masks."""
        text = ""
        for name in [it for it in _MASKS if it in self.names()] if self.is_torch else self.names():
            node = self.take(name)
            mask, value, method = self.w.argument(node), value_of(node), _MASKS[name] if self.is_torch else name
            if self.is_torch and (value.dtype.is_floating_point or value.dim() != 2):
                self.refuse()
            if self.is_torch and method.endswith("mask_attn"):
                sizes = ", ".join(map(self.w.size, (value_of(x).shape[0], *value.shape)))
                mask = mask.dot(f"unsqueeze::<3>().expand([{sizes}])")
            text += f".{method}({mask})"
        return text


def _plain(w: Any, call: str, taken: _Call) -> list[Expr]:
    """A layer that takes tensors in order."""
    nodes = [taken.take(name) for name in taken.names()]
    if taken.is_torch and "Conv" in taken.tag and rank_of(nodes[0]) != int(taken.tag[-2]) + 2:
        taken.refuse()
    if taken.tag in ("CosineSimilarity", "PairwiseDistance") and rank_of(nodes[0]) != 2:
        taken.refuse()
    return [Expr(f"{call}({', '.join(w.argument(node) for node in nodes)})")]


def _recurrent(w: Any, call: str, taken: _Call) -> list[Expr]:
    """Recurrent layers; states of torch's have a dimension more, and the cell comes last."""
    name, both, is_torch = taken.tag.removeprefix("Bi"), taken.tag.startswith("Bi"), taken.is_torch
    node, states = taken.take("input" if is_torch else "x"), taken.take("hx" if is_torch else "state")
    if is_torch and rank_of(node) != 3:
        taken.refuse()
    x = w.argument(node)
    values = [w.argument(part) for part in ([states] if isinstance(states, fx.Node) else states or [])]
    if is_torch:
        values = [part if both else _squeezed(part) for part in values[::-1]]
    arguments = ", ".join(values)
    arguments = arguments if name == "Gru" or not arguments else f"nn::{name}State::new({arguments})"
    result = w.expr(f"{call}({x}, {f'Some({arguments})' if arguments else 'None'})")
    if name == "Gru" and not both:
        return [result] if not is_torch else _with_last(w, result, int(taken.layer.batch_first))
    names, users = _STATES[name], taken.users()
    order = names[::-1] if is_torch else names
    if users <= {0}:
        return [result.dot("0"), *[Expr("")] * len(names)]
    output, state = w.value("output"), w.value("state", is_parts=name != "Gru")
    head = f"let ({output.expr}, {state.expr}) = "
    w.statements.append(Statement([output, state], result, head=head))
    parts = {"": state.expr}
    for part in names:
        if part and order.index(part) + 1 in users:
            parts[part] = w.let(state.expr.dot(part), part)
    in_order = [parts.get(part, Expr("")) for part in order]
    return [output.expr, *(part.dot("unsqueeze_dim::<3>(0)") if is_torch and not both else part for part in in_order)]


def _squeezed(state: Expr) -> Expr:
    added = ".unsqueeze_dim::<3>(0)"
    return Expr(state.removesuffix(added)) if state.endswith(added) else state.dot("squeeze_dim::<2>(0)")


def _with_last(w: Any, result: Expr, time: int) -> list[Expr]:
    """The outputs, and the last of them as torch's state."""
    output = w.let(result, "output")
    last = output.dot(f"slice_dim({time}, -1..)")
    return [output, last.dot(f"swap_dims(0, {time})") if time else last]


def _attention(w: Any, call: str, taken: _Call) -> list[Expr]:
    query = taken.take("query")
    key = taken.take("key") or query
    value = taken.take("value") or key
    if taken.is_torch and any(rank_of(it) != 3 for it in (query, key, value)):
        taken.refuse()
    if query is key is value:
        mha_input = f"nn::attention::MhaInput::self_attn({w.argument(query)})"
    else:
        mha_input = f"nn::attention::MhaInput::new({', '.join(w.argument(it) for it in (query, key, value))})"
    result = w.expr(f"{call}({mha_input}{taken.masks(query)})")
    is_average = taken.take("average_attn_weights", taken.is_torch)
    if not taken.take("need_weights", True):
        return [result.dot("context")]
    order = ("context", "weights") if taken.is_torch else ("weights", "context")
    if len(taken.users()) > 1:
        output = w.value("output", is_parts=True)
        w.statements.append(Statement([output], result))
        parts = [w.let(output.expr.dot(name), name) for name in order]
    else:
        parts = [result.dot(name) for name in order]
    return [parts[0], parts[1].dot("mean_dim(1).squeeze_dim::<3>(1)")] if is_average else parts


def _stack(w: Any, call: str, taken: _Call) -> list[Expr]:
    nodes = [taken.take(name) for name in taken.names() if "mask" not in name]
    stack_input = f"nn::transformer::{taken.tag}Input::new({', '.join(w.argument(node) for node in nodes)})"
    return [w.expr(f"{call}({stack_input}{taken.masks(nodes[0])})")]


def _cross(w: Any, call: str, taken: _Call) -> list[Expr]:
    query, context, mask = taken.tensor("query"), taken.tensor("context"), taken.optional("mask")
    return [Expr(f"{call}({query}, {context}, {'None' if mask is None else f'Some({mask})'})")]


def _rotary(w: Any, call: str, taken: _Call) -> list[Expr]:
    x, start = taken.tensor("x"), taken.take("start", 0)
    return [Expr(f"{call}({x})" if start == 0 else f"{call.replace('.forward', '.apply')}({x}, {start})")]


def _embedding(w: Any, call: str, taken: _Call) -> list[Expr]:
    node = taken.take(taken.names()[0])
    rank, indices = value_of(node).dim(), w.argument(node)
    if rank == 1:
        return [Expr(f"{call}({indices.dot('unsqueeze()')}).squeeze_dim::<2>(0)")]
    if rank != 2:
        taken.refuse()
    return [Expr(f"{call}({indices})")]


_RULES: dict[str, Callable[..., list[Expr]]] = {
    **dict.fromkeys([f"{it}{name}" for it in ("", "Bi") for name in _STATES], _recurrent),
    "MultiHeadAttention": _attention,
    "CrossAttention": _cross,
    "TransformerEncoder": _stack,
    "TransformerDecoder": _stack,
    "RotaryEncoding": _rotary,
    "Embedding": _embedding,
}
