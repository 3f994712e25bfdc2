"""Training in few bits, by torchao's float8 and by int8_mixed, and averages of weights of 16 bits: what is rounded,
that it learns, and what is refused.
"""

import io
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ConfigError
from burnlike.models import DecoderLmConfig
from burnlike.ops import int8_linear
from burnlike.optim import AdamWConfig
from burnlike.train import Float8Config, Learner, PlainRenderer, TrainingConfig, next_token_loss
from burnlike.train.learner.computing import Int8Layers

TOKENS = torch.randint(32, (8, 9), generator=torch.Generator().manual_seed(5))


def decoder(d_ff: int = 32) -> nn.Module:
    torch.manual_seed(4)
    return DecoderLmConfig(
        vocab_size=32, max_sequence_length=8, d_model=16, n_layers=2, n_heads=2, d_ff=d_ff, attention_bias=True
    ).init()


def trained(model: nn.Module, **options: Any) -> tuple[Learner[Tensor], str]:
    said = io.StringIO()
    learner = Learner(model, AdamWConfig().init(), 1e-2, loss=next_token_loss)
    learner.fit([TOKENS], training=TrainingConfig(epochs=10, **options), renderer=PlainRenderer(said))
    return learner, said.getvalue()


@pytest.mark.skipif(find_spec("torchao") is None, reason="needs torchao, whose import takes seconds")
@pytest.mark.slow
def test_blocks_compute_in_8_bits_and_learn_nearly_the_same() -> None:
    plain, _ = trained(decoder())
    learner, said = trained(decoder(), float8=Float8Config(emulate=True))
    assert (
        "float8    14 linear layers, tensorwise" in said
    )  # 4 of attention and 3 of the feed-forward part, in 2 blocks
    assert plain.last["train"] is not None
    assert learner.last["train"] == pytest.approx(plain.last["train"], rel=0.2)
    assert learner.last["train"] != plain.last["train"]
    assert [*dict(learner.model.named_parameters())] == [*dict(plain.model.named_parameters())]
    assert all("forward" not in vars(module) for module in learner.model.modules())


@pytest.mark.skipif(find_spec("torchao") is None, reason="needs torchao, whose import takes seconds")
@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise"])
def test_a_layer_gives_what_torchaos_gives(recipe: Any) -> None:
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    from burnlike.train.learner.computing import in_float8

    model = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 16)) for _ in range(2))
    x = torch.randn(4, 16, requires_grad=True)
    config = Float8LinearConfig.from_recipe_name(recipe)
    object.__setattr__(config, "emulate", True)
    theirs = convert_to_float8_training(nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 16)), config=config)
    theirs.load_state_dict(model[1].state_dict())
    with in_float8(model, Float8Config(recipe=recipe, emulate=True), torch.device("cpu")):
        found = model[1](x)
        found.square().sum().backward()
    expected = theirs(x)
    expected.square().sum().backward()
    assert torch.equal(found, expected)
    for ours, other in zip(model[1].parameters(), theirs.parameters(), strict=True):
        assert ours.grad is not None
        assert other.grad is not None
        assert torch.equal(ours.grad, other.grad)


@pytest.mark.skipif(find_spec("torchao") is None, reason="needs torchao, whose import takes seconds")
def test_a_device_without_float8_and_a_model_without_layers_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"cpu has no matrix products in 8 bits.*emulate: true"):
        trained(decoder(), float8=Float8Config())
    small = nn.ModuleList(nn.Sequential(nn.Linear(3, 3)) for _ in range(2))
    with pytest.raises(ConfigError, match="no linear layer whose sizes are multiples of 16"):
        trained(small, float8=Float8Config(emulate=True))


CPU = torch.device("cpu")


def decoder_of_30() -> nn.Module:
    torch.manual_seed(4)
    return DecoderLmConfig(
        vocab_size=32, max_sequence_length=8, d_model=16, n_layers=2, n_heads=2, d_ff=30, attention_bias=True
    ).init()


def trained_in(precision: Any, **options: Any) -> tuple[Learner[Tensor], str]:
    said = io.StringIO()
    learner = Learner(decoder_of_30(), AdamWConfig().init(), 1e-2, loss=next_token_loss, precision=precision)
    learner.fit([TOKENS], training=TrainingConfig(epochs=10, **options), renderer=PlainRenderer(said))
    return learner, said.getvalue()


def test_blocks_compute_in_int8_and_learn_nearly_the_same() -> None:
    learner, said = trained_in("int8_mixed")
    other, _ = trained_in("bfloat16")
    assert "int8      14 linear layers" in said  # 4 of attention and 3 of the feed-forward part, in 2 blocks
    assert learner.last["train"] == pytest.approx(other.last["train"], rel=0.05)
    assert learner.last["train"] != other.last["train"]
    # Weights are what they were, and no layer stays changed.
    assert [(name, it.dtype) for name, it in learner.model.named_parameters()] == [
        (name, it.dtype) for name, it in other.model.named_parameters()
    ]
    assert all("forward" not in vars(module) for module in learner.model.modules())
    # Validation computes in bfloat16.
    other.model.load_state_dict(learner.model.state_dict())
    assert learner.validate([TOKENS]) == other.validate([TOKENS])


def test_activations_that_are_computed_again_are_the_same() -> None:
    learner, _ = trained_in("int8_mixed")
    again, _ = trained_in("int8_mixed", activation_checkpointing=True)
    assert learner.last["train"] == again.last["train"]


def test_a_layer_of_torch_and_one_of_burnlike_give_the_op() -> None:
    model, x = decoder_of_30(), torch.randn(3, 16)
    plain = nn.Sequential(*(nn.Sequential(nn.Linear(16, 5)) for _ in range(2)))
    layers = Int8Layers(model, CPU)
    assert [path for path in layers.paths if "head" in path or "embedding" in path] == []
    with layers.computing(), Int8Layers(plain, CPU).computing():
        query: Any = model.get_submodule(layers.paths[0])
        assert torch.equal(query(x), int8_linear(x, query.weight.mT, query.bias))
        other: Any = plain[1][0]
        assert torch.equal(other(x), int8_linear(x, other.weight, other.bias))


def test_a_processor_without_vnni_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_vnni": False, "avx_vnni": False}, raising=False)
    assert "no VNNI, so bfloat16 is many times faster" in Int8Layers(decoder_of_30(), CPU).note
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_vnni": True}, raising=False)
    assert "VNNI" not in Int8Layers(decoder_of_30(), CPU).note


def test_what_can_not_compute_in_8_bits_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"int8_mixed computes on a CPU, got cuda:0; set device: cpu"):
        Int8Layers(decoder_of_30(), torch.device("cuda:0"))
    with pytest.raises(ConfigError, match=r"takes weights in float32 or bfloat16, blocks\.0\.\S+\.weight is float64"):
        Int8Layers(decoder_of_30().double(), CPU)
    with pytest.raises(ConfigError, match="the model's blocks have no linear layer"):
        Int8Layers(nn.Sequential(nn.Linear(3, 3)), CPU)
    with pytest.raises(ConfigError, match="float8: expected none with precision: int8_mixed"):
        TrainingConfig.from_dict({"precision": "int8_mixed", "float8": {}})
