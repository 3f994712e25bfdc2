"""64 tokens after a prompt of 16 of a Llama of 60 M parameters, greedy, in 1 and 8 rows, beside llama.cpp.

Both have the same random weights, which ours writes as GGUF: llama.cpp computes in f16 or q8_0 with as many threads as
torch, and is called token by token through its C interface, with all rows in one batch. Ours is `generate` in float32,
bfloat16 or int8. The note has the tokens a second of each, and how many of them are the same. Needs llama-cpp-python:
`make bench-llama-cpp`. Names choose some: `python -m benchmarks.models.llama_cpp "int8 q8_0"`.
"""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks._harness import Comparison, main
from burnlike.interop import quantize_
from burnlike.models import DecoderLmConfig, RotaryPositions
from burnlike.train.export.exporting import export
from burnlike.train.export.source import Source

from .generate import NEW, PROMPT, compare_tokens, ours_of

CONFIG = DecoderLmConfig(
    vocab_size=8192,
    max_sequence_length=256,
    d_model=640,
    n_layers=10,
    n_heads=10,
    d_ff=1728,
    positions=RotaryPositions(interleaved=False),
    tied=False,
)
BATCHES = (1, 8)
BAR = 1.0
NAMES = [f"{ours} {theirs}" for ours in ("float32", "bfloat16", "int8") for theirs in ("f16", "q8_0")]


def ours(kind: str) -> Any:
    """Our model in a type, with the same weights at each call."""
    torch.manual_seed(0)
    model: nn.Module = CONFIG.init().eval()
    if kind == "int8":
        quantize_(model, "int8")
        return model
    return model.to(getattr(torch, kind))


class LlamaCpp:
    """The same model in llama.cpp."""

    def __init__(self, kind: str, rows: int, folder: Path) -> None:
        import llama_cpp

        self.api: Any = llama_cpp
        path = folder / f"{kind}.gguf"
        if not path.exists():
            options: Any = {"quantize": kind} if kind != "f16" else {"dtype": "float16"}
            export(Source(ours("float32"), CONFIG, None, (), {}), "gguf", path, **options)
        self.silent = self.api.llama_log_callback(lambda level, text, data: None)  # kept as long as it is called
        self.api.llama_log_set(self.silent, None)
        self.model = self.api.llama_model_load_from_file(str(path).encode(), self.api.llama_model_default_params())
        settings = self.api.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = rows * CONFIG.max_sequence_length, 512, 512
        settings.n_seq_max = rows
        settings.n_threads = settings.n_threads_batch = torch.get_num_threads()
        self.context = self.api.llama_init_from_model(self.model, settings)
        assert self.context, f"llama.cpp can't open {path}"

    def generate(self, prompt: Tensor) -> Tensor:
        """The likeliest tokens after those of each row."""
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        written = [self._next(prompt, 0)]
        for place in range(PROMPT, PROMPT + NEW - 1):
            written.append(self._next(written[-1], place))
        return torch.cat((prompt, *written), 1)

    def _next(self, tokens: Tensor, place: int) -> Tensor:
        """Read the tokens `[rows, new]` from a place on; gives the likeliest one after each row, `[rows, 1]`."""
        import numpy as np

        rows, new = tokens.shape
        batch = self.api.llama_batch_init(rows * new, 0, 1)
        batch.n_tokens = rows * new
        for at, token in enumerate(tokens.flatten().tolist()):
            row, column = divmod(at, new)
            batch.token[at], batch.pos[at] = token, place + column
            batch.n_seq_id[at], batch.seq_id[at][0] = 1, row
            batch.logits[at] = column == new - 1
        assert self.api.llama_decode(self.context, batch) == 0
        self.api.llama_batch_free(batch)
        logits = [self.api.llama_get_logits_ith(self.context, row * new + new - 1) for row in range(rows)]
        return torch.tensor([[int(np.ctypeslib.as_array(it, (CONFIG.vocab_size,)).argmax())] for it in logits])


def _measure(name: str, repeats: int, folder: Path) -> list[Comparison]:
    kind, theirs = name.split()
    model = ours(kind)
    results = []
    for rows in BATCHES:
        torch.manual_seed(1)
        prompt = torch.randint(0, CONFIG.vocab_size, (rows, PROMPT))
        side: Callable[[], Tensor] = partial(LlamaCpp(theirs, rows, folder).generate, prompt)
        options: dict[str, Any] = {"bar": BAR, "is_equal": False, "theirs_name": f"llama.cpp in {theirs}"}
        results.append(compare_tokens(f"generate {kind}", ours_of(model, prompt), side, rows, repeats, **options))
    return results


@torch.no_grad()
def run(repeats: int, names: Sequence[str] = ()) -> list[Comparison]:
    """Measure all, or some by name."""
    chosen = [name for name in NAMES if not names or name in names]
    with tempfile.TemporaryDirectory() as folder:
        return [result for name in chosen for result in _measure(name, min(repeats, 9), Path(folder))]


if __name__ == "__main__":
    main(__doc__ or "", run, names=NAMES)
