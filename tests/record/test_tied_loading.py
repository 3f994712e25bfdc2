"""Loading where a tensor has several names, in the module or in the record."""

from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from burnlike.errors import RecordMismatchError
from burnlike.module import params
from burnlike.record import Record, load, save


def tied() -> nn.Module:
    module = nn.ModuleDict({"embed": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)})
    module["head"].weight = module["embed"].weight
    return module


def test_tied_tensors_stay_tied(tmp_path: Path) -> None:
    source, module = tied(), tied()
    report = load(module, save(source, tmp_path / "x"))
    assert module["head"].weight is module["embed"].weight
    assert torch.equal(module["head"].weight, source["embed"].weight)
    assert list(report.applied) == ["embed.weight"]


@pytest.mark.parametrize("kept", ["embed.weight", "head.weight"])
def test_tied_module_loads_a_file_with_either_name_or_both(kept: str, tmp_path: Path) -> None:
    values = torch.randn(5, 3)
    for tensors in ({kept: values}, {"embed.weight": values, "head.weight": values.clone()}):
        safetensors.torch.save_file(tensors, tmp_path / "x")
        module = tied()
        load(module, tmp_path / "x")
        assert torch.equal(module["head"].weight, values)


def test_tied_module_refuses_two_different_tensors(tmp_path: Path) -> None:
    safetensors.torch.save_file({"embed.weight": torch.ones(5, 3), "head.weight": torch.zeros(5, 3)}, tmp_path / "x")
    module = tied()
    before = module["embed"].weight.clone()
    with pytest.raises(RecordMismatchError, match=r"'head\.weight', which the module ties to it"):
        load(module, tmp_path / "x")
    assert torch.equal(module["embed"].weight, before)


@pytest.mark.parametrize("other", [torch.float32, torch.bfloat16])
def test_both_names_of_a_tied_tensor_may_hold_nan_or_another_type(other: torch.dtype) -> None:
    values = torch.ones(5, 3)
    values[0, 0] = float("nan") if other == torch.float32 else 2
    module = tied()
    Record({"embed.weight": values, "head.weight": values.clone().to(other)}).load_into(module)
    assert torch.allclose(module["head"].weight, values, rtol=0, atol=0, equal_nan=True)


def test_both_names_of_a_tied_tensor_may_have_the_prefix_of_a_wrapper() -> None:
    values, module = torch.randn(5, 3), tied()
    prefixed = {"_orig_mod.embed.weight": values, "_orig_mod.head.weight": values.clone()}
    report = Record(prefixed).load_into(module)
    assert torch.equal(module["head"].weight, values)
    assert not report.unexpected


def test_an_untied_module_has_the_tensor_of_its_name_renamed_to_none() -> None:
    """An optimizer's record follows `renamed`: its state must not go to the second tensor."""
    module = nn.ModuleDict({"embed": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)})
    report = Record.from_module(tied()).load_into(module)
    assert list(report.applied) == ["embed.weight", "head.weight"]
    assert report.renamed == {}


def test_untied_module_loads_a_tied_file_into_both(tmp_path: Path) -> None:
    source = tied()
    module = nn.ModuleDict({"embed": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)})
    ids = [param.id for param in params(module)]
    load(module, save(source, tmp_path / "x"))
    assert torch.equal(module["embed"].weight, source["embed"].weight)
    assert torch.equal(module["head"].weight, source["embed"].weight)
    assert [param.id for param in params(module)] == [params(source)[0].id, ids[1]]
