"""LanguageModel: each token of a text from those before it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from ...learner.steps import StepOutput
from ..configs import LanguageModelConfig
from ..task import Task
from .bigram import bigram_loss
from .next_token import loss_function
from .sampling import sample

if TYPE_CHECKING:
    from ...job.job import Job

_BYTES = 256
_LARGEST_TABLE = 4096
"""The table has as many numbers as the square of this."""


class LanguageModel(Task):
    """Cross-entropy of each token given those before it, in nats; see `next_token_loss`.

    Batches are `[n, length + 1]` int64 tokens. A model may define the loss itself, `loss(batch) -> StepOutput`.
    """

    unit = "tokens"

    def __init__(self, config: LanguageModelConfig | None = None) -> None:
        self.config = config or LanguageModelConfig()

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        return loss_function(model)(model, batch)

    def finish(self, job: "Job", model: nn.Module) -> Mapping[str, Any]:
        """The loss of a bigram table on the same text, and a sample drawn with the written model."""
        data, said = job.data, {}
        config: Any = job.config.data
        has_tokens = all(hasattr(data, name) for name in ("train_tokens", "valid_tokens", "vocab_size"))
        has_all = all(hasattr(part, "length") for part in (data.train, data.valid))  # not some, by a transform
        if has_tokens and has_all and data.vocab_size <= _LARGEST_TABLE:
            predicted = data.valid_tokens[: len(data.valid) * data.valid.length + 1]
            said["bigram"] = bigram_loss(data.train_tokens, predicted, data.vocab_size)
        if all(callable(getattr(data, name, None)) for name in ("encode", "decode")) and self.config.sample_length:
            tokens = sample(
                model,
                data.encode(self.config.prompt),
                length=self.config.sample_length,
                context_length=getattr(data.valid, "length", None) or config.context_length,
                temperature=self.config.temperature,
                seed=job.config.seed,
                device=job.device,
            )
            said["sample"] = self.config.prompt + data.decode(tokens)
        return said

    def describe(self, values: Mapping[str, Mapping[str, float]], said: Mapping[str, Any]) -> list[str]:
        lines = []
        if "bigram" in said:
            gain = said["bigram"].loss - values["valid"]["loss"]
            lines.append(f"bigram table     {said['bigram'].loss:.4f} (counted on the same training text)")
            unit = "byte" if said["bigram"].vocab_size == _BYTES else "token"
            lines.append(f"{'better by' if gain >= 0 else 'worse by':<17}{abs(gain):.4f} nats per {unit}")
        if "sample" in said:
            lines += ["", "sample, drawn with the written model:", said["sample"]]
        return lines
