"""The programs and commands of the guides run as they stand, each guide's one after the other.

A block without a language, or `text`, directly after a program or command is its output, and is compared. In it `...`
stands for any text. A command is run if its output is shown. A block that begins with a comment such as `# job.yaml` or
`# my_layers.py` is that file, which is there before the first program runs.
"""

import re
import shlex
import textwrap
from pathlib import Path

import pytest

from burnlike.config import Config, LrSchedulerConfig, ModuleConfig, OptimizerConfig
from burnlike.train import TrainingConfig

from .fork_server import ForkServer
from .marks import slow, weekly
from .torch_versions import copies_in_compiled_code

DOCS = Path(__file__).parent.parent / "docs"

GUIDES = [
    "index",
    "training",
    "training/python",
    "after_training",
    "metrics",
    "modules",
    "nn",
    "models",
    "mlax",
    "drop_in",
    "kernels",
    "optimizers",
    "tensor",
    "backends",
    "formats",
    "records",
    "burn",
    "config",
    "data",
    "chat_data",
    "streaming",
    "parallelism",
    *(f"parallelism/{it.stem}" for it in sorted((DOCS / "parallelism").glob("*.md")) if "```python" in it.read_text()),
    "clusters",
    "guide/classification",
    "fine_tuning",
    "guide/custom_loop",
    "guide/gan",
    *(
        f"{folder}/{it.stem}"
        for folder in ("start", "concepts", "how_to", "notebooks", "reference")
        for it in sorted((DOCS / folder).glob("*.md"))
        if "```python" in it.read_text()
    ),
]
WEEKLY = {
    "mlax": "compiled code",
    "how_to/prove_that_a_run_resumes": "processes that are killed",
    "how_to/resume_lightning_and_trainer": "imports of both",
    "how_to/lora_on_a_laptop": "imports of transformers and peft",
    "how_to/align_a_model": "five trainings",
    "how_to/beside_trl_and_axolotl": "four trainings",
    "notebooks/fuse": "two models that train",
    "notebooks/digits": "a training",
    "models": "models of real sizes",
}
SLOW = {
    "chat_data": "imports of transformers",
    "how_to/faster_model": "imports of transformers",
    "start/training_job": "a training",
    "training": "trainings",
    "after_training": "trainings",
    "drop_in": "trainings",
}
_MODEL = """
import torch
import burnlike as bl

class Part(bl.Module):
    weight: torch.nn.Parameter

    def __init__(self, device=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2, device=device))

class Stack(bl.Module):
    layers: list[Part]

    def __init__(self, device=None):
        super().__init__()
        self.layers = [Part(device), Part(device)]

class StackConfig(bl.Config):
    def init(self, device=None):
        return Stack(device)

model, config, device = Stack(), StackConfig(), "cpu"
"""
_ALIGNED = """
import warnings
warnings.simplefilter("ignore")
from pathlib import Path
from tests.data.chat.samples import tokenizer_in, turns, write_lines
from tests.models.by_path.directories import llama
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "max_position_embeddings": 128}
llama(Path("llama"), vocab_size=300, **sizes)
tokenizer_in(Path("llama"))
sums = [(f"what is {a} and {b}", f"<|call|>sum {a} {b}<|end call|>") for a in range(8) for b in range(8)]
write_lines(Path("calls.jsonl"), [{"messages": turns(*it)} for it in sums])
write_lines(Path("pairs.jsonl"), [{"prompt": it, "chosen": call, "rejected": "it is fine"} for it, call in sums])
write_lines(Path("prompts.jsonl"), [{"prompt": it, "answer": call} for it, call in sums])
"""
"""A tiny model and the files of the five steps."""
GIVEN = {
    "chat_data": """
from pathlib import Path
from tests.data.chat.samples import conversations, tokenizer_in, write_lines
tokenizer_in(Path("my_model"))
write_lines(Path("chat.jsonl"), [{"messages": it} for it in conversations(60)])
""",
    "records": _MODEL
    + """
import numpy
from burnlike.optim import AdamWConfig
linear, head = torch.nn.Linear(2, 3), torch.nn.Linear(2, 2)
numpy_array = numpy.zeros((3, 2), dtype=numpy.float32)
optimizer = AdamWConfig().init()
optimizer.save("optimizer")
bl.record.save(model, "model")
scheduler, scaler, loader, counters = {"iteration": 1}, torch.amp.GradScaler("cpu"), {"epoch": 0}, {"tokens": 7}
""",
    "how_to/burn_training": """
import torch
import burnlike as bl
from burnlike.optim import AdamWConfig, CosineAnnealingConfig, GradientsParams
net, optimizer = torch.nn.Module(), AdamWConfig().init()
net.first, net.second = bl.nn.LinearConfig(2, 16).init(), bl.nn.LinearConfig(16, 1).init()
schedule = CosineAnnealingConfig(initial_lr=0.02, num_iters=40).init()
net.second(net.first(torch.ones(8, 2))).sum().backward()
optimizer.step(schedule.step(), net, GradientsParams.from_module(net))
bl.train.TrainingState(net=net, optimizer=optimizer, schedule=schedule).save_for_burn("artifacts/checkpoint", 2)
""",  # as Burn's Learner would: tests/burn/test_train_page.py runs that
    "how_to/resume_lightning_and_trainer": """
import warnings
warnings.simplefilter("ignore")  # of these libraries about each other
""",
    "how_to/lora_on_a_laptop": """
import warnings
warnings.simplefilter("ignore")
from pathlib import Path
from tests.data.chat.samples import conversations, tokenizer_in, write_lines
from tests.models.by_path.directories import llama
llama(Path("llama"), vocab_size=300, max_position_embeddings=256)
tokenizer_in(Path("llama"))
write_lines(Path("chat.jsonl"), [{"messages": it} for it in conversations(120)])
""",
    "how_to/align_a_model": _ALIGNED,
    "how_to/beside_trl_and_axolotl": _ALIGNED
    + """
import os
os.environ["HF_HUB_OFFLINE"] = "1"
""",
}
"""What the programs of some guides have beside what they say."""

FILE = re.compile(r"^```(?:yaml|python)\n(# (\S+\.(?:yaml|py))\n.*?)^```", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^ *```(python|bash)\n(.*?)^ *```\n(?:\n? *```(?:text)?\n(.*?)^ *```$)?", re.DOTALL | re.MULTILINE)
"""A program or commands, and the output if it follows."""
_START = """import sys as _sys
_sys.stdout = open("printed", "w")  # without what torch and others log
"""
_COMMANDS = """import contextlib as _contextlib
from burnlike.cli.main import main as _main
with _contextlib.redirect_stderr(_sys.stdout):"""
END = "\x1e"
"""Printed after each block."""


def commands(text: str) -> str:
    """A program that runs commands of burnlike; one that ends with an error may be shown, too."""
    lines = [shlex.split(it, comments=True) for it in text.replace("\\\n", " ").splitlines()]
    assert {it[0] for it in lines if it} == {"burnlike"}, text
    return "\n".join([_COMMANDS, *(f"    _main({it[1:]})" for it in lines if it)])


def assert_shown(shown: str, output: str) -> None:
    """Whether an output is as a guide shows it: `...` is any text, as a line any lines; spaces at ends don't count."""
    found = "".join(f"{it.rstrip()}\n" for it in output.strip("\n").splitlines())
    pattern = "".join(
        r"(?:.*\n)*?" if it == "..." else ".*?".join(map(re.escape, it.rstrip().split("..."))) + r"\n"
        for it in shown.strip("\n").splitlines()
    )
    assert re.fullmatch(pattern, found), f"the guide shows\n{shown}\nnot\n{found}"


ALLOWED: dict[str, type[Warning]] = {
    "Guards may run slower on Python 3.13.0": RuntimeWarning,  # of torch.compile
    "The given buffer is not writable": UserWarning,  # of torch.export.load, torch 2.11
    "torch.distributed is disabled, unavailable or uninitialized": UserWarning,  # of its checkpoints, without processes
}


@pytest.mark.parametrize(
    "guide",
    [
        *(it for it in GUIDES if it not in {*SLOW, *WEEKLY}),
        *slow(*SLOW),
        *weekly(*(it for it in WEEKLY if it != "mlax")),
        pytest.param("mlax", marks=[pytest.mark.weekly, copies_in_compiled_code]),
    ],
)
def test_the_programs_of_a_guide_run(guide: str, tmp_path: Path, fork_server: ForkServer) -> None:
    text = (DOCS / f"{guide}.md").read_text()
    for file, name in FILE.findall(text):
        (tmp_path / name).write_text(file)
    found = [(kind, textwrap.dedent(it), output) for kind, it, output in BLOCK.findall(FILE.sub("", text))]
    blocks = [
        (it if kind == "python" else commands(it), textwrap.dedent(output))
        for kind, it, output in found
        if kind == "python" or output
    ]
    assert blocks
    program = "".join(f"{it}\nprint({END!r})\n" for it in (_START + GIVEN.get(guide, ""), *(it for it, _ in blocks)))
    status, said = fork_server.run_program(program, tmp_path, ALLOWED)
    assert status == 0, said
    _, *outputs = (tmp_path / "printed").read_text().split(f"{END}\n")
    for (_, shown), output in zip(blocks, outputs, strict=False):
        if shown:
            assert_shown(shown, output)
    pictures = re.findall(r"\]\(images/(\S+)\)", text) if guide.startswith("notebooks/") else []
    for picture in pictures:  # which a notebook draws
        assert (tmp_path / picture).stat().st_size > 10_000


def test_a_shown_output_is_compared() -> None:
    assert_shown("1\n...\nlast of ... lines\n", "1\n2\n3\nlast of 4 lines \n")
    assert_shown("1\n...\n2", "1\n2\n")
    with pytest.raises(AssertionError):
        assert_shown("1\n...\n", "2\n3\n")


def test_the_models_of_the_guide_to_models_can_be_built() -> None:
    texts = re.findall(r"```yaml\n(type: .*?)```", (DOCS / "models.md").read_text(), re.DOTALL)
    assert len(texts) >= 2
    for text in texts:
        ModuleConfig.from_yaml(text).init("meta")


def test_the_yaml_of_the_guide_to_optimizers_is_right() -> None:
    class Part(Config):
        optimizer: OptimizerConfig
        lr_scheduler: LrSchedulerConfig
        training: TrainingConfig

    (text,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "optimizers.md").read_text(), re.DOTALL)
    part = Part.from_yaml(text)
    assert len(part.optimizer.init().rules.groups) == 3
    assert part.lr_scheduler.init(num_iters=1000).step().base == pytest.approx(1e-5)
    assert part.training.accumulation_steps == 4
