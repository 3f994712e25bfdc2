"""Tokenizers of transformers, read from directories by their files alone; and templates for those that have none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..._regular_file import check_within, hub_blobs, lfs_pointer_problem
from ...errors import DataError

_KINDS = (".json", ".txt", ".model", ".jinja", ".vocab", ".tiktoken", ".bpe")
_NAMES = ("tokenizer.json", "vocab.json", "vocab.txt")
_OF_WORDS = (".model", ".tiktoken")
"""Files of which a tokenizer needs one: their names, or how they end."""
_WEIGHTS = ("index.json", "pytorch_model", "adapter_", "trainer_state", "optimizer")


def tokenizer_problem(text: str) -> str:
    """The problem with the directory or file of a tokenizer, as far as its names tell; empty if there is none."""
    path = Path(text).expanduser()
    files = [path] if path.is_file() else [it for it in path.glob("*") if it.name in _NAMES or it.suffix in _OF_WORDS]
    if path.is_dir() and not files:
        return f"{text}: expected the files of a tokenizer, got a directory without {', '.join(_NAMES)}"
    return next((problem for file in files if (problem := lfs_pointer_problem(file))), "")


def read_tokenizer(directory: Path) -> Any:
    """The tokenizer of a directory, by its files alone: no code of it runs, and nothing is downloaded."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise DataError("a tokenizer needs the package transformers: pip install 'burnlike[transformers]'") from error
    if not directory.is_dir():
        raise DataError(
            f"data.tokenizer: expected a directory with the files of a tokenizer, got {directory}, which is none"
        )
    tokenizer_files(directory)  # refuses links
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(directory), trust_remote_code=False, local_files_only=True)
    except Exception as error:  # damaged files make exceptions of many kinds
        text = " ".join(str(error).split())
        raise DataError(f"data.tokenizer: {directory} has no tokenizer that transformers reads: {text}") from error
    if not tokenizer.is_fast:
        raise DataError(
            f"data.tokenizer: {directory}: expected a tokenizer that says where in a text its tokens are"
            f" (tokenizer.json), got a {type(tokenizer).__name__} without; save it by transformers as a fast one first"
        )
    return tokenizer


def add_tokens(tokenizer: Any, texts: Sequence[str]) -> dict[str, int]:
    """Let each text be one token, of which those that are none yet become one; returns their numbers.

    They are none of the special ones, which are left out of a decoded answer.
    """
    from transformers import AddedToken

    there = tokenizer.get_vocab()
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in texts if text not in there])
    return {text: tokenizer.convert_tokens_to_ids(text) for text in texts}


def tokenizer_files(directory: Path) -> dict[str, Path]:
    """The files that make a tokenizer, by their names: no weights, which often lie beside them.

    A DataError names a link out of the directory, which may be a stranger's; but in the cache of the Hugging Face Hub
    all files are links to `blobs` of the same model.
    """
    files = [it for it in directory.iterdir() if it.is_file() and it.suffix in _KINDS and not it.name.startswith(".")]
    files = [it for it in files if not any(name in it.name for name in _WEIGHTS)]
    files += [path for path in (directory / "additional_chat_templates").glob("*.jinja") if path.is_file()]
    blobs = hub_blobs(directory)
    for file in files:
        try:
            check_within(file, directory if blobs is None or not file.is_symlink() else blobs)
        except OSError as error:
            raise DataError(f"data.tokenizer: {file}: {error.strerror}; put a copy of the file there") from error
    return {it.relative_to(directory).as_posix(): it for it in sorted(files)}


_MESSAGES = "{% for message in messages %}"
_SYSTEM_FIRST = "{% if messages[0].role == 'system' %}{{ messages[0].content }}\n\n{% endif %}"


def built_in(name: str, tokenizer: Any, *, begins: bool) -> str:
    """One of burnlike's chat templates.

    Args:
        name: `chatml`, `alpaca` or `plain`.
        begins: whether the tokenizer begins texts with a token.
    """
    begin = "{{ bos_token }}" if begins else ""
    if name == "plain":
        return f"{begin}{_MESSAGES}{{{{ message.content }}}}{{% endfor %}}"
    if tokenizer.eos_token is None:
        raise DataError(f"data.chat_template: {name} needs a tokenizer with an eos_token, which ends answers")
    if name == "chatml":
        end = "<|im_end|>" if "<|im_end|>" in tokenizer.added_tokens_encoder else tokenizer.eos_token
        return (
            f"{begin}{_MESSAGES}<|im_start|>{{{{ message.role }}}}\n{{{{ message.content }}}}{end}\n{{% endfor %}}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        )
    return (
        f"{begin}{_SYSTEM_FIRST}{_MESSAGES}{{% if message.role == 'user' %}}### Instruction:\n"
        "{{ message.content }}\n\n{% elif message.role == 'assistant' %}### Response:\n{{ message.content }}"
        f"{tokenizer.eos_token}\n\n{{% endif %}}{{% endfor %}}"
        "{% if add_generation_prompt %}### Response:\n{% endif %}"
    )
