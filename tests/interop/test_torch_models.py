"""Models of torch, its transformers and each of its layers as burnlike's, and back."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

from burnlike import nn as layers
from burnlike.errors import NoCounterpartError
from burnlike.interop import from_torch, to_torch
from burnlike.interop.torch_counterparts import of_burnlike
from burnlike.module import display, params
from burnlike.record import NamedMpkFileRecorder, Record
from burnlike.tensor import Tensor as Typed
from tests.nn.cases import CASES, Case, first_of_each, tensors_of


def downsample(d_input: int, d_output: int, stride: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(d_input, d_output, 1, stride, bias=False), nn.BatchNorm2d(d_output))


class BasicBlock(nn.Module):
    """Of torchvision's ResNet (He et al. 2015, figure 2)."""

    def __init__(self, d_input: int, d_output: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(d_input, d_output, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(d_output)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(d_output, d_output, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(d_output)
        self.downsample = downsample(d_input, d_output, stride) if stride != 1 else None

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(True))
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(4, 4), BasicBlock(4, 4))
        self.layer2 = nn.Sequential(BasicBlock(4, 8, 2), BasicBlock(8, 8))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer2(self.layer1(self.maxpool(self.stem(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def test_a_residual_network() -> None:
    torch.manual_seed(0)
    model = ResNet().double()
    x = torch.randn(2, 3, 20, 20, dtype=torch.float64)
    model(x)
    twin = from_torch(model)
    torch.testing.assert_close(twin(x), model(x), rtol=1e-12, atol=1e-12)
    for module in (model, twin):
        module(x).square().sum().backward()
    torch.testing.assert_close(twin.layer1[0].bn1.gamma.grad, model.get_parameter("layer1.0.bn1.weight").grad)
    twin = from_torch(model.eval())
    torch.testing.assert_close(twin(x), model(x), rtol=1e-12, atol=1e-12)
    back = to_torch(twin)
    assert [type(it) for it in back.modules()] == [type(it) for it in model.modules()]
    for (name, one), (other, its) in zip(back.state_dict().items(), model.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(one, its)
    assert back.state_dict()["layer2.1.bn2.num_batches_tracked"] == 3
    assert torch.equal(back(x), model(x))


SPELLED = [
    nn.Conv1d(2, 2, 3), nn.Conv2d(2, 2, 3, dilation=2, padding="same"), nn.Conv2d(2, 2, 3, padding="valid"),
    nn.Conv2d(2, 2, (2, 4), dilation=3, padding="same"), nn.Conv1d(2, 2, 1, dilation=2, padding="same"),
    nn.MaxPool1d(2), nn.MaxPool2d((2, 3), stride=1, padding=1), nn.MaxPool3d(2), nn.AvgPool2d(3, 2, padding=1),
    nn.AdaptiveAvgPool2d(1), nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=2.0, mode="bicubic"),
    nn.RMSNorm(4), nn.PReLU(2, init=0.1), nn.Threshold(1, 2), nn.Unfold(2), nn.ReLU6(inplace=True),
    nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2),
]  # fmt: skip


@pytest.mark.parametrize("layer", SPELLED, ids=lambda it: type(it).__name__)
def test_options_come_back_as_they_were_written(layer: nn.Module) -> None:
    """Such as an int for one size of all dimensions, which code around it may read."""
    back = to_torch(from_torch(layer))
    assert repr(back) == repr(layer)
    for name, value in layer.__dict__.items():
        if not name.startswith("_"):
            assert back.__dict__[name] == value, name


def test_an_option_of_a_twin_that_was_changed_is_the_new_one() -> None:
    model = nn.Sequential(nn.Conv2d(2, 2, 3), nn.RMSNorm(4), nn.ReLU(inplace=True))
    twin: Any = from_torch(model)
    twin[0].padding, twin[1].epsilon = (1, 1, 1, 1), 0.5
    back: Any = to_torch(twin)
    assert (back[0].padding, back[1].eps, back[2].inplace) == ((1, 1), 0.5, True)


def test_its_file_has_burns_structs() -> None:
    record = Record.from_module(from_torch(ResNet()))
    names = set(record.tensors)
    assert {"layer2.0.downsample.1.gamma", "layer2.0.bn1.running_var", "fc.weight"} <= names
    assert not any("num_batches_tracked" in name for name in names)
    loaded = NamedMpkFileRecorder().from_bytes(NamedMpkFileRecorder().to_bytes(record))
    assert set(loaded.tensors) == names


class WritesIntoItsInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        doubled = 2 * x
        return self.relu(doubled) + doubled


def test_a_layer_that_writes_into_its_input_goes_on_to() -> None:
    model = WritesIntoItsInput()
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    twin = from_torch(model)
    grads = []
    for module in (model, twin, copy.deepcopy(twin), to_torch(twin)):
        output = module(x)
        assert output.tolist() == [0.0, 8.0]
        grads.append(torch.autograd.grad(output.sum(), x)[0].tolist())
    assert grads == [[0.0, 4.0]] * 4
    assert to_torch(twin).relu.inplace
    typed = twin.relu(Typed(torch.tensor([-1.0])))
    assert typed.inner.tolist() == [0.0]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_converted_by_themselves(kind: Any, bidirectional: bool) -> None:
    torch.manual_seed(0)
    layer = kind(3, 4, batch_first=True, bidirectional=bidirectional).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    twin = from_torch(layer)
    output = twin(x)
    output = output if isinstance(output, Tensor) else output[0]
    torch.testing.assert_close(output, layer(x)[0], rtol=1e-12, atol=1e-12)
    back = to_torch(twin)
    assert type(back) is kind
    assert torch.equal(back(x)[0], layer(x)[0])
    for around in (nn.Sequential(layer), nn.ModuleList([layer])):
        with pytest.raises(NoCounterpartError, match="is called in another way"):
            from_torch(around)
    layer.get_parameter("weight_hh_l0").requires_grad_(False)
    assert [name for name, it in to_torch(from_torch(layer)).named_parameters() if not it.requires_grad] == [
        "weight_hh_l0"
    ]


def test_a_tensor_that_is_frozen_in_part_is_refused() -> None:
    twin = layers.LstmConfig(d_input=2, d_hidden=2, bias=False).init()
    twin.get_parameter("input_gate.input_transform.weight").requires_grad_(False)
    with pytest.raises(NoCounterpartError, match=r"are one tensor in torch.nn, and are trained only in part"):
        to_torch(twin)


def random_layers(width: int, length: int) -> st.SearchStrategy[tuple[nn.Module, int]]:
    """A layer for `[batch, width, length]`, and the width of its output."""
    same = st.sampled_from([
        lambda: nn.Linear(length, length), lambda: nn.Linear(length, length, bias=False), nn.ReLU, nn.GELU, nn.Sigmoid,
        nn.Tanh, lambda: nn.LeakyReLU(0.2), lambda: nn.PReLU(width), nn.SiLU, nn.Softplus, nn.Identity,
        lambda: nn.Dropout(0.3), lambda: nn.BatchNorm1d(width), lambda: nn.LayerNorm(length),
        lambda: nn.RMSNorm(length, eps=1e-6),
        lambda: nn.GroupNorm(1, width, eps=1e-3), lambda: nn.InstanceNorm1d(width, affine=True),
        lambda: nn.AvgPool1d(3, 1, 1), lambda: nn.MaxPool1d(3, 1, 1), lambda: nn.Sequential(nn.Hardswish(), nn.Mish()),
    ]).map(lambda make: (make(), width))  # fmt: skip
    other = st.tuples(st.sampled_from([nn.Conv1d, nn.ConvTranspose1d]), st.integers(1, 4), st.booleans()).map(
        lambda it: (it[0](width, it[1], 3, padding=1, bias=it[2]), it[1])
    )
    return st.one_of(same, other)


@st.composite
def stacks(draw: st.DrawFn) -> nn.Sequential:
    torch.manual_seed(draw(st.integers(0, 100)))
    made, width = [], 2
    for _ in range(draw(st.integers(1, 6))):
        layer, width = draw(random_layers(width, 5))
        made.append(layer)
    return nn.Sequential(*made).double()


@settings(max_examples=20, derandomize=True, deadline=None)
@given(stacks(), st.booleans())
def test_random_stacks_compute_the_same(model: nn.Sequential, train: bool) -> None:
    model.train(train)
    x = torch.randn(3, 2, 5, dtype=torch.float64)
    twin = from_torch(model)
    torch.manual_seed(1)
    expected = model(x)
    torch.manual_seed(1)
    torch.testing.assert_close(twin(x), expected, rtol=1e-12, atol=1e-12)
    assert [type(it) for it in to_torch(twin).modules()] == [type(it) for it in model.modules()]


SIZES: dict[str, Any] = {"d_model": 8, "nhead": 2, "dim_feedforward": 12}


def encoder(norm_first: bool = False, activation: str = "gelu", **options: Any) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        **SIZES, activation=activation, norm_first=norm_first, batch_first=True, dropout=0.0, **options
    )
    made = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double()
    with torch.no_grad():
        for number, param in enumerate(made.parameters()):  # its layers are copies of one another
            param.add_(torch.randn_like(param) / (number + 2))
    return made


def expect_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder(norm_first: bool, activation: str) -> None:
    torch.manual_seed(0)
    model = encoder(norm_first, activation, layer_norm_eps=1e-3)
    twin = from_torch(model)
    x, hidden = torch.randn(3, 5, 8, dtype=torch.float64), torch.zeros(3, 5, dtype=torch.bool)
    hidden[:, 3:] = True
    expect_same(twin(x), model(x))
    expect_same(twin(x, mask_pad=hidden), model(x, src_key_padding_mask=hidden))
    back = to_torch(twin)
    assert torch.equal(back(x), model(x))
    for (name, one), (other, its) in zip(back.state_dict().items(), model.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(one, its)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_decoder(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(**SIZES, norm_first=norm_first, batch_first=True, dropout=0.0)
    model = nn.TransformerDecoder(layer, 2).double()
    with torch.no_grad():
        for param in model.parameters():
            param.add_(torch.randn_like(param) / 4)
    twin = from_torch(model)
    target, memory = torch.randn(3, 4, 8, dtype=torch.float64), torch.randn(3, 5, 8, dtype=torch.float64)
    expect_same(twin(target, memory), model(target, memory))
    back = to_torch(twin)
    assert torch.equal(back(target, memory), model(target, memory))
    with pytest.raises(NoCounterpartError, match="is called in another way"):
        from_torch(nn.Sequential(model))


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_by_itself(norm_first: bool) -> None:
    model = encoder(norm_first).layers[0]
    twin = from_torch(model)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    expect_same(twin(x), model(x))
    back = to_torch(twin)
    assert type(back) is nn.TransformerEncoderLayer
    assert torch.equal(back(x), model(x))


def test_an_encoder_in_sequential_and_in_a_program() -> None:
    stack = nn.Sequential(nn.Linear(4, 8), nn.Sequential(encoder(), nn.ReLU()), nn.Linear(8, 2)).double()
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    expect_same(from_torch(stack)(x), stack(x))
    with pytest.raises(NoCounterpartError, match=r"encoder .*is called in another way"):
        from_torch(nn.ModuleDict({"encoder": encoder()}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: setattr(it, "norm", nn.LayerNorm(8)), "norm at the end"),
        (lambda it: setattr(it.layers[1].dropout, "p", 0.5), "dropout"),
        (lambda it: setattr(it.layers[1], "norm_first", True), "options"),
        (lambda it: setattr(it.layers[0], "activation", torch.tanh), "activation"),
        (lambda it: setattr(it.layers[0].self_attn, "batch_first", False), "batch_first=False"),
        (lambda it: it.layers[0].linear1.register_forward_hook(print), "hooks"),
        (lambda it: it.layers[0].eval(), "training mode"),
    ],
)
def test_what_has_no_counterpart(change: Callable[[Any], object], reason: str) -> None:
    model = encoder()
    change(model)
    with pytest.raises(NoCounterpartError, match=reason):
        from_torch(model)


WITH_TWIN = [case for case in CASES if case.reference is None]


def each(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [first_of_each(case) for case in cases])


def is_called_alike(case: Case) -> bool:
    plain = Case("", case.config, case.inputs)
    return case.torch_inputs is plain.torch_inputs and case.torch_output is plain.torch_output


def call_of(case: Case) -> str:
    return list(of_burnlike()[type(case.layer())].values())[-1].call


def expect_equal(found: object, expected: object) -> None:
    for one, other in zip(tensors_of(found), tensors_of(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


class Program(nn.Module):
    """A class of a user's that calls a layer as torch's."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: Tensor) -> object:
        return self.layer(*inputs)


@each(WITH_TWIN)
def test_there_and_back(case: Case) -> None:
    layer = case.layer().float()
    theirs = to_torch(layer)
    assert type(theirs).__module__.startswith("torch.nn.modules.")
    back = from_torch(theirs)
    if case.name in ("LpLoss/l2", "Identity"):
        assert type(back) is (layers.MseLoss if case.name == "LpLoss/l2" else nn.Identity)
        return
    assert type(back) is type(layer)
    keeps_options = "Same" not in display(layer)  # padding, which comes back as numbers where it can
    assert display(back) == display(layer) or not keeps_options
    assert [(it.path, it.id, it.kind) for it in params(back)] == [(it.path, it.id, it.kind) for it in params(layer)]
    for one, other in zip(params(back), params(layer), strict=True):
        assert torch.equal(one.tensor, other.tensor)
    recorder = NamedMpkFileRecorder()
    if getattr(case.config, "layout", "row") == "row":
        assert recorder.to_bytes(Record.from_module(back)) == recorder.to_bytes(Record.from_module(layer))
    again = to_torch(back)
    if keeps_options:
        assert_same_plain(again, theirs)
    for (name, one), (other_name, other) in zip(again.state_dict().items(), theirs.state_dict().items(), strict=True):
        assert name == other_name
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def assert_same_plain(one: nn.Module, other: nn.Module) -> None:
    """That two layers have the same options."""
    for part, its in zip(one.modules(), other.modules(), strict=True):
        assert part.__dict__.keys() == its.__dict__.keys()
        for name, value in part.__dict__.items():
            if isinstance(value, bool | int | float | str | tuple) or value is None:
                assert value == its.__dict__[name], name


@each(WITH_TWIN)
def test_the_numbers_are_those_of_torch(case: Case) -> None:
    theirs = to_torch(case.layer())
    twin = from_torch(theirs)
    inputs, named = case.drawn()
    torch.manual_seed(3)
    expected = case.torch_output(theirs(*case.torch_inputs(*inputs, **named)))
    torch.manual_seed(3)
    expect_equal(twin(*inputs, **named), expected)


@each(WITH_TWIN)
def test_in_a_program_a_twin_computes_the_same_or_is_refused(case: Case) -> None:
    program = Program(to_torch(case.layer()))
    if call_of(case) != "same":
        with pytest.raises(NoCounterpartError, match=r"layer .*is called in another way"):
            from_torch(program)
        with pytest.raises(NoCounterpartError, match=r"layer .*is called in another way"):
            to_torch(Program(case.layer()))
        return
    assert is_called_alike(case)
    twin = from_torch(program)
    inputs, _ = case.drawn()
    torch.manual_seed(3)
    expected = program(*inputs)
    torch.manual_seed(3)
    expect_equal(twin(*inputs), expected)
