"""Models exported as Rust, built as modules of one crate: each gives what Python does, and learns as it does."""

import copy
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from burnlike.errors import NoCounterpartError
from burnlike.record import open_record
from burnlike.train.export.rust.crate import Written, stacks_apart, write_written
from burnlike.train.export.rust.tracing import leaves_of
from burnlike.train.export.source import program_of

from .running import TARGET, name_crate, program

STEPS, RATE, WANTED = 5, 0.05, 0.3
"""Steps of SGD, their usual rate, and the number that all elements of the results are wanted to be."""
GROWTH = 2.0
"""Of the loss, above which a rate is too high."""
_PROBABILITIES = ("p", "prob", "dropout", "std")


@dataclass
class Case:
    """A model to export.

    Attributes:
        make: the module.
        example: its inputs by name.
        learns: False for a model that has no gradients, or in which chance decides.
        rate: of the steps; one at which the loss grows is divided, as rounding errors would grow as well.
        apart: how much of its change each weight may differ by, after the steps.
        more: Rust to run with `model` and `checks`; the result has what it prints.
    """

    make: Callable[[], nn.Module]
    example: Mapping[str, Tensor] | Callable[[], Mapping[str, Tensor]]
    learns: bool = True
    more: str = ""
    rate: float = RATE
    apart: float = 1e-4


@dataclass
class Result:
    """How a model fared.

    Attributes:
        state: "right", "refused", "error", "does not compile", "panics", "wrong", "learns wrong".
        says: the refusal, the message, or the difference.
        lints: what rustc, clippy and rustfmt say of its code.
        printed: by `Case.more`.
    """

    state: str
    says: str = ""
    lints: list[str] = field(default_factory=list)
    printed: str = ""


def run(
    cases: Mapping[str, Case],
    folder: Path,
    suffix: str,
    *,
    processes: int = 1,
    clippy: bool = False,
    steps: int = STEPS,
) -> dict[str, Result]:
    """Export all models, build them as one crate in the folder, whose name ends so, and run each.

    With `clippy` its lints are asked for, beside those of rustc and rustfmt; it reads all of Burn anew, for minutes.
    """
    (folder / "src").mkdir(parents=True)
    name_crate(folder, suffix)
    results = _exported(cases, folder, processes, steps)
    written = [name for name, it in results.items() if it.state == "written"]
    while written:
        broken = _built(written, folder, results, clippy)
        written = [it for it in written if it not in broken]
        if not broken:
            break
    for name in written:
        results[name] = _ran(name, cases[name], folder, results[name].lints, steps)
    _rustfmt(folder, results)
    return results


def table(results: Mapping[str, Result]) -> str:
    """The results, and how many there are of each."""
    counts: dict[str, int] = {}
    for it in results.values():
        counts[it.state] = counts.get(it.state, 0) + 1
    rows = [f"{name:28} {it.state}: {it.says}" for name, it in results.items() if it.state != "right"]
    rows += [f"{name:28} {lint}" for name, it in results.items() for lint in it.lints]
    return "\n".join([*rows, ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))])


# Export


def _exported(cases: Mapping[str, Case], folder: Path, processes: int, steps: int) -> dict[str, Result]:
    global _jobs
    _jobs = cases, folder, steps
    # The threads of a process are not forked: what waits for them would wait for good.
    single = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(processes, mp_context=get_context("fork"), **single) as pool:
        # Nor are those of gradients, without which torch computes none where its parent has computed some.
        if processes > 1 and pool.submit(_differentiates).result():
            return dict(zip(cases, pool.map(_export, cases), strict=True))
    return {name: _export(name) for name in cases}


def _differentiates() -> bool:
    try:
        torch.ones(1, requires_grad=True).backward()
    except RuntimeError:
        return False
    return True


_jobs: tuple[Mapping[str, Case], Path, int] = ({}, Path(), 0)
"""What processes are forked with, as models can't be sent to them."""


def _export(name: str) -> Result:
    cases, folder, steps = _jobs
    case = cases[name]
    try:
        torch.manual_seed(0)
        example = dict(case.example() if callable(case.example) else case.example)
        model = case.make().eval()
        if case.learns:
            _without_chance(model)
        program = program_of(model, example)
        with stacks_apart(program):
            crate = Written(program, example)
            record = crate.record()
        write_written(crate, record, folder / name, about=name)
        shutil.copytree(folder / name / "src", folder / "src" / name)
        learns = False
        if case.learns and steps:
            with stacks_apart(program):
                learns = _learn(crate, steps, case)
                learned = crate.record().tensors
            theirs = any(isinstance(it, nn.modules.batchnorm._BatchNorm) for it in model.modules())
            # torch's own running variances are unbiased in training, Burn's and burnlike's are not.
            torch.save(
                {it: learned[it] for it in learned if not (theirs and it.endswith("running_var"))},
                folder / name / "learned.pt",
            )
        _as_module(folder / "src" / name / "main.rs", name, learns, case)
    except NoCounterpartError as error:
        return Result("refused", str(error))
    except Exception as error:
        return Result("error", f"{type(error).__name__}: {str(error)[:300]}")
    return Result("written")


def _without_chance(model: nn.Module) -> None:
    for module in model.modules():
        for name in _PROBABILITIES:
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def _learn(crate: Written, steps: int, case: Case) -> bool:
    """Train the model of a crate, whose `record` has the weights after that; False if it has nothing to learn.

    In float64, as Rust does: in float32 a value near 0 is on either side of a ReLU's kink, which moves the gradients of
    a ResNet by hundredths in the first step.
    """
    program, model = crate.program.double().train(), crate.program.model
    example = {name: it.double() if it.is_floating_point() else it for name, it in crate.example.items()}
    first = copy.deepcopy(model.state_dict())
    while True:
        losses: list[float] = []
        optimizer = torch.optim.SGD([*model.parameters()] or [torch.zeros(1)], lr=case.rate)
        for _ in range(steps):
            optimizer.zero_grad()
            loss = sum((it - WANTED).square().mean() for it in program(**example) if it.is_floating_point())
            if not isinstance(loss, Tensor) or not loss.requires_grad:
                return False
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if max(losses) <= GROWTH * losses[0] or not math.isfinite(losses[0]) or case.rate < RATE * 1e-6:
            break
        case.rate /= 30
        model.load_state_dict(first)
    program.eval()
    crate.trace.leaves.update(leaves_of(model, {*model_paths(model)} - {*crate.trace.leaves}))  # type: ignore[attr-defined]
    tensors = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    for name, (path, value) in crate.trace.values.items():
        crate.trace.values[name] = (path, tensors.get(path, value).detach())  # type: ignore[index]
    return True


def model_paths(model: nn.Module) -> Iterable[str]:
    return (name for name, _ in model.named_modules(remove_duplicate=False))


def _as_module(main: Path, name: str, learns: bool, case: Case) -> None:
    """The `main` of a crate as a module, which also trains the model."""
    text = main.read_text()
    call = re.search(r"    let (.*) =\s+model\.forward\(((?:.|\n)*?)\);\n", text)
    assert call is not None
    outputs = re.findall(r"expected_(\d+): Param<Tensor<\d+>>", text)
    results = "result" if call[1] == "result" else "result_{}"
    losses = " + ".join(f"crate::loss({results.format(it)})" for it in outputs)
    train = "let _ = (task, &model);"
    if learns and outputs:
        train = (
            f'if task == "train" {{\n    let check = &checks.checks[0];\n    let save = "{name}/trained.bpk";\n'
            f"    crate::train(model, save, {case.rate}, |model| {{\n"
            f"    let {call[1]} = model.forward({call[2]});\n{losses} }});\n"
            "return Ok(());\n}"
        )
    if case.more:
        train += f'\nif task == "more" {{ {case.more} return Ok(()); }}'
    for old, new in {
        "use crate::model::Model;": "use self::model::Model;",
        "fn main()": "pub fn main(task: &str)",
        "Device::default()": "crate::device(task)",
        '"model.bpk"': f'"{name}/model.bpk"',
        '"check.bpk"': f'"{name}/check.bpk"',
        "    for check in checks.try_load_record(record)?.checks {": (
            f"    let checks = checks.try_load_record(record)?;\n    {train}\n    for check in checks.checks {{"
        ),
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    main.unlink()
    (main.parent / "mod.rs").write_text("#![allow(unused)]\n" + text.replace("\nmod model;", "\npub mod model;"))


_MAIN = """use burn::module::Module;
use burn::optim::{{GradientsParams, SgdConfig}};
use burn::tensor::{{Device, FloatDType, Tensor}};
{mods}
pub fn device(task: &str) -> Device {{
    match task {{
        "train" => {{
            let mut device = Device::default();
            device.configure(FloatDType::F64).expect("a new device");
            device.autodiff()
        }}
        _ => Device::default(),
    }}
}}

pub fn loss<const D: usize>(result: Tensor<D>) -> Tensor<1> {{
    (result - {wanted}).square().mean()
}}

pub fn train<M: Module>(mut model: M, path: &str, rate: f64, loss: impl Fn(&M) -> Tensor<1>) {{
    let mut rule = SgdConfig::new().init();
    for _ in 0..{steps} {{
        let grads = GradientsParams::from_grads(loss(&model).backward(), &model);
        model = rule.step(rate, model, grads);
    }}
    model.valid().into_record().save(path).expect("a file");
}}

fn main() {{
    let words: Vec<String> = std::env::args().collect();
    match words[1].as_str() {{
{arms}        other => panic!("no model {{other}}"),
    }}
    .expect("files")
}}
"""


# Cargo


def _built(names: Sequence[str], folder: Path, results: dict[str, Result], clippy: bool) -> set[str]:
    """Build the models; those that do not compile."""
    mods = "".join(f"mod {it};\n" for it in names)
    arms = "".join(f'        "{it}" => {it}::main(&words[2]),\n' for it in names)
    (folder / "src" / "main.rs").write_text(_MAIN.format(mods=mods, arms=arms, wanted=WANTED, steps=STEPS))
    said = _cargo("build", folder)
    broken: dict[str, list[str]] = {}
    for name, line, text in re.findall(r"src/(\w+)/(?:model|mod)\.rs:(\d+):\d+: error(.*)", said):
        broken.setdefault(name, []).append(f"line {line}{text}")
    for name, texts in broken.items():
        results[name] = Result("does not compile", "; ".join(texts[:4]))
    if not broken:
        assert program(folder).exists(), said[-4000:]
        assert not re.search(r"(^|: )error", said, re.MULTILINE), said[-4000:]
        said = _cargo("clippy", folder) if clippy else said
        for name, line, text in set(re.findall(r"src/(\w+)/model\.rs:(\d+):\d+: (?:warning|error)(.*)", said)):
            results[name].lints.append(f"line {line}{text}")
    return {*broken}


def _cargo(word: str, folder: Path) -> str:
    done = subprocess.run(
        ["cargo", word, "--locked", "--message-format", "short"],
        cwd=folder, env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stderr


def _rustfmt(folder: Path, results: dict[str, Result]) -> None:
    for name in results:
        for file in (folder / name / "src").glob("*.rs"):
            words = ["rustfmt", "--check", "--edition", "2024", "--config", "skip_children=true", str(file)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                results[name].lints.append(f"rustfmt, {file.name}: {done.stdout[:600]}{done.stderr[:300]}")


# Running


def _ran(name: str, case: Case, folder: Path, lints: list[str], steps: int) -> Result:
    done = _model(name, "check", folder)
    if done.returncode:
        return Result("panics", _reason(done.stderr), lints)
    differences = [float(it) for it in re.findall(r"difference (\S+)", done.stdout)]
    if len(differences) != 3 or not max(differences) <= 1e-5:
        return Result("wrong", f"differs by {differences}", lints)
    if case.learns and steps and "crate::train" in (folder / "src" / name / "mod.rs").read_text():
        done = _model(name, "train", folder)
        if done.returncode:
            return Result("learns wrong", f"panics: {_reason(done.stderr)}", lints)
        says = _compared(folder / name, case.apart)
        if says:
            return Result("learns wrong", says, lints)
    printed = _model(name, "more", folder).stdout if case.more else ""
    return Result("right", f"{max(differences):.0e}", lints, printed)


def _model(name: str, task: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [program(folder), name, task]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def _reason(text: str) -> str:
    lines = [it for it in text.splitlines() if it and not it.startswith(("thread", "stack backtrace", " ", "note:"))]
    return " ".join(lines)[:400]


def _compared(folder: Path, share: float) -> str:
    """How the weights that Rust and Python learned differ; "" if they do not."""
    before, rust = open_record(folder / "model.bpk").tensors, open_record(folder / "trained.bpk").tensors
    python: dict[str, Any] = torch.load(folder / "learned.pt")
    if {*rust} != {*before} or not {*python} <= {*rust}:
        return f"other tensors: {sorted({*rust} ^ {*before})[:6]}"
    for name, ours in python.items():
        ours, theirs, first = (it.detach().double() for it in (ours, rust[name], before[name]))
        if not ours.numel():
            continue
        change, apart = (ours - first).abs().max(), (ours - theirs).abs().max()
        if not apart <= share * change + 1e-10 * max(1.0, float(ours.abs().max())) and not ours.isnan().any():
            return f"{name}: {float(apart):.1e} apart after a change of {float(change):.1e}"
    return ""
