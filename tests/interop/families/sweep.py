"""Converts models of torchvision and timm, trains original and twin by one step, and converts the twin back.

A fused copy is compared with the stock model in training and in evaluation: results, their strides, gradients, buffers.

`python -m tests.interop.families.sweep resnet18 timm/levit_128s`. A process of its own, since a program in which
torchvision can be imported is another one to transformers.
"""

import copy
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from burnlike.interop import from_torch, fuse, to_torch

FOLDER = Path(__file__).parents[3] / ".cache" / "families"
INSTALL = f"{FOLDER} lacks torchvision and timm: run `make .cache/families/.installed`"
LARGE, LARGEST = 60_000_000, 140_000_000
"""Parameters of a model that computes in float32, and of one of which only names and classes are compared."""


def load() -> tuple[Any, Any]:
    """torchvision and timm. torchvision's compiled ops don't load beside a torch for CPUs; the sweep calls none."""
    if not (FOLDER / "torchvision").is_dir() or not (FOLDER / "timm").is_dir():
        raise SystemExit(INSTALL)
    sys.path.append(str(FOLDER))
    try:
        torch.ops.load_library(FOLDER / "torchvision" / "_C.so")
    except OSError:
        torch.library.define("torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torch.library.define("torchvision::qnms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import timm  # pyright: ignore[reportMissingImports]
    import torchvision  # pyright: ignore[reportMissingImports]

    return torchvision, timm


SIZES = {"maxvit_t": 224, "inception_v3": 299}


def built(torchvision: Any, timm: Any, name: str) -> tuple[nn.Module, int]:
    """The model, and the size of its images."""
    if name.startswith("timm/"):
        return timm_model(timm, name.removeprefix("timm/"))
    family = name.partition("_")[0]
    options = {"image_size": 28 if name == "vit_h_14" else 32} if family == "vit" else {}
    size = options.get("image_size", SIZES.get(name, 64))
    return torchvision.models.get_model(name, num_classes=7, **options), size


def timm_model(timm: Any, name: str) -> tuple[nn.Module, int]:
    """The smallest form that the family allows."""
    for size in (64, 96, 128):
        try:
            with torch.device("meta"):
                model = timm.create_model(name, num_classes=7, img_size=size)
                model(torch.randn(2, 3, size, size))
            return timm.create_model(name, num_classes=7, img_size=size), size
        except Exception:
            continue
    model = timm.create_model(name, num_classes=7)
    size = model.default_cfg["input_size"][-1]
    for smaller in (64, 96, 128, 160):
        if smaller < size and runs(model, smaller):
            return model, smaller
    return model, size


def runs(model: nn.Module, size: int) -> bool:
    try:
        with torch.no_grad():
            copy.deepcopy(model)(torch.randn(2, 3, size, size))
    except Exception:
        return False
    return True


def tensors(output: Any) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output]
    return [it for part in output if part is not None for it in tensors(part)]


def step(model: nn.Module, x: Tensor) -> list[Tensor]:
    """The outputs of a step of training."""
    torch.manual_seed(1)
    outputs = tensors(model(x))
    loss: Any = sum((it - it.detach().roll(1, 0)).square().mean() + it.sum() for it in outputs)
    loss.backward()
    trained = [param for param in model.parameters() if param.grad is not None]
    nn.utils.clip_grad_norm_(trained, 0.1)
    torch.optim.SGD(trained, lr=1.0).step()
    return [it.detach() for it in outputs]


def check(model: nn.Module, size: int, dtype: torch.dtype) -> None:
    """See the module."""
    near: dict[str, float] = {"rtol": 1e-6, "atol": 1e-8} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-3}
    model = model.to(dtype).train()
    torch.manual_seed(0)
    with torch.no_grad():
        for param in model.parameters():
            param.add_(torch.randn_like(param) * 0.02)  # some are zeros, or very small, at first
    twin = from_torch(model)
    same(to_torch(twin), model, rtol=0.0, atol=0.0)
    x = torch.randn(2, 3, size, size, dtype=dtype)
    for one, other in zip(step(twin, x), step(model, x), strict=True):
        torch.testing.assert_close(one, other, **near)
    same(to_torch(twin), model, **near)
    with torch.no_grad():
        for one, other in zip(tensors(twin.eval()(x)), tensors(model.eval()(x)), strict=True):
            torch.testing.assert_close(one, other, **near)


def check_fused(model: nn.Module, size: int, dtype: torch.dtype) -> None:
    """Compare a fused copy: results near, with the same strides, gradients by their norm."""
    near: dict[str, float] = {"rtol": 1e-6, "atol": 1e-8} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-3}
    model = model.to(dtype)
    fused = copy.deepcopy(model)
    fuse(fused)
    x = torch.randn(2, 3, size, size, dtype=dtype)
    for training in (True, False):
        results: list[list[Tensor]] = []
        for one in (fused, model):
            torch.manual_seed(1)
            one.train(training).zero_grad()
            outputs = tensors(one(x))
            sum(
                ((it - it.detach().roll(1, 0)).square().mean() + it.sum() for it in outputs), torch.zeros(())
            ).backward()
            results.append([*(it.detach() for it in outputs), *one.buffers()])
        for actual, expected in zip(*results, strict=True):
            assert actual.stride() == expected.stride()
            torch.testing.assert_close(actual, expected, **near)
        for one, other in zip(fused.parameters(), model.parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None)
            if one.grad is not None and other.grad is not None:
                assert (one.grad - other.grad).norm() <= 10 * near["rtol"] * other.grad.norm() + near["atol"]


def same(back: nn.Module, model: nn.Module, **near: float) -> None:
    assert [(name, type(it)) for name, it in back.named_modules()] == [
        (name, type(it)) for name, it in model.named_modules()
    ]
    assert repr(back) == repr(model)  # with options as they were written
    found, expected = back.state_dict(), model.state_dict()
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, **near, msg=lambda text, at=name: f"{at}: {text}")


def main(names: list[str]) -> int:
    torchvision, timm = load()
    failed = 0
    if names == ["list"]:
        print(*torchvision.models.list_models(module=torchvision.models))
        return 0
    for name in names:
        begin = time.monotonic()
        try:
            model, size = built(torchvision, timm, name)
            count = sum(it.numel() for it in model.parameters())
            if count > LARGEST:
                same(to_torch(from_torch(model.to("meta"))), model, rtol=0.0, atol=0.0)
            else:
                dtype = torch.float32 if count > LARGE else torch.float64
                check_fused(copy.deepcopy(model), size, dtype)
                check(model, size, dtype)
            print(f"{name}: ok, {count / 1e6:.1f} M parameters at {size}, {time.monotonic() - begin:.1f} s", flush=True)
        except Exception:
            failed += 1
            print(f"{name}: FAILED\n{traceback.format_exc()}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
