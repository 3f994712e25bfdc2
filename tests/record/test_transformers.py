"""`transformers` loads what burnlike saves by `from_pretrained`: single and divided, tied weights, bfloat16."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

SMALL = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2}
CONFIGS = {
    "llama": lambda tied: transformers.LlamaConfig(
        **SMALL,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        tie_word_embeddings=tied,
    ),
    "gpt2": lambda tied: transformers.GPT2Config(
        **SMALL, n_embd=32, n_layer=2, n_head=4, n_positions=16, tie_word_embeddings=tied
    ),
}


def loaded(folder: Path, dtype: torch.dtype) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


@pytest.mark.parametrize("shard_bytes", [None, 10**9, 20_000], ids=["plain", "fits one file", "divided"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("name", CONFIGS)
def test_from_pretrained_loads_the_same_as_of_its_own_files(
    name: str, tied: bool, dtype: torch.dtype, shard_bytes: int | None, tmp_path: Path
) -> None:
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name](tied))
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    model.config.save_pretrained(ours)
    recorder = SafetensorsRecorder(BFloat16Precision if dtype == torch.bfloat16 else None, shard_bytes)
    recorder.save(Record.from_module(model), ours / "model.safetensors")
    model.to(dtype).save_pretrained(theirs)
    assert len(list(ours.glob("*.safetensors"))) == 1 or shard_bytes == 20_000

    tokens = torch.arange(8)[None]
    found, expected = loaded(ours, dtype), loaded(theirs, dtype)
    assert torch.equal(found(tokens).logits, expected(tokens).logits)
    assert (found.get_input_embeddings().weight is found.get_output_embeddings().weight) == tied


def test_files_of_transformers_load(tmp_path: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS["gpt2"](True))
    model.save_pretrained(tmp_path)
    other = transformers.AutoModelForCausalLM.from_config(CONFIGS["gpt2"](True))
    SafetensorsRecorder().load(tmp_path / "model.safetensors").load_into(other)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
