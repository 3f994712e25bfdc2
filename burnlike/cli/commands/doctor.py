"""`burnlike doctor`: shows versions, CPU, CUDA, native parts, and proof that they run inside a model."""

import argparse
import importlib.metadata
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..options import add_shared, say, say_json

_CORE = ("torch", "safetensors", "PyYAML", "msgspec")
_EXTRAS = ("rich", "numpy")
# All others are to run in the training steps and examples of `_calls_of_training_steps`.
_NOT_OF_STEPS = (
    *("batch_moments", "bernoulli_noise_", "convert_", "convolution_3x3", "convolution_3x3_backward", "crc32"),
    *("decode_step", "grouped_convolution", "grouped_convolution_backward"),
    *("int8_linear", "join_gates", "join_gates_backward", "read_values_"),
    *("lstm_", "lstm_backward", "weight_backward"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ops", action="store_true", help="list the native calls, by the names of the ops")
    add_shared(parser, "--json")


def run(args: argparse.Namespace) -> int:
    """Print the report; 0 if everything that should be native is, else 1."""
    report = examine()
    say_json(report) if args.json else say(_text(report, lists_ops=args.ops))
    return 0 if not report["problems"] else 1


def examine() -> dict[str, Any]:
    """Look at the machine and run a small model eagerly and compiled, counting native calls."""
    import torch

    from ... import __version__
    from ...ops import native_status
    from ...train.runs.environment import processor

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    capabilities = [torch.cuda.get_device_capability(i) for i in range(len(names))]
    # Only now: once the process uses CUDA, kernels that run on none of its GPUs are out of use.
    status = native_status()
    cpu, cuda = status.cpu, status.cuda
    built = torch.ops.burnlike.cuda_archs() if cuda.loaded else ""
    packages: dict[str, str | None] = {}
    for name in (*_CORE, *_EXTRAS):
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = None
    report: dict[str, Any] = {
        "burnlike": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "packages": packages,
        "threads": torch.get_num_threads(),
        "cpu": {"isa": status.isa, "isas": [*status.isas], "library": str(cpu.path), "why_not": cpu.reason},
        "cuda": {
            "torch": torch.version.cuda,
            "devices": names,
            "capabilities": [f"{major}.{minor}" for major, minor in capabilities],
            "library": str(cuda.path),
            "built_for": built,
            "native": cuda.loaded,
            "why_not": cuda.reason,
        },
        "native_calls": {},
        "problems": [],
    }
    if not cpu.loaded:
        report["problems"].append(f"the native CPU library is not in use: {cpu.reason}")
    if problem := cuda_problem(capabilities, built, cuda.reason, cuda.path):
        report["problems"].append(problem)
    devices = ["cpu", "cuda"] if names and cuda.loaded else ["cpu"]
    for device in devices if cpu.loaded else []:
        prefix = "cuda:" if device == "cuda" else ""
        for mode in ("eager", "compiled"):
            calls = _calls_of_training_steps(device, prefix, mode == "compiled")
            report["native_calls"][f"{device} {mode}"] = calls
            # Some ops have no kernels for CUDA, where torch's own are used.
            named = [name.removeprefix(prefix) for name in status.calls if name.startswith(prefix)]
            without_place = [name for name in named if ":" not in name and name not in _NOT_OF_STEPS]
            if missing := [name for name in without_place if not calls.get(name)]:
                report["problems"].append(f"{device}, {mode}: no native call of {', '.join(missing)} in training steps")
    return report


def cuda_problem(capabilities: Sequence[tuple[int, int]], built: str, why_not: str, library: Path) -> str | None:
    """The GPUs that the CUDA kernels don't run on, and the command that builds them; None if there are none.

    Args:
        capabilities: compute capabilities of the GPUs.
        built: what the library was built for; empty if it was not loaded.
        why_not: why the library is not in use; empty if it is.
        library: its file.
    """
    from ...ops._library import runs_on

    others = [capability for capability in capabilities if why_not or not runs_on(capability, built)]
    if not others:
        return None
    seen = sorted({f"{major}.{minor}" for major, minor in others})
    is_checkout = (library.parent.parent / "csrc" / "cuda").is_dir()
    place = "in this checkout" if is_checkout else "in a checkout of the sources, as wheels have no CUDA kernels"
    reason = why_not or f"they were built for {built}"
    return (
        f"the native CUDA kernels do not run on a GPU of compute capability {', '.join(seen)}: {reason}. To build them,"
        f" {place}: TORCH_CUDA_ARCH_LIST='{' '.join(seen)}' pip install --no-build-isolation ."
    )


def _calls_of_training_steps(device: str, prefix: str, compiled: bool) -> dict[str, int]:
    import torch

    from ...nn import DecoderLmConfig
    from ...ops import native_status
    from ...ops._example import examples
    from ...optim import AdamWConfig, ClipByGlobalNorm, GradientsParams, LionConfig, SgdConfig

    before = native_status().calls
    with torch.random.fork_rng():
        model = DecoderLmConfig(vocab_size=8, max_sequence_length=4, d_model=8, n_layers=1, n_heads=2, d_ff=8).init(
            device
        )
    # Traced as for inductor, but run by torch: `doctor` is also for machines without a C++ compiler.
    forward = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
    for config in (AdamWConfig(grad_clipping=ClipByGlobalNorm(threshold=1.0)), SgdConfig(), LionConfig()):
        forward(torch.zeros(1, 4, dtype=torch.int64, device=device)).sum().backward()
        config.init().step(1e-3, model, GradientsParams.from_module(model))
    for example in examples().values():
        call = torch.compile(example.call, backend="aot_eager", fullgraph=True) if compiled else example.call
        call(*example.inputs(device)).sum().backward()
    after = native_status().calls
    return {
        name.removeprefix(prefix): count - before.get(name, 0)
        for name, count in after.items()
        if name.startswith(prefix) and count > before.get(name, 0)
    }


def _text(report: dict[str, Any], *, lists_ops: bool) -> str:
    cpu, cuda = report["cpu"], report["cuda"]
    packages = (f"{name} {version or '(not installed)'}" for name, version in report["packages"].items())
    isa = (
        f"{cpu['isa']} (this machine runs {', '.join(cpu['isas'])})" if cpu["isa"] else f"not native: {cpu['why_not']}"
    )
    gpus = [f"{name} ({number})" for name, number in zip(cuda["devices"], cuda["capabilities"], strict=True)]
    devices = f"torch is for CUDA {cuda['torch']}; devices: {', '.join(gpus) or 'none'}"
    rows = [
        ("burnlike", report["burnlike"]),
        ("python", f"{report['python']} on {report['platform']}"),
        ("processor", f"{report['processor'] or 'unknown'}, {report['threads']} threads"),
        ("packages", ", ".join(packages)),
        ("CPU ops", isa),
        ("CUDA", devices if cuda["torch"] else "this torch is for CPU only"),
        ("CUDA ops", f"native, built for {cuda['built_for']}" if cuda["native"] else f"not native: {cuda['why_not']}"),
    ]
    for name, calls in report["native_calls"].items():
        counted = f"{len(calls)} ops, {sum(calls.values())} calls (--ops lists them)" if calls else ""
        if lists_ops:
            counted = ", ".join(f"{op} {count}" for op, count in calls.items())
        rows.append(("ran native", f"in training steps, {name}: {counted or 'nothing'}"))
    rows += [("PROBLEM", problem) for problem in report["problems"]]
    return "\n".join(f"{name:<11} {text}" for name, text in rows)
