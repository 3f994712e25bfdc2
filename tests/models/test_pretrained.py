"""Directories as Hugging Face lays them out: models, configs, files, and the way back; in Python and by `convert`."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, LlamaModel, ViTConfig, ViTModel

from burnlike.cli.commands import convert
from burnlike.errors import ArgumentError, ConfigError, ConfigIOError, RecordError, RecordIOError, RecordMismatchError
from burnlike.models import load_pretrained, pretrained_config, save_pretrained, weight_table, weight_tables
from burnlike.record import init_from
from tests.cli.commands import run

SIZES = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}

GPT2 = {"vocab_size": 32, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16}


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


def test_the_type_is_that_of_the_config(theirs: Any, directory: Path) -> None:
    values = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**values, "dtype": None, "torch_dtype": "bfloat16"}))
    assert {it.dtype for it in load_pretrained(directory).parameters()} == {torch.bfloat16}
    assert {it.dtype for it in load_pretrained(directory, dtype=torch.float16).parameters()} == {torch.float16}


@pytest.mark.parametrize(
    ("named", "types"),
    [
        (None, (torch.bfloat16, torch.float32)),
        ("bfloat16", (torch.bfloat16, torch.float32)),
        ("float16", (torch.float16, torch.float32)),
        ("float32", (torch.float32, torch.float32)),
        ("float64", (torch.float64, torch.float64)),
    ],
)
def test_no_weight_is_rounded_because_of_the_others(named: str | None, types: Any, theirs: Any, tmp_path: Path) -> None:
    """A file of bfloat16 with a norm of float32, by what the config says of the types."""
    theirs.config.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, "dtype": named}))
    state = {name: it.bfloat16() for name, it in theirs.state_dict().items()}
    state["model.norm.weight"] = torch.full((16,), 1.001)
    safetensors.torch.save_file(state, tmp_path / "model.safetensors")
    model: Any = load_pretrained(tmp_path)
    assert (model.embedding.weight.dtype, model.norm.gamma.dtype) == types
    assert torch.equal(model.norm.gamma.float(), state["model.norm.weight"])
    tokens = torch.randint(32, (1, 5))
    assert model(tokens).shape == (1, 5, 32)
    rounded: Any = load_pretrained(tmp_path, dtype=torch.bfloat16)
    assert {it.dtype for it in rounded.parameters()} == {torch.bfloat16}


def test_the_model_is_in_evaluation_mode(directory: Path) -> None:
    assert not any(it.training for it in load_pretrained(directory).modules())


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


def test_old_files_in_shards_are_read(tmp_path: Path) -> None:
    """With a weight that is there under two names, in one shard, as old versions of transformers wrote them."""
    theirs = GPT2LMHeadModel(GPT2Config(**GPT2)).eval()
    theirs.config.save_pretrained(tmp_path)
    state = theirs.state_dict()
    names = [*state]
    shards = {"pytorch_model-00001-of-00002.bin": {names[0], names[-1]}}
    shards["pytorch_model-00002-of-00002.bin"] = {*names[1:-1]}
    for file, held in shards.items():
        torch.save({name: state[name] for name in held}, tmp_path / file)
    places = {name: file for file, held in shards.items() for name in held}
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    model, tokens = load_pretrained(tmp_path), torch.randint(32, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), theirs(tokens).logits)


@pytest.mark.parametrize("name", ["transformer.wte.weight", "wte.weight"])
def test_an_untied_head_of_gpt2_keeps_its_name(name: str, tmp_path: Path) -> None:
    theirs = GPT2LMHeadModel(GPT2Config(**GPT2, tie_word_embeddings=False)).eval()
    prefix = name.removesuffix("wte.weight")
    theirs.config.save_pretrained(tmp_path)
    state = {it.replace("transformer.", prefix): tensor for it, tensor in theirs.state_dict().items()}
    safetensors.torch.save_file(state, tmp_path / "model.safetensors")
    model, tokens = load_pretrained(tmp_path), torch.randint(32, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), theirs(tokens).logits)
    found = safetensors.torch.load_file(save_pretrained(model, tmp_path / "back", "gpt2"))
    assert found.keys() == theirs.state_dict().keys()
    theirs.config.save_pretrained(tmp_path / "back")
    again, report = GPT2LMHeadModel.from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not any(report.values())
    assert torch.equal(again.lm_head.weight, theirs.lm_head.weight)


def test_a_backbone_alone_has_no_head(theirs: Any, directory: Path, tmp_path: Path) -> None:
    theirs.model.save_pretrained(tmp_path / "alone")
    tokens = torch.randint(32, (2, 9))
    for model in (load_pretrained(tmp_path / "alone"), load_pretrained(directory, architecture="LlamaModel")):
        with torch.no_grad():
            torch.testing.assert_close(model(tokens), theirs.model(tokens).last_hidden_state)
        with pytest.raises(ArgumentError, match="expected a model with an output head"):
            model.generate(tokens, 2)  # pyright: ignore[reportCallIssue]
        save_pretrained(model, tmp_path / "back", "llama")
        theirs.model.config.save_pretrained(tmp_path / "back")
        again, report = LlamaModel.from_pretrained(tmp_path / "back", output_loading_info=True)
        assert not any(report.values())
        assert torch.equal(again.embed_tokens.weight, theirs.model.embed_tokens.weight)
    with pytest.raises(RecordMismatchError, match=r"missing in the record: lm_head\.weight"):
        load_pretrained(tmp_path / "alone", architecture="LlamaForCausalLM")


OF_TOKENS = {**SIZES, "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0}
OF_IMAGES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
OTHER_HEADS = [
    ("LlamaForTokenClassification", OF_TOKENS, "LlamaModel"),
    ("GPT2DoubleHeadsModel", GPT2, "GPT2Model"),
    ("BertForQuestionAnswering", OF_TOKENS, "BertModel"),
    ("ViTForMaskedImageModeling", {**OF_IMAGES, "image_size": 8, "patch_size": 4, "encoder_stride": 4}, "ViTModel"),
]


@pytest.mark.parametrize(("name", "sizes", "backbone"), OTHER_HEADS, ids=lambda it: it if isinstance(it, str) else "")
def test_the_backbone_of_a_model_with_a_head_that_has_no_table(
    name: str, sizes: dict[str, Any], backbone: str, tmp_path: Path
) -> None:
    kind: Any = getattr(transformers, name)
    theirs = kind(kind.config_class(**sizes)).eval()
    theirs.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=rf"got '{name}'; to load what it shares .* pass architecture="):
        load_pretrained(tmp_path)
    config: Any = pretrained_config(tmp_path, backbone)
    config = config.replace(pooler=False) if backbone == "BertModel" else config
    ours: Any = load_pretrained(tmp_path, architecture=backbone, config=config)
    x = torch.randn(2, 3, 8, 8) if backbone == "ViTModel" else torch.randint(32, (2, 9))
    with torch.no_grad():
        found, expected = ours(x), theirs.base_model(x).last_hidden_state
    found = found.hidden if backbone == "BertModel" else found
    torch.testing.assert_close(found, expected[:, 0] if backbone == "ViTModel" else expected)


def test_a_backbone_of_images_gets_another_head(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
    theirs = ViTModel(ViTConfig(**sizes, image_size=8, patch_size=4)).eval()
    theirs.save_pretrained(tmp_path)
    backbone: Any = load_pretrained(tmp_path)
    assert backbone.head is None
    ours: Any = pretrained_config(tmp_path).replace(num_classes=3).init()
    ours.load_record(backbone.into_record(), strict=False)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        expected = theirs(x).last_hidden_state[:, 0]
        torch.testing.assert_close(backbone(x), expected)
        torch.testing.assert_close(ours(x), ours.head(expected))


def test_what_is_saved_is_what_was_loaded(theirs: Any, directory: Path, tmp_path: Path) -> None:
    path = save_pretrained(load_pretrained(directory), tmp_path / "back", "llama")
    found = safetensors.torch.load_file(path)
    assert found.keys() == theirs.state_dict().keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in theirs.state_dict().items())


def test_convert_takes_the_directory_and_gives_it_back(
    theirs: Any, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, record, back = (tmp_path / name for name in ("model.yaml", "x.mpk", "back.safetensors"))
    monkeypatch.chdir(directory)
    for place in (directory, "model.safetensors"):  # the second is in the current directory
        run(convert, place, record, "--from", "llama", "--ids", "--force")
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
        ("hidden_act: there is no activation 'gleu'; did you mean 'gelu'", {"hidden_act": "gleu"}),
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
