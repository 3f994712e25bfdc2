"""The graph of a model in which the layers that Burn has are kept whole."""

import copy
import inspect
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, fx, nn

from .... import nn as layers
from ...._torch_compat import pytree
from ....errors import BurnlikeError, NoCounterpartError
from ....interop import from_torch
from ....interop.layer_conversion import FromTorch
from ....ops._function import references
from ..programs import quiet, reason_of
from ..source import Program, may_vary, with_signature
from .layers import Init, init_of, tag_of

_CALLS: dict[str, "LayerCall"] = {}
"""Calls of layers in the trace that is going on, by the first argument of the op that stands for each."""


MODEL = "program.model."
"""What the names of tensors begin with in the program that is traced."""


class Leaf(NamedTuple):
    """A layer of Burn's in the model.

    Attributes:
        path: of the module.
        layer: the module itself.
        twin: the same as burnlike's, with Burn's names and layouts of tensors.
        init: what makes it in Rust.
        places: name of a tensor of `layer` -> that of Burn's, and whether Burn's is its transpose.
    """

    path: str
    layer: nn.Module
    twin: nn.Module
    init: Init
    places: Mapping[str, tuple[str, bool]]


class LayerCall(NamedTuple):
    """A call of a layer.

    Attributes:
        inputs: arguments by name, with a `Place` for each tensor.
        run: gives tensors with the shapes of its results.
    """

    leaf: Leaf
    inputs: Mapping[str, Any]
    run: Callable[[list[Tensor]], list[Tensor]]


class Place(int):
    """The place of a tensor among those that an op is called with."""


class Trace(NamedTuple):
    """The graph of a model.

    Attributes:
        graph: of functions of torch, and of the op `burnlike_rust::layer`.
        calls: of layers, by the first argument of that op.
        leaves: by path.
        values: parameters, buffers and constants, by the name of the graph's placeholder: their path and value.
        inputs: names of the placeholders that are inputs of the model.
        outputs: nodes that it gives.
        arguments: of each call of a module: its path, and the nodes that it is called with by the names of arguments.
    """

    graph: fx.Graph
    calls: Mapping[str, LayerCall]
    leaves: Mapping[str, Leaf]
    values: Mapping[str, tuple[str, Tensor]]
    inputs: list[str]
    outputs: list[fx.Node]
    arguments: list[tuple[str, dict[str, fx.Node]]]

    def varying(self) -> dict[str, dict[int, Any]]:
        """The dimensions of each input that may have other sizes."""
        nodes = {node.name: node.meta["val"] for node in self.graph.nodes if node.name in self.inputs}
        return {
            name: {at: None for at, size in enumerate(node.shape) if not isinstance(size_of(size), int)}
            for name, node in nodes.items()
        }


@torch.library.custom_op("burnlike_rust::layer", mutates_args=())
def layer_op(key: str, tensors: list[Tensor]) -> list[Tensor]:
    """Stands for the call of a layer in a graph; it has no kernel."""
    raise NotImplementedError(key)


@layer_op.register_fake
def _(key: str, tensors: list[Tensor]) -> list[Tensor]:
    return _CALLS[key].run(tensors)


@torch.library.custom_op("burnlike_rust::argument", mutates_args=())
def argument_op(name: str, tensor: Tensor) -> Tensor:
    """Notes in a graph which argument of which module a tensor is; it has no kernel."""
    raise NotImplementedError(name)


@argument_op.register_fake
def _(name: str, tensor: Tensor) -> Tensor:
    return torch.empty(())


class _Noting(nn.Module):
    """A program whose result has also the notes of `argument_op`, so that these stay in the graph."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program, self.notes = program, list[Tensor]()
        self.forward = with_signature(self._run, program.input_names)

    def _run(self, *arguments: Tensor, **inputs: Tensor) -> Any:
        self.notes.clear()
        return self.program(*arguments, **inputs), tuple(self.notes)

    def hook(self, path: str, module: nn.Module) -> Any:
        signature = inspect.signature(module.forward)

        def note(_: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
            try:
                bound = signature.bind(*arguments, **keywords).arguments
            except TypeError:
                return
            call = f"{path}#{len(self.notes)}"
            for name, value in bound.items():
                kind = signature.parameters[name].kind
                flat = value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
                for at, tensor in enumerate(pytree.tree_leaves([*flat.values()])):
                    if isinstance(tensor, Tensor):
                        argument = [*flat][min(at, len(flat) - 1)]
                        self.notes.append(torch.ops.burnlike_rust.argument(f"{call}#{argument}", tensor))

        return module.register_forward_pre_hook(note, with_kwargs=True)


def _shapes_of(leaf: Leaf, on_meta: nn.Module, inputs: Mapping[str, Any], arguments: Any, keywords: Any) -> Any:
    """The result of a layer on the meta device for fake tensors; layers with layers in them can't run in a trace."""
    tag, twin = tag_of(leaf.twin) or "", cast("Any", leaf.twin)
    tensors = [it for it in pytree.tree_leaves((arguments, keywords)) if isinstance(it, Tensor)]
    x = tensors[0]
    if tag.removeprefix("Bi") in ("Lstm", "Gru", "Rnn"):
        return _of_recurrent(tag, leaf.layer, twin, x)
    if tag == "MultiHeadAttention":
        return _of_attention(leaf.layer, twin, inputs, tensors)
    if tag == "SwiGlu":
        return x.new_empty((*x.shape[:-1], twin.linear_inner.weight.shape[1]))
    if tag in ("PositionWiseFeedForward", "CrossAttention", "TransformerEncoder", "TransformerDecoder"):
        return x.new_empty(x.shape)
    values = itertools.chain(on_meta.named_parameters(), on_meta.named_buffers())
    empty_inputs = {name: torch.empty(tensor.shape, dtype=tensor.dtype) for name, tensor in values}
    return torch.func.functional_call(on_meta, empty_inputs, arguments, keywords)


def _of_recurrent(tag: str, layer: Any, twin: Any, x: Tensor) -> Any:
    directions, is_torch = 2 if tag.startswith("Bi") else 1, isinstance(layer, nn.RNNBase)
    is_batch_first = layer.batch_first if is_torch else getattr(twin, "batch_first", True)
    output = x.new_empty((*x.shape[:2], directions * twin.d_hidden))
    shape = (x.shape[0 if is_batch_first else 1], twin.d_hidden)
    state = x.new_empty((directions, *shape) if directions > 1 or is_torch else shape)
    if tag.endswith("Lstm"):
        return output, ((state, state.clone()) if is_torch else layers.LstmState(state, state.clone()))
    if tag.endswith("Rnn") and not is_torch:
        return output, layers.RnnState(state)
    return output if tag == "Gru" and not is_torch else (output, state)


def _of_attention(layer: Any, twin: Any, inputs: Mapping[str, Any], tensors: list[Tensor]) -> Any:
    query = tensors[0]
    key = tensors[inputs["key"]] if isinstance(inputs.get("key"), Place) else query
    context, has_weights = query.new_empty(query.shape), inputs.get("need_weights", True)
    heads = query.new_empty((query.shape[0], twin.n_heads, query.shape[1], key.shape[1]))
    if not isinstance(layer, nn.MultiheadAttention):
        return layers.MhaOutput(heads if has_weights else None, context)
    weights = heads[:, 0] if inputs.get("average_attn_weights", True) else heads
    return context, (weights if has_weights else None)


def leaves_of(model: nn.Module, without: set[str]) -> dict[str, Leaf]:
    """The layers of Burn's in a model, by path; those below them, and those at the paths `without`, are left out."""
    leaves, seen, claimed = dict[str, Leaf](), set[int](), set[int]()

    def visit(module: nn.Module, path: str) -> None:
        if id(module) in seen:
            return
        seen.add(id(module))
        leaf = None if path in without else _leaf(module, path)
        tensors = {id(parameter) for parameter in module.parameters()}
        if leaf is not None and not tensors & claimed:  # of tied layers the first has the parameter
            claimed.update(tensors)
            leaves[path] = leaf
            return
        for name, child in module.named_children():
            visit(child, f"{path}.{name}" if path else name)

    visit(model, "")
    return leaves


def _leaf(module: nn.Module, path: str) -> Leaf | None:
    twin, places = module, dict[str, tuple[str, bool]]()
    try:
        if tag_of(module) is None:
            pair = FromTorch().counterpart_of(module)
            if pair is None or type(module) is not pair.torch:
                return None
            plain = copy.deepcopy(module)
            for option, value in (("padding_idx", None), ("inplace", False)):
                if getattr(plain, option, value) != value:
                    setattr(plain, option, value)
            twin = from_torch(plain)
            if tag_of(twin) is None:
                return None
            sources = pair.places([name for name, _ in module.named_parameters()])
            places = {source.name: (name, source.transposed) for name, source in sources.items() if source.is_whole}
        else:
            places = {name: (name, False) for name, _ in module.named_parameters()}
        return Leaf(path, module, twin, init_of(twin), places)
    except BurnlikeError:
        return None  # it is written as any other module


@contextmanager
def _whole(leaves: Mapping[str, Leaf]) -> Iterator[None]:
    """A `with` block in which a call of a layer is one op."""
    children = {leaf.layer: dict(leaf.layer._modules) for leaf in leaves.values()}
    try:
        for leaf in leaves.values():
            # torch.export looks children up as attributes, where that of a bidirectional layer's child is the method.
            modules = children[leaf.layer].items()
            leaf.layer.__dict__["_modules"] = {"ahead" if it == "forward" else it: child for it, child in modules}
            leaf.layer.__dict__["forward"] = _recorded(leaf)
        yield
    finally:
        for layer, modules in children.items():
            layer.__dict__["_modules"] = modules
            layer.__dict__.pop("forward", None)


def _recorded(leaf: Leaf) -> Any:
    """A `forward` that notes the call, and is one op in the graph."""
    signature = inspect.signature(type(leaf.layer).forward)
    on_meta = copy.deepcopy(leaf.layer).to("meta")

    def forward(*arguments: Any, **keywords: Any) -> Any:
        flat, spec = pytree.tree_flatten((arguments, keywords))
        count = itertools.count()
        places = [Place(next(count)) if isinstance(it, Tensor) else it for it in flat]
        positional, by_name = pytree.tree_unflatten(places, spec)
        inputs = dict(signature.bind(leaf.layer, *positional, **by_name).arguments)
        inputs.pop("self", None)
        output: list[Any] = []

        def run(tensors: list[Tensor]) -> list[Tensor]:
            values = [tensors[place] if isinstance(place, Place) else place for place in places]
            output[:] = [_shapes_of(leaf, on_meta, inputs, *pytree.tree_unflatten(values, spec))]
            results = [it for it in pytree.tree_leaves(output) if isinstance(it, Tensor)]
            return [torch.empty(result.shape, dtype=result.dtype) for result in results]

        key = f"{leaf.path}#{len(_CALLS)}"
        _CALLS[key] = LayerCall(leaf, inputs, run)
        results = iter(torch.ops.burnlike_rust.layer(key, [it for it in flat if isinstance(it, Tensor)]))
        result = pytree.tree_map_only(Tensor, lambda _: next(results), output[0])
        return arguments[0].copy_(result) if getattr(leaf.layer, "inplace", False) else result

    return forward


def traced(program: Program, example: Mapping[str, Tensor], without: set[str]) -> Trace:
    """The graph of the program's model, whose sizes of batches and sequences may vary.

    Raises:
        NoCounterpartError: torch.export can't follow the program.
    """
    leaves = leaves_of(program.model, without)
    noting = _Noting(program)
    whole = {leaf.layer for leaf in leaves.values()}
    handles = [noting.hook(path, it) for path, it in program.model.named_modules() if path and it not in whole]
    _CALLS.clear()
    try:
        with quiet(), references(), _whole(leaves):
            exported = torch.export.export(noting, (), kwargs=dict(example), dynamic_shapes=dims_of(example))
            if any(_changes(node) for node in exported.graph.nodes):
                exported = exported.run_decompositions({})
            _inline(exported.graph_module)
            _simplify(exported.graph_module.graph)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError, KeyError) as error:
        kind = type(program.model).__name__
        raise NoCounterpartError(f"torch.export can't follow {kind}: {reason_of(error)}") from error
    finally:
        calls = dict(_CALLS)
        _CALLS.clear()
        for handle in handles:
            handle.remove()
    signature = exported.graph_signature
    held, first = {**exported.state_dict, **exported.constants}, _owners(program, leaves)
    named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    values = dict[str, tuple[str, Tensor]]()
    read = {node.name for node in exported.graph.nodes if node.users}
    constants = {name: it for name, it in signature.inputs_to_lifted_tensor_constants.items() if name in read}
    for name, target in {**named, **constants}.items():
        path = target.removeprefix(MODEL)
        values[name] = first.get(path, path), held[target]
    last = next(node for node in exported.graph.nodes if node.op == "output").args[0]
    notes = [it for it in last if str(getattr(it, "target", "")).startswith("burnlike_rust.argument")]
    arguments: dict[tuple[str, str], dict[str, fx.Node]] = {}
    for note in notes:
        path, call, name = note.args[0].split("#")
        arguments.setdefault((path, call), {})[name] = note.args[1]
    results = [*last[: len(last) - len(notes)]][-len(program.output_names) :]  # before them are changed buffers
    noted = [(path, nodes) for (path, _), nodes in arguments.items()]
    return Trace(exported.graph, calls, leaves, values, [*map(str, signature.user_inputs)], results, noted)


def _owners(program: Program, leaves: Mapping[str, Leaf]) -> dict[str, str]:
    """The name in Rust of each parameter: that of a layer's, or the first."""
    first: dict[int, str] = {}
    names = [*program.model.named_parameters(remove_duplicate=False)]
    for name, tensor in sorted(names, key=lambda it: it[0].rpartition(".")[0] not in leaves):
        first.setdefault(id(tensor), name)
    exported = program.named_parameters("program", remove_duplicate=False)
    return {name.removeprefix(MODEL): first[id(tensor)] for name, tensor in exported}


def _inline(module: fx.GraphModule) -> None:
    """Put the graphs of `with` blocks, of `torch.no_grad()` say, in the places of their calls."""
    for node in [inner_node for inner_node in module.graph.nodes if str(inner_node.target).startswith("wrap_with_")]:
        at = next(
            at
            for at, inner_node in enumerate(node.args)
            if isinstance(inner_node, fx.Node) and inner_node.op == "get_attr"
        )
        inner = getattr(module, str(node.args[at].target))
        if "autocast" in str(node.target) and node.args[2]:
            raise NoCounterpartError("the model computes in another dtype by torch.autocast; leave this out for Rust")
        _inline(inner)
        copies = dict(
            zip(
                (inner_node for inner_node in inner.graph.nodes if inner_node.op == "placeholder"),
                node.args[at + 1 :],
                strict=True,
            )
        )
        with module.graph.inserting_before(node):
            for inner_node in inner.graph.nodes:
                if inner_node.op == "call_function":
                    copies[inner_node] = module.graph.node_copy(inner_node, copies.__getitem__)
        results = next(inner_node for inner_node in inner.graph.nodes if inner_node.op == "output").args[0]
        for user in [*node.users]:
            user.replace_all_uses_with(copies[results[user.args[1]]])
            module.graph.erase_node(user)
        module.graph.erase_node(node)


_NOTHING = {
    *("contiguous", "alias", "detach", "detach_", "lift_fresh", "lift_fresh_copy", "to", "_to_copy", "expand", "slice"),
    "type_as",
}
"""Operations that leave their tensor as it is, but perhaps in another dtype or layout."""
_WITHOUT = {"add": 0, "sub": 0, "mul": 1, "div": 1}


def _simplify(graph: fx.Graph) -> None:
    """Leave out what changes nothing, and what a module computes twice."""
    before: dict[object, fx.Node] = {}
    for node in [*graph.nodes]:
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, Tensor) or is_item(node):
            continue
        name, first = torch_name(node), next(iter(node.args), None)
        if name in ("cat", "concat"):  # of an empty list torch takes nothing; Burn can't cast one of a record
            node.update_arg(0, [it for it in node.args[0] if [*it.meta["val"].shape] != [0]])
        same: fx.Node | None = None
        if isinstance(first, fx.Node) and isinstance(source := first.meta.get("val"), Tensor):
            is_like = source.dtype == value.dtype and [*map(str, source.shape)] == [*map(str, value.shape)]
            is_number = name in _WITHOUT and len(node.args) > 1 and type(node.args[1]) in (int, float)
            changes_nothing = name in _NOTHING or ("dropout" in name and not node.args[2])
            if is_like and (changes_nothing or (is_number and node.args[1] == _WITHOUT[name] and not node.kwargs)):
                same = first
        is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if same is None and not is_random and not str(node.target).startswith("burnlike_rust"):
            call = [*(node.meta.get("nn_module_stack") or {}).values()][-1:]
            same = before.setdefault((str(call), node.target, str(node.args), str(node.kwargs)), node)
        if same is not None and same is not node:
            node.replace_all_uses_with(same)
            graph.erase_node(node)
    graph.eliminate_dead_code()


def dims_of(example: Mapping[str, Tensor]) -> dict[str, dict[int, Any]]:
    """The dimensions that may vary: batches, and the length of sequences, also of `[batch, length, channels]`."""
    varying = may_vary(example)
    for name, tensor in example.items():
        if tensor.dim() == 3 and tensor.is_floating_point() and 0 in varying[name]:
            varying[name][1] = torch.export.Dim.AUTO
    return varying


def torch_name(node: fx.Node) -> str:
    """The function of torch's that a node calls, without the overload; empty if it calls none."""
    namespace, _, name = str(node.target).partition(".")
    return name.partition(".")[0] if namespace == "aten" else ""


def _changes(node: fx.Node) -> bool:
    """True for an operation in place, whose name ends so in torch."""
    return torch_name(node).endswith("_") and not torch_name(node).endswith("__")


def size_of(size: Any) -> Any:
    """A size of the graph: a number, or an expression of sizes that may vary."""
    expression = size.node.expr if isinstance(size, torch.SymInt) else size
    return int(expression) if isinstance(expression, int) or expression.is_Integer else expression


def is_item(node: fx.Node) -> bool:
    """True if the node takes one of several results of another."""
    return node.target is operator.getitem
