"""The layers of a model that can have a low-rank adapter, and which of them are meant."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from ..._patterns import Pattern
from ...errors import ModuleTreeError, nearest
from ...module.adapters.layers import Lora, kind_of
from ...module.torch_objects.wrappers import own_class, parametrizations_of
from ...nn import Embedding, Linear

ALL_LINEAR = "all-linear"
ABOUT = "_burnlike_adapters"
"""The attribute of a model with adapters: the base that they are added to, for their files."""
_SHOWN = 12


class AdaptedLayer(NamedTuple):
    """A layer whose `weight` has an adapter, or can have one."""

    path: str
    module: nn.Module
    kind: Literal["linear", "conv1d", "embedding"]

    @property
    def weight(self) -> Tensor:
        """The tensor that is held, without an adapter."""
        list_of = parametrizations_of(self.module).get("weight")
        return self.module._parameters["weight"] if list_of is None else list_of.original  # pyright: ignore[reportReturnType]

    @property
    def lora(self) -> Lora | None:
        list_of = parametrizations_of(self.module).get("weight")
        parametrization = None if list_of is None else list_of._modules["0"]
        return parametrization if isinstance(parametrization, Lora) else None


def adaptable(model: nn.Module) -> dict[str, AdaptedLayer]:
    """The linear layers and embeddings, of torch, transformers and ours, by their paths."""
    kinds = ((path, module, _kind(own_class(module))) for path, module in model.named_modules())
    return {path: AdaptedLayer(path, module, kind) for path, module, kind in kinds if kind is not None}


def adapted(model: nn.Module) -> dict[str, AdaptedLayer]:
    """The layers with an adapter, by their paths."""
    return {path: layer for path, layer in adaptable(model).items() if layer.lora is not None}


def module_paths(model: nn.Module) -> list[str]:
    """The paths of all modules below a model, without those that compute their weights."""
    return [path for path, _ in model.named_modules() if path and "parametrizations" not in path.split(".")]


def has_adapters(model: nn.Module) -> bool:
    """True if a model was made by `type: LoRA`."""
    return ABOUT in vars(model)


def _kind(layer: type) -> Any:
    if issubclass(layer, Linear | Embedding):
        return "conv1d" if issubclass(layer, Linear) else "embedding"  # weights are `[d_input, d_output]`
    if (kind := kind_of(layer)) is not None:
        return kind
    return "linear" if issubclass(layer, nn.Linear) else "embedding" if issubclass(layer, nn.Embedding) else None


def output_layers(model: nn.Module) -> set[str]:
    """The paths of the layer of a model of transformers that gives the logits of tokens."""
    ask = getattr(model, "get_output_embeddings", None)
    try:
        head = ask() if callable(ask) else None
    except (AttributeError, NotImplementedError):
        head = None
    heads = {path for path, it in model.named_modules() if it is head}
    inputs = {id(it.weight) for it in adaptable(model).values() if it.kind == "embedding"}
    return heads | {path for path, it in adaptable(model).items() if it.kind != "embedding" and id(it.weight) in inputs}


def select(
    model: nn.Module,
    targets: str | Sequence[str],
    *,
    exclude: str | Sequence[str] = (),
    saved: Collection[str] = (),
    layers: Collection[int] | None = None,
    patterns: Sequence[str] = (),
) -> dict[str, AdaptedLayer]:
    """The layers that are meant, as peft chooses them.

    Args:
        targets: ends of paths, `all-linear`, or a regular expression for whole paths.
        exclude: the same, of those that are not meant.
        saved: names of modules that are trained whole, and so have no adapters in them.
        layers: numbers of the layers in which ends of paths are meant; None for all.
        patterns: what stands before such a number, as a regular expression.

    Raises:
        ModuleTreeError: an end or the expression fits no layer that can have an adapter.
        ArgumentError: an expression is none.
    """
    left_aside = _fitting(exclude)
    candidates, modules = adaptable(model), module_paths(model)
    if targets == ALL_LINEAR or [*targets] == [ALL_LINEAR]:
        left_out = output_layers(model) | {it for it in candidates if inside_of(it, saved)}
        linear_layers = {path: it for path, it in candidates.items() if it.kind != "embedding" and path not in left_out}
        if not linear_layers:
            raise ModuleTreeError(f"targets: {type(model).__name__} has no linear layer: {_listed(candidates)}")
        return {path: it for path, it in linear_layers.items() if not left_aside(path)}
    wanted = [targets] if isinstance(targets, str) else targets
    is_wanted = _fitting(targets) if isinstance(targets, str) else None
    numbered = [Pattern(it) for it in patterns]
    chosen: set[str] = set()
    for one in wanted:
        fitting = [path for path in modules if (is_wanted or _fitting([one]))(path)]
        if not isinstance(targets, str) and layers is not None:
            fitting = [path for path in fitting if _number(path, numbered) in layers]
        if not fitting:
            if layers is not None and any(map(_fitting([one]), modules)):
                raise ModuleTreeError(f"targets: no layer '{one}' in those of layers_to_transform")
            ends = sorted({path.rpartition(".")[2] for path in candidates})
            hint = "" if one in ends else nearest(one, ends)
            raise ModuleTreeError(f"targets: no layer '{one}'{hint}; {_listed(candidates)}")
        fitting = [path for path in fitting if not inside_of(path, saved)]
        if others := [path for path in fitting if path not in candidates]:
            kind = type(model.get_submodule(others[0])).__name__
            raise ModuleTreeError(f"targets: '{others[0]}' is a {kind}, which takes no adapter; {_listed(candidates)}")
        chosen |= {*fitting}
    return {path: it for path, it in candidates.items() if path in chosen and not left_aside(path)}


def inside_of(path: str, names: Iterable[str]) -> bool:
    """True if a path is, or goes through, a module of one of some names, which may be paths themselves."""
    return any(f".{name}." in f".{path}." for name in names)


def _fitting(wanted: str | Iterable[str]) -> Callable[[str], bool]:
    """A test: true of a path that has one of some ends, or that an expression matches."""
    if isinstance(wanted, str):
        return Pattern(wanted).fullmatch
    ends = {*wanted}
    # By each end of the path, not by each wanted one, of which a file may have very many.
    return lambda path: any(path[start:] in ends for start in _starts(path))


def _starts(path: str) -> list[int]:
    return [0, *(place + 1 for place, it in enumerate(path) if it == ".")]


def _number(path: str, patterns: Sequence[Pattern]) -> int | None:
    """The number of the layer that a path is in: the first one behind names that fit, or else any name in a module."""
    for pattern in patterns or [None]:
        for place in re.finditer(r"(?<=\.)\d+(?=\.)", path):
            before = path[: place.start() - 1]
            fits = "." in before if pattern is None else any(pattern.fullmatch(before[it:]) for it in _starts(before))
            if fits:
                return int(place[0])
    return None


def _listed(candidates: Mapping[str, AdaptedLayer]) -> str:
    ends = [*dict.fromkeys(path.rpartition(".")[2] for path, it in candidates.items())]
    more = ", ..." if len(ends) > _SHOWN else ""
    return f"there are {', '.join(ends[:_SHOWN])}{more}" if ends else "there are no linear layers and no embeddings"


def trained_modules(model: nn.Module) -> Iterator[str]:
    """The paths of the modules that are trained whole beside adapters, the outermost ones.

    Raises:
        ModuleTreeError: a parameter is trained in a module of which others are not.
    """
    inside = {id(it) for layer in adapted(model).values() for it in layer.lora.parameters()}  # pyright: ignore[reportOptionalMemberAccess]
    done: list[str] = []
    for path, module in model.named_modules():
        if any(path.startswith(f"{it}.") for it in done):
            continue
        weights = [it for it in module.parameters() if id(it) not in inside]
        if weights and all(it.requires_grad for it in weights) and len(weights) == len([*module.parameters()]) and path:
            done.append(path)
            yield path
    whole = {id(it) for path in done for it in model.get_submodule(path).parameters()}
    for path, tensor in model.named_parameters():
        if tensor.requires_grad and id(tensor) not in whole and id(tensor) not in inside:
            raise ModuleTreeError(
                f"'{path}' is trained, and others of its module are not, for which adapters' files have no place: train"
                " all of the module, or freeze it"
            )
