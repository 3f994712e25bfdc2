"""`burnlike launch CONFIG --nproc N`: `burnlike train` in several processes, by torch's launcher."""

import argparse
import os
import re
import signal

import burnlike.config.registry as registry
from burnlike._env import quiet_launcher
from burnlike._outputs import Output
from burnlike.errors import ArgumentError
from burnlike.train.job.launching import LOGS_NAME, Amount, Slurm, check_processes, elastic_overrides, run_of, script
from burnlike.train.job.run_config import load_config
from burnlike.train.runs.logs import LOG_NAME, STOPPED, read_log

from ..options import RUNS, overrides_of, say, shell_word
from . import train

_RESTARTS_OF_A_RANGE = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "processes on this machine; MIN:MAX: the most at first, and fewer where some are killed"
    parser.add_argument("--nproc", type=_amount, metavar="N|MIN:MAX", help=text)
    text = "machines, on each of which this command is given (default: 1); MIN:MAX: any number between"
    parser.add_argument("--nnodes", "--nodes", type=_amount, default=Amount(1, 1), metavar="N|MIN:MAX", help=text)
    text = "with --nnodes: where the launchers meet; HOST is one of the machines"
    parser.add_argument("--rdzv-endpoint", metavar="HOST:PORT", help=text)
    text = "with --nnodes: a name of this job for the launchers (default: that of the run's directory)"
    parser.add_argument("--rdzv-id", metavar="NAME", help=text)
    text = "with --nnodes: more of torchrun's --rdzv-conf, such as join_timeout=600,last_call_timeout=30"
    parser.add_argument("--rdzv-conf", default={}, type=_pairs, metavar="KEY=VALUE,...", help=text)
    parser.add_argument(
        "--local-addr", metavar="HOST", help="with --nnodes: the address of this machine for the others"
    )
    text = (
        "how often to start again from the last checkpoint after a process has failed (default: 0; with MIN:MAX:"
        f" {_RESTARTS_OF_A_RANGE})"
    )
    parser.add_argument("--max-restarts", type=_count, metavar="N", help=text)
    train.add_arguments(parser)
    slurm = parser.add_argument_group("SLURM")
    text = (
        "write a script for sbatch instead, which goes back into the queue at its time limit; to --out FILE, or printed"
    )
    slurm.add_argument("--slurm", action="store_true", help=text)
    slurm.add_argument("--time", metavar="HH:MM:SS", help="limit of the job")
    slurm.add_argument("--partition", metavar="NAME", help="queue of the job")
    slurm.add_argument("--gpus", type=_count, metavar="N", help="GPUs of each node; also what --nproc is without it")
    text = "another option of sbatch, such as account=mine or mem=64G; may be repeated"
    slurm.add_argument("--sbatch", action="append", default=[], metavar="OPTION=VALUE", help=text)
    text = "seconds before the limit when the checkpoint is written (default: 90)"
    slurm.add_argument("--signal-seconds", type=_count, default=90, metavar="N", help=text)


def run(args: argparse.Namespace) -> int:
    """Launch; 0 when done, 128 + the signal when stopped by one after a checkpoint was written."""
    if args.find is not None or args.sweeps:
        raise ArgumentError("--find and --sweep work in one process: use `burnlike train` for them")
    _check_options(args)
    file, resumed = train.paths_of_run(args)
    registry.import_modules(args.imports)
    config = load_config(file, overrides_of(args))
    counts = check_processes(config, args.nproc, args.nnodes)
    if args.slurm:
        return _write_script(args, file.stem, resumed)
    machines = _check_machines(args)
    mirror = config.checkpoint.mirror
    run = run_of(resumed, args.run_dir, RUNS, file.stem, is_shared=args.nnodes.most > 1, mirror=mirror)
    more = elastic_overrides(config, counts, run)
    options = _options(args, more)
    # By --resume: each start, also one after a failure, goes on with the same run.
    command = ["-m", "burnlike", "train", *([str(args.file)] if args.file else []), "--resume", str(run), *options]
    # torch is loaded only now, so that a wrong file is told at once
    with quiet_launcher():
        from burnlike.train.job.agent import Agent, Machines
    from burnlike.train.learner.stopping import Interrupted

    is_range = args.nproc.is_range or args.nnodes.is_range
    restarts = args.max_restarts
    if restarts is None:
        restarts = _RESTARTS_OF_A_RANGE if is_range else 0
    say(f"launch    {args.nproc} processes{f' on each of {args.nnodes} nodes' * machines}, logs in {run / LOGS_NAME}")
    place = Machines(
        nodes=args.nnodes,
        endpoint=args.rdzv_endpoint or "localhost:0",
        job=args.rdzv_id or os.path.basename(os.path.abspath(run)),
        local_address=args.local_addr if machines else "localhost",
        options=args.rdzv_conf,
    )
    try:
        Agent(command, run / LOGS_NAME, place).run(args.nproc, counts, restarts)
    except Interrupted as stop:  # before there was a training to stop, or for the third time
        say(f"stopped by {stop}")
        return 128 + stop.signal
    end = read_log(run / LOG_NAME)
    if end.ending != STOPPED:
        return 0
    words = ["burnlike", "launch", "--nproc", str(args.nproc)]
    words += ["--nnodes", str(args.nnodes), "--rdzv-endpoint", args.rdzv_endpoint] if machines else []
    words += ["--resume", str(run)]
    say(f"stopped by {end.reason}; go on with: {' '.join(map(shell_word, words))}")
    return 128 + getattr(signal, end.reason, signal.SIGINT)


def _check_options(args: argparse.Namespace) -> None:
    slurm_option = next((it for it in ("time", "partition", "gpus", "sbatch", "out") if getattr(args, it)), "")
    if slurm_option and not args.slurm:
        raise ArgumentError(f"--{slurm_option} is for --slurm, which writes a script; add --slurm, or leave it out")
    if args.slurm and args.nproc is None and args.gpus:
        args.nproc = Amount(args.gpus, args.gpus)
    if args.nproc is None:
        raise ArgumentError("expected --nproc N, the processes on this machine, such as one for each GPU")


def _write_script(args: argparse.Namespace, name: str, resumed: str | None) -> int:
    """Write the script for SLURM, or print it; the config has been checked."""
    if resumed == "":
        raise ArgumentError("--slurm: the script is for one run: expected --resume DIR")
    nodes = args.nnodes
    words = [str(args.file)] if args.file else []
    words += ["--nproc", str(args.nproc)]
    words += ["--nnodes", str(nodes)] if nodes.most > 1 else []
    words += [] if args.max_restarts is None else ["--max-restarts", str(args.max_restarts)]
    words += ["--rdzv-conf", ",".join(f"{key}={it}" for key, it in args.rdzv_conf.items())] if args.rdzv_conf else []
    slurm = Slurm(
        nodes=str(nodes).replace(":", "-"),
        time=args.time,
        partition=args.partition,
        gpus=args.gpus,
        seconds=args.signal_seconds,
        more=args.sbatch,
    )
    words += _options(args, [])
    name, several = re.sub(r"[^\w.-]", "-", name), nodes.most > 1
    text = script(slurm, name, resumed or args.run_dir, words, goes_on=resumed is not None, several=several)
    if args.out is None:
        say(text.rstrip())
    else:
        Output(args.out, "launch", inputs=[args.file] if args.file else [], force=args.force).write(text.encode())
        say(f"the script is in {args.out}; start it by: sbatch {shell_word(str(args.out))}")
    return 0


def _check_machines(args: argparse.Namespace) -> bool:
    """True if there are several machines; an ArgumentError where the options don't fit one another."""
    several = args.nnodes.most > 1
    if several and not args.rdzv_endpoint:
        raise ArgumentError(
            "--nnodes: expected --rdzv-endpoint HOST:PORT, where the launchers meet; HOST is one of the machines"
        )
    place = re.fullmatch(r"(?:\[[^\]\s]+\]|[^\s:]+)(?::(\d{1,5}))?", args.rdzv_endpoint or "")
    if several and (place is None or int(place[1] or 1) not in range(1, 2**16)):
        raise ArgumentError(
            f"--rdzv-endpoint: expected HOST:PORT with a port from 1 to 65535, such as node1:29400, got"
            f" '{args.rdzv_endpoint}'"
        )
    return several


def _options(args: argparse.Namespace, more: list[str]) -> list[str]:
    """The options of `train` that each process gets."""
    words = [word for name in args.imports for word in ("--import", name)]
    words += [word for text in (*args.overrides, *more) for word in ("--set", text)]
    return words if args.device is None else [*words, "--device", args.device]


def _amount(text: str) -> Amount:
    try:
        return Amount.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number from 0, got '{text}'")
    return int(text)


def _pairs(text: str) -> dict[str, str]:
    pairs = [it.partition("=") for it in text.split(",")]
    if not all(name and sign for name, sign, _ in pairs):
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE,KEY=VALUE, got '{text}'")
    for name, _, value in pairs:
        if name.endswith("_timeout") and not re.fullmatch(r"[1-9]\d{0,8}", value):
            raise argparse.ArgumentTypeError(f"{name}: expected seconds, such as 600, got '{value}'")
    return {name: value for name, _, value in pairs}
