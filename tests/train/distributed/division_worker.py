"""Models whose sequences two processes share, beside one process; each check gives its largest error.

python -m tests.train.distributed.division_worker FOLDER
"""

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.data import DataLoader
from burnlike.errors import ConfigError
from burnlike.models import BertMaskedLmConfig, DecoderLmConfig, LstmLmConfig
from burnlike.models.decoder_lm.configs import LearnedPositions
from burnlike.models.encoders.configs import BertEncoderConfig
from burnlike.module import seed_param_ids
from burnlike.optim import AdamWConfig
from burnlike.optim.core.sharded import whole
from burnlike.train import (
    DistributedConfig,
    LanguageModelConfig,
    Learner,
    PlainRenderer,
    StepOutput,
    TokenClassificationConfig,
    TrainingConfig,
    make_parallel,
    own_parts,
)

from ...checks import write_results

CPU = torch.device("cpu")
_generator = torch.Generator().manual_seed(1)
SIZES: Any = {"vocab_size": 32, "max_sequence_length": 16, "d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 16}
SMALL: Any = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
LLAMA: Any = {**SMALL, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32}
Items = Sequence[Mapping[str, Tensor]]


def chat(length: int, *, packed: bool) -> Items:
    """Rows with labels that do not count; packed ones have two documents, others padding at their end."""
    items = []
    for number in range(6):
        tokens = torch.randint(3, 32, (length,), generator=_generator)
        labels = tokens.masked_fill(torch.rand(length, generator=_generator) < 0.3, -100)
        if packed:
            positions = torch.cat([torch.arange(5), torch.arange(length - 5)])
            items.append({"input_ids": tokens, "labels": labels, "position_ids": positions})
        else:
            mask = (torch.arange(length) < length - number % 3).long()
            items.append({"input_ids": tokens, "labels": labels.masked_fill(mask == 0, -100), "attention_mask": mask})
    return items


PACKED, PADDED = chat(13, packed=True), chat(13, packed=False)


def decoder(**options: Any) -> Callable[[], nn.Module]:
    return lambda: DecoderLmConfig(**SIZES).replace(**options).init()


def of_transformers(kind: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import transformers

        config: Any = getattr(transformers, f"{kind}Config")(**options)
        name = f"{kind}ForTokenClassification" if kind == "Bert" else f"{kind}ForCausalLM"
        return getattr(transformers, name)(config)

    return make


def trained(
    make: Callable[[], nn.Module], items: Any, options: Mapping[str, Any], loss: Any = None
) -> dict[str, Tensor]:
    """The whole weights after three steps, and the loss of a validation."""
    parallel = make_parallel(DistributedConfig(**options), CPU)
    torch.manual_seed(5)
    seed_param_ids(5)
    model = make().double()
    is_encoder = "Bert" in type(model).__name__
    task: Any = (
        {"loss": loss}
        if loss
        else {"task": (TokenClassificationConfig() if is_encoder else LanguageModelConfig()).init()}
    )
    learner: Any = Learner(model, AdamWConfig(epsilon=1e-3).init(), 0.02, parallel=parallel, **task)
    part: Any = {"rank": parallel.data_rank, "world_size": parallel.data_size, "batch_size": 2 // parallel.data_size}
    loaders = [DataLoader(items, seed=seed, **part) for seed in (3, None)]
    result = learner.fit(*loaders, TrainingConfig(), renderer=PlainRenderer(io.StringIO()))
    found = {name: whole(it.detach()) for name, it in model.named_parameters()}
    return {**found, "valid": torch.tensor(result.valid_loss)}


def same(make: Callable[[], nn.Module], items: Any, loss: Any = None, strategy: str = "fsdp2") -> float:
    one = trained(make, items, {}, loss)
    two = trained(make, items, {"strategy": strategy, "context": 2}, loss)
    return max(float((two[name] - it).abs().max()) for name, it in one.items())


def refused(make: Callable[[], nn.Module], message: str, loss: Any = None) -> float:
    with pytest.raises(ConfigError, match=message):
        trained(make, torch.stack([it["input_ids"] for it in PACKED]), {"strategy": "fsdp2", "context": 2}, loss)
    return 0.0


def own_loss(model: nn.Module, batch: Tensor) -> StepOutput:
    tokens, targets = own_parts(model, batch[:, :-1], batch[:, 1:])
    loss = functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    return StepOutput(loss, int((targets != -100).sum()))


def whole_loss(model: nn.Module, batch: Tensor) -> Tensor:
    return functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


BERT = BertMaskedLmConfig(
    encoder=BertEncoderConfig(**SIZES).replace(dropout=0.0, attention_dropout=0.0, pooler=False)
).init
TOKENS = torch.stack([it["input_ids"] for it in PACKED])
OF_TRANSFORMERS: Mapping[str, tuple[Callable[[], nn.Module], Items]] = {
    "Llama, packed": (of_transformers("Llama", **LLAMA), PACKED),
    "Mistral with a window": (of_transformers("Mistral", **LLAMA, sliding_window=4), PADDED),
    "Bert": (
        of_transformers(
            "Bert", **SMALL, num_labels=32, num_attention_heads=2, hidden_dropout_prob=0, attention_probs_dropout_prob=0
        ),
        PADDED,
    ),
}
IN_FLOAT32 = [name for name in OF_TRANSFORMERS if name != "Bert"]
"""Models whose norms and rotations transformers computes in float32 in any case."""

CHECKS: Mapping[str, Callable[[], float]] = {
    "packed": lambda: same(decoder(), PACKED),
    "packed, ddp": lambda: same(decoder(positions=LearnedPositions()), PACKED, strategy="ddp"),
    "padded": lambda: same(decoder(), PADDED),
    "a window and a cap": lambda: same(decoder(sliding_window=3, attention_soft_cap=5.0, n_heads_kv=1), TOKENS),
    "encoder": lambda: same(BERT, PADDED),
    "a loss of one's own": lambda: same(decoder(), TOKENS, own_loss),
    **{name: lambda made=made: same(*made) for name, made in OF_TRANSFORMERS.items()},
    "a loss that divides nothing": lambda: refused(decoder(), "did not divide its sequences", whole_loss),
    "recurrent": lambda: refused(
        lambda: LstmLmConfig(vocab_size=32, d_model=8, d_hidden=8).init(), "LstmLm does not give for parts"
    ),
    "another attention": lambda: refused(
        of_transformers("Bloom", vocab_size=32, hidden_size=16, n_layer=1, n_head=2),
        "BloomForCausalLM does not give for parts",
    ),
    "no experts": lambda: _no_experts(),
}


def _no_experts() -> float:
    with pytest.raises(ConfigError, match="MixtralForCausalLM has no MixtureOfExperts"):
        trained(of_transformers("Mixtral", **LLAMA, num_local_experts=4), PADDED, {"strategy": "fsdp2", "expert": 2})
    return 0.0


if __name__ == "__main__":
    write_results(Path(sys.argv[1]), CHECKS)
