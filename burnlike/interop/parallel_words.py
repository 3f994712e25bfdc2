"""The words of plans of tensor and sequence parallelism; torch is not loaded for them."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..config.registry import parts_below
from ..errors import nearest

WORDS: Mapping[str, str] = {
    "colwise": "a linear layer of which each process computes some outputs",
    "rowwise": "a linear layer of which each process has some inputs; the outputs are summed",
    "colwise_gather_output": "as colwise, and all processes get all outputs",
    "rowwise_split_input": "as rowwise, of inputs that all processes have",
    "embedding": "a table of which each process has some rows",
    "vocab": "a head of which each process has the logits of some classes, by which losses are computed",
    "summed": "a layer that each process applies to what it has, such as its heads",
    "divided": "a module around column- and row-wise layers, such as attention: it gets whole sequences",
    "draws": "a module whose dropout each process draws by itself",
    "sequence": "a norm or a dropout of a part of a sequence",
    "sequence_begin": "from this module on each process has a part of each sequence",
    "sequence_end": "after this module all processes have whole sequences",
    "replicated": "a module that each process has the whole of",
}
_OF_TRANSFORMERS = {
    "colwise_rep": "colwise_gather_output",
    "rowwise_rep": "rowwise_split_input",
    "embedding_rowwise": "embedding",
    "replicated_with_grad_allreduce": "summed",
    "sequence_parallel": "sequence",
    "replicate": "replicated",
}


def known_words(text: str) -> tuple[tuple[str, ...], str]:
    """The words of a text, those of transformers as ours; and what is wrong with them."""
    words = tuple(_OF_TRANSFORMERS.get(it, it) for it in text.split())
    for word in words:
        if word not in WORDS:
            hint = nearest(word, [*WORDS]) or f"; there are {', '.join(WORDS)}"
            return (), f"expected a way to divide a layer, got '{word}'{hint}"
    return words, "" if words else "expected a way to divide a layer, got nothing"


HEADS = ("n_heads", "n_heads_kv", "num_heads", "num_attention_heads", "num_key_value_heads")
"""What attention calls the number of its heads, of which each process has as many."""


def undivided_heads(config: Any, size: int, path: str = "") -> Iterator[tuple[str, str]]:
    """The places in a config, nested ones included, of numbers of heads that the processes can't share, and why."""
    for place, name, value in parts_below(config, path) if size > 1 else ():
        if name in HEADS and isinstance(value, int) and value % size:
            yield place, f"{size} processes (distributed.tensor) can't share {value} heads equally"
