"""What layers, models and native ops compute in two processes that share them: each check gives its largest error.

python -m tests.interop.tensor_worker FOLDER
"""

import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.nn import functional

from burnlike import models, nn as layers, ops
from burnlike.errors import ArgumentError, ConfigError, TableIndexError, TargetError
from burnlike.interop import fuse, parallelize
from burnlike.models.decoder_lm.configs import ExpertsPart, LearnedPositions, PlainPart
from burnlike.module import LoraConfig, apply_lora, seed_param_ids
from burnlike.module.torch_objects.wrappers import is_distributed
from burnlike.ops._divided import divided_logits
from burnlike.optim.core.sharded import whole

from ..checks import write_results

LM: dict[str, Any] = {
    "vocab_size": 32,
    "max_sequence_length": 16,
    "d_model": 16,
    "n_layers": 2,
    "n_heads": 4,
    "n_heads_kv": 2,
    "d_ff": 24,
}
STACK: dict[str, Any] = {"d_model": 16, "d_ff": 32, "n_heads": 4, "n_layers": 2, "dropout": 0.0}
BERT = models.BertEncoderConfig(
    vocab_size=32, d_model=16, n_layers=2, n_heads=2, d_ff=16, max_sequence_length=16, dropout=0.0,
    attention_dropout=0.0, pooler=False,
)  # fmt: skip
T5 = models.EncoderDecoderConfig(vocab_size=32, d_model=16, n_layers=2, n_heads=2, d_head=8, d_ff=16, dropout=0.0)
VIT = models.VisionTransformerConfig(
    image_size=8, patch_size=4, channels=3, d_model=16, n_layers=2, n_heads=2, d_ff=32, num_classes=5, dropout=0.0,
    attention_dropout=0.0,
)  # fmt: skip
ENCODER = layers.TransformerEncoderConfig(**STACK)
YAML = layers.SequentialConfig(
    layers=[
        layers.LinearConfig(d_input=6, d_output=16),
        layers.GeluConfig(),
        layers.LinearConfig(d_input=16, d_output=16),
        layers.ResidualConfig(layers=[layers.PositionWiseFeedForwardConfig(d_model=16, d_ff=32, dropout=0.0)]),
        layers.RepeatConfig(layer=layers.GatedFeedForwardConfig(d_model=16, d_ff=8), times=2),
    ]
)


def _random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def _tokens(*shape: int) -> Tensor:
    return torch.randint(32, shape, generator=torch.Generator().manual_seed(3))


MODELS: Mapping[str, tuple[Any, tuple[Tensor, ...], int]] = {
    # The config, the inputs, and how many parameters are divided.
    "llama": (models.DecoderLmConfig(**LM), (_tokens(3, 8),), 15),
    "length that does not divide": (models.DecoderLmConfig(**LM), (_tokens(3, 7),), 15),
    "tied": (models.DecoderLmConfig(**LM, tied=True), (_tokens(3, 8),), 15),
    "vocabulary that does not divide": (models.DecoderLmConfig(**{**LM, "vocab_size": 33}), (_tokens(3, 8),), 14),
    "norms of heads": (models.DecoderLmConfig(**LM, query_key_norm=True, norm="LayerNorm"), (_tokens(3, 8),), 15),
    "gpt": (
        models.DecoderLmConfig(
            **{**LM, "n_layers": 1}, positions=LearnedPositions(), feed_forward=PlainPart(), attention_bias=True,
            attention_output_bias=True, tied=True,
        ),
        (_tokens(3, 8),),
        11,
    ),
    "experts": (
        models.DecoderLmConfig(**LM, feed_forward=ExpertsPart(n_experts=4, n_selected=2)),
        (_tokens(3, 8),),
        33,
    ),
    "encoder": (ENCODER, (_random(2, 6, 16),), 20),
    "norm first": (ENCODER.replace(norm_first=True, n_layers=1), (_random(2, 6, 16),), 10),
    "decoder": (layers.TransformerDecoderConfig(**STACK), (_random(2, 6, 16), _random(2, 5, 16)), 34),
    "encoder and decoder": (T5, (_tokens(3, 8), _tokens(3, 6)), 33),
    "bert": (models.BertMaskedLmConfig(encoder=BERT), (_tokens(3, 8),), 21),
    "vision": (VIT, (_random(2, 3, 8, 8),), 20),
    "lstm": (models.LstmLmConfig(vocab_size=32, d_model=8, d_hidden=8), (_tokens(3, 8),), 3),
    "mlp": (models.MlpConfig(sizes=[6, 8, 8, 8, 3]), (_random(4, 6),), 6),
    "layers in yaml": (YAML, (_random(4, 6),), 12),
}  # fmt: skip


def mesh() -> DeviceMesh:
    return init_device_mesh("cpu", (2,))


def made(config: Any) -> nn.Module:
    torch.manual_seed(1)
    seed_param_ids(1)
    return config.init().double()


def first(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


def error_of(one: nn.Module, two: nn.Module, *inputs: Any, **named: Any) -> float:
    """How far outputs and gradients of a model in one process and in two are from each other."""
    outputs = []
    for model in (one, two):
        output = first(model(*inputs, **named))
        (output * _random(*output.shape)).sum().backward()
        outputs.append(output)
    error = float((outputs[0] - outputs[1]).detach().abs().max())
    shared = dict(two.named_parameters())
    for name, it in one.named_parameters():
        found = shared[name].grad
        assert (it.grad is None) == (found is None), name
        if it.grad is not None and found is not None:
            error = max(error, float((whole(found) - it.grad).abs().max() / max(1.0, float(it.grad.abs().max()))))
    return error


def model(name: str) -> float:
    config, inputs, count = MODELS[name]
    one, two = made(config), parallelize(made(config), mesh())
    assert sum(map(is_distributed, two.parameters())) == count
    return error_of(one, two, *inputs)


def adapters(of: Callable[[], nn.Module], *inputs: Any) -> float:
    """LoRA on divided layers: the base is divided, and of each adapter the part that belongs to it."""
    found = []
    for _ in range(2):
        adapted = apply_lora(of(), LoraConfig(rank=2, alpha=4.0))
        for at, it in enumerate(it for it in adapted.parameters() if it.requires_grad):
            it.data = torch.randn(it.shape, dtype=it.dtype, generator=torch.Generator().manual_seed(at))
        found.append(adapted)
    parallelize(found[1], mesh())
    return error_of(*found, *inputs)


def llama(**options: Any) -> Any:
    from transformers import AutoModelForCausalLM, LlamaConfig

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(**sizes, num_key_value_heads=2, vocab_size=32, max_position_embeddings=16, **options)
    torch.manual_seed(1)
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").double()


def of_transformers(*, fused: bool = False, tied: bool = False) -> float:
    one, two = llama(tie_word_embeddings=tied), llama(tie_word_embeddings=tied)
    if fused:
        fuse(two)
    parallelize(two, mesh())
    assert sum(map(is_distributed, two.parameters())) == 15 + (not tied)
    return error_of(one, two, input_ids=_tokens(3, 8), use_cache=False, return_dict=False)


def losses() -> float:
    """Cross-entropy of logits of which each process has those of some classes."""
    logits, targets, weight = _random(6, 8), torch.tensor([1, 7, -100, 3, 4, 0]), _random(8).abs()
    error = 0.0
    for smoothing, z_loss, cap, weights, reduction in product(
        (0.0, 0.2), (0.0, 1e-2), (None, 2.0), (None, weight), ("mean", "sum", "none")
    ):
        options: Any = (weights, -100, smoothing, z_loss, cap, reduction)
        one = logits.clone().requires_grad_()
        two = distribute_tensor(logits, mesh(), [Shard(1)]).requires_grad_()
        found, expected = ops.cross_entropy(two, targets, *options), ops.cross_entropy(one, targets, *options)
        assert type(found) is Tensor
        found.sum().backward()
        expected.sum().backward()
        assert isinstance(two.grad, DTensor)
        assert two.grad.placements == (Shard(1),)
        assert one.grad is not None
        error = max(
            error, float((found - expected).detach().abs().max()), float((whole(two.grad) - one.grad).abs().max())
        )
    with pytest.raises(TargetError, match=r"expected targets of 0\.\.7, or -100"):
        ops.cross_entropy(distribute_tensor(logits, mesh(), [Shard(1)]), targets.clamp(min=-100) + 1)
    return error


def no_gathered_logits() -> float:
    """Within `divided_logits` the head's result is a DTensor, divided by classes; outside it is whole."""
    two = parallelize(made(MODELS["llama"][0]), mesh())
    with divided_logits():
        found: Any = two(_tokens(3, 8))
    assert found.placements == (Shard(2),)
    assert type(two(_tokens(3, 8))) is Tensor
    return float((whole(found) - two(_tokens(3, 8))).abs().max())


Operands = tuple[Callable[..., Any], tuple[Any, ...]]
OPS: Mapping[str, Operands] = {
    "rms_norm": (ops.rms_norm, (_random(4, 6, 8), _random(8))),
    "layer_norm": (ops.layer_norm, (_random(4, 6, 8), _random(8), _random(8))),
    "add_rms_norm": (ops.add_rms_norm, (_random(4, 6, 8), _random(4, 6, 8), _random(8))),
    "add_layer_norm": (ops.add_layer_norm, (_random(4, 6, 8), _random(4, 6, 8), _random(8), _random(8))),
    "bias_gelu": (ops.bias_gelu, (_random(4, 6, 8), _random(8))),
    "swiglu": (ops.swiglu, (_random(4, 6, 8), _random(4, 6, 8))),
    "swiglu of one": (ops.swiglu, (_random(4, 6, 8),)),
    "geglu": (ops.geglu, (_random(4, 6, 8), _random(4, 6, 8))),
    "masked_softmax": (ops.masked_softmax, (_random(4, 2, 6, 8),)),
    "dropout_add": (lambda x, y: ops.dropout_add(x, y, 0.5, True, torch.tensor(3)), (_random(4, 6), _random(4, 6))),
    "rotary": (ops.rotary, (_random(2, 4, 6, 8), _random(2, 2, 6, 8), _random(6, 4).cos(), _random(6, 4).sin())),
    "attention": (ops.attention, (_random(2, 4, 6, 8), _random(2, 2, 6, 8), _random(2, 2, 6, 8))),
    "attention with a mask": (
        lambda q, k, v: ops.attention(q, k, v, _random(2, 1, 6, 6) > -1.0),
        (_random(2, 4, 6, 8), _random(2, 2, 6, 8), _random(2, 2, 6, 8)),
    ),
    "linear": (ops.linear, (_random(4, 6, 8), _random(10, 8), _random(10))),
    "lora_linear": (
        lambda x, w, a, b: ops.lora_linear(x, w.detach(), a, b, None, 2.0),
        (_random(4, 8), _random(8, 6), _random(8, 2), _random(2, 6)),
    ),
    "cross_entropy": (lambda x: ops.cross_entropy(x, torch.arange(6)), (_random(6, 8),)),
    "linear_cross_entropy": (
        lambda x, w: ops.linear_cross_entropy(x, w, torch.arange(6)),
        (_random(6, 4), _random(8, 4)),
    ),
}


def placements(x: Tensor) -> list[Placement | None]:
    """Ways in which two processes have it; None is a plain tensor that both have."""
    return [None, Replicate(), Partial(), *(Shard(dim) for dim in range(x.dim()))]


def spread(x: Tensor, placement: Placement | None) -> Tensor:
    x = x.clone()
    if placement is None:
        return x.requires_grad_()
    if isinstance(placement, Partial):
        part = x * (0.25 if dist.get_rank() == 0 else 0.75)
        return DTensor.from_local(part, mesh(), [placement], run_check=False).requires_grad_()
    return distribute_tensor(x, mesh(), [placement]).requires_grad_()


def results(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [it for it in value if isinstance(it, Tensor)]


def op(name: str) -> float:
    """An op with each argument divided in each way, the others plain, and with all divided in one way."""
    compute, operands = OPS[name]
    given = [it.clone().requires_grad_() for it in operands]
    is_table = [name == "rotary" and place >= 2 for place in range(len(operands))]
    for it, table in zip(given, is_table, strict=True):
        it.requires_grad_(not table)
    expected = results(compute(*given))
    sum((it * it).sum() for it in expected).backward()  # pyright: ignore[reportAttributeAccessIssue]
    ways: list[list[Placement | None]] = []
    for place, it in enumerate(operands):
        ways += [[way if at == place else None for at in range(len(operands))] for way in placements(it)]
    ways += [[way] * len(operands) for way in (Replicate(), Partial(), Shard(0), Shard(1)) if _fits(way, operands)]
    error = 0.0
    for way in ways:
        mine = [spread(it, where) for it, where in zip(operands, way, strict=True)]
        for it, table in zip(mine, is_table, strict=True):
            it.requires_grad_(not table)
        found = results(compute(*mine))
        sum((whole(it) * whole(it)).sum() for it in found).backward()  # pyright: ignore[reportAttributeAccessIssue]
        for each, it in zip(found, expected, strict=True):
            error = max(error, float((whole(each.detach()) - it.detach()).abs().max()))
        for each, it in zip(mine, given, strict=True):
            if it.grad is not None:
                assert each.grad is not None, way
                error = max(error, float((whole(each.grad) - it.grad).abs().max()))
    return error


def _fits(way: Placement, operands: tuple[Tensor, ...]) -> bool:
    return not isinstance(way, Shard) or all(way.dim < it.dim() for it in operands)


def dropout() -> float:
    """Masks agree where both processes have a tensor, and differ where each has a part of it."""
    config = models.DecoderLmConfig(**LM, dropout=0.5)
    torch.manual_seed(4)
    two = parallelize(config.init().double(), mesh())
    torch.manual_seed(6)
    found = two(_tokens(3, 7))  # the length does not divide: both have the residual stream
    both = [torch.empty_like(found) for _ in range(2)]
    dist.all_gather(both, found.detach())
    state = torch.get_rng_state()
    states = [torch.empty_like(state) for _ in range(2)]
    dist.all_gather(states, state)
    assert torch.equal(*states)
    kept: list[Tensor] = []
    attention = two.get_submodule("blocks.0.attention")
    attention.get_submodule("output").register_forward_hook(lambda *_: kept.append(torch.rand(4)))
    attention.get_submodule("query").register_forward_hook(lambda *_: kept.append(torch.rand(4)))
    two.get_submodule("blocks.0.norm_attention").register_forward_hook(lambda *_: kept.append(torch.rand(4)))
    two(_tokens(3, 7))
    for it, is_common in zip(kept, (True, False, False), strict=True):
        draws = [torch.empty_like(it) for _ in range(2)]
        dist.all_gather(draws, it)
        assert torch.equal(*draws) == is_common
    return float((both[0] - both[1]).abs().max())


def dropout_of_adapters() -> float:
    """Of its input, which both processes have, an adapter of a column-wise layer drops the same in both."""
    torch.manual_seed(4)
    config = models.LoRAConfig(of=models.DecoderLmConfig(**LM, dropout=0.5), rank=2, dropout=0.5)
    two = parallelize(config.init().double(), mesh())
    kept: list[Tensor] = []
    lora = two.get_submodule("blocks.0.attention.query.parametrizations.weight.0")
    compute = lora.linear
    object.__setattr__(
        lora, "linear", lambda *given, **named: (kept.append(torch.rand(4)), compute(*given, **named))[1]
    )
    two(_tokens(3, 7))
    draws = [torch.empty_like(kept[0]) for _ in range(2)]
    dist.all_gather(draws, kept[0])
    return float((draws[0] - draws[1]).abs().max())


def steps() -> float:
    """Ops that write into lists of tensors compute on parts that are divided alike, and refuse others."""
    values, grads, squares = _random(4, 6), _random(4, 6) * 2, torch.zeros(1, dtype=torch.float64)
    ops.gradient_squares_([distribute_tensor(grads, mesh(), [Shard(1)])], squares)
    error = float((squares[0] - grads.square().sum()).abs())
    target = distribute_tensor(torch.zeros(4, 6), mesh(), [Shard(0)])
    lost = torch.zeros(1, dtype=torch.int32)
    ops.convert_([target], [distribute_tensor(values, mesh(), [Shard(0)])], lost)
    error = max(error, float((whole(target) - values.float()).abs().max()))
    with pytest.raises(ArgumentError, match=r"convert_: expected sources\[0\] to be divided"):
        ops.convert_([target], [distribute_tensor(values, mesh(), [Shard(1)])], lost)
    one, moments = values.clone(), [torch.zeros(4, 6, dtype=torch.float64) for _ in range(2)]
    two = distribute_tensor(values, mesh(), [Shard(1)])
    divided = [distribute_tensor(it, mesh(), [Shard(1)]) for it in moments]
    for params, its, own in (([one], grads, moments), ([two], distribute_tensor(grads, mesh(), [Shard(1)]), divided)):
        with torch.no_grad():
            ops.adamw_step_(params, [its], [own[0]], [own[1]], times=[1], lr=0.1)
    return max(error, float((whole(two) - one).abs().max()))


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(6, 8), nn.Linear(8, 6), nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def said_by_a_dict() -> float:
    one, two = (torch.nn.Sequential(Own(), Own()).double() for _ in range(2))
    two.load_state_dict(one.state_dict())
    parallelize(two, mesh(), {"*.up": "colwise", "*.down": "rowwise"})
    return error_of(one, two, _random(4, 6))


def refused() -> float:
    """Errors name paths and numbers."""
    with pytest.raises(ConfigError, match=r"these modules: 0.up, 0.down, 0.norm, 1.up.*distributed.plan"):
        parallelize(nn.Sequential(Own(), Own()), mesh())
    with pytest.raises(ConfigError, match=r"distributed.plan.\*.upp: the model has no such module"):
        parallelize(nn.Sequential(Own()), mesh(), {"*.upp": "colwise"})
    with pytest.raises(ConfigError, match="expected a way to divide a layer, got 'column'"):
        parallelize(nn.Sequential(Own()), mesh(), {"*.up": "column"})
    three = models.DecoderLmConfig(**{**LM, "n_heads": 3, "n_heads_kv": 3, "d_model": 18}).init()
    with pytest.raises(ConfigError, match=r"2 processes can't share the 3 heads of blocks.0.attention \(n_heads\)"):
        parallelize(three, mesh())
    with pytest.raises(ConfigError, match=r"1.weight, \[7, 6\], equally: 7 is no multiple of 2"):
        parallelize(nn.Sequential(nn.Identity(), nn.Linear(6, 7)), mesh(), {"1": "colwise"})
    with pytest.raises(ConfigError, match=r"0.norm \(LayerNorm\).*it is no linear layer"):
        parallelize(nn.Sequential(Own()), mesh(), {"0.norm": "colwise"})
    two = parallelize(made(MODELS["llama"][0]), mesh())
    with pytest.raises(TableIndexError, match=r"embedding: expected indices in 0..31"):
        two(torch.tensor([[32, 0]]))
    return 0.0


CHECKS: Mapping[str, Callable[[], float]] = {
    **{f"model, {name}": lambda name=name: model(name) for name in MODELS},
    **{f"op, {name}": lambda name=name: op(name) for name in OPS},
    "lora, burnlike": lambda: adapters(lambda: made(MODELS["tied"][0]), _tokens(3, 8)),
    "lora, torch": lambda: adapters(lambda: made_of_torch(), _random(4, 6)),
    "transformers": of_transformers,
    "transformers, fused": lambda: of_transformers(fused=True),
    "transformers, tied": lambda: of_transformers(tied=True),
    "losses": losses,
    "no gathered logits": no_gathered_logits,
    "dropout": dropout,
    "dropout of adapters": dropout_of_adapters,
    "ops that write": steps,
    "said by a dict": said_by_a_dict,
    "refused": refused,
}


class _Planned(Own):
    def parallel_plan(self) -> Mapping[str, str]:
        return {"up": "colwise", "down": "rowwise"}


def made_of_torch() -> nn.Module:
    torch.manual_seed(1)
    seed_param_ids(1)
    return _Planned().double()


if __name__ == "__main__":
    write_results(Path(sys.argv[1]), CHECKS)
