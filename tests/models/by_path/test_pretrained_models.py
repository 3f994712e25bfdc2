"""`type: Pretrained`: the model of a directory, beside what transformers reads from it."""

import re
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
import transformers
from safetensors.torch import load_file, save_file

from burnlike.errors import ConfigError, RecordIOError
from burnlike.models import BertClassifier, DecoderLm, PretrainedConfig, load_pretrained, save_for_transformers
from burnlike.models.by_path.catalog import catalog

from .directories import bert, built, changed, llama, tokens, vit


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("directories")
    return {
        "bert": bert(root / "bert"),
        "classifier": bert(root / "classifier", transformers.BertForSequenceClassification, num_labels=3),
        "llama": llama(root / "llama"),
        "vit": vit(root / "vit"),
    }


def logits(model: Any, inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(inputs).logits


def test_the_catalog_is_that_of_transformers() -> None:
    from transformers.models.auto import configuration_auto, modeling_auto

    found = catalog()
    assert found.model_types == {*configuration_auto.CONFIG_MAPPING_NAMES}
    for head, classes in found.heads.items():
        auto = getattr(modeling_auto, f"AutoModelFor{head}" if head else "AutoModel")
        theirs = auto._model_mapping._model_mapping
        assert classes == {kind: it if isinstance(it, tuple) else (it,) for kind, it in theirs.items()}


@pytest.mark.parametrize(
    ("name", "head", "auto"),
    [
        ("bert", "MaskedLM", "AutoModelForMaskedLM"),
        ("bert", None, "AutoModelForMaskedLM"),
        ("classifier", "SequenceClassification", "AutoModelForSequenceClassification"),
        ("llama", "CausalLM", "AutoModelForCausalLM"),
        ("vit", "SequenceClassification", "AutoModelForImageClassification"),
    ],
)
def test_it_gives_the_logits_of_transformers(places: dict[str, Path], name: str, head: str, auto: str) -> None:
    expected = getattr(transformers, auto).from_pretrained(places[name])
    model = built(places[name], head=head)
    assert type(model) is type(expected)
    assert model.training
    inputs = torch.randn(2, 1, 8, 8) if name == "vit" else tokens()
    assert torch.equal(logits(model, inputs), logits(expected, inputs))
    (line,) = model.burnlike_origin
    count = sum(1 for _ in expected.parameters())  # tied ones once
    assert line == f"weights   {count} of {count} tensors of {places[name]}/model.safetensors"


def test_a_causal_model_of_an_encoder_does_not_see_what_it_is_to_predict(places: dict[str, Path]) -> None:
    model = built(places["bert"], head="CausalLM")
    changed_last = tokens(1, 8)
    changed_last[0, -1] = (changed_last[0, -1] + 1) % 40
    assert torch.equal(logits(model, changed_last)[:, :-1], logits(model, tokens(1, 8))[:, :-1])
    assert not torch.equal(logits(model, changed_last)[:, -1], logits(model, tokens(1, 8))[:, -1])


def test_a_head_that_the_directory_lacks_is_drawn_by_the_seed_and_said(places: dict[str, Path]) -> None:
    config = PretrainedConfig(path=str(places["bert"])).for_task("SequenceClassification", ["no", "maybe", "yes"])
    torch.manual_seed(5)
    model = config.init("cpu")
    torch.manual_seed(5)
    assert torch.equal(model.classifier.weight, config.init("cpu").classifier.weight)
    assert not torch.equal(model.classifier.weight, config.init("cpu").classifier.weight)
    encoder = transformers.BertModel.from_pretrained(places["bert"], add_pooling_layer=False)
    with torch.no_grad():
        assert torch.equal(model.bert.eval()(tokens())[0], encoder(tokens())[0])
    assert model.config.id2label == {0: "no", 1: "maybe", 2: "yes"}
    assert model.burnlike_origin[0].endswith(
        "drawn: bert.pooler.dense.bias, bert.pooler.dense.weight, classifier.bias, classifier.weight; left out: cls (5)"
    )


def test_a_classifier_of_other_classes_keeps_all_but_its_last_layer(places: dict[str, Path]) -> None:
    model = built(places["classifier"], head="SequenceClassification", n_classes=4)
    assert model.classifier.weight.shape == (4, 16)
    assert model.burnlike_origin[0].endswith("drawn: classifier.bias, classifier.weight")
    same = built(places["classifier"], head="SequenceClassification", classes=("a", "b", "c"))
    assert same.config.id2label == {0: "a", 1: "b", 2: "c"}
    assert "drawn" not in same.burnlike_origin[0]


def test_a_head_of_other_classes_is_said(places: dict[str, Path], tmp_path: Path) -> None:
    config = {"head": "SequenceClassification", "classes": ("bad", "good", "none")}
    save_for_transformers(built(places["classifier"], **config), tmp_path)
    assert len(built(tmp_path, **config).burnlike_origin) == 1
    found = built(tmp_path, **{**config, "classes": ("good", "none", "bad")}).burnlike_origin
    assert found[1] == f"classes   good, none, bad; in {tmp_path} bad, good, none"


def test_random_weights_are_asked_for(places: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((places["llama"] / "config.json").read_bytes())
    with pytest.raises(OSError, match=r"expected the weights of a model, got a directory without model\.safetensors"):
        built(tmp_path)
    models = []
    for _ in range(2):
        torch.manual_seed(7)
        models.append(built(tmp_path, weights="random"))
    assert torch.equal(logits(models[0], tokens()), logits(models[1], tokens()))
    assert models[0].burnlike_origin == (f"weights   drawn, for {tmp_path}/config.json",)
    described = transformers.AutoConfig.from_pretrained(tmp_path)
    torch.manual_seed(7)
    assert torch.equal(
        transformers.AutoModelForCausalLM.from_config(described).lm_head.weight, models[0].lm_head.weight
    )


@pytest.mark.parametrize("kind", ["shards", "bin", "several bins", "no prefix", "without architectures"])
def test_files_of_every_kind_are_read(kind: str, tmp_path: Path) -> None:
    expected = built(bert(tmp_path / "whole"), head="MaskedLM")
    directory = bert(tmp_path / "d", shard="6KB" if kind == "shards" else "1GB")
    if kind == "bin":
        torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
        (directory / "model.safetensors").unlink()
    elif kind == "several bins":
        found = load_file(directory / "model.safetensors")
        (directory / "model.safetensors").unlink()
        places = {}
        for number, names in enumerate((list(found)[:9], list(found)[9:])):
            file = f"pytorch_model-{number + 1:05}-of-00002.bin"
            torch.save({name: found[name] for name in names}, directory / file)
            places |= dict.fromkeys(names, file)
        import json

        index = {"metadata": {}, "weight_map": places}
        (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    elif kind == "no prefix":
        transformers.BertModel.from_pretrained(directory).save_pretrained(directory)
        changed(directory, architectures=["BertModel"])
    elif kind == "without architectures":
        changed(directory, architectures=None)
    model = built(directory, head="MaskedLM")
    assert torch.equal(model.bert.eval()(tokens())[0], expected.bert.eval()(tokens())[0])


def test_weights_of_another_model_are_refused(places: dict[str, Path], tmp_path: Path) -> None:
    directory = bert(tmp_path / "d")
    whole = load_file(directory / "model.safetensors")

    def wrong(weights: dict[str, torch.Tensor], **fields: Any) -> str:
        save_file(weights, directory / "model.safetensors", {"format": "pt"})
        with pytest.raises(ConfigError) as error:
            built(directory, **{"head": "MaskedLM", **fields})
        return str(error.value)

    without = {name: it for name, it in whole.items() if "layer.1.output" not in name}
    assert "no bert.encoder.layer.1.output.LayerNorm.bias" in wrong(without)
    assert "no bert.encoder.layer.1.output.LayerNorm.bias" in wrong(without, head="SequenceClassification")
    more = {**whole, "bert.encoder.layer.7.output.dense.bias": torch.zeros(16)}
    assert "'bert.encoder.layer.7.output.dense.bias', which the model does not have" in wrong(more)
    assert "of [40, 16] where the model has [50, 16]" in wrong(whole, options={"vocab_size": 50})
    assert "where the model has [8]" in wrong(whole, options={"hidden_size": 8, "intermediate_size": 7})
    headless = {name: it for name, it in whole.items() if "transform" not in name}
    assert "no cls.predictions.transform.dense.weight" in wrong(headless)
    others = load_file(places["llama"] / "model.safetensors")
    assert "the weights are of another model" in wrong(others, head="SequenceClassification")


def test_strict_false_draws_and_leaves_out(tmp_path: Path) -> None:
    model = built(bert(tmp_path), head="MaskedLM", options={"num_hidden_layers": 3}, strict=False)
    assert "drawn: bert.encoder.layer.2." in model.burnlike_origin[0]
    smaller = built(tmp_path, head="MaskedLM", options={"num_hidden_layers": 1}, strict=False)
    assert smaller.burnlike_origin[0].endswith("left out: encoder (16)")


def test_dtype_attention_options_and_native_ops(places: dict[str, Path]) -> None:
    stock = built(places["llama"], dtype="float64", attention="eager", options={"attention_dropout": 0.25})
    assert stock.dtype == torch.float64
    assert stock.config._attn_implementation == "eager"
    assert stock.model.layers[0].self_attn.attention_dropout == 0.25
    fused = built(places["llama"], dtype="float64", fuse=True)
    # Linear layers are fused on some machines.
    assert re.match(r"fused     (10|25) of 29 modules: (linear 15, )?rms_norm 5, ", fused.burnlike_origin[1])
    torch.testing.assert_close(logits(fused, tokens()), logits(stock, tokens()), rtol=1e-4, atol=1e-5)
    nested = {"rope_parameters": {"rope_theta": 500.0}}
    assert built(places["llama"], options=nested).config.rope_parameters["rope_theta"] == 500.0
    with pytest.raises(ConfigError, match=r"options\.atention_dropout: the model has no such option; did you mean"):
        built(places["llama"], options={"atention_dropout": 0.1})


def test_nothing_in_a_config_chooses_code(tmp_path: Path) -> None:
    directory = bert(tmp_path)
    code = "import pathlib; pathlib.Path('here').touch()"
    (directory / "code.py").write_text(code)
    changed(directory, auto_map={"AutoModelForMaskedLM": "code.Model", "AutoConfig": "code.Config"})
    changed(directory, _attn_implementation="someone/kernel", attn_implementation="someone/kernel")
    assert type(built(directory)) is transformers.BertForMaskedLM
    changed(directory, model_type="mine")
    with pytest.raises(ConfigError, match=r"no models of the model_type 'mine'; it asks for code of its own"):
        built(directory)
    changed(directory, model_type="bert", quantization_config={"quant_method": "gptq"})
    with pytest.raises(ConfigError, match="the weights are quantized"):
        built(directory)


def test_values_that_transformers_refuses_are_one_error(tmp_path: Path) -> None:
    changed(llama(tmp_path), num_attention_heads=3)
    with pytest.raises(ConfigError, match=r"transformers can't build the model"):
        built(tmp_path)
    changed(tmp_path, num_attention_heads=2, num_hidden_layers=10**9)
    with pytest.raises(ConfigError, match=r"config\.json: num_hidden_layers: expected at most 10000, got 1000000000"):
        built(tmp_path)


def test_burnlikes_own_models(places: dict[str, Path], tmp_path: Path) -> None:
    model = built(places["llama"], library="burnlike", head="CausalLM", dtype="float64")
    assert isinstance(model, DecoderLm)
    with torch.no_grad():
        expected = load_pretrained(places["llama"], dtype=torch.float64)(tokens())
        torch.testing.assert_close(model.eval()(tokens()), expected)
    classifier = built(places["bert"], library="burnlike", head="SequenceClassification", n_classes=3)
    assert isinstance(classifier, BertClassifier)
    theirs = built(places["bert"], head="SequenceClassification", n_classes=3, dtype="float64").eval()
    classifier.double().eval().encoder.pooler.load_state_dict(
        {"weight": 1 * theirs.bert.pooler.dense.weight}, strict=False
    )
    with torch.no_grad():
        torch.testing.assert_close(classifier.encoder(tokens()).hidden, theirs.bert(tokens())[0])
    assert "drawn: encoder.pooler.weight, encoder.pooler.bias, head.weight" in classifier.burnlike_origin[0]
    with pytest.raises(ConfigError, match="burnlike has no SequenceClassification of a llama, but LlamaForCausalLM"):
        built(places["llama"], library="burnlike", head="SequenceClassification")


def test_what_is_saved_is_read_by_transformers(places: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").write_text("{}")
    model = built(places["bert"], head="SequenceClassification", classes=("no", "yes"), fuse=True)
    save_for_transformers(model, tmp_path / "out", [tmp_path / "tokenizer"])
    back = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    torch.testing.assert_close(logits(back, tokens()), logits(model, tokens()))
    assert back.config.id2label == {0: "no", 1: "yes"}
    assert (tmp_path / "out" / "tokenizer.json").exists()
    transformers.GenerationConfig(eos_token_id=[3, 5]).save_pretrained(places["llama"])
    causal = built(places["llama"])
    assert causal.generation_config.eos_token_id == [3, 5]
    save_for_transformers(causal, tmp_path / "llama")
    assert transformers.AutoConfig.from_pretrained(tmp_path / "llama").use_cache
    assert not causal.config.use_cache
    with pytest.raises(ConfigError, match="expected a model of transformers, got Linear"):
        save_for_transformers(torch.nn.Linear(2, 2), tmp_path / "other")


def test_an_earlier_save_stays_whole_where_weights_cannot_be_written(
    places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = built(places["llama"])
    save_for_transformers(model, tmp_path)
    before = {it.name: it.read_bytes() for it in tmp_path.iterdir()}
    model.config.vocab_size += 1
    failure = safetensors.SafetensorError("I/O error: No space left on device (os error 28)")
    monkeypatch.setattr(transformers.modeling_utils, "safe_save_file", lambda *_, **__: (_ for _ in ()).throw(failure))
    with pytest.raises(RecordIOError, match="the model can't be written: I/O error: No space left"):
        save_for_transformers(model, tmp_path)
    assert {it.name: it.read_bytes() for it in tmp_path.iterdir()} == before


def test_weights_of_an_earlier_save_go(places: dict[str, Path], tmp_path: Path) -> None:
    stale = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json")
    stay = ("model.safetensors.md", "notes.txt")
    for name in (*stale, *stay):
        (tmp_path / name).write_text("{}")
    save_for_transformers(built(places["llama"]), tmp_path)
    names = {it.name for it in tmp_path.iterdir()}
    assert names == {"config.json", "generation_config.json", "model.safetensors", *stay}


@pytest.mark.parametrize("options", [{"intermediate_size": 7}, {"hidden_size": 8}, {"vocab_size": 50}])
def test_a_model_on_the_meta_device_has_the_shapes_of_its_weights(options: dict[str, int], tmp_path: Path) -> None:
    config = PretrainedConfig(path=str(bert(tmp_path / "d")), head="MaskedLM")
    assert config.init("meta").device.type == "meta"
    assert config.replace(head="SequenceClassification", n_classes=5).init("meta").num_labels == 5
    assert config.replace(options=options, weights="random").init("meta").device.type == "meta"
    with pytest.raises(ConfigError, match=r"the weights have '.*' of \[.*\] where config.json has \["):
        config.replace(options=options).init("meta")
