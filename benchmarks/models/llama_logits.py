"""A Llama of 32,000 tokens with its loss, fused with and without logits, beside the stock model: time and memory.

Hidden size 256, 4 layers, 8 x 256 tokens; forward and backward, and a forward pass without gradients, as validation
does it. The memory is the peak of one step over what the process held before, each side in a process of its own.

    python -m benchmarks.models.llama_logits [--repeats 5]
"""

import subprocess
import sys
from collections.abc import Callable

import torch
import transformers

from burnlike.interop import fuse

from .._harness import Comparison, compare, main
from .._memory import with_extra_bytes

SIDES = ("stock", "fused", "lazy")
BARS = {torch.float32: 1.2, torch.bfloat16: 1.45}


def step(side: str, dtype: torch.dtype, *, training: bool = True) -> Callable[[], object]:
    """A step of one side: the stock model, one with native ops, or one with these and lazy logits."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4
    )
    model = transformers.LlamaForCausalLM(config)
    if side != "stock":
        fuse(model, lazy_logits=side == "lazy")
    ids = torch.randint(0, 32000, (8, 256))

    def run() -> None:
        with torch.set_grad_enabled(training), torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            loss = model(input_ids=ids, labels=ids).loss
        if training:
            loss.backward()

    return run


def extra_megabytes(side: str, dtype: torch.dtype) -> int:
    """What the second step takes, in a process of its own."""
    program = f"from {__spec__.name} import *; print_memory({side!r}, {dtype})"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[-1])


def print_memory(side: str, dtype: torch.dtype) -> None:
    run = step(side, dtype)
    run()
    print(with_extra_bytes(run)[1] // 2**20)


def run(repeats: int) -> list[Comparison]:
    """Measure both types, in training and in validation."""
    results: list[Comparison] = []
    for dtype, bar in BARS.items():
        name = str(dtype).removeprefix("torch.")
        for training in (True, False):
            for side in SIDES[1:]:
                note = ""
                if training:
                    note = f"{extra_megabytes(side, dtype)} MiB, stock {extra_megabytes('stock', dtype)} MiB"
                results.append(
                    compare(
                        f"Llama of 32000 tokens, {side}, {name}{'' if training else ', validation'}",
                        step(side, dtype, training=training),
                        step("stock", dtype, training=training),
                        theirs_name="transformers",
                        bar=bar if training else None,
                        repeats=repeats,
                        note=note,
                    )
                )
    return results


if __name__ == "__main__":
    main(__doc__ or "", run)
