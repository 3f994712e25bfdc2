"""Layers as Burn has them, as far as the tests of module trees need them: their tensors and their texts."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.module import Content, DisplaySettings, Module, Param


class Basic(Module):
    """One weight: the smallest module of Burn's tests."""

    def __init__(self) -> None:
        super().__init__()
        self.weight_basic = nn.Parameter(torch.randn(20, 20))


class Composed(Module):
    """A weight, a module, and a tuple of modules."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(20, 20))
        self.basic = Basic()
        self.tuple = (Basic(), Basic())


class SimpleLinear(Module):
    """A linear layer with a weight of torch's layout."""

    def __init__(self, d_input: int = 4, d_output: int = 6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_output, d_input))
        self.bias = nn.Parameter(torch.randn(d_output))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


class Layer(Module):
    """Displayed on one line."""

    def custom_settings(self) -> DisplaySettings:
        return DisplaySettings(new_line_after_attribute=False)


class Conv2d(Layer):
    def __init__(self, channels: list[int], kernel_size: list[int]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels[1], channels[0], *kernel_size))
        self.bias = nn.Parameter(torch.zeros(channels[1]))
        self.channels = channels
        self.kernel_size = kernel_size

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, self.bias)

    def custom_content(self, content: Content) -> Content:
        content.add("ch_in", self.channels[0]).add("ch_out", self.channels[1])
        content.add("stride", [1, 1]).add("kernel_size", self.kernel_size).add("dilation", [1, 1])
        return content.add("groups", 1).add("padding", "Valid")


class BatchNorm(Layer):
    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(num_features))
        self.beta = nn.Parameter(torch.zeros(num_features))
        self.running_mean = Param.running(torch.zeros(num_features))
        self.running_var = Param.running(torch.ones(num_features))
        self.momentum = 0.1
        self.epsilon = 1e-5

    def custom_content(self, content: Content) -> Content:
        (num_features,) = content.shape("gamma")
        content.add("num_features", num_features)
        return content.add("momentum", self.momentum).add("epsilon", self.epsilon)


class LayerNorm(Layer):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.epsilon = 1e-5

    def custom_content(self, content: Content) -> Content:
        (d_model,) = content.shape("gamma")
        return content.add("d_model", d_model).add("epsilon", self.epsilon).add("bias", content.has("beta"))


class AdaptiveAvgPool2d(Layer):
    def __init__(self, output_size: list[int]) -> None:
        super().__init__()
        self.output_size = output_size

    def custom_content(self, content: Content) -> Content:
        return content.add("output_size", self.output_size)


class Relu(Layer):
    pass
