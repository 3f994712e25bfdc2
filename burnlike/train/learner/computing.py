"""Ways a model computes while it is trained: compiled, in 8 bits, with activations that are computed again.

Linear layers in 8 bits: float8 by torchao on GPUs, int8 on a CPU. Parameters, records and the optimizer are as without.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.compiler.config
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ..._torch_compat.inductor import quote_paths
from ...errors import ConfigError
from ...interop.quantize import import_torchao
from ...module.torch_objects.wrappers import is_distributed, own_class
from ...nn import Linear
from ...ops import int8_linear
from ...ops.int8_linear import DTYPES
from ..parallel.strategies import blocks_of
from .configs import SAVED_OPS, CheckpointingConfig, Float8Config, TrainingConfig


@contextmanager
def computing(model: nn.Module, training: TrainingConfig, device: torch.device) -> Iterator[list[str]]:
    """Let a model compute as its training says within the `with` block; gives notes for the beginning of a run."""
    notes: list[str] = []
    with ExitStack() as stack:
        if training.compile:
            quote_paths()
            # One version per layer: the forward of every layer is the same function to torch, `lift`, of which it would
            # keep 8 versions. Where exchanges between processes break the code, each kind of layer has its own.
            versions = max(256, 8 * sum(1 for _ in model.modules()))
            limits = {"recompile_limit": versions, "accumulated_recompile_limit": versions}
            stack.enter_context(torch.compiler.config.patch(limits))  # pyright: ignore[reportAttributeAccessIssue]
            model.compile()
        if training.float8 is not None:
            layers = stack.enter_context(in_float8(model, training.float8, device))
            notes.append(f"float8    {len(layers)} linear layers, {training.float8.recipe}")
        if training.checkpointing is not None:
            stack.enter_context(checkpointed(model, training.checkpointing))
        yield notes


class CheckpointedForward:
    """The forward of one block, whose activations are computed again in the backward pass."""

    def __init__(self, forward: Any, block: nn.Module, contexts: Callable[[], Any] | None = None) -> None:
        self._forward, self._block = forward, block
        self._options: dict[str, Any] = {} if contexts is None else {"context_fn": contexts}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self._block.training and torch.is_grad_enabled():
            # The reentrant kind takes no keywords, and gives no gradient where no input of the block needs one.
            return checkpoint(self._forward, *arguments, use_reentrant=False, **self._options, **keywords)
        return self._forward(*arguments, **keywords)


@contextmanager
def checkpointed(model: nn.Module, config: CheckpointingConfig | None = None) -> Iterator[None]:
    """Checkpoint the blocks of a model within the `with` block; a ConfigError if it has none, or no op is so called."""
    config = config or CheckpointingConfig()
    blocks = blocks_of(model)[:: config.every]  # not the whole model, whose second forward would keep everything again
    if not blocks:
        raise ConfigError(
            "training.activation_checkpointing: the model has no blocks, which are modules of one class in a list, with"
            " modules in them; leave it out, or call torch.utils.checkpoint in the model's forward"
        )
    contexts = partial(_contexts, frozenset(_ops(config.save))) if config.save else None
    with replaced_forwards([(block, CheckpointedForward(block.forward, block, contexts)) for block in blocks]):
        yield


def _contexts(saved: frozenset[str]) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    def policy(_: Any, op: Any, *arguments: Any, **keywords: Any) -> CheckpointPolicy:
        is_saved = op.name().partition(".")[0] in saved
        return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def _ops(names: tuple[str, ...]) -> Iterator[str]:
    """The ops that names stand for, as torch calls them: `aten::mm`."""
    for place, name in enumerate(names):
        if name in SAVED_OPS:
            yield from SAVED_OPS[name]
            continue
        namespace, _, op = name.partition(".")
        if not hasattr(getattr(torch.ops, namespace), op):
            raise ConfigError(
                f"training.activation_checkpointing.save.{place}: torch has no op {name}; expected"
                f" {', '.join(SAVED_OPS)}, or one of torch.ops, such as aten.mm or burnlike.swiglu"
            )
        yield f"{namespace}::{op}"


_MULTIPLE = 16
"""What kernels of matrix products in 8 bits need both sizes of a layer to be a multiple of."""
_LEAST_CAPABILITY = (8, 9)


@contextmanager
def replaced_forwards(forwards: Sequence[tuple[nn.Module, Any]]) -> Iterator[None]:
    """Modules have other forwards within the `with` block: attributes of their own, so that their class stays."""
    before = [vars(module).get("forward") for module, _ in forwards]
    for module, forward in forwards:
        vars(module)["forward"] = forward
    try:
        yield
    finally:
        for (module, _), own_forward in zip(forwards, before, strict=True):
            vars(module).pop("forward", None)
            if own_forward is not None:
                vars(module)["forward"] = own_forward


def linear_layers(model: nn.Module) -> Iterator[tuple[str, Any, list[int]]]:
    """Paths, layers and the sizes of the weights that this process computes with, without layers with adapters.

    These are `nn.Linear` and burnlike's `Linear`, with the forward of their class.
    """
    of_blocks = {id(it) for block in blocks_of(model) for it in block.modules()}
    for path, module in model.named_modules():
        if id(module) not in of_blocks or own_class(module) not in (nn.Linear, Linear):
            continue
        is_plain = type(module).forward in (nn.Linear.forward, Linear.forward) and "forward" not in vars(module)
        if is_plain and "parametrizations" not in module._modules:
            yield path, module, _computed(module.weight)


def _computed(weight: Any) -> list[int]:
    """The shape of the part of a weight that this process computes with: tensor parallelism divides a layer."""
    shape = [*weight.shape]
    if is_distributed(weight):
        mesh = weight.device_mesh
        for place, name in enumerate(mesh.mesh_dim_names or ()):
            dim = getattr(weight.placements[place], "dim", None)
            if name == "tensor" and dim is not None:
                shape[dim] //= mesh.size(place)
    return shape


class EightBitForward:
    """The forward of one linear layer: `product` of the input, the weight `[d_output, d_input]` and the bias."""

    def __init__(self, layer: Any, product: Callable[[Tensor, Tensor, Tensor | None], Tensor]) -> None:
        self._forward, self._layer, self._product = layer.forward, layer, product

    def __call__(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return self._forward(x)
        layer = self._layer
        return self._product(x, layer.weight if isinstance(layer, nn.Linear) else layer.weight.mT, layer.bias)


def _float8_product(twin: nn.Module, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """By torchao's layer of these sizes, `twin`, which has no values of its own."""
    return functional_call(twin, {"weight": weight, "bias": bias}, (x,))  # pyright: ignore[reportArgumentType]


@contextmanager
def in_float8(model: nn.Module, config: Float8Config, device: torch.device) -> Iterator[list[str]]:
    """Let linear layers of the model's blocks compute in 8 bits within the `with` block; gives their paths.

    These are `nn.Linear` and burnlike's `Linear`, without adapters, whose sizes are multiples of 16; of a layer that
    `distributed.tensor` divides, those of a process's part. Scales are of what a process computes.

    Raises:
        ConfigError: torchao is not installed, the device has no matrix products in 8 bits, or no layer is such a one.
    """
    torchao = import_torchao("torchao.float8", "training.float8")
    if not config.emulate and not (
        device.type == "cuda" and torch.cuda.get_device_capability(device) >= _LEAST_CAPABILITY
    ):
        raise ConfigError(
            f"training.float8: {device} has no matrix products in 8 bits, which need a GPU of compute capability 8.9;"
            " leave it out, or set training.float8: {emulate: true}, which rounds in the same way and saves nothing"
        )
    candidates = linear_layers(model)
    layers = {path: layer for path, layer, sizes in candidates if not any(size % _MULTIPLE for size in sizes)}
    if not layers:
        raise ConfigError(
            "training.float8: the model's blocks have no linear layer whose sizes are multiples of 16; leave it out"
        )
    options = replace(torchao.Float8LinearConfig.from_recipe_name(config.recipe), emulate=config.emulate)
    forwards: list[tuple[nn.Module, Any]] = []
    for layer in layers.values():
        # It only says how to compute: the weights are handed to it in each call, so none is there twice.
        with torch.device("meta"):
            plain = nn.Linear(layer.in_features, layer.out_features, layer.bias is not None)
        twin = torchao.convert_to_float8_training(plain, config=options)
        forwards.append((layer, EightBitForward(layer, partial(_float8_product, twin))))
    with replaced_forwards(forwards):
        yield [*layers]


class Int8Layers:
    """The linear layers of a model's blocks that compute in 8 bits; embeddings and the head do not.

    Raises:
        ConfigError: on a GPU, for weights that are neither float32 nor bfloat16, or without such a layer.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        if device.type != "cpu":
            raise ConfigError(
                f"training.precision: int8_mixed computes on a CPU, got {device}; set device: cpu, or take bfloat16 or"
                " training.float8"
            )
        layers = {path: layer for path, layer, _ in linear_layers(model)}
        for path, layer in layers.items():
            if layer.weight.dtype not in DTYPES:
                dtype = str(layer.weight.dtype).removeprefix("torch.")
                raise ConfigError(
                    f"training.precision: int8_mixed takes weights in float32 or bfloat16, {path}.weight is {dtype}"
                )
        if not layers:
            raise ConfigError(
                "training.precision: int8_mixed: the model's blocks have no linear layer of torch or burnlike without"
                " an adapter; take bfloat16"
            )
        self.paths = [*layers]
        self._forwards = [(layer, EightBitForward(layer, int8_linear)) for layer in layers.values()]

    @property
    def note(self) -> str:
        """For the beginning of a run."""
        capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.11 has none
        is_slow = bool(capabilities) and not (capabilities.get("avx512_vnni") or capabilities.get("avx_vnni"))
        slow = "; this CPU has no VNNI, so bfloat16 is many times faster" if is_slow else ""
        return f"int8      {len(self.paths)} linear layers, others in bfloat16{slow}"

    def computing(self) -> AbstractContextManager[None]:
        """A `with` block in which they do, in both passes."""
        return replaced_forwards(self._forwards)
