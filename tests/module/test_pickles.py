"""Whole modules in pickles: what burnlike keeps about them is plain data, which `weights_only` loads take."""

import io
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec._utils import rebuild
from torch import nn

import burnlike.nn
from burnlike.func import stack, unstack
from burnlike.module import Module, Param, fresh_ids, params, valid

from .fields import ids


class Block(Module):
    """A burnlike module with what it may hold: a list, a label, a constant, a tie, a running statistic."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
        self.scale = Param.from_data([1.0, 2.0], name="scale")
        self.seen = Param.running(torch.zeros(2))
        self.tied = self.scale
        self.width = 2
        self.sizes = [1, 2]


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def classes_of(module: nn.Module) -> list[Any]:
    return list({type(part) for part in module.modules()})


def tied() -> Any:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[1].weight = model[0].weight
    return model


def moved() -> Any:
    model = tied()
    params(model)
    new = nn.Linear(2, 2)
    new.weight = model[0].weight
    model[0] = new
    return model


def after_valid() -> nn.Module:
    return valid(tied())


MODELS = [tied, moved, after_valid, Block, lambda: stack([nn.Linear(2, 2) for _ in range(2)])]


@pytest.mark.parametrize("make", MODELS)
def test_a_module_whose_ids_are_drawn_loads_by_weights_only(make: Any) -> None:
    model = make()
    known = ids(model)
    with torch.serialization.safe_globals(classes_of(model)):
        loaded = torch.load(saved(model), weights_only=True)
    assert ids(loaded) == known
    assert [param.aliases for param in params(loaded)] == [param.aliases for param in params(model)]
    assert [param.trainable for param in params(loaded)] == [param.trainable for param in params(model)]
    assert [param.name for param in params(loaded)] == [param.name for param in params(model)]
    again = pickle.loads(pickle.dumps(loaded))
    assert ids(again) == known
    fresh_ids(again)
    assert not set(ids(again).values()) & set(known.values())


def test_a_stack_of_modules_that_was_loaded_knows_its_members() -> None:
    members = [nn.Linear(2, 2) for _ in range(2)]
    known = [ids(member) for member in members]
    stacked = stack(members)
    with torch.serialization.safe_globals([nn.Linear]):
        loaded = torch.load(saved(stacked), weights_only=True)
    assert [ids(member) for member in unstack(loaded)] == known


def test_a_pickled_module_names_nothing_of_burnlikes() -> None:
    model = moved()
    params(model)
    names = [argument for _, argument, _ in pickletools.genops(pickle.dumps(model, 2)) if isinstance(argument, str)]
    assert not [name for name in names if name.startswith("burnlike")]


def test_a_module_is_loaded_where_burnlike_is_not_imported(tmp_path: Path) -> None:
    model = tied()
    params(model)
    torch.save(model, tmp_path / "model.pt")
    program = (
        "import sys, torch; from torch import nn\n"
        "with torch.serialization.safe_globals([nn.Sequential, nn.Linear, nn.BatchNorm1d]):\n"
        "    model = torch.load(sys.argv[1], weights_only=True)\n"
        "assert model[0].weight is model[1].weight and 'burnlike' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "model.pt")], check=True)


def test_burnlikes_layers_load_by_weights_only() -> None:
    """A DecoderLm has one of each. Configs that it keeps are named as any class that is no tensor's."""
    sizes = {"vocab_size": 5, "d_model": 8, "d_ff": 8, "n_layers": 2, "n_heads": 2, "max_sequence_length": 4}
    model = burnlike.nn.DecoderLmConfig(**sizes, dropout=0.1).init()
    known = ids(model)
    configs = [burnlike.nn.DecoderLmConfig, burnlike.nn.RotaryEncodingConfig, burnlike.nn.SiLUConfig]
    parts = [burnlike.models.RotaryPositions, burnlike.models.GatedPart, rebuild]
    with torch.serialization.safe_globals([*classes_of(model), *configs, *parts]):
        loaded = torch.load(saved(model), weights_only=True)
    assert ids(loaded) == known


def test_a_parameter_of_its_own_loads_by_weights_only() -> None:
    layer = nn.Linear(2, 2)
    params(layer)
    (loaded,) = torch.load(saved([layer.weight]), weights_only=True)
    torch.testing.assert_close(loaded, layer.weight)
    assert isinstance(loaded, nn.Parameter)
