"""docs/guide/chat_lora.md from an empty folder: its files, its commands, and the program in transformers."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from ..data.chat.samples import conversations, tokenizer_in, turns, write_lines
from ..models.by_path.directories import llama
from ..test_guides import assert_shown
from .guides import DOCS, commands_of, run_commands, yaml_of

GUIDE = (DOCS / "chat_lora.md").read_text()
MOST_LINES = 20


def _files() -> None:
    """Conversations, and a tiny Llama with a tokenizer."""
    llama(Path("llama"), vocab_size=300, max_position_embeddings=256)
    tokenizer_in(Path("llama"))
    sums = [turns(f"what is {one} and {other}", f"it is {one + other}") for one in range(6) for other in range(6)]
    write_lines(Path("chat.jsonl"), [{"messages": it} for it in [*sums * 3, *conversations(12)]])


@pytest.mark.slow
def test_the_guide_runs_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _files()
    text = yaml_of(GUIDE, "chat.yaml")
    assert text.count("\n") <= MOST_LINES
    Path("chat.yaml").write_text(text.replace("2e-4", "2e-2"))  # as the guide says of a tiny one
    said = run_commands(commands_of(GUIDE), monkeypatch, capsys)
    assert len(said) == 5
    (begin,) = re.findall(r"^```\n(weights .*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    assert_shown(f"...\n{begin}...", said["burnlike train chat.yaml"])
    assert {it.name for it in Path("runs/chat/adapter").iterdir()} >= {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    assert not Path("runs/chat/model.safetensors").exists()
    (program,) = re.findall(r"^```python\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(program, {})
    written = next(out for line, out in said.items() if "generate" in line)
    assert shown.getvalue() == written
    assert len(written) > 1
