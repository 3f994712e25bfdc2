"""Trained rows of tables of tokens beside peft's `trainable_token_indices`, in float64."""

import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from torch import Tensor, nn

from burnlike.errors import ConfigError, ModuleTreeError, RecordFormatError
from burnlike.interop import load_adapter, merge_adapters, save_adapter
from burnlike.interop.adapters.layers import token_rows_of
from burnlike.models import LoRAConfig, PretrainedConfig
from burnlike.record import open_record

from ...models.by_path.directories import VOCABULARY, llama

N = VOCABULARY
TOKENS = torch.tensor([[1, N, 5, N + 1, N + 1, 3], [N, N, 2, 7, N + 1, 0]])
pytestmark = pytest.mark.filterwarnings("ignore")  # of peft


def base(directory: Path, *, tied: bool, count: int = N + 2) -> Any:
    """A model of transformers in float64 with two tokens more, whose rows peft has drawn."""
    model: Any = transformers.LlamaForCausalLM.from_pretrained(directory, dtype=torch.float64)
    assert model.config.tie_word_embeddings == tied
    if count != N:
        torch.manual_seed(3)
        model.resize_token_embeddings(count)
    return model


def loss(model: Any) -> Tensor:
    return model(TOKENS, labels=TOKENS).loss


def with_peft(directory: Path, *, tied: bool, **options: Any) -> Any:
    torch.manual_seed(4)
    numbers: Any = [N, N + 1] if tied else {"embed_tokens": [N, N + 1], "lm_head": [N, N + 1]}
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], trainable_token_indices=numbers, **options)
    model: Any = peft.get_peft_model(base(directory, tied=tied), config)
    with torch.no_grad():
        for name, it in model.named_parameters():
            if it.requires_grad:
                it.add_(0.3 * torch.randn(it.shape, dtype=it.dtype, generator=torch.Generator().manual_seed(len(name))))
    return model


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("count", [N, N + 2])
def test_we_read_pefts_files_and_peft_reads_ours(tmp_path: Path, tied: bool, count: int) -> None:
    directory = llama(tmp_path / "base", tie_word_embeddings=tied)
    theirs = with_peft(directory, tied=tied)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = base(directory, tied=tied, count=count)
    load_adapter(ours, tmp_path / "theirs")
    one, other = loss(theirs), loss(ours)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=0)
    one.backward()
    other.backward()
    rows = token_rows_of(ours)
    assert [*rows] == (["model.embed_tokens"] if tied else ["model.embed_tokens", "lm_head"])
    gradients = [it.grad for name, it in theirs.named_parameters() if "trainable_tokens_delta" in name]
    assert len(gradients) == len(rows)
    for it, gradient in zip(rows.values(), gradients, strict=True):
        torch.testing.assert_close(it.values.grad, gradient, rtol=1e-11, atol=1e-15)
    assert {name.split(".")[-1] for name, it in ours.named_parameters() if it.requires_grad} == {"a", "b", "values"}
    save_adapter(ours, tmp_path / "ours", base=directory)
    files = [open_record(tmp_path / name / "adapter_model.safetensors").tensors for name in ("theirs", "ours")]
    assert {*files[1]} >= {it for it in files[0] if "lora_" in it or "embed_tokens.token_adapter.trainable" in it}
    assert all(torch.equal(files[1][name], files[0][name]) for name in files[1])
    again = peft.PeftModel.from_pretrained(base(directory, tied=tied), tmp_path / "ours")
    torch.testing.assert_close(loss(again), one, rtol=1e-12, atol=0)
    merged = merge_adapters(ours)
    torch.testing.assert_close(loss(merged), one, rtol=1e-12, atol=0)
    assert merged.config.tie_word_embeddings == tied
    assert (merged.lm_head.weight is merged.model.embed_tokens.weight) == tied


def test_a_table_that_is_trained_whole_has_no_rows_of_its_own(tmp_path: Path) -> None:
    directory = llama(tmp_path / "base", tie_word_embeddings=False)
    config = LoRAConfig(
        of=PretrainedConfig(path=str(directory), dtype="float64"),
        rank=2, targets=("q_proj",), modules_to_save=("lm_head",), new_tokens=(N, N + 1),
    )  # fmt: skip
    model: Any = config.init("cpu")
    tied = llama(tmp_path / "tied", tie_word_embeddings=True)
    with pytest.raises(ConfigError, match=r"expected all or none of model.embed_tokens, lm_head"):
        config.replace(of=PretrainedConfig(path=str(tied))).init("cpu")
    assert [*token_rows_of(model)] == ["model.embed_tokens"]
    with torch.no_grad():
        for it in model.parameters():
            if it.requires_grad:
                it.add_(torch.randn_like(it))
    save_adapter(model, tmp_path / "ours")
    again = peft.PeftModel.from_pretrained(base(directory, tied=False), tmp_path / "ours")
    torch.testing.assert_close(loss(again), loss(model), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_rows_begin_as_the_mean_and_the_layer_computes_as_its_table(tmp_path: Path, dtype: Any) -> None:
    directory = llama(tmp_path / "base", tie_word_embeddings=True)
    of = PretrainedConfig(path=str(directory), dtype=dtype)
    table = of.init("cpu").lm_head.weight
    model: Any = LoRAConfig(of=of, rank=2, new_tokens=(N, N + 1, 7)).init("cpu")
    mean = table.double().mean(0).to(table.dtype)
    assert model.lm_head.weight.shape == (N + 2, 16)
    assert torch.equal(model.lm_head.weight[:N], table)
    assert all(torch.equal(it, mean) for it in model.lm_head.weight[N:])
    (rows,) = token_rows_of(model).values()
    assert rows.tokens == (7, N, N + 1)
    with torch.no_grad():
        rows.values.normal_()
    weight = model.model.embed_tokens.weight
    assert torch.equal(model.model.embed_tokens(TOKENS), nn.functional.embedding(TOKENS, weight))
    x = torch.randn(3, 16, dtype=table.dtype)
    torch.testing.assert_close(model.lm_head(x), x @ weight.mT)


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ([-1], RecordFormatError, "expected numbers of tokens"),
        ([3, 3], RecordFormatError, "each token once"),
        ({"embed_tokens": [1], "lm_head": [2]}, ModuleTreeError, "is tied to a table with other tokens"),
        ({"q_proj": [1]}, ModuleTreeError, "no table of tokens 'q_proj'"),
        ([N + 3], ModuleTreeError, f"not all tables have a row of token {N}"),
        ([3], ModuleTreeError, "new_tokens"),
    ],
)
def test_other_rows_are_refused_and_change_nothing(tmp_path: Path, numbers: Any, error: Any, message: str) -> None:
    directory = llama(tmp_path / "base", tie_word_embeddings=True)
    model: Any = LoRAConfig(of=PretrainedConfig(path=str(directory)), rank=2, new_tokens=(5,)).init("cpu")
    save_adapter(model, tmp_path / "ours")
    file = tmp_path / "ours" / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "trainable_token_indices": numbers}))
    target = model if numbers == [3] else PretrainedConfig(path=str(directory)).init("cpu")
    before = {name: it.clone() for name, it in target.state_dict().items()}
    with pytest.raises(error, match=message):
        load_adapter(target, tmp_path / "ours")
    after = target.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(it, after[name]) for name, it in before.items())
