"""The layers of a model that can have a low-rank adapter, which of them are meant, and the tables of tokens beside.

Those of a model of transformers are tied, apart, or of another size than those of the files of adapters.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ..._patterns import Pattern
from ...errors import ModuleTreeError, nearest
from ...module.adapters.layers import Lora, kind_of
from ...module.adapters.token_rows import TokenRows
from ...module.torch_objects.wrappers import own_class, parametrizations_of
from ...nn import Embedding, Linear

ALL_LINEAR = "all-linear"
ABOUT = "_burnlike_adapters"
"""The attribute of a model with adapters: the base that they are added to, for their files."""
_SHOWN = 12
R = TypeVar("R", Lora, TokenRows)


class AdaptedLayer(NamedTuple):
    """A layer whose `weight` has an adapter, or can have one; or weights of experts, whose last name is in the path."""

    path: str
    module: nn.Module
    kind: Literal["linear", "conv1d", "embedding", "convolution", "experts"]
    name: str = "weight"

    @property
    def weight(self) -> Tensor:
        """The tensor that is held, without an adapter."""
        list_of = parametrizations_of(self.module).get(self.name)
        return self.module._parameters[self.name] if list_of is None else list_of.original  # pyright: ignore[reportReturnType]

    @property
    def token_dim(self) -> int:
        """The dimension of the weight of a table that counts tokens."""
        return 1 if self.kind == "conv1d" else 0

    @property
    def lora(self) -> Lora | None:
        return self._computed_by(Lora)

    @property
    def token_rows(self) -> TokenRows | None:
        return self._computed_by(TokenRows)

    def _computed_by(self, kind: type[R]) -> R | None:
        list_of = parametrizations_of(self.module).get(self.name)
        parametrization = None if list_of is None else list_of._modules["0"]
        return parametrization if isinstance(parametrization, kind) else None


def adaptable(model: nn.Module) -> dict[str, AdaptedLayer]:
    """The linear layers and embeddings, of torch, transformers and ours, and torch's convolutions, by their paths."""
    kinds = ((path, module, _kind(own_class(module))) for path, module in model.named_modules())
    return {path: AdaptedLayer(path, module, kind) for path, module, kind in kinds if kind is not None}


def adapted(model: nn.Module) -> dict[str, AdaptedLayer]:
    """The layers with an adapter, by their paths."""
    return {path: layer for path, layer in (adaptable(model) | experts_of(model)).items() if layer.lora is not None}


def experts_of(model: nn.Module) -> dict[str, AdaptedLayer]:
    """The weights that experts have in one tensor, by their paths; those with an adapter last, as they got it."""
    layers: dict[str, AdaptedLayer] = {}
    for path, module in model.named_modules():
        if "expert" in f"{path}.{own_class(module).__name__}".lower() and "parametrizations" not in path.split("."):
            tensors = {name: parameter for name, parameter in module._parameters.items() if parameter is not None}
            tensors |= {name: value.original for name, value in parametrizations_of(module).items()}
            names = [name for name, tensor in tensors.items() if tensor.dim() == 3]
            layers |= {f"{path}.{name}": AdaptedLayer(f"{path}.{name}", module, "experts", name) for name in names}
    return layers


def select_experts(model: nn.Module, ends: Collection[str]) -> dict[str, AdaptedLayer]:
    """The weights of experts whose paths have one of some ends; a ModuleTreeError if none has."""
    layers = experts_of(model)
    for end in ends:
        if not any(map(_fitting([end]), layers)):
            names = ", ".join(dict.fromkeys(layer.name for layer in layers.values())) or "none"
            raise ModuleTreeError(f"target_parameters: no weights of experts '{end}'; there are {names}")
    return {path: layer for path, layer in layers.items() if _fitting(ends)(path)}


def with_token_rows(model: nn.Module) -> dict[str, AdaptedLayer]:
    """The tables of which the rows of some tokens are trained, by their paths."""
    return {path: layer for path, layer in adaptable(model).items() if layer.token_rows is not None}


def token_rows_of(model: nn.Module) -> dict[str, TokenRows]:
    """The trained rows of tables of tokens, each by the path of the first of tied tables."""
    rows: dict[int, tuple[str, TokenRows]] = {}
    for path, layer in with_token_rows(model).items():
        assert layer.token_rows is not None
        rows.setdefault(id(layer.token_rows), (path, layer.token_rows))
    return dict(rows.values())


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
    if issubclass(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return "convolution"
    return "linear" if issubclass(layer, nn.Linear) else "embedding" if issubclass(layer, nn.Embedding) else None


def output_layers(model: nn.Module) -> set[str]:
    """The paths of the layer of a model of transformers that gives the logits of tokens."""
    ask = getattr(model, "get_output_embeddings", None)
    try:
        head = ask() if callable(ask) else None
    except (AttributeError, NotImplementedError):
        head = None
    heads = {path for path, module in model.named_modules() if module is head}
    inputs = {id(value.weight) for value in adaptable(model).values() if value.kind == "embedding"}
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
        left_out = output_layers(model) | {candidate for candidate in candidates if inside_of(candidate, saved)}
        linear = {path: candidate for path, candidate in candidates.items() if candidate.kind in ("linear", "conv1d")}
        linear_layers = {path: value for path, value in linear.items() if path not in left_out}
        if not linear_layers:
            raise ModuleTreeError(f"targets: {type(model).__name__} has no linear layer: {_listed(candidates)}")
        return {path: layer for path, layer in linear_layers.items() if not left_aside(path)}
    wanted = [targets] if isinstance(targets, str) else targets
    is_wanted = _fitting(targets) if isinstance(targets, str) else None
    numbered = [Pattern(pattern) for pattern in patterns]
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
    return {path: candidate for path, candidate in candidates.items() if path in chosen and not left_aside(path)}


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
    ends = [*dict.fromkeys(path.rpartition(".")[2] for path, candidate in candidates.items())]
    more = ", ..." if len(ends) > _SHOWN else ""
    return f"there are {', '.join(ends[:_SHOWN])}{more}" if ends else "there are no linear layers and no embeddings"


def biases_of(model: nn.Module, bias: str, layers: Collection[str], saved: Collection[str]) -> dict[str, nn.Parameter]:
    """The biases that are trained beside adapters, by their paths, in peft's words.

    Args:
        bias: `none`, `lora_only` for those of the layers at the paths `layers`, or `all`: parameters of this name.
        saved: the paths of modules that are trained whole, whose biases are left out.
    """
    places = [(*path.rpartition(".")[::2], it) for path, it in model.named_parameters(remove_duplicate=False)]
    meant = [(path, it) for path, name, it in places if name == "bias" and (bias == "all" or path in layers)]
    names = {f"{path}.bias".removeprefix("."): it for path, it in meant if not inside_of(path, saved)}
    return {} if bias == "none" else names


def trained_beside(model: nn.Module) -> tuple[list[str], str]:
    """The paths of the outermost modules that are trained whole beside adapters, and the word for the biases that are.

    Raises:
        ModuleTreeError: another parameter is trained in a module of which others are not.
    """
    inside = {id(it) for layer in adapted(model).values() for it in layer.lora.parameters()}  # pyright: ignore[reportOptionalMemberAccess]
    inside |= {id(value.values) for value in token_rows_of(model).values()}
    done: list[str] = []
    for path, module in model.named_modules():
        if any(path.startswith(f"{it}.") for it in done):
            continue
        weights = [parameter for parameter in module.parameters() if id(parameter) not in inside]
        if weights and all(it.requires_grad for it in weights) and len(weights) == len([*module.parameters()]) and path:
            done.append(path)
    whole = {id(parameter) for path in done for parameter in model.get_submodule(path).parameters()}
    rest = {id(parameter): path for path, parameter in model.named_parameters() if parameter.requires_grad}
    rest = {key: path for key, path in rest.items() if key not in whole | inside}
    for bias in ("none", "lora_only", "all"):
        if {id(value) for value in biases_of(model, bias, {*adapted(model)}, done).values()} == {*rest}:
            return done, bias
    raise ModuleTreeError(
        f"'{next(iter(rest.values()))}' is trained, and others of its module are not, for which adapters' files have no"
        " place: train all of the module, or freeze it"
    )


Options = TypeVar("Options", bound=Any)
_ROWS_AT_ONCE = 4096
FILLED = "_burnlike_filled_tables"
"""The attribute of a model that names the modules whose frozen values came with peft's files."""


def tables_of(model: nn.Module) -> dict[str, nn.Module]:
    """The input and the output table of a model of transformers, or of one that answers as these, by their paths."""
    tables: list[Any] = []
    for ask in ("get_input_embeddings", "get_output_embeddings"):
        try:
            tables.append(getattr(model, ask, lambda: None)())
        except (AttributeError, NotImplementedError):  # as transformers says that a model has none
            continue
    return {path: module for path, module in model.named_modules() if any(module is one for one in tables)}


def tied_tables(model: nn.Module) -> list[AdaptedLayer]:
    """The layers that share the input table of a model of transformers, that one first; empty if none does."""
    layers, tables = adaptable(model), tables_of(model)
    inputs = next((layers[path] for path in tables if path in layers and layers[path].kind == "embedding"), None)
    if inputs is None:
        return []
    others = [layer for layer in layers.values() if layer.weight is inputs.weight and layer.path != inputs.path]
    return [inputs, *others] if others else []


def tied_together(
    model: nn.Module, layers: Mapping[AdaptedLayer, Options], saved: Collection[str]
) -> tuple[dict[AdaptedLayer, Options], list[str]] | None:
    """Targets and whole modules of a training in which tied tables stay tied; None if that changes nothing.

    Raises:
        ModuleTreeError: the adapters of two tied tables are meant to differ, or have magnitudes of their own.
    """
    tied = tied_tables(model)
    paths = {it.path for it in tied}
    if any(inside_of(path, saved) for path in paths):
        rest = {layer: options for layer, options in layers.items() if layer.path not in paths}
        return rest, [*saved, *sorted(path for path in paths if not inside_of(path, saved))]
    chosen = {options for layer, options in layers.items() if layer.path in paths}
    if not chosen:
        return None
    names = ", ".join(sorted(paths))
    if len(chosen) > 1:
        raise ModuleTreeError(f"ensure_weight_tying: expected one rank and alpha for {names}")
    if any(it.dora for it in chosen):
        raise ModuleTreeError(
            f"ensure_weight_tying: of DoRA, {names} would have magnitudes of their own: leave one out"
        )
    return {**layers, **dict.fromkeys(tied, *chosen)}, [*saved]


def part_from_the_rest(model: nn.Module, groups: Iterable[Collection[str]]) -> None:
    """Give the modules at the paths of each group parameters of their own where they share them with the rest.

    They are trained as copies, as peft does it: what is tied to them stays as it is.
    """
    for paths in groups:
        parts = [part for path in paths for part in model.get_submodule(path).modules()]
        inside = {id(it) for it in parts}
        rest = {id(it) for part in model.modules() if id(part) not in inside for it in part._parameters.values()}
        copies: dict[int, nn.Parameter] = {}
        for part in parts:
            for name, tensor in part._parameters.items():
                if tensor is not None and id(tensor) in rest:
                    copy = copies.setdefault(id(tensor), nn.Parameter(tensor.detach().clone(), tensor.requires_grad))
                    part._parameters[name] = copy
    say_untied(model)


def shared_with_the_rest(model: nn.Module, paths: Collection[str]) -> str | None:
    """The path of a parameter in a module at one of some paths that also belongs to a module elsewhere."""
    parameters = [*model.named_parameters(remove_duplicate=False)]
    rest = {id(it) for name, it in parameters if not inside_of(name, paths)}
    return next((name for name, it in parameters if inside_of(name, paths) and id(it) in rest), None)


def say_untied(model: Any) -> None:
    """Say in the config of a model of transformers that its tables are two, where they are."""
    config: Any = getattr(model, "config", None)
    layers = adaptable(model)
    weights = [layers[path].weight for path in tables_of(model) if path in layers]
    if not hasattr(config, "get_text_config") or len(weights) < 2 or weights[0] is weights[1]:
        return
    for part in (config, config.get_text_config()):
        if getattr(part, "tie_word_embeddings", False):
            part.tie_word_embeddings = False


@torch.no_grad()
def resize_tables(model: Any, count: int) -> None:
    """Give a model tables of `count` tokens; each new row is the mean of the old ones."""
    before = count_of_rows(model)
    with torch.random.fork_rng(devices=[]):  # what is drawn next doesn't depend on rows that are not kept
        model.resize_token_embeddings(count, mean_resizing=False)
    layers = adaptable(model)
    for path in tables_of(model):
        for tensor in model.get_submodule(path).parameters(recurse=False):
            rows = tensor.mT if tensor.dim() > 1 and path in layers and layers[path].token_dim else tensor
            if before is not None and len(rows) == count > before and not rows.is_meta:
                # In pieces: of a large table, in float64, which makes the mean that of any number of threads.
                total = torch.stack([it.double().sum(0) for it in rows[:before].split(_ROWS_AT_ONCE)]).sum(0)
                rows[before:] = (total / before).to(rows.dtype)


def count_of_rows(model: Any) -> int | None:
    """The tokens that the input table of a model has; None if there is none."""
    tables, layers = tables_of(model), adaptable(model)
    return next((layers[path].weight.shape[layers[path].token_dim] for path in tables if path in layers), None)


def token_tables(model: nn.Module, saved: Collection[str]) -> list[list[AdaptedLayer]]:
    """The tables of tokens that are not trained whole, those that are tied in one list."""
    layers, groups = adaptable(model), dict[int, list[AdaptedLayer]]()
    tables = {*tables_of(model), *(table.path for table in tied_tables(model))}
    for path, layer in layers.items():
        if path in tables and not inside_of(path, saved):
            groups.setdefault(id(layer.weight), []).append(layer)
    return [*groups.values()]


def parameters_of(model: nn.Module, path: str) -> dict[str, Tensor]:
    """The parameters of a layer by their paths; of one with an adapter the weight that this is added to."""
    parameters: dict[str, Tensor] = dict(model.get_submodule(path).named_parameters(prefix=path, recurse=False))
    layer = adaptable(model).get(path)
    return parameters if layer is None else {**parameters, f"{path}.weight": layer.weight}


def filled_tables(model: nn.Module) -> dict[str, Tensor]:
    """The parameters, by their paths, of the tables whose frozen values came with peft's files."""
    paths: tuple[str, ...] = vars(model).get(FILLED, ())
    return {name: value for path in paths for name, value in parameters_of(model, path).items()}
