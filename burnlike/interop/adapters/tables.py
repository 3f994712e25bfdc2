"""The tables of tokens of a model of transformers beside adapters: tied, apart, and of other sizes."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ...errors import ModuleTreeError
from .layers import AdaptedLayer, adaptable, inside_of

Options = TypeVar("Options", bound=Any)
FILLED = "_burnlike_filled_tables"
"""The attribute of a model that names the modules whose frozen values came with peft's files."""


def tables_of(model: nn.Module) -> dict[str, nn.Module]:
    """The input and the output table of a model of transformers, by their paths."""
    tables: list[Any] = []
    for ask in ("get_input_embeddings", "get_output_embeddings"):
        try:
            tables.append(getattr(model, ask, lambda: None)())
        except (AttributeError, NotImplementedError):  # as transformers says that a model has none
            continue
    return {path: it for path, it in model.named_modules() if any(it is one for one in tables)}


def tied_tables(model: nn.Module) -> list[AdaptedLayer]:
    """The layers that share the input table of a model of transformers, that one first; empty if none does."""
    layers, tables = adaptable(model), tables_of(model)
    inputs = next((layers[path] for path in tables if path in layers and layers[path].kind == "embedding"), None)
    if inputs is None:
        return []
    others = [it for it in layers.values() if it.weight is inputs.weight and it.path != inputs.path]
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
    if any(inside_of(it, saved) for it in paths):
        rest = {layer: options for layer, options in layers.items() if layer.path not in paths}
        return rest, [*saved, *sorted(it for it in paths if not inside_of(it, saved))]
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
    config, layers = getattr(model, "config", None), adaptable(model)
    weights = [layers[path].weight for path in tables_of(model) if path in layers]
    if config is None or len(weights) < 2 or weights[0] is weights[1]:
        return
    for part in (config, config.get_text_config()):
        if getattr(part, "tie_word_embeddings", False):
            part.tie_word_embeddings = False


def resize_tables(model: Any, count: int) -> None:
    """Give a model of transformers tables of `count` tokens; new rows are to be filled."""
    with torch.random.fork_rng(devices=[]):  # what is drawn next doesn't depend on rows that are not kept
        model.resize_token_embeddings(count, mean_resizing=False)


def parameters_of(model: nn.Module, path: str) -> dict[str, Tensor]:
    """The parameters of a layer by their paths; of one with an adapter the weight that this is added to."""
    parameters: dict[str, Tensor] = dict(model.get_submodule(path).named_parameters(prefix=path, recurse=False))
    layer = adaptable(model).get(path)
    return parameters if layer is None else {**parameters, f"{path}.weight": layer.weight}


def filled_tables(model: nn.Module) -> dict[str, Tensor]:
    """The parameters, by their paths, of the tables whose frozen values came with peft's files."""
    paths: tuple[str, ...] = vars(model).get(FILLED, ())
    return {name: it for path in paths for name, it in parameters_of(model, path).items()}
