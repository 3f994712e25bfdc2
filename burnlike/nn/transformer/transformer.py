"""Transformer encoder and decoder: stacks of layers, and the caches of earlier positions with which they generate."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...module import Content, Module
from ...tensor.torch_bridge.torch_function import lift
from ..activation.configs import GeluConfig, ReluConfig
from ..activation.elementwise import Gelu, Relu
from ..attention.attend import TensorCache
from ..attention.multi_head_attention import MhaCache, attention_config, attention_tensors
from ..call_types import KeepsType
from ..configs import DropoutConfig
from ..layer import Layer, divided_sequences, expect_shape, shape_error
from ..roles import ActivationConfig
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, refuse
from .configs import TransformerDecoderConfig, TransformerEncoderConfig


class TransformerEncoderLayerAutoregressiveCache:
    """Cache of an encoder layer's earlier positions; the output is `[batch, length, d_model]`."""

    def __init__(self) -> None:
        self.mha = MhaCache.autoregressive()
        self.output = TensorCache()


class TransformerEncoderAutoregressiveCache:
    """Cache of an encoder's earlier positions: one for each layer."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [TransformerEncoderLayerAutoregressiveCache() for _ in range(n_layers)]


class TransformerDecoderLayerAutoregressiveCache:
    """Cache of a decoder layer: keys and values of target and memory, `[batch, length, d_model]` outputs."""

    def __init__(self) -> None:
        self.self_attn = MhaCache.autoregressive()
        self.cross_attn = MhaCache.autoregressive_cross_attention()
        self.output = TensorCache()


class TransformerDecoderAutoregressiveCache:
    """Cache of a decoder's earlier positions: one for each layer."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [TransformerDecoderLayerAutoregressiveCache() for _ in range(n_layers)]


def new_rows(layer: object, x: Tensor, mask: Tensor | None, cache: TensorCache) -> tuple[Tensor, Tensor | None]:
    """The positions of x that a layer's results in `cache` lack, one at least, and their rows of an attention mask."""
    first = cache.length(1)
    if x.shape[1] <= first:
        raise shape_error(layer, f"more than the {first} positions of the cache", x.shape[1])
    return x[:, first:], None if mask is None else mask[:, first:]


Masks = tuple[Tensor | None, Tensor | None]
StackConfig = TransformerEncoderConfig | TransformerDecoderConfig
_SIZES = ("d_model", "d_ff", "n_heads", "n_layers", "dropout", "norm_first", "quiet_softmax")


class _Stack(KeepsType, Layer):
    """The base of encoder and decoder: layers of one config, whose sizes they show."""

    _layer: ClassVar[type[Module]]
    d_model: int
    n_heads: int
    d_ff: int
    dropout: float
    norm_first: bool
    quiet_softmax: bool

    def __init__(self, config: StackConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        layer: Any = self._layer
        self.layers = nn.ModuleList(layer(config, device) for _ in range(config.n_layers))
        for name in _SIZES:
            setattr(self, name, getattr(config, name))

    def parallel_plan(self) -> Mapping[str, str]:
        """Between the layers each process has a part of each sequence."""
        return divided_sequences("layers", self.layers)

    def custom_content(self, content: Content) -> Content:
        for name in _SIZES:
            content = content.add(name, getattr(self, name))
        return content


class TransformerEncoderLayer(KeepsType, Module):
    """norm_2(y + feed_forward(y)) of y = norm_1(x + attention(x)) (Vaswani et al. 2017, section 3.1).

    With `norm_first` y + feed_forward(norm_1(y)) of y = x + attention(norm_2(x)): Burn has the norms in this order,
    `torch.nn.TransformerEncoderLayer` in the other.
    """

    def __init__(self, config: TransformerEncoderConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.mha = config.attention.init(device)
        self.pwff = config.feed_forward.init(device)
        self.norm_1 = config.norm.init(device)
        self.norm_2 = config.norm.init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.norm_first = config.norm_first

    def parallel_plan(self) -> Mapping[str, str]:
        """The plan of a layer: between its parts, processes hold parts of sequences."""
        return dict.fromkeys(("norm_1", "norm_2", "dropout"), "sequence")

    @lift
    def forward(self, x: Tensor, mask_pad: Tensor | None = None, mask_attn: Tensor | None = None) -> Tensor:
        """As `TransformerEncoder.forward`."""
        return self._forward(x, mask_pad, mask_attn, None)

    @lift
    def forward_autoregressive_inference(
        self,
        x: Tensor,
        cache: TransformerEncoderLayerAutoregressiveCache,
        mask_pad: Tensor | None = None,
        mask_attn: Tensor | None = None,
    ) -> Tensor:
        """As `TransformerEncoder.forward_autoregressive_inference`, with the cache of this layer."""
        new, mask_attn = new_rows(self, x, mask_attn, cache.output)
        return cache.output.append(self._forward(new, mask_pad, mask_attn, cache.mha), 1)

    def _forward(self, x: Tensor, mask_pad: Tensor | None, mask_attn: Tensor | None, cache: MhaCache | None) -> Tensor:
        y = self.norm_2(x) if self.norm_first else x
        if cache is None:
            y = self.mha(y, mask_pad=mask_pad, mask_attn=mask_attn, need_weights=False).context
        else:
            y = self.mha.forward_new(y, y, y, mask_pad, mask_attn, cache=cache)
        x = x + self.dropout(y)
        if self.norm_first:
            return x + self.dropout(self.pwff(self.norm_1(x)))
        x = self.norm_1(x)
        return self.norm_2(x + self.dropout(self.pwff(x)))


class TransformerEncoder(_Stack):
    """Layers of self-attention and a feed-forward part (Vaswani et al. 2017, section 3.1); no norm at the end.
    Torch: `nn.TransformerEncoder`.
    Differs: batches first; GELU by default; with `norm_first` the norms of a layer swap names.
    """

    _layer = TransformerEncoderLayer

    def new_autoregressive_cache(self) -> TransformerEncoderAutoregressiveCache:
        return TransformerEncoderAutoregressiveCache(len(self.layers))

    @lift
    def forward(self, x: Tensor, mask_pad: Tensor | None = None, mask_attn: Tensor | None = None) -> Tensor:
        """`[batch, length, d_model] -> [batch, length, d_model]`.

        Args:
            mask_pad: bool `[batch, length]`, True where a position is hidden.
            mask_attn: bool `[batch, length, length]`, True where a position is hidden from one.

        Raises ShapeError if x or a mask has another shape, DTypeError if a mask is not bool.
        """
        expect_shape(self, x, "batch", "length", self.d_model)
        for layer in self.layers:
            x = layer(x, mask_pad, mask_attn)
        return x

    @lift
    def forward_autoregressive_inference(
        self,
        x: Tensor,
        cache: TransformerEncoderAutoregressiveCache,
        mask_pad: Tensor | None = None,
        mask_attn: Tensor | None = None,
    ) -> Tensor:
        """As `forward` on all positions so far, where only those are computed that `cache` does not have.

        A position sees those before it and, among several new ones, those that `mask_attn` doesn't hide. Raises
        ShapeError if no position is new.
        """
        expect_shape(self, x, "batch", "length", self.d_model)
        layers: Any = self.layers
        for layer, its in zip(layers, cache.layers, strict=True):
            x = layer.forward_autoregressive_inference(x, its, mask_pad, mask_attn)
        return x


class TransformerDecoderLayer(KeepsType, Module):
    """Self-attention, attention to the memory, and the feed-forward part (Vaswani et al. 2017, section 3.1).

    Each part's result is added to what it got, and the sum is normalized: by `norm_1`, `norm_2` and `norm_3`. With
    `norm_first` what a part gets is normalized instead: by `norm_3`, `norm_1` and `norm_2`, as in Burn.
    """

    def __init__(self, config: TransformerDecoderConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.cross_attn = config.attention.init(device)
        self.self_attn = config.attention.init(device)
        self.pwff = config.feed_forward.init(device)
        self.norm_1 = config.norm.init(device)
        self.norm_2 = config.norm.init(device)
        self.norm_3 = config.norm.init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.norm_first = config.norm_first

    def parallel_plan(self) -> Mapping[str, str]:
        """The plan of a layer: between its parts, processes hold parts of sequences."""
        return dict.fromkeys(("norm_1", "norm_2", "norm_3", "dropout"), "sequence")

    @lift
    def forward(
        self,
        target: Tensor,
        memory: Tensor,
        target_mask_pad: Tensor | None = None,
        target_mask_attn: Tensor | None = None,
        memory_mask_pad: Tensor | None = None,
        memory_mask_attn: Tensor | None = None,
    ) -> Tensor:
        """As `TransformerDecoder.forward`."""
        masks = (target_mask_pad, target_mask_attn), (memory_mask_pad, memory_mask_attn)
        return self._forward(target, memory, *masks, None)

    @lift
    def forward_autoregressive_inference(
        self,
        target: Tensor,
        memory: Tensor,
        cache: TransformerDecoderLayerAutoregressiveCache,
        target_mask_pad: Tensor | None = None,
        target_mask_attn: Tensor | None = None,
        memory_mask_pad: Tensor | None = None,
        memory_mask_attn: Tensor | None = None,
    ) -> Tensor:
        """As `TransformerDecoder.forward_autoregressive_inference`, with the cache of this layer."""
        new, target_mask_attn = new_rows(self, target, target_mask_attn, cache.output)
        _, memory_mask_attn = new_rows(self, target, memory_mask_attn, cache.output)
        masks = (target_mask_pad, target_mask_attn), (memory_mask_pad, memory_mask_attn)
        return cache.output.append(self._forward(new, memory, *masks, cache), 1)

    def _forward(
        self,
        x: Tensor,
        memory: Tensor,
        of_target: Masks,
        of_memory: Masks,
        cache: TransformerDecoderLayerAutoregressiveCache | None,
    ) -> Tensor:
        y = self.norm_3(x) if self.norm_first else x
        if cache is None:
            y = self.self_attn(y, y, y, *of_target, need_weights=False).context
        else:
            y = self.self_attn.forward_new(y, y, y, *of_target, cache=cache.self_attn)
        x = x + self.dropout(y)
        y = self.norm_1(x)
        x = x if self.norm_first else y
        if cache is None:
            y = self.cross_attn(y, memory, memory, *of_memory, need_weights=False).context
        else:
            y = self.cross_attn.forward_new(y, memory, memory, *of_memory, cache=cache.cross_attn)
        x = x + self.dropout(y)
        y = self.norm_2(x)
        x = x if self.norm_first else y
        x = x + self.dropout(self.pwff(y))
        return x if self.norm_first else self.norm_3(x)


class TransformerDecoder(_Stack):
    """Layers of self-attention, attention to a memory, and a feed-forward part (Vaswani et al. 2017, section 3.1).

    The memory is used as it is, and there is no norm at the end.

    Torch: `nn.TransformerDecoder`.
    Differs: batches first; GELU by default; with `norm_first` the norms of a layer swap names.
    """

    _layer = TransformerDecoderLayer

    def new_autoregressive_cache(self) -> TransformerDecoderAutoregressiveCache:
        return TransformerDecoderAutoregressiveCache(len(self.layers))

    @lift
    def forward(
        self,
        target: Tensor,
        memory: Tensor,
        target_mask_pad: Tensor | None = None,
        target_mask_attn: Tensor | None = None,
        memory_mask_pad: Tensor | None = None,
        memory_mask_attn: Tensor | None = None,
    ) -> Tensor:
        """`[batch, length, d_model], [batch, keys, d_model] -> [batch, length, d_model]`.

        Args:
            memory: such as the output of an encoder.
            target_mask_pad: bool `[batch, length]`, True where a position of the target is hidden.
            target_mask_attn: bool `[batch, length, length]`, True where it is hidden from one.
            memory_mask_pad: bool `[batch, keys]`, True where a position of the memory is hidden.
            memory_mask_attn: bool `[batch, length, keys]`, True where it is hidden from one of the target.

        Raises ShapeError if an input or a mask has another shape, DTypeError if a mask is not bool.
        """
        self._check(target, memory)
        masks = target_mask_pad, target_mask_attn, memory_mask_pad, memory_mask_attn
        for layer in self.layers:
            target = layer(target, memory, *masks)
        return target

    @lift
    def forward_autoregressive_inference(
        self,
        target: Tensor,
        memory: Tensor,
        cache: TransformerDecoderAutoregressiveCache,
        target_mask_pad: Tensor | None = None,
        target_mask_attn: Tensor | None = None,
        memory_mask_pad: Tensor | None = None,
        memory_mask_attn: Tensor | None = None,
    ) -> Tensor:
        """As `forward` on all positions so far, where only those are computed that `cache` does not have.

        A position sees those before it and, among several new ones, those that `target_mask_attn` doesn't hide. What
        is in the memory matters in the first call only. Raises ShapeError if no position is new.
        """
        self._check(target, memory)
        masks = target_mask_pad, target_mask_attn, memory_mask_pad, memory_mask_attn
        layers: Any = self.layers
        for layer, its in zip(layers, cache.layers, strict=True):
            target = layer.forward_autoregressive_inference(target, memory, its, *masks)
        return target

    def _check(self, target: Tensor, memory: Tensor) -> None:
        expect_shape(self, target, "batch", "length", self.d_model, name="target")
        expect_shape(self, memory, target.shape[0], "keys", self.d_model, name="memory")


TorchLayer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


def _activation(layer: TorchLayer) -> ActivationConfig:
    activation: Any = layer.activation
    if activation is functional.relu or type(activation) is nn.ReLU:
        return ReluConfig()
    if activation is functional.gelu:
        return GeluConfig()
    if type(activation) is nn.GELU:
        return GeluConfig(approximate=activation.approximate == "tanh")
    raise refuse(layer, f"activation={activation!r} has no counterpart; take relu, gelu, nn.ReLU or nn.GELU")


def _layer_config(layer: Any) -> StackConfig:
    attentions = [child for child in layer.children() if isinstance(child, nn.MultiheadAttention)]
    first, *others = (attention_config(attention) for attention in attentions)
    dropouts = {child.p for child in layer.children() if isinstance(child, nn.Dropout)}
    norms = [child for child in layer.children() if isinstance(child, nn.LayerNorm)]
    if any(it != first for it in others) or dropouts != {first.dropout} or len({norm.eps for norm in norms}) > 1:
        raise refuse(layer, "its parts have different options, such as dropout, which has no counterpart")
    if layer.linear1.bias is None or any(norm.bias is None for norm in norms):
        raise refuse(layer, "bias=False has no counterpart")
    config_type = (
        TransformerEncoderConfig if isinstance(layer, nn.TransformerEncoderLayer) else TransformerDecoderConfig
    )
    return config_type(
        d_model=first.d_model,
        d_ff=layer.linear1.out_features,
        n_heads=first.n_heads,
        n_layers=1,
        dropout=first.dropout,
        norm_first=layer.norm_first,
        quiet_softmax=first.quiet_softmax,
        activation=_activation(layer),
        layer_norm_eps=norms[0].eps,
    )


def _stack_config(stack: nn.TransformerEncoder | nn.TransformerDecoder) -> StackConfig:
    if stack.norm is not None:
        raise refuse(stack, "a norm at the end has no counterpart; keep it beside the stack")
    layer_type = nn.TransformerEncoderLayer if isinstance(stack, nn.TransformerEncoder) else nn.TransformerDecoderLayer
    if any(type(layer) is not layer_type for layer in stack.layers):
        raise refuse(stack, f"layers other than {layer_type.__name__} have no counterpart")
    first, *others = map(_layer_config, stack.layers)
    if any(it != first for it in others):
        raise refuse(stack, "layers of different options have no counterpart")
    return first.replace(n_layers=len(stack.layers))


def _build_layer(stack: TransformerEncoder | TransformerDecoder, device: torch.device) -> TorchLayer:
    if len(stack.layers) > 1:
        raise refuse(stack, f"{len(stack.layers)} layers can't become one")
    return _one_layer(stack, device)


def _one_layer(stack: TransformerEncoder | TransformerDecoder, device: torch.device) -> TorchLayer:
    if stack.quiet_softmax:
        raise refuse(stack, "quiet_softmax=True has no counterpart")
    first: Any = stack.layers[0]
    activation = first.pwff.activation
    if not isinstance(activation, Relu | Gelu) or getattr(activation, "approximate", False):
        raise refuse(stack, f"the activation {type(activation).__name__} has no counterpart")
    layer_type = nn.TransformerEncoderLayer if isinstance(stack, TransformerEncoder) else nn.TransformerDecoderLayer
    return layer_type(
        stack.d_model,
        stack.n_heads,
        stack.d_ff,
        stack.dropout,
        "relu" if isinstance(activation, Relu) else "gelu",
        first.norm_1.epsilon,
        batch_first=True,
        norm_first=stack.norm_first,
        device=device,
    )


def _build_stack(
    stack: TransformerEncoder | TransformerDecoder, device: torch.device
) -> nn.TransformerEncoder | nn.TransformerDecoder:
    layer: Any = _one_layer(stack, device)
    if isinstance(stack, TransformerEncoder):
        # With nested tensors torch gives 0 where a position is hidden, in evaluation alone.
        return nn.TransformerEncoder(layer, len(stack.layers), enable_nested_tensor=False)
    return nn.TransformerDecoder(layer, len(stack.layers))


def _layer_tensors(layer: TorchLayer | TransformerEncoder | TransformerDecoder) -> Mapping[str, TensorSource]:
    return _tensors(layer, "layers.0.", "")


def _stack_tensors(stack: nn.Module) -> Mapping[str, TensorSource]:
    options = stack.layers[0] if isinstance(stack, nn.TransformerEncoder | nn.TransformerDecoder) else stack
    return _tensors(options, "layers.*.", "layers.*.")


def _tensors(options: Any, ours: str, theirs: str) -> Mapping[str, TensorSource]:
    if isinstance(options, TransformerEncoder | nn.TransformerEncoderLayer):
        sources = attention_tensors(f"{ours}mha.", f"{theirs}self_attn.")
        norms = ("norm_2", "norm_1") if options.norm_first else ("norm_1", "norm_2")
    else:
        sources = attention_tensors(f"{ours}self_attn.", f"{theirs}self_attn.")
        sources |= attention_tensors(f"{ours}cross_attn.", f"{theirs}multihead_attn.")
        norms = ("norm_3", "norm_1", "norm_2") if options.norm_first else ("norm_1", "norm_2", "norm_3")
    for linear, name in (("linear_inner", "linear1"), ("linear_outer", "linear2")):
        sources[f"{ours}pwff.{linear}.weight"] = TensorSource(f"{theirs}{name}.weight", transposed=True)
        sources[f"{ours}pwff.{linear}.bias"] = TensorSource(f"{theirs}{name}.bias")
    for number, norm in enumerate(norms, 1):
        sources[f"{ours}{norm}.gamma"] = TensorSource(f"{theirs}norm{number}.weight")
        sources[f"{ours}{norm}.beta"] = TensorSource(f"{theirs}norm{number}.bias")
    return sources


_ROWS: list[tuple[Any, ...]] = [
    ("TransformerEncoder", "one_tensor", nn.TransformerEncoderLayer, _layer_config, _build_layer, _layer_tensors),
    ("TransformerEncoder", "one_tensor", nn.TransformerEncoder, _stack_config, _build_stack, _stack_tensors),
    ("TransformerDecoder", "other", nn.TransformerDecoderLayer, _layer_config, _build_layer, _layer_tensors),
    ("TransformerDecoder", "other", nn.TransformerDecoder, _stack_config, _build_stack, _stack_tensors),
]
COUNTERPARTS = [
    Counterpart(name, theirs, config, build, call=call, tensors_by=tensors)
    for name, call, theirs, config, build, tensors in _ROWS
]
