"""One training step of a decoder of 10.7 M parameters (d 384, 6 layers, 8 x 256 tokens): loss, gradients, AdamW.

Ours beside the same model in plain torch, and transformers' Llama of that size with `fuse` beside itself without; eager
and compiled, in float32 and under bfloat16 autocast. `int8` is ours with the layers of `precision: int8_mixed` beside
ours in bfloat16. Both sides start from the same weights and take the same batch; the note has the losses of the first
step. Memory is the peak of two steps, in a process of its own, over what it held before: activations, gradients and the
optimizer's moments. Names choose some of them: `python -m benchmarks.models.step "eager bfloat16"`.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._harness import Comparison, compare, main
from benchmarks._memory import with_extra_bytes
from burnlike.interop import fuse
from burnlike.models import DecoderLmConfig, RotaryPositions
from burnlike.nn import CrossEntropyLossConfig
from burnlike.train.learner.computing import Int8Layers

from . import torch_decoder
from .twins import llama_sizes, take_weights

CONFIG = DecoderLmConfig(
    vocab_size=256,
    max_sequence_length=256,
    d_model=384,
    n_layers=6,
    n_heads=6,
    d_ff=1024,
    positions=RotaryPositions(interleaved=False),
    tied=False,
)
BATCH, LENGTH = 8, 256

Side = tuple[nn.Module, Callable[[nn.Module, Tensor, Tensor], Tensor]]
"""A model, and its loss for tokens and those that follow them."""


def _ours() -> Side:
    loss = CrossEntropyLossConfig().init()
    return CONFIG.init(), lambda model, tokens, targets: loss(model(tokens).flatten(0, 1), targets.flatten())


def _plain() -> Side:
    theirs = torch_decoder.DecoderLm(CONFIG)
    return theirs, lambda model, tokens, targets: F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def _decoders() -> tuple[Side, Side]:
    torch.manual_seed(0)
    ours, theirs = _ours(), _plain()
    take_weights(ours[0], theirs[0], torch_decoder.NAMES)
    return ours, theirs


_ENTERED = ExitStack()


def _in_int8() -> tuple[Side, Side]:
    torch.manual_seed(0)
    stock = _ours()
    rounded = deepcopy(stock[0])
    _ENTERED.enter_context(Int8Layers(rounded, torch.device("cpu")).computing())
    return (rounded, stock[1]), stock


def llamas(config: DecoderLmConfig = CONFIG) -> tuple[Side, Side]:
    """transformers' Llama of a size with `fuse`, and without."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    stock = LlamaForCausalLM(LlamaConfig(**llama_sizes(config), use_cache=False))
    fused = deepcopy(stock)
    fuse(fused)

    def loss(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
        return model(input_ids=tokens, shift_labels=targets, labels=targets).loss

    return (fused, loss), (stock, loss)


@dataclass(frozen=True)
class Mode:
    """How a step is run.

    Attributes:
        compiled: by torch.compile, whole.
        autocast: to bfloat16.
        bar: of the ratio to the stock model.
    """

    compiled: bool
    autocast: bool
    bar: float


MODES = {
    "eager float32": Mode(False, False, 1.5),
    "eager bfloat16": Mode(False, True, 1.5),
    "compiled float32": Mode(True, False, 1.2),
    "compiled bfloat16": Mode(True, True, 1.2),
}
INT8_MODES = {"eager bfloat16": Mode(False, True, 1.3), "compiled bfloat16": Mode(True, True, 1.2)}
LLAMA_MODES = {**MODES, "eager bfloat16": Mode(False, True, 1.45)}
PAIRS: dict[str, tuple[Callable[[], tuple[Side, Side]], dict[str, Mode], str]] = {
    "decoder": (_decoders, MODES, "plain torch"),
    "int8": (_in_int8, INT8_MODES, "bfloat16"),
    "llama": (llamas, LLAMA_MODES, "transformers"),
}
NAMES = [f"{pair} {mode}" for pair, (_, modes, _) in PAIRS.items() for mode in modes] + ["memory"]
MEMORY_BAR = 1 / 0.8


def step_of(side: Side, mode: Mode, batch: Tensor | None = None) -> Callable[[], Tensor]:
    """A training step, which returns its loss; `batch` are tokens and those that follow, on the model's device."""
    model, loss_of = side
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(1)
    tokens, targets = (torch.randint(0, CONFIG.vocab_size, (2, BATCH, LENGTH)) if batch is None else batch).unbind()

    def forward() -> Tensor:
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=mode.autocast):
            return loss_of(model, tokens, targets)

    called = torch.compile(forward, fullgraph=True) if mode.compiled else forward

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = called()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _measure(pair: str, mode_name: str, repeats: int) -> Comparison:
    make, modes, theirs_name = PAIRS[pair]
    mode = modes[mode_name]
    torch.compiler.reset()
    sides = make()
    ours, theirs = (step_of(side, mode) for side in sides)
    first = [ours().item(), theirs().item()]
    return compare(
        f"{pair} {mode_name}",
        ours,
        theirs,
        theirs_name=theirs_name,
        bar=mode.bar,
        repeats=repeats,
        note=f"first losses {first[0]:.5f} and {first[1]:.5f}",
    )


def _memory(pair: str, mode_name: str) -> Comparison:
    """Peaks of both sides, each in a process of its own; in MB in the place of milliseconds."""
    ours, theirs = (_peak_elsewhere(pair, mode_name, side) for side in (0, 1))
    result = Comparison(
        f"memory: {pair} {mode_name}, MB for ms",
        ours / 1e6,
        theirs / 1e6,
        PAIRS[pair][2],
        theirs / ours,
        MEMORY_BAR,
        1,
        1,
        "",
    )
    print(result, flush=True)
    return result


def _peak_elsewhere(pair: str, mode_name: str, side: int) -> int:
    code = f"from benchmarks.models.step import peak; print(peak({pair!r}, {mode_name!r}, {side}))"
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def peak(pair: str, mode_name: str, side: int) -> int:
    """Bytes that two training steps of one side (0 ours, 1 theirs) take at their highest, over the model's own."""
    make, modes, _ = PAIRS[pair]
    torch.ones(1000, 1000).requires_grad_().mm(torch.ones(1000, 1000)).sum().backward()  # the libraries' own memory
    sides = list(make())
    side_alone = sides[side]
    del sides
    step = step_of(side_alone, modes[mode_name])
    return with_extra_bytes(lambda: [step() for _ in range(2)])[1]


def run(repeats: int, names: Sequence[str] = ()) -> list[Comparison]:
    """Measure all, or some by name."""
    chosen = [name for name in NAMES if not names or any(name.endswith(it) for it in names)]
    results = [_measure(*name.split(" ", 1), min(repeats, 20)) for name in chosen if name != "memory"]
    if "memory" in chosen:
        results += [
            _memory(pair, mode) for pair in ("decoder", "llama") for mode in ("eager float32", "eager bfloat16")
        ]
    return results


if __name__ == "__main__":
    main(__doc__ or "", run, names=[*NAMES, *MODES])
