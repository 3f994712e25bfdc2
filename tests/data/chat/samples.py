"""A tiny tokenizer with a chat template, and conversations."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKED = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.role == 'assistant' %}"
    "{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}{% else %}{{ message.content }}<|im_end|>"
    "{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = "what is the sum of and it hello how are you fine thanks system user assistant"


@cache
def _tokenizer() -> str:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False
    )
    made.train_from_iterator([WORDS] * 3, trainer)
    return made.to_str()


def tokenizer(template: str | None = CHATML) -> PreTrainedTokenizerFast:
    found = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_tokenizer()), bos_token="<s>", eos_token="</s>"
    )
    found.chat_template = template
    return found


def tokenizer_in(directory: Path, template: str | None = CHATML) -> Path:
    tokenizer(template).save_pretrained(directory)
    return directory


def llama_in(directory: Path, **options: Any) -> Path:
    """A directory of a tiny Llama of transformers with random weights, and the tokenizer."""
    tokenizer_in(directory)
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64, **options}
    LlamaForCausalLM(LlamaConfig(vocab_size=300, **sizes)).save_pretrained(directory)
    return directory


def turns(*texts: str) -> list[dict[str, Any]]:
    """Messages of the user and the assistant in turn."""
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]


def conversations(count: int) -> list[list[dict[str, Any]]]:
    """Some of one answer and some of two, of many lengths."""
    found = []
    for number in range(count):
        texts = [f"what is {number} and {number % 7}", f"it is {number + number % 7}"]
        if number % 3 == 0:
            texts += ["sure? " * (number * 5 % 11 + 1), f"yes, {number}"]
        found.append(turns(*texts))
    return found


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
