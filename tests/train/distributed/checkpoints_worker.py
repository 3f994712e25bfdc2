"""One of four processes that begin, save and take up a job on several meshes. Run by test_cases.py.

python -m tests.train.distributed.checkpoints_worker FOLDER MESH...
"""

import io
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from burnlike._torch_compat.dispatch import TorchDispatchMode
from burnlike._torch_compat.pytree import tree_leaves
from burnlike.config.shipped import config_file
from burnlike.module import params
from burnlike.optim.core.sharded import whole
from burnlike.train import Job, PlainRenderer, TrainConfig
from burnlike.train.checkpoint.checkpointer import Checkpoint
from burnlike.train.runs.run_dir import RunDir

MESHES = {
    "fsdp2": {"strategy": "fsdp2"},
    "hsdp": {"strategy": "fsdp2", "replicate": 2},
    "tensor": {"strategy": "fsdp2", "shard": 1, "replicate": 2, "tensor": 2},
    "fsdp2 x tensor": {"strategy": "fsdp2", "tensor": 2},
    "pipeline": {"strategy": "ddp", "pipeline": 2},
    "ddp": {"strategy": "ddp"},
}
ITEMS = 8
"""Of a step, of all processes."""
STEPS = 2


def config_of(mesh: dict[str, Any], data_size: int, **model: Any) -> TrainConfig:
    overrides = [
        "training.epochs=1",
        f"training.steps_per_epoch={STEPS}",
        f"training.checkpoint_every_steps={STEPS}",
        "training.validation_steps=1",
        "training.ema={decay: 0.5}",
        f"training.batch_size={ITEMS // data_size}",
        "task.sample_length=0",
        "lr_scheduler.warmup_steps=0",
        "model.n_layers=2",
        *(f"distributed.{name}={value}" for name, value in mesh.items()),
        *(f"model.{name}={value}" for name, value in model.items()),
    ]
    return TrainConfig.load(config_file("char_gpt_tiny"), overrides)


class Held(TorchDispatchMode):
    """The most bytes that tensors with values took at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[int, tuple[StorageWeakRef, int]] = {}
        self.most = self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for it in tree_leaves(found):
            if type(it) is Tensor and it.device.type == "cpu":
                reference = StorageWeakRef(it.untyped_storage())
                self._held[reference.cdata] = (reference, it.untyped_storage().nbytes())
        self._held = {key: it for key, it in self._held.items() if not it[0].expired()}
        self.most = max(self.most, sum(size for _, size in self._held.values()))
        return found


def weights_of(job: Job) -> dict[str, Tensor]:
    """All weights, whole; of a pipeline those of this stage."""
    return {it.path: whole(it.tensor.detach()).clone() for it in params(job.model)}


def main(folder: Path, names: list[str]) -> None:
    found: dict[str, Any] = {}
    for name in names:
        size = config_of(MESHES[name], 1).distributed.sizes(4).data
        job = Job(config_of(MESHES[name], size))
        rank = job.parallel.rank
        weights = weights_of(job)
        save_file({key: it.contiguous() for key, it in weights.items()}, folder / f"first {name} {rank}.safetensors")
        found[name] = {"said": job.notes, "size": size}
        directory = folder / name
        run = RunDir.create(directory) if rank == 0 else RunDir.follow(directory)
        job.run(run, PlainRenderer(io.StringIO()))
        run.close()
        job.parallel.close()
    for name in names:
        for other in ["none", *names] if (folder / "none").exists() else names:
            job = Job(config_of(MESHES[name], found[name]["size"]))
            source = Checkpoint(STEPS, folder / other / "checkpoints" / f"step-{STEPS:08}")
            job.learner.load_checkpoint(source, job.train_loader)
            checkpointer = job.parallel.checkpointer(folder / "again" / f"{other} to {name}", 2)
            with job.learner.saved_weights():
                checkpointer.save(STEPS, job.learner.state(job.train_loader).to_records(), background=True)
            checkpointer.wait()
            job.parallel.close()
    (folder / f"found {rank}.json").write_text(json.dumps(found))


def memory(folder: Path) -> None:
    """The memory that building a model takes at most, and that of its largest parameter and of all."""
    held = Held()
    wide = {"d_model": 256, "n_layers": 6, "d_ff": 1024}
    with held:
        job = Job(config_of(MESHES["fsdp2"], 4, **wide))
    sizes = [it.tensor.numel() * it.tensor.element_size() for it in params(job.model, "weight")]
    found = {"most": held.most, "largest": max(sizes), "all": sum(sizes), "said": job.notes}
    (folder / f"memory {job.parallel.rank}.json").write_text(json.dumps(found))
    job.parallel.close()


if __name__ == "__main__":
    torch.set_num_threads(1)
    out, *meshes = sys.argv[1:]
    memory(Path(out)) if meshes == ["memory"] else main(Path(out), meshes)
