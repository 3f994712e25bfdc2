"""What survives what: each operation of torch and its tools against ids, ties, trainability and optimizer states."""

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.func import functional_call
from torch.nn.utils import parametrizations, parametrize, prune
from torch.optim.swa_utils import AveragedModel

from .survival import NETS, WIDTH, Row, check, ids

APART = "torch makes a Parameter of its own for each name"
EMPTY = "there are no values to go on with"


def saved_and_loaded(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def loaded(model: Any, **options: Any) -> Any:
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, **options)
    return model


def swapped(model: Any) -> Any:
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return model.double()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def called_functionally(model: Any) -> Any:
    before, seen = ids(model), []
    hook = model.register_forward_pre_hook(lambda module, _: seen.append(ids(module)))
    others = {name: torch.ones_like(value) for name, value in model.named_parameters()}
    functional_call(model, others, (torch.ones(3, WIDTH),))
    hook.remove()
    assert seen == [before]
    return model


def on_body(tool: Callable[..., Any], *more: Callable[[nn.Module], object]) -> Callable[[Any], Any]:
    """Apply a tool to the weight of `body`, forward once, then do more."""

    def change(model: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the older norms are deprecated
            tool(model.body)
        model(torch.ones(3, WIDTH))
        for each in more:
            each(model.body)
        return model

    return change


def without(name: str) -> Callable[[Any], object]:
    return lambda layer: parametrize.remove_parametrizations(layer, name)


def quantized(model: Any) -> Any:
    torchao = pytest.importorskip("torchao.quantization")
    torchao.quantize_(model, torchao.Int8WeightOnlyConfig(), filter_fn=lambda module, path: path == "body")
    return model


def with_another_tensor(model: Any) -> Any:
    model.body.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))
    return model


def with_another_layer(model: Any) -> Any:
    model.layers[0] = type(model.layers[0])(*([WIDTH, WIDTH] if type(model).__name__ == "PlainNet" else []))
    return model


def renamed_and_reordered(model: Any) -> Any:
    body = model.body
    del model.body
    model.torso = body
    model._modules["inner"] = model._modules.pop("inner")
    return model


def with_a_layer_inserted(model: Any) -> Any:
    model.layers.insert(0, nn.Identity())
    model.layers.insert(1, nn.Linear(WIDTH, WIDTH))
    return model


def checkpointed(model: Any) -> Any:
    model.body = checkpoint_wrapper(model.body)
    return model


G, V = "body.parametrizations.weight.original0", "body.parametrizations.weight.original1"
SPECTRAL = ("body.parametrizations.weight.0._u", "body.parametrizations.weight.0._v")
LAYERS = {f"layers.{i}.{name}": f"layers.{i + 2}.{name}" for i in (0, 1) for name in ("weight", "bias")}
FIRST = ("layers.0.weight", "layers.0.bias")

ROWS = [
    Row("deepcopy", copy.deepcopy),
    Row("pickle", lambda model: pickle.loads(pickle.dumps(model))),
    Row("torch.save", saved_and_loaded),
    Row("to(dtype)", lambda model: model.to(torch.float64)),
    Row("half", lambda model: model.half()),
    Row("to(meta)", lambda model: model.to("meta"), tie=APART, steps=EMPTY),
    Row("to_empty", lambda model: model.to("meta").to_empty(device="cpu"), tie=APART, steps=EMPTY),
    Row("share_memory", lambda model: model.share_memory()),
    Row("load_state_dict", loaded),
    Row("load_state_dict(assign)", lambda model: loaded(model, assign=True), tie=APART),
    Row("swap on conversion", swapped),
    Row("functional_call", called_functionally),
    Row("weight_norm", on_body(parametrizations.weight_norm), moved={"body.weight": V}, new=(G,)),
    Row("weight_norm removed", on_body(parametrizations.weight_norm, without("weight"))),
    Row(
        "spectral_norm",
        on_body(parametrizations.spectral_norm),
        moved={"body.weight": "body.parametrizations.weight.original"},
        new=SPECTRAL,
    ),
    Row("spectral_norm removed", on_body(parametrizations.spectral_norm, without("weight"))),
    Row(
        "older weight_norm",
        on_body(nn.utils.weight_norm),
        moved={"body.weight": "body.weight_v"},
        new=("body.weight_g",),
    ),
    Row("older weight_norm removed", on_body(nn.utils.weight_norm, nn.utils.remove_weight_norm)),
    Row(
        "older spectral_norm",
        on_body(nn.utils.spectral_norm),
        moved={"body.weight": "body.weight_orig"},
        new=("body.weight_u", "body.weight_v"),
    ),
    Row("older spectral_norm removed", on_body(nn.utils.spectral_norm, nn.utils.remove_spectral_norm)),
    Row(
        "prune",
        on_body(lambda layer: prune.l1_unstructured(layer, "weight", 0.5)),
        moved={"body.weight": "body.weight_orig"},
        new=("body.weight_mask",),
    ),
    Row(
        "prune removed",
        on_body(lambda layer: prune.l1_unstructured(layer, "weight", 0.5), lambda layer: prune.remove(layer, "weight")),
    ),
    Row("compile", lambda model: torch.compile(model, backend="eager")),
    Row("DataParallel", nn.DataParallel),
    Row("AveragedModel", lambda model: AveragedModel(model).module),
    Row("checkpoint_wrapper", checkpointed),
    Row("quantize_", quantized, trainable="torchao freezes what it quantizes"),
    Row("a tensor replaced", with_another_tensor),
    Row("a layer replaced", with_another_layer, gone=FIRST, new=FIRST),
    Row(
        "fields renamed and reordered",
        renamed_and_reordered,
        moved={"body.weight": "torso.weight", "body.bias": "torso.bias"},
    ),
    Row("layers inserted", with_a_layer_inserted, moved=LAYERS, new=("layers.1.weight", "layers.1.bias")),
]


@pytest.mark.parametrize("assigned", ["before", "after"])
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_identity_survives(row: Row, net: str, assigned: str) -> None:
    check(row, net, assigned)
