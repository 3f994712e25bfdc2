"""Directories as Hugging Face lays them out: models, configs, files, and the way back; in Python and by `convert`."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from burnlike.cli import convert
from burnlike.errors import ConfigError, ConfigIOError, RecordError, RecordIOError, RecordMismatchError
from burnlike.models import load_pretrained, pretrained_config, save_pretrained, weight_table, weight_tables
from burnlike.record import init_from
from tests.cli.commands import run

SIZES = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}


@pytest.fixture(scope="module")
def theirs() -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS)).eval()


@pytest.fixture(params=["1GB", "4KB"])
def directory(theirs: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Of one file, and of shards."""
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size=request.param)
    return tmp_path / "theirs"


def test_a_directory_is_a_model(theirs: Any, directory: Path) -> None:
    model = load_pretrained(directory).eval()
    tokens = torch.randint(32, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), theirs(tokens).logits)
    assert {it.dtype for it in load_pretrained(directory, dtype=torch.float64).parameters()} == {torch.float64}


def test_the_type_is_that_of_the_weights(theirs: Any, tmp_path: Path) -> None:
    theirs.bfloat16().save_pretrained(tmp_path)
    theirs.float()
    model = load_pretrained(tmp_path)
    assert {it.dtype for it in model.parameters()} == {torch.bfloat16}
    # Computed tables are as exact as those of a model that was float32 from the start.
    tokens = torch.randint(32, (2, 40))
    with torch.no_grad():
        expected = load_pretrained(tmp_path, dtype=torch.float32).eval()(tokens)
        assert torch.equal(model.float().eval()(tokens), expected)


def test_no_initializer_runs(directory: Path) -> None:
    before = torch.get_rng_state()
    load_pretrained(directory)
    assert torch.equal(torch.get_rng_state(), before)


def test_old_files_of_torch_save_are_read(theirs: Any, tmp_path: Path) -> None:
    theirs.config.save_pretrained(tmp_path)
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    model, tokens = load_pretrained(tmp_path).eval(), torch.randint(32, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), theirs(tokens).logits)


def test_what_is_saved_is_what_was_loaded(theirs: Any, directory: Path, tmp_path: Path) -> None:
    path = save_pretrained(load_pretrained(directory), tmp_path / "back", "llama")
    found = safetensors.torch.load_file(path)
    assert found.keys() == theirs.state_dict().keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in theirs.state_dict().items())


def test_convert_takes_the_directory_and_gives_it_back(theirs: Any, directory: Path, tmp_path: Path) -> None:
    config, record, back = (tmp_path / name for name in ("model.yaml", "x.mpk", "back.safetensors"))
    run(convert, directory, record, "--from", "llama", "--ids")
    pretrained_config(directory).save(config)
    model = init_from(pretrained_config(directory), record).eval()
    tokens = torch.randint(32, (1, 5))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), theirs(tokens).logits)
    run(convert, record, back, "--to", "llama", "--model", config)
    found = safetensors.torch.load_file(back)
    assert all(torch.equal(found[name], tensor) for name, tensor in theirs.state_dict().items())


def test_other_weights_are_refused_before_anything_is_written(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"its config\.json is of a model of llama, got --from bert"):
        run(convert, directory, tmp_path / "x.mpk", "--from", "bert")
    with pytest.raises(RecordIOError, match=r"x\.safetensors: no such file; expected a record"):
        run(convert, tmp_path / "x.safetensors", tmp_path / "x.mpk", "--from", "llama")
    safetensors.torch.save_file({"weight": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(ConfigIOError, match=r"config\.json: expected the config.json of a model, which can't be read"):
        run(convert, tmp_path / "x.safetensors", tmp_path / "x.mpk", "--from", "llama")
    values = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**values, "num_hidden_layers": 3}))
    with pytest.raises(RecordMismatchError, match=r"missing in the record: model.layers.2.input_layernorm.weight"):
        run(convert, directory, tmp_path / "x.mpk", "--from", "llama")
    assert not (tmp_path / "x.mpk").exists()


def test_a_model_without_a_table_is_named(directory: Path) -> None:
    (directory / "config.json").write_text('{"model_type": "lama"}')
    with pytest.raises(RecordError, match="there is no table for the model_type 'lama'; did you mean 'llama'"):
        load_pretrained(directory)
    (directory / "config.json").write_text("{}")
    with pytest.raises(
        RecordError, match="expected a `model_type`, which tells whose weights these are; there are tables"
    ):
        load_pretrained(directory)
    (directory / "config.json").write_text("[]")
    with pytest.raises(ConfigIOError, match="expected a mapping, got list"):
        load_pretrained(directory)


def test_a_mistake_in_a_config_has_its_file(directory: Path) -> None:
    values = json.loads((directory / "config.json").read_text())
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("the key 'vocab_size' is missing, which a llama has", {"vocab_size": None}),
        ("DecoderLmConfig: d_model: expected an int >= 1, got 'x'", {"hidden_size": "x"}),
        ("there is no activation 'gleu'; did you mean 'gelu'", {"hidden_act": "gleu"}),
    ]
    for message, changes in wrong:
        changed = {key: value for key, value in {**values, **changes}.items() if value is not None}
        (directory / "config.json").write_text(json.dumps(changed))
        with pytest.raises(ConfigError, match=rf"theirs/config\.json: {message}"):
            load_pretrained(directory)


def test_tables_are_found_by_name() -> None:
    assert {"llama", "mistral", "gpt2", "bert", "t5", "vit", "resnet"} <= weight_tables().keys()
    with pytest.raises(RecordError, match="there are no weights called 'gpt-2'; did you mean 'gpt2'"):
        weight_table("gpt-2")
