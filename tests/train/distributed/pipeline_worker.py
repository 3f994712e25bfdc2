"""Trainings by pipelines of two processes beside a single one, all in one start of each process.

    python -m tests.train.distributed.pipeline_worker FOLDER

writes `FOLDER/found{rank}.json`: for each case the largest difference of a weight, or the error that was raised.
"""

import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.config import ModuleConfig
from burnlike.data import DataLoader
from burnlike.models import BertMaskedLmConfig, DecoderLmConfig
from burnlike.models.encoders.configs import BertEncoderConfig
from burnlike.module import params, seed_param_ids
from burnlike.optim import AdamWConfig, ClipByGlobalNorm
from burnlike.optim.core.sharded import whole
from burnlike.train import DistributedConfig, Learner, PlainRenderer, StepOutput, TrainingConfig, make_parallel
from burnlike.train.parallel.single_process import SingleProcess

from ...checks import write_results

CPU = torch.device("cpu")
BATCH = 6
TOKENS = torch.randint(24, (15, 7), generator=torch.Generator().manual_seed(1))
ENCODER = BertEncoderConfig(
    vocab_size=24, max_sequence_length=8, d_model=8, n_layers=4, n_heads=2, d_ff=16, dropout=0.0, pooler=False
)
DECODER = DecoderLmConfig(vocab_size=24, max_sequence_length=8, d_model=8, n_layers=4, n_heads=2, d_ff=16, tied=False)


def next_token(model: nn.Module, batch: Tensor) -> StepOutput:
    """The loss of the next tokens, of which every fifth token is none, so that micro-batches differ in their number."""
    output = model(batch[:, :-1])
    logits = output if isinstance(output, Tensor) else output.logits
    targets = batch[:, 1:].masked_fill(batch[:, 1:] % 5 == 0, -100)
    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    return StepOutput(loss, int((targets != -100).sum()), logits, targets)


class Own(nn.Module):
    """A model of one's own: parts by name, and shapes that differ between them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(24, 6)
        self.wide = nn.Linear(6, 10)
        self.narrow = nn.Linear(10, 5)
        self.head = nn.Linear(5, 24)
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wide(self.table(tokens) * self.scale).tanh()
        return self.head(self.narrow(x).tanh())


class Skips(Own):
    """What comes first is needed at the end again."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens) * self.scale
        return self.head(self.narrow(self.wide(x)) + x[..., :5])


class Twice(Own):
    """Calls its parts two times."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) + super().forward(tokens)


class Tied(Own):
    """Its head is its table, as another module."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.head = nn.Linear(10, 6), nn.Linear(6, 24)
        self.head.weight = self.table.weight


_LINEAR = {"type": "Linear", "d_input": 6, "d_output": 6}
ROW = {
    "type": "Sequential",
    "layers": [
        {"type": "Embedding", "n_embedding": 24, "d_model": 6},
        {
            "type": "Repeat",
            "times": 3,
            "layer": {
                "type": "Residual",
                "layers": [{"type": "Linear", "d_input": 6, "d_output": 6}, {"type": "Tanh"}],
            },
        },
        {"type": "Linear", "d_input": 6, "d_output": 24},
    ],
}


def transformers_model(kind: str) -> nn.Module:
    import transformers

    options = {"vocab_size": 24, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    if kind == "gpt2":
        sizes = {"n_positions": 8, "n_embd": 8, "n_layer": 3, "n_head": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**options, **sizes, attn_pdrop=0.0))
    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    heads = {"num_key_value_heads": 1, "max_position_embeddings": 8}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**options, **sizes, **heads))


MODELS: Mapping[str, Callable[[], nn.Module]] = {
    "decoder": DECODER.init,
    "tied": DECODER.replace(tied=True).init,
    "row": lambda: ModuleConfig.from_dict(ROW).init(),
    "torch row": lambda: nn.Sequential(nn.Embedding(24, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 24)),
    "own": Own,
    "own, tied": Tied,
    "masked": BertMaskedLmConfig(encoder=ENCODER.replace(attention_dropout=0.0)).init,
    "skips": Skips,
    "twice": Twice,
    "gpt2": lambda: transformers_model("gpt2"),
    "llama": lambda: transformers_model("llama"),
}


def trained(model: nn.Module, parallel: SingleProcess, steps: int, **options: Any) -> tuple[dict[str, Tensor], float]:
    """Weights after some steps, each of two batches of which the last is smaller, and the loss of a validation."""
    own = options.pop("optimizer", None)
    optimizer = own(model) if own else AdamWConfig(epsilon=1e-3, grad_clipping=ClipByGlobalNorm(threshold=0.3)).init()
    task: Any = {"loss": next_token}
    learner = Learner(model, optimizer, None if own else 0.02, parallel=parallel, **task, **options)
    for step in range(steps):
        learner.train_step(TOKENS[:BATCH], TOKENS[BATCH : BATCH + 5 - step])
    valid = learner.validate(DataLoader([*TOKENS], batch_size=BATCH))
    return {it.path: whole(it.tensor.detach()).clone() for it in params(model, "weight")}, valid


def made(model: str) -> nn.Module:
    torch.manual_seed(7)
    seed_param_ids(7)
    return MODELS[model]().double()


def difference(model: str, steps: int = 2, **config: Any) -> float:
    """The largest difference of a weight or loss of a pipeline from those of a single process."""
    expected, loss = trained(made(model), SingleProcess(), steps)
    parallel = make_parallel(DistributedConfig(**{"strategy": "ddp", "pipeline": 2, **config}), CPU)
    found, valid = trained(made(model), parallel, steps)
    everywhere = [name for names in parallel.gather([*found]) for name in names]
    assert {*everywhere} == {*expected}, set(expected) ^ set(everywhere)
    assert len(found) < len(expected)
    return max(abs(loss - valid), *(float((it - expected[name]).abs().max()) for name, it in found.items()))


def resumed() -> float:
    """The difference of a training that stopped and went on, with one of torch's optimizers, from one that did not."""

    def fit(directory: str, epochs: int) -> dict[str, Tensor]:
        parallel = make_parallel(DistributedConfig(strategy="ddp", pipeline=2), CPU)
        model = made("tied")
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        learner = Learner(model, optimizer, loss=next_token, parallel=parallel)
        loader = DataLoader([*TOKENS], batch_size=BATCH, seed=1, fingerprint="the same")
        options: Any = {"directory": Path(sys.argv[1]) / directory, "renderer": PlainRenderer(io.StringIO())}
        learner.fit(loader, None, TrainingConfig(epochs=epochs), **options)
        return {it.path: it.tensor.detach().clone() for it in params(model, "weight")}

    expected = fit("whole", 2)
    fit("stopped", 1)
    return max(float((it - expected[name]).abs().max()) for name, it in fit("stopped", 2).items())


def drawn() -> float:
    """What a loss draws for a micro-batch, such as which tokens it hides, is the same on all stages."""
    found: set[float] = set()

    def loss(model: nn.Module, batch: Tensor) -> StepOutput:
        found.add(float(torch.rand(())))
        return next_token(model, batch)

    parallel = make_parallel(DistributedConfig(strategy="ddp", pipeline=2), CPU)
    learner = Learner(made("decoder"), AdamWConfig().init(), 0.02, loss=loss, parallel=parallel)
    torch.manual_seed(parallel.rank)
    for _ in range(2):
        learner.train_step(TOKENS[:BATCH])
    first, other = parallel.gather(sorted(found))
    assert len(first) == 2 * 4
    return float(first != other)


def refused(training: TrainingConfig | None = None, *, compiled: bool = False, **options: Any) -> float:
    """What a pipeline does not take, as a program says it."""
    model = made("decoder")
    if compiled:
        model.compile()
    parallel = make_parallel(DistributedConfig(strategy="ddp", pipeline=2), CPU)
    learner = Learner(model, AdamWConfig().init(), 0.02, loss=next_token, parallel=parallel, **options)
    learner.fit(DataLoader([*TOKENS], batch_size=BATCH), None, training, renderer=PlainRenderer(io.StringIO()))
    return 0.0


SCHEDULES = ("GPipe", "LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble")
CASES: Mapping[str, Callable[[], float]] = {
    **{
        name: lambda name=name: difference(name)
        for name in ("decoder", "tied", "masked", "row", "torch row", "gpt2", "llama")
    },
    **{f"decoder, {it}": lambda it=it: difference("decoder", schedule=it) for it in SCHEDULES},
    "tied, Interleaved1F1B": lambda: difference("tied", schedule="Interleaved1F1B"),
    "fsdp2, Interleaved1F1B": lambda: difference("decoder", schedule="Interleaved1F1B", strategy="fsdp2"),
    "fsdp2, InterleavedZeroBubble": lambda: difference("decoder", schedule="InterleavedZeroBubble", strategy="fsdp2"),
    "fsdp2, its options": lambda: difference(
        "decoder", strategy="fsdp2", offload="cpu", reshard_after_forward=False, reshard_after_backward=False
    ),
    "row, Interleaved1F1B": lambda: difference("row", schedule="Interleaved1F1B"),
    "torch's optimizer, resumed": resumed,
    "own": lambda: difference("own", stages=("narrow",)),
    "own, tied": lambda: difference("own, tied", stages=("narrow",)),
    "draws": drawn,
    "begins said": lambda: difference("decoder", stages=("blocks.0", "blocks.3")),
    **{
        f"more micro-batches than items, {it}": lambda it=it: difference("decoder", microbatches=8, schedule=it)
        for it in ("1F1B", *SCHEDULES)
    },
    "no list": lambda: difference("own"),
    "no module": lambda: difference("own", stages=("narow",)),
    "skips": lambda: difference("skips", stages=("narrow",)),
    "twice": lambda: difference("twice", stages=("narrow",)),
    "float16": lambda: refused(precision="float16"),
    "compiled": lambda: refused(compiled=True),
    "fit compiled": lambda: refused(TrainingConfig(compile=True)),
    "too many stages": lambda: difference("llama", schedule="Interleaved1F1B"),
}


if __name__ == "__main__":
    write_results(Path(sys.argv[1]), CASES)
