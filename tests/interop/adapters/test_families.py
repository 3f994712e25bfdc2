"""Adapters of transformers' models beside peft: every family, and tables of tokens, tied and not."""

import itertools
import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.models.auto import configuration_auto

from burnlike.errors import ConfigError, ModuleTreeError, RecordMismatchError
from burnlike.interop import load_adapter, merge_adapters, save_adapter
from burnlike.interop.adapters.adding import AdapterOptions, add_adapters
from burnlike.interop.adapters.layers import adapted, select
from burnlike.interop.adapters.peft_files import resize_for_adapter
from burnlike.models import LoRAConfig, PretrainedConfig
from burnlike.models.by_path.catalog import catalog

from ..families.tiny_transformers import VARIANTS, inputs_of, tiny_config

A_DOZEN = frozenset(["llama", "gpt2", "qwen3", "mixtral", "gemma2", "gpt_neox", "opt", "bloom", "phi3", "olmo2"])
ROTATED_IN_FLOAT32 = frozenset(["cohere", "cohere2", "ernie4_5", "modernbert-decoder"])
"""Families whose own code rotates queries and keys in float32, also in a model of float64, as fused code does not."""
_LARGEST = 4_000_000


def _cases() -> list[Any]:
    families = sorted({*catalog().heads["CausalLM"]} & {*configuration_auto.CONFIG_MAPPING_NAMES})  # pyright: ignore[reportPrivateImportUsage]
    return [pytest.param(it, marks=pytest.mark.slow if it in A_DOZEN else pytest.mark.families) for it in families]


def _tiny(family: str, directory: Path) -> bool:
    """Save a tiny model of a family; whether there is one."""
    config_class: Any = configuration_auto.CONFIG_MAPPING[family]
    for variant in VARIANTS:
        try:
            config = tiny_config(config_class, variant)
            with torch.device("meta"):
                size = sum(it.numel() for it in transformers.AutoModelForCausalLM.from_config(config).parameters())
            if size > _LARGEST:
                continue
            torch.manual_seed(0)
            transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)
        except Exception:  # foreign code refuses sizes in many ways
            continue
        return True
    return False


def _logits(model: Any, inputs: Any) -> torch.Tensor:
    with torch.no_grad():
        torch.manual_seed(1)
        return model(**inputs).logits


def _takes(model: Any, inputs: Any) -> bool:
    try:
        _logits(model, inputs)
    except Exception:  # of a foreign model, which says in many ways that an input is not its own
        return False
    return True


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning:peft")
@pytest.mark.filterwarnings("ignore::RuntimeWarning:peft")
@pytest.mark.parametrize("family", _cases())
def test_peft_computes_with_our_adapters_what_we_do(family: str, tmp_path: Path) -> None:
    if not _tiny(family, tmp_path / "base"):
        pytest.skip("has no tiny model")
    kind = json.loads((tmp_path / "base/config.json").read_text())["model_type"]
    if kind not in catalog().heads["CausalLM"]:
        pytest.skip(f"is saved as {kind}, which is part of others")
    base = PretrainedConfig(path=str(tmp_path / "base"), head="CausalLM", dtype="float64", fuse=True)
    config = LoRAConfig(of=base, rank=4, alpha=8.0, targets="all-linear")
    torch.manual_seed(0)
    ours: Any = config.init("cpu").eval()
    with torch.no_grad():
        for tensor in ours.parameters():
            if tensor.requires_grad:
                tensor.normal_(std=0.2)
    save_adapter(ours, tmp_path / "adapter")
    of_base = transformers.AutoConfig.from_pretrained(tmp_path / "base")
    of_base.use_cache = False  # with a cache, attention in float32 (GPT-J, GPT-Neo) rounds otherwise
    if getattr(ours.config, "is_decoder", None) is not None:  # burnlike's causal language models are always decoders
        of_base.is_decoder = ours.config.is_decoder
    auto: Any = transformers.AutoModelForCausalLM
    try:
        plain: Any = auto.from_pretrained(tmp_path / "base", config=of_base, dtype=torch.float64).eval()
    except ValueError as error:
        pytest.skip(f"transformers does not read it: {error}")
    inputs = next((it for it in inputs_of(plain) if _takes(plain, it)), None)
    if inputs is None:
        pytest.skip("takes none of the known inputs")
    try:
        theirs: Any = peft.PeftModel.from_pretrained(plain, str(tmp_path / "adapter")).eval()
    except ValueError as error:
        if "Mamba" not in str(error):
            raise
        pytest.skip("peft adapts no layer whose weight a kernel reads, as that of Mamba does; ours adapts it")
    count = sum(name.endswith("lora_A") for name, _ in theirs.named_modules())
    if theirs.peft_config["default"].target_parameters and count < len(adapted(ours)):
        pytest.skip("peft takes the names of its dense layers for those of experts, and drops their adapters")
    try:
        expected = _logits(theirs.base_model.model, inputs)
    except AttributeError as error:
        if "'tuple' object" not in str(error):
            raise
        pytest.skip("peft adapts no layer that gives a tuple, as the router of Llama 4 does; ours adapts it")
    bound = 2e-7 if kind in ROTATED_IN_FLOAT32 else 1e-9
    torch.testing.assert_close(_logits(ours, inputs), expected, rtol=bound, atol=bound, equal_nan=True)


TOKENS, MORE = 24, 28
SIZES: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
SAVED = [[], ["lm_head"], ["embed_tokens"], ["embed_tokens", "lm_head"]]
TARGETS = [["q_proj"], ["q_proj", "embed_tokens"], ["q_proj", "lm_head"], ["q_proj", "embed_tokens", "lm_head"]]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Directories of a model whose tables are tied, and of one whose are not."""
    folder = tmp_path_factory.mktemp("bases")
    for is_tied in (True, False):
        torch.manual_seed(0)
        config = transformers.LlamaConfig(vocab_size=TOKENS, tie_word_embeddings=is_tied, **SIZES)
        transformers.LlamaForCausalLM(config).double().save_pretrained(folder / str(is_tied))
    return {is_tied: folder / str(is_tied) for is_tied in (True, False)}


def read(path: Path, count: int = TOKENS) -> Any:
    model: Any = transformers.LlamaForCausalLM.from_pretrained(path, dtype=torch.float64)
    if count != TOKENS:
        model.resize_token_embeddings(count, mean_resizing=False)
    return model


def losses(model: Any, count: int, steps: int = 3) -> list[float]:
    """Those of steps of SGD, which change the model."""
    tokens = torch.arange(1, 17).reshape(2, 8) % count
    chosen, found = [it for it in model.parameters() if it.requires_grad], []
    for _ in range(steps):
        loss = model(input_ids=tokens, labels=tokens).loss
        for tensor, grad in zip(chosen, torch.autograd.grad(loss, chosen), strict=True):
            tensor.data -= 0.1 * grad
        found.append(loss.item())
    return found


def logits(model: Any, count: int) -> Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=torch.arange(count)[None]).logits


def near(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() < 1e-12)


def case_of(bases: dict[bool, Path], folder: Path, is_tied: bool, count: int, **options: Any) -> Any:
    """A model that peft has trained, and saved in a folder; None of what peft refuses."""
    torch.manual_seed(1)
    model = read(bases[is_tied], count)
    saved = [*options.pop("modules_to_save")] or None
    config = peft.LoraConfig(r=2, lora_alpha=3, modules_to_save=saved, init_lora_weights=False, **options)
    try:
        trained = peft.get_peft_model(model, config)
    except TypeError as error:
        assert "modules_to_save cannot be applied" in str(error)  # noqa: PT017
        return None
    losses(trained, count, 2)
    trained.save_pretrained(str(folder))
    return trained


def lacks_a_table(folder: Path, is_tied: bool) -> bool:
    """True if peft has left out a table of the base that its adapters need."""
    names = [it.removeprefix("base_model.model.") for it in load_file(folder / "adapter_model.safetensors")]
    names = [it.replace("base_layer.", "").removesuffix(".weight") for it in names if ".original_module." not in it]
    config = json.loads((folder / "adapter_config.json").read_text())
    whole = [it.rpartition(".")[2] for it in config["modules_to_save"] or []]
    whole += ["lm_head"] if config["ensure_weight_tying"] and is_tied and whole else []
    base = {"model.embed_tokens", "lm_head"} - {it for it in names if it.endswith(tuple(whole))}
    return not base & {*names} if is_tied and base else not base <= {*names}


def check_case(bases: dict[bool, Path], folder: Path, is_tied: bool, count: int, **options: Any) -> None:
    theirs = case_of(bases, folder / "theirs", is_tied, count, **options)
    if theirs is None:
        return
    ours = read(bases[is_tied])
    if count != TOKENS and lacks_a_table(folder / "theirs", is_tied):
        with pytest.raises(RecordMismatchError, match=f"which needs {count} too"):  # peft has not saved the other table
            load_adapter(ours, folder / "theirs")
        return
    load_adapter(ours, folder / "theirs")
    expected = logits(theirs, count)
    assert near(logits(ours, count), expected)
    assert len([*ours.parameters()]) <= len([*theirs.parameters()])

    assert losses(ours.train(), count) == pytest.approx(losses(theirs.train(), count), abs=1e-11)
    expected = logits(theirs, count)
    assert near(logits(ours, count), expected)

    save_adapter(ours, folder / "ours")
    again = peft.PeftModel.from_pretrained(read(bases[is_tied], count), str(folder / "ours"))
    assert near(logits(again, count), expected)
    mine = read(bases[is_tied])
    load_adapter(mine, folder / "ours")
    assert near(logits(mine, count), expected)

    merge_adapters(mine)
    assert near(logits(mine, count), expected)
    mine.save_pretrained(folder / "merged")
    merged = transformers.LlamaForCausalLM.from_pretrained(folder / "merged", dtype=torch.float64)
    assert near(logits(merged, count), expected)
    shares = mine.lm_head.weight is mine.model.embed_tokens.weight
    assert shares is merged.config.tie_word_embeddings


FEW = [
    (True, TOKENS, ["lm_head"], False, ["q_proj"]),
    (True, TOKENS, ["embed_tokens"], False, ["q_proj", "lm_head"]),
    (True, TOKENS, ["embed_tokens", "lm_head"], False, ["q_proj"]),
    (True, TOKENS, ["lm_head"], True, ["q_proj"]),
    (True, TOKENS, [], True, ["q_proj", "lm_head"]),
    (True, MORE, ["embed_tokens"], True, ["q_proj"]),
    (True, MORE, ["lm_head"], False, ["q_proj", "embed_tokens"]),
    (True, MORE, [], False, ["q_proj"]),
    (False, MORE, ["embed_tokens", "lm_head"], False, ["q_proj"]),
    (False, MORE, [], False, ["q_proj", "lm_head"]),
]
ALL = [*itertools.product((True, False), (TOKENS, MORE), SAVED, (False, True), TARGETS)]
CASES = [pytest.param(*it, marks=() if it in FEW else pytest.mark.slow) for it in ALL]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("is_tied", "count", "saved", "ensure", "targets"), CASES)
def test_what_peft_trained_is_trained_on(
    bases: dict[bool, Path], tmp_path: Path, is_tied: bool, count: int, saved: list[str], ensure: bool, targets: Any
) -> None:
    options = {"modules_to_save": saved, "ensure_weight_tying": ensure, "target_modules": [*targets]}
    check_case(bases, tmp_path, is_tied, count, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("saved", [("lm_head",), ("embed_tokens",), ("embed_tokens", "lm_head")])
@pytest.mark.parametrize("ensure", [False, True])
def test_a_config_trains_what_peft_trains(bases: dict[bool, Path], saved: tuple[str, ...], ensure: bool) -> None:
    options = {"target_modules": ["q_proj"], "modules_to_save": [*saved], "ensure_weight_tying": ensure}
    theirs = peft.get_peft_model(read(bases[True]), peft.LoraConfig(r=2, lora_alpha=3, **options))
    of = PretrainedConfig(path=str(bases[True]), head="CausalLM")
    config = LoRAConfig(of=of, rank=2, alpha=3, targets=("q_proj",), modules_to_save=saved, ensure_weight_tying=ensure)
    ours: Any = config.init()
    with torch.no_grad():
        for one in (ours, theirs):
            for name, it in one.named_parameters():
                if it.requires_grad and ("lora" in name or "parametrizations" in name):
                    it.fill_(0.1)
    assert losses(ours.train(), TOKENS) == pytest.approx(losses(theirs.train(), TOKENS), abs=1e-11)
    assert (ours.lm_head.weight is ours.model.embed_tokens.weight) is ensure


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("is_tied", "options", "message"),
    [
        (
            True,
            {"targets": ("q_proj",)},
            "expected one of 'model.embed_tokens', 'lm_head' in modules_to_save or targets",
        ),
        (False, {"modules_to_save": ("lm_head",)}, "the model has no tied tables"),
        (True, {"targets": ("lm_head",), "dora": True}, "of DoRA, lm_head, model.embed_tokens would have magnitudes"),
    ],
)
def test_no_tying_where_there_is_nothing_to_tie(
    bases: dict[bool, Path], is_tied: bool, options: Any, message: str
) -> None:
    of = PretrainedConfig(path=str(bases[is_tied]), head="CausalLM")
    with pytest.raises(ConfigError, match=message):
        LoRAConfig(of=of, ensure_weight_tying=True, **options).init()


@pytest.mark.filterwarnings("ignore")
def test_files_that_disagree_with_the_model_change_nothing(bases: dict[bool, Path], tmp_path: Path) -> None:
    options: dict[str, Any] = {"modules_to_save": ["lm_head"], "target_modules": ["q_proj"]}
    case_of(bases, tmp_path / "tied", True, TOKENS, ensure_weight_tying=True, **options)
    case_of(bases, tmp_path / "apart", True, TOKENS, **options)
    case_of(bases, tmp_path / "more", True, MORE, **options)
    file = tmp_path / "tied" / "adapter_model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, "base_model.model.lm_head.weight": tensors["base_model.model.lm_head.weight"] + 1}, file)
    for folder, error, message in (
        ("tied", RecordMismatchError, "to be alike, which are one in the model"),
        ("apart", ModuleTreeError, "'lm_head.weight' is tied in the model"),
        ("more", ModuleTreeError, "'lm_head.weight' is tied in the model"),
    ):
        model = read(bases[True])
        if folder != "tied":
            add_adapters(model, dict.fromkeys(select(model, ("q_proj",)).values(), AdapterOptions(2, 3)))
        before, names = logits(model, TOKENS), [name for name, _ in model.named_parameters()]
        with pytest.raises(error, match=message):
            load_adapter(model, tmp_path / folder)
        assert torch.equal(logits(model, TOKENS), before)
        assert [name for name, _ in model.named_parameters()] == names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("count", "targets"), [(TOKENS, ["embed_tokens"]), (MORE, ["q_proj"])])
def test_tables_of_another_base_are_refused(
    bases: dict[bool, Path], tmp_path: Path, count: int, targets: list[str]
) -> None:
    case_of(bases, tmp_path, False, count, modules_to_save=[], target_modules=targets)
    torch.manual_seed(5)
    config = transformers.LlamaConfig(vocab_size=TOKENS, tie_word_embeddings=False, **SIZES)
    other = transformers.LlamaForCausalLM(config).double()
    before = {name: it.clone() for name, it in other.named_parameters()}
    with pytest.raises(RecordMismatchError, match="is a weight of the base, and another than the model's"):
        load_adapter(other, tmp_path)
    assert all(torch.equal(it, before[name]) for name, it in other.named_parameters())


@pytest.mark.filterwarnings("ignore")
def test_tables_are_drawn_apart_from_all_else(bases: dict[bool, Path], tmp_path: Path) -> None:
    case_of(bases, tmp_path, True, MORE, modules_to_save=["lm_head"], target_modules=["q_proj"])
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    resize_for_adapter(read(bases[True]), tmp_path)
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.filterwarnings("ignore")
def test_a_whole_module_with_counts_is_read(tmp_path: Path) -> None:
    def network() -> torch.nn.Module:
        torch.manual_seed(0)
        layers = {"up": torch.nn.Linear(4, 4), "norm": torch.nn.BatchNorm1d(4)}
        return torch.nn.Sequential(*layers.values())

    theirs = peft.get_peft_model(network(), peft.LoraConfig(r=2, target_modules=["0"], modules_to_save=["1"]))
    x = torch.randn(6, 4)
    theirs.train()(x)
    theirs.save_pretrained(str(tmp_path))
    ours = network()
    load_adapter(ours, tmp_path)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ensure", [False, True])
def test_a_head_whose_bias_is_shared_is_read_as_it_was_saved(tmp_path: Path, ensure: bool) -> None:
    config = transformers.BertConfig(vocab_size=TOKENS, **SIZES)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path / "base")
    of = PretrainedConfig(path=str(tmp_path / "base"), head="MaskedLM", dtype="float64")
    options = {"targets": ("query",), "modules_to_save": ("decoder",), "ensure_weight_tying": ensure}
    models: list[Any] = [LoRAConfig(of=of, rank=2, **options).init() for _ in range(2)]
    losses(models[0], TOKENS)
    expected = logits(models[0], TOKENS)
    save_adapter(models[0], tmp_path / "ours")
    load_adapter(models[1], tmp_path / "ours")
    plain: Any = transformers.BertForMaskedLM.from_pretrained(tmp_path / "base", dtype=torch.float64)
    theirs = peft.PeftModel.from_pretrained(plain, str(tmp_path / "ours"))
    fresh = of.init()
    load_adapter(fresh, tmp_path / "ours")
    assert all(near(logits(it, TOKENS), expected) for it in (models[1], theirs, fresh))
