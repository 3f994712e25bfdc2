"""Compare crates that `--to burn` writes with what burn-onnx, Burn's importer, makes of the same models as ONNX files.

    cargo install burn-onnx --version 0.22.0 --root /tmp/importer
    python -m tests.burn.by_onnx /tmp/importer/bin/onnx2burn /tmp/by_onnx

It prints the table of docs/how_to/pytorch_to_rust.md. No test runs it: the importer takes cargo a quarter of an hour.
"""

import re
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from burnlike.record import open_record
from burnlike.train.export.programs import write_onnx
from burnlike.train.export.source import Source, program_of

from .running import name_crate
from .rust_models import STEPS, Case, Result, _built, _exported, _model, _reason
from .rust_zoo import case_of
from .test_rust_shipped import shipped

TIMES = 20
_TIMED = f"""
let check = &checks.checks[0];
let start = std::time::Instant::now();
for _ in 0..{TIMES} {{ let _ = run(&model, check); }}
println!("{{}}", start.elapsed().as_secs_f64() / {TIMES}.0);
"""
VIT = """
{type: VisionTransformer, image_size: 32, patch_size: 8, d_model: 64, n_layers: 4, n_heads: 4, d_ff: 128,
num_classes: 10}
"""
BERT = """
{type: BertEncoder, vocab_size: 100, max_sequence_length: 64, d_model: 64, n_layers: 4, n_heads: 4, d_ff: 128}
"""


class Tagger(nn.Module):
    """A tag for each word, by torch's LSTM in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 32)
        self.lstm = nn.LSTM(32, 48, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.tags = nn.Linear(96, 12)

    def forward(self, words: Tensor) -> Tensor:
        found, _ = self.lstm(self.words(words))
        return self.tags(self.drop(found))


def cases() -> dict[str, Case]:
    torch.manual_seed(0)
    tokens = torch.randint(3, 100, (2, 24))
    found = {
        "cnn": shipped("digits"),
        "resnet18": shipped("resnet18_cifar"),
        "gpt": shipped("char_gpt_tiny"),
        "lstm_tagger": Case(Tagger, {"words": tokens}),
        "vit": case_of(VIT, torch.randn(2, 3, 32, 32)),
        "bert": case_of(BERT, tokens),
    }
    for case in found.values():
        case.more = _TIMED
    return found


def imported(name: str, case: Case, importer: Path, folder: Path) -> Result:
    """Write the module `NAME_onnx` beside that of the direct way, with the same check."""
    torch.manual_seed(0)
    example = dict(case.example() if callable(case.example) else case.example)
    other = f"{name}_onnx"
    place, sources = folder / other, folder / "src" / other
    place.mkdir()
    sources.mkdir()
    model = case.make().eval()
    write_onnx(Source(model, None, None, (), {}), program_of(model, example), example, place / "model.onnx")
    done = subprocess.run([importer, place / "model.onnx", place], capture_output=True, text=True, check=False)
    if done.returncode:
        return Result("refused", (done.stdout + done.stderr)[-600:])
    code = (place / "model.rs").read_text().replace("burn_store::", "burn::store::")
    (sources / "model.rs").write_text(code)
    text = (folder / "src" / name / "mod.rs").read_text()
    for old, new in {
        f'"{name}/trained.bpk"': f'"{other}/trained.bpk"',
        f'Model::load("{name}/model.bpk", &device)?': f'Model::from_file("{other}/model.bpk", &device)',
        # The importer's weights stay in float32.
        "crate::device(task)": 'match task { "train" => Device::default().autodiff(), _ => Device::default() }',
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    (sources / "mod.rs").write_text(text)
    return Result("written")


def measured(name: str, folder: Path) -> str:
    """A row of the table, of a module that compiles."""
    code = (folder / "src" / name / "model.rs").read_text()
    fields = re.findall(r"^    (?:pub )?(\w+): .*,$", code.partition("impl")[0], re.MULTILINE)
    for struct in re.findall(r"pub struct \w+ \{(.*?)\n\}", code.partition("impl")[2], re.DOTALL):
        fields += re.findall(r"^    (?:pub )?(\w+): ", struct, re.MULTILINE)
    fields = [it for it in fields if it != "device"]
    numbered = [it for it in fields if re.search(r"\d$", it)]
    done = _model(name, "check", folder)
    differences = re.findall(r"difference (\S+)", done.stdout)
    said = f"{max(map(float, differences)):.0e}" if differences else "-"
    if done.returncode:
        said += f" then {_reason(done.stderr)[:80]}"
    before = open_record(folder / name / "model.bpk").tensors
    done = _model(name, "train", folder)
    moved = f"panics: {_reason(done.stderr)[:80]}"
    if done.returncode == 0:
        after = open_record(folder / name / "trained.bpk").tensors
        count = sum(1 for it in before if not torch.equal(before[it][...], after[it][...]))
        moved = f"{count} of {len(before)}"
    seconds = [_model(name, "more", folder).stdout.strip() for _ in range(3)]
    size = (folder / name / "model.bpk").stat().st_size
    return (
        f"| {name} | {said} | {len(differences)} of 3 | {code.count(chr(10))} | {len(fields)} / {len(numbered)} |"
        f" {moved} | {size / 1e6:.2f} MB | {min(map(float, filter(None, seconds)), default=0) * 1e3:.2f} ms |"
    )


def main(importer: Path, folder: Path) -> None:
    """Export, build and run all, and print the rows."""
    (folder / "src").mkdir(parents=True)
    name_crate(folder, "by_onnx")
    models = cases()
    results = _exported(models, folder, 1, STEPS)
    for name, case in models.items():
        results[f"{name}_onnx"] = imported(name, case, importer, folder)
    written = [name for name, it in results.items() if it.state == "written"]
    while broken := _built(written, folder, results, clippy=False):
        written = [it for it in written if it not in broken]
    heads = "largest difference", "inputs that run", "lines", "fields / numbered", "trained", "weights", "forward"
    print(f"| | {' | '.join(heads)} |")
    print("| --- " * 8 + "|")
    for name, result in results.items():
        print(measured(name, folder) if name in written else f"| {name} | {result.state}: {result.says[:200]} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
