"""What trains adapters beside peft, in float64: rates of LoRA+, biases, and first values."""

import copy
import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from peft.optimizers import create_loraplus_optimizer
from torch import nn

from burnlike.errors import ModuleTreeError
from burnlike.interop import load_adapter, merge_adapters, save_adapter
from burnlike.interop.adapters.adding import AdapterOptions, add_adapters
from burnlike.interop.adapters.layers import select
from burnlike.module import ParamGroup
from burnlike.optim import AdamWConfig, GradientsParams, OptimizerGroupConfig

X = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
pytestmark = pytest.mark.filterwarnings("ignore")  # of peft


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 4)).double()


def trained_by_peft(**options: Any) -> Any:
    return peft.get_peft_model(network(), peft.LoraConfig(r=2, lora_alpha=6, target_modules=["0"], **options))


def stepped(model: Any, take: Any) -> None:
    for _ in range(3):
        model(X).square().sum().backward()
        take()


def test_groups_of_an_optimizer_are_the_rates_of_lora_plus(tmp_path: Path) -> None:
    theirs = trained_by_peft()
    theirs.save_pretrained(str(tmp_path))
    ours = network()
    load_adapter(ours, tmp_path)
    options = {"lr": 0.01, "loraplus_lr_ratio": 8.0, "loraplus_weight_decay": 0.1, "eps": 1e-5}
    optimizer = create_loraplus_optimizer(theirs, torch.optim.AdamW, **options)
    b = OptimizerGroupConfig(params=ParamGroup.from_regex(r"\.lora\.b$"), lr_factor=8.0)
    mine = AdamWConfig(weight_decay=0.1, epsilon=1e-5, groups=(b,)).init()

    def step() -> None:
        mine.step(0.01, ours, GradientsParams.from_module(ours))
        ours.zero_grad()

    stepped(ours, step)
    stepped(theirs, lambda: (optimizer.step(), optimizer.zero_grad()))
    torch.testing.assert_close(ours(X), theirs(X), rtol=1e-11, atol=0)


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("bias", ["none", "lora_only", "all"])
def test_biases_are_read_trained_and_written_as_by_peft(tmp_path: Path, bias: str, dora: bool) -> None:
    theirs = trained_by_peft(bias=bias, use_dora=dora)
    stepped(theirs, lambda: None)
    with torch.no_grad():
        for it in theirs.parameters():
            it.add_(0.1 * it.grad if it.requires_grad else 0.0)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    ours = network()
    load_adapter(ours, tmp_path / "theirs")
    names = {"none": [], "lora_only": ["0.bias"], "all": ["0.bias", "1.bias", "3.bias"]}[bias]
    assert [name for name, it in ours.named_parameters() if it.requires_grad and name.endswith("bias")] == names
    torch.testing.assert_close(ours(X), theirs(X), rtol=1e-12, atol=0)
    theirs.zero_grad()
    for one in (theirs, ours):
        one(X).square().sum().backward()
    for name in names:
        wrapped = f"base_model.model.{name}".replace(".0.bias", ".0.base_layer.bias")
        expected = theirs.get_parameter(wrapped).grad
        torch.testing.assert_close(ours.get_parameter(name).grad, expected, rtol=1e-12, atol=1e-13)
    save_adapter(ours, tmp_path / "ours")
    assert json.loads((tmp_path / "ours" / "adapter_config.json").read_text())["bias"] == bias
    again = peft.PeftModel.from_pretrained(network(), tmp_path / "ours")
    torch.testing.assert_close(again(X), theirs(X), rtol=1e-12, atol=0)
    torch.testing.assert_close(merge_adapters(copy.deepcopy(ours))(X), theirs(X), rtol=1e-12, atol=0)
    load_adapter(ours, tmp_path / "theirs")  # the same adapters, which it has


def test_biases_that_a_model_freezes_are_not_read_into_it(tmp_path: Path) -> None:
    trained_by_peft(bias="all").save_pretrained(str(tmp_path))
    model = network()
    add_adapters(model, dict.fromkeys(select(model, ("0",)).values(), AdapterOptions(2, 6)), bias="lora_only")
    with pytest.raises(ModuleTreeError, match=r"trains '1\.bias', which the model freezes: set its bias to all"):
        load_adapter(model, tmp_path)
    model[3].bias.requires_grad_(True)
    with pytest.raises(ModuleTreeError, match=r"'0\.bias' is trained, and others"):
        save_adapter(model, tmp_path / "other")
