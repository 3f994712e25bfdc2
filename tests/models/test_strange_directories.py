"""What may be wrong in a directory that a stranger made: one error each, before memory is taken or anything waits."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    ResNetConfig,
    ResNetForImageClassification,
)

from burnlike.errors import BurnlikeError, ConfigError, ConfigIOError, DTypeError, RecordIOError
from burnlike.models import (
    BertEncoder,
    DecoderLmConfig,
    ExpertsPart,
    load_pretrained,
    pretrained_config,
)

SIZES = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 8}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS)).save_pretrained(tmp_path)
    return tmp_path


def changed(directory: Path, **changes: Any) -> Path:
    values = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**values, **changes}))
    return directory


def refusal(call: Callable[[], Any]) -> str | None:
    """The message of burnlike's error; None without one."""
    try:
        call()
    except BurnlikeError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: path.write_text("[" * 200_000), "can't be read: it is nested too deeply"),
        (lambda path: path.write_bytes(b"\xff{}"), "can't be read: 'utf-8' codec"),
        (lambda path: path.write_text("{"), "can't be read: Expecting property name"),
        (lambda path: path.write_text(" " * (16 * 2**20 + 1)), "got more than 16 MiB"),
        (lambda path: path.write_text('{"x": ' + "1" * 10_000 + "}"), "can't be read: Exceeds the limit"),
        (os.mkfifo, "can't be read: it is a pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "can't be read: it is a device"),
        (lambda path: path.mkdir(), "can't be read: Is a directory"),
    ],
    ids=["deep", "bytes", "cut", "long", "number", "pipe", "device", "directory"],
)
def test_a_config_that_is_no_file_of_json(write: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    write(tmp_path / "config.json")
    with pytest.raises(ConfigIOError, match=message):
        load_pretrained(tmp_path)


def test_weights_that_are_no_file(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    with pytest.raises(RecordIOError, match=r"got a directory without model\.safetensors, .* and pytorch_model\.bin\."):
        load_pretrained(directory)
    os.mkfifo(directory / "pytorch_model.bin")
    with pytest.raises(RecordIOError, match="expected a record's file"):
        load_pretrained(directory)


def test_what_is_no_directory_or_no_type_of_a_model_is_said(directory: Path) -> None:
    expected = r"expected a directory with the config\.json .*"
    for name, advice in (
        ("meta-llama/Llama-2-7b-hf", "snapshot_download"),
        (directory / "model.safetensors", "found none"),
    ):
        with pytest.raises(ConfigIOError, match=expected + advice):
            load_pretrained(name)
    for dtype in ("float16", torch.int8):
        with pytest.raises(DTypeError, match=r"dtype: expected one of torch\.float16, .*, got "):
            load_pretrained(directory, dtype=dtype)  # pyright: ignore[reportArgumentType]


WRONG: list[Any] = [None, "x", -1, 0, 10**12, 10**400, 1e300, float("nan"), float("inf"), [], {}, [[]], {"x": 1}, True]


def test_every_value_of_another_kind_is_one_error_or_a_model(directory: Path) -> None:
    values = json.loads((directory / "config.json").read_text())
    for key in values:
        for wrong in WRONG:
            (directory / "config.json").write_text(json.dumps({**values, key: wrong}))
            message = refusal(lambda: pretrained_config(directory))
            assert message is None or (str(directory / "config.json") in message and len(message) < 2000), message


def test_tables_that_the_weights_do_not_explain_are_refused(directory: Path) -> None:
    for longest in (2**31 - 1, 10**9):
        changed(directory, max_position_embeddings=longest)
        with pytest.raises(ConfigError, match=r"asks for tables of positions of .* GB beside weights of 0.0 GB"):
            load_pretrained(directory)
    shorter = pretrained_config(directory).replace(max_sequence_length=8)
    assert load_pretrained(directory, config=shorter)(torch.zeros(1, 8, dtype=torch.int64)).shape == (1, 8, 32)
    with pytest.raises(ConfigError, match="max_sequence_length: expected at most 2147483647"):
        load_pretrained(changed(directory, max_position_embeddings=10**12))


def test_a_model_of_more_tensors_than_there_are_is_not_built(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="asks for a model of more than 88 tensors, which the weights don't have"):
        load_pretrained(changed(directory, num_hidden_layers=4096))
    resnet = ResNetConfig(embedding_size=4, hidden_sizes=[8], depths=[1])
    ResNetForImageClassification(resnet).save_pretrained(tmp_path / "resnet")
    with pytest.raises(ConfigError, match="asks for a model of more than"):
        load_pretrained(changed(tmp_path / "resnet", depths=[4096]))
    sizes = {"vocab_size": 8, "max_sequence_length": 8, "d_model": 8, "n_heads": 1, "d_ff": 8}
    with pytest.raises(ConfigError, match=r"DecoderLmConfig: makes 16,777,216 layers"):
        DecoderLmConfig(**sizes, n_layers=4096, feed_forward=ExpertsPart(n_experts=4096))


def test_numbers_that_no_frequencies_can_be_made_of_are_one_error(directory: Path) -> None:
    for rope in (
        {"rope_type": "yarn", "factor": 4.0, "beta_slow": 5e-324},
        {"rope_type": "yarn", "factor": 1.0, "rope_theta": 1.0000000000000002},
        {"rope_type": "dynamic", "factor": 10**6, "rope_theta": 1e18},
    ):
        changed(directory, rope_parameters=rope)
        message = refusal(lambda: load_pretrained(directory))
        assert message is None or "config.json" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config: the weights are quantized"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures: expected one of LlamaForCausalLM, "),
        ({"architectures": "LlamaForCausalLM"}, "architectures: expected a list of names"),
        ({"is_causal": False}, "is_causal: expected True, got False"),
        ({"logit_scale": 2.0}, "'logit_scale': the table of llama does not know what such a key changes"),
        ({"auto_map": {"AutoModel": "x.Y"}}, "'auto_map'"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "x": 1}}, r"'rope_parameters.x'"),
        ({"dtype": "float8_e4m3fn"}, "dtype: expected one of float16, bfloat16, float32, float64"),
        ({"hidden_act": None}, "hidden_act: expected a text, got None"),
        ({"max_position_embeddings": None}, "expected an int >= 1, got null"),
    ],
)
def test_what_the_table_does_not_know_is_refused_by_name(
    changes: dict[str, Any], message: str, directory: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"config\.json: (.|\n)*{message}"):
        load_pretrained(changed(directory, **changes))


def test_a_head_that_has_no_table_is_refused_and_its_encoder_is_loaded_by_name(tmp_path: Path) -> None:
    sizes = {"vocab_size": 13, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    theirs = BertForTokenClassification(BertConfig(**sizes, intermediate_size=12, max_position_embeddings=9)).eval()
    theirs.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"got 'BertForTokenClassification'.*pass architecture="):
        load_pretrained(tmp_path)
    config: Any = pretrained_config(tmp_path, architecture="BertModel")
    ours: Any = load_pretrained(tmp_path, architecture="BertModel", config=config.replace(pooler=False))
    assert isinstance(ours, BertEncoder)
    tokens = torch.randint(13, (2, 5))
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens).hidden, theirs.bert(tokens).last_hidden_state)


def test_names_with_and_without_the_backbones_are_not_mixed(tmp_path: Path) -> None:
    theirs = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=4, n_layer=1, n_head=1, n_positions=4))
    theirs.config.save_pretrained(tmp_path)
    state = theirs.state_dict()
    torch.save({**state, "wpe.weight": state["transformer.wpe.weight"].clone()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(BurnlikeError, match=r"wpe\.weight"):
        load_pretrained(tmp_path)
