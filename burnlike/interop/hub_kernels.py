"""The ops as a package of Hugging Face kernels, which transformers takes by `use_kernels=True`.

The `kernels` library loads a folder by the layout of its Hub repositories, and has layers of a model call the layer of
the same name there. Ours call what `fuse` has proved for the layer, in both passes, on a CPU and on CUDA; a layer for
which nothing is proved runs its own code. The folder has Python alone: it needs burnlike where it is loaded, whose
native library has torch's stable ABI.
"""

import json
from pathlib import Path
from typing import Any

from torch import nn

from .. import __version__
from .._atomic import replace_file
from .fused.forwards import stock_forward
from .fused.layers import fuse_layer

LAYERS = ("RMSNorm", "NewGELU", "FastGELU")
"""Names of layers in transformers for which the package has kernels."""

_FORWARD = "_burnlike_hub_kernel"
_FOLDER = Path("build", "torch-universal")  # a variant for each version of torch and each device
_INIT = 'from . import layers\n\n__all__ = ["layers"]\n'
_HEAD = """# Layers of burnlike {version}.
from burnlike.interop.hub_kernels import call
from torch import nn
"""
_LAYER = """

class {name}(nn.Module):
    has_backward = True
    can_torch_compile = False

    def forward(self, {argument}):
        return call(self, {argument})
"""
_METADATA = {
    "id": "_burnlike_kernels",
    "name": "burnlike",
    "version": 1,
    "license": "MIT OR Apache-2.0",
    "python-depends": [],
    "backend": {"type": "cpu"},
}


def write_kernels(path: str | Path) -> Path:
    """Write the package of kernels to a folder, and return it as an absolute path.

    Example:
        >>> import tempfile
        >>> folder = write_kernels(tempfile.mkdtemp())
        >>> sorted(it.name for it in (folder / "build" / "torch-universal").iterdir())
        ['__init__.py', 'layers.py', 'metadata.json']
    """
    folder = Path(path).absolute()
    (folder / _FOLDER).mkdir(parents=True, exist_ok=True)
    text = _HEAD.format(version=__version__)
    for name in LAYERS:
        text += _LAYER.format(name=name, argument="hidden_states" if name == "RMSNorm" else "input")
    files = {"layers.py": text, "__init__.py": _INIT, "metadata.json": json.dumps(_METADATA, indent=2) + "\n"}
    for name, content in files.items():
        replace_file(folder / _FOLDER / name, content.encode())
    return folder


def kernel_mapping(path: str | Path) -> dict[str, dict[str, Any]]:
    """The argument of `kernels.register_kernel_mapping` for the package in a folder: by layer and device.

    transformers' `KernelConfig` refuses CPUs (5.23), the mapping of the `kernels` library does not.

    Raises:
        ImportError: the `kernels` library is not installed.
    """
    from kernels import LocalLayerRepository  # pyright: ignore[reportMissingImports]

    return {
        name: dict.fromkeys(("cpu", "cuda"), LocalLayerRepository(Path(path).absolute(), layer_name=name))
        for name in LAYERS
    }


_PROVEN: dict[Any, Any] = {}
"""One for the process: layers of one class and settings are proved once."""


def call(module: nn.Module, *arguments: Any) -> Any:
    """The forward of a layer with native ops, if that is proved to be its class's own, else its own."""
    forward = vars(module).get(_FORWARD)
    if forward is None:
        forward = fuse_layer(module, _PROVEN)[0] or False
        module.__dict__[_FORWARD] = forward
    run: Any = forward.function if forward else stock_forward(type(module))[1]
    return run(module, *arguments)
