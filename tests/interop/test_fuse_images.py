"""Parts of models that compute images in channels_last: what the stock model gives, in each way of use."""

import copy
import io
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from burnlike.errors import AutodiffError
from burnlike.interop import fuse, unfuse
from burnlike.interop.fused import functions, images
from burnlike.interop.fused.lazy_norm import LazyNorm
from burnlike.ops import half_products, native_status

from .fused_calls import FLOATS, TOLERANCE, leaf

SIZE = (3, 3, 9, 7)


@pytest.fixture(autouse=True)
def gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on machines where channels_last is faster, which is tried once in a process."""
    monkeypatch.setattr(images, "gains", lambda: True)


class Block(nn.Module):
    """A residual block as in ResNet, with another activation."""

    def __init__(self, activation: nn.Module | None = None, **options: Any) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16, **options)
        self.conv2, self.bn2 = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16, **options)
        self.downsample = nn.Sequential(nn.Conv2d(3, 16, 1), nn.BatchNorm2d(16, **options))
        self.act = activation or nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv2(self.dropout(self.act(self.bn1(self.conv1(x)))))
        out = self.bn2(out)
        out += self.downsample(x)
        return self.act(out)


class Twice(Block):
    """A normalization that is used twice, and whose activation writes in place."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.conv1(x))
        z = self.bn2(self.conv2(y))
        summed = F.relu(y) + y + z
        self.act(z)
        return summed * z + torch.add(y, 1.0)


class Doubled(Block):
    """Sums of a normalization with itself."""

    def forward(self, x: Tensor) -> Tensor:
        y, z = self.bn1(self.conv1(x)), self.bn1(self.conv1(x))
        z += z
        return self.act(y + y) - self.conv2(z)


class Written(Block):
    """A convolution's result that is written to before its normalization is used."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(x)
        normalized = self.bn1(y)
        y.add_(1.0)
        return self.conv2(F.relu(normalized))


class WrittenResidual(Block):
    """A sum of two normalizations of which one is written to before the sum is used."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.conv1(x))
        z = self.downsample(x)
        summed = y + z
        z.relu_()
        return self.conv2(summed) + z


class Viewed(nn.Module):
    """Code that asks for memory in order, between two parts."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.after, self.head = (
            Block(),
            nn.Sequential(nn.Conv2d(16, 16, 3), nn.Conv2d(16, 16, 3)),
            nn.Linear(16, 2),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.block(x)
        assert x.is_contiguous()
        x = self.after(x.view(x.shape[0], 16, 7, 9))
        return self.head(x.view(x.shape[0], 16, -1).mean(-1))


class Several(Block):
    """A part with several results, one of them a normalization."""

    def forward(self, x: Tensor, scale: float = 1.0) -> dict[str, Any]:
        y = self.bn1(self.conv1(x))
        return {"y": y, "all": [self.conv2(y) * scale, (y.mean((2, 3)),)]}


def results_of(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [it for part in (value.values() if isinstance(value, dict) else value) for it in results_of(part)]


def pair(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """A model and a fused copy, in training."""
    torch.manual_seed(0)
    with torch.no_grad():
        for param in model.parameters():
            param.add_(torch.randn_like(param) * 0.1)
    fused = copy.deepcopy(model)
    fuse(fused)
    return model.train(), fused.train()


def step(model: nn.Module, x: Tensor, call: Callable[..., Any] | None = None) -> list[Tensor]:
    """Results, gradients and buffers of a step."""
    torch.manual_seed(3)
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    model.zero_grad()
    results = results_of((call or model)(x))
    for it in results:
        assert type(it) is Tensor
    sum(it.square().sum() + it.sum() for it in results).backward()  # pyright: ignore[reportAttributeAccessIssue]
    grads = [it.grad for it in (x, *model.parameters()) if it.grad is not None]
    return [*(it.detach() for it in results), *grads, *model.buffers()]


def strides_of(x: Tensor) -> list[int]:
    """The strides that tell where a value is."""
    return [stride for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1]


def assert_same(one: list[Tensor], other: list[Tensor], scale: float = 1.0) -> None:
    largest = max(it.abs().max().item() for it in other if it.numel()) if any(it.numel() for it in other) else 1.0
    for a, b in zip(one, other, strict=True):
        assert strides_of(a) == strides_of(b)
        tolerance = scale * {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 0.05}.get(a.dtype, 0.0)
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * max(1.0, largest))


def normalizations() -> int:
    return native_status().calls["batch_norm"]


MODELS: dict[str, Callable[[], nn.Module]] = {
    "relu": Block,
    **{type(it).__name__: lambda it=it: Block(it) for it in (nn.SiLU(), nn.Hardswish(), nn.ReLU6(), nn.GELU())},
    "inplace silu": lambda: Block(nn.SiLU(inplace=True)),
    "cumulative": lambda: Block(momentum=None),
    "without statistics": lambda: Block(track_running_stats=False),
    "without weights": lambda: Block(affine=False),
    "twice": Twice,
    "doubled": Doubled,
    "viewed": Viewed,
    "several": Several,
    "transposed": lambda: nn.Sequential(Block(), nn.ConvTranspose2d(16, 3, 2, 2), Block(), nn.Flatten()),
    "large weights": lambda: nn.Sequential(
        Block(), nn.AvgPool2d(7), nn.Conv2d(16, 96, 3, padding=1), nn.Conv2d(96, 96, 1)
    ),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_the_stock_model(name: str, dtype: torch.dtype) -> None:
    stock, fused = pair(MODELS[name]().to(dtype))
    before = normalizations()
    for training in (True, False, True):
        stock.train(training), fused.train(training)
        x = torch.randn(SIZE, dtype=dtype)
        assert_same(step(fused, x), step(stock, x))
    assert (normalizations() > before) == (name != "without weights")
    for key, value in fused.state_dict().items():
        assert value.stride() == stock.state_dict()[key].stride()


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "autocast"])
def test_bfloat16_is_as_near_to_float32_as_the_stock_model(whole: bool) -> None:
    stock, fused = pair(Block(nn.Hardswish()))
    fused.dropout.p = stock.dropout.p = 0.0
    x = torch.randn(SIZE)
    exact = step(copy.deepcopy(stock), x)
    if whole:
        fused, stock, x = fused.bfloat16(), stock.bfloat16(), x.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=not whole):
        results, others = step(fused, x), step(stock, x)
    for real, one, other in zip(exact, results, others, strict=True):
        assert one.dtype == other.dtype
        real, one, other = real.double(), one.double(), other.double()
        assert (one - real).norm() <= 1.2 * (other - real).norm() + 4e-3 * real.norm()


def test_an_activation_and_a_residual_are_one_op_with_the_normalization() -> None:
    _, fused = pair(Block())
    seen: list[tuple[str, bool]] = []
    stock = torch.ops.burnlike.batch_norm.default

    with pytest.MonkeyPatch.context() as patch:
        module = __import__("burnlike.ops.batch_norm", fromlist=["_"])
        patch.setattr(module, "_batch_norm", lambda *it: (seen.append((it[7], it[5] is not None)), stock(*it))[1])
        fused(torch.randn(SIZE))
    assert seen == [("relu", False), ("none", False), ("relu", True)]


def _frozen(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval().requires_grad_(False)


def _reassigned(model: nn.Module) -> None:
    torch.manual_seed(5)
    model.conv1.weight = nn.Parameter(torch.randn(16, 3, 3, 3))
    model.bn1.weight.data = torch.rand(16)


class Strided(nn.Conv2d):
    """A layer that asks for the strides of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1.0 if x.is_contiguous() else 2.0)


def _replaced(model: nn.Module) -> None:
    torch.manual_seed(5)
    model.conv2 = Strided(16, 16, 3, padding=1)


def _loaded(model: nn.Module) -> None:
    torch.manual_seed(5)
    file = io.BytesIO()
    torch.save(Block().state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file, weights_only=True))


def _in_channels_last(model: nn.Module) -> None:
    model.to(memory_format=torch.channels_last)


CHANGES = {it.__name__: it for it in (_frozen, _reassigned, _replaced, _loaded, _in_channels_last)}


@pytest.mark.parametrize("name", CHANGES)
def test_a_model_that_changes_later(name: str) -> None:
    stock, fused = pair(Block())
    for model in (stock, fused):
        CHANGES[name](model)
    x = torch.randn(SIZE)
    assert_same(step(fused, x), step(stock, x))


@pytest.mark.parametrize("kind", ["forward", "pre", "backward"])
def test_hooks_see_what_the_stock_model_shows(kind: str) -> None:
    stock, fused = pair(Block(nn.ReLU()))
    shown: dict[nn.Module, list[Any]] = {stock: [], fused: []}
    for model, log in shown.items():
        for layer in (model.conv2, model.bn1):
            if kind == "forward":
                layer.register_forward_hook(lambda _, x, y, log=log: log.append((type(y), y.stride(), x[0].stride())))
            elif kind == "pre":
                layer.register_forward_pre_hook(lambda _, x, log=log: log.append((type(x[0]), x[0].stride())))
            else:
                layer.register_full_backward_hook(lambda _, x, y, log=log: log.append((x[0].stride(), y[0].stride())))
    x = torch.randn(SIZE)
    assert_same(step(fused, x), step(stock, x))
    assert shown[fused] == shown[stock] != []


def test_a_hook_of_the_whole_part_and_of_all_modules() -> None:
    stock, fused = pair(Block())
    shown: list[Any] = []
    fused.register_forward_hook(lambda _, x, y: shown.append((x[0].stride(), y.stride())))
    x, before = torch.randn(SIZE), normalizations()
    assert_same(step(fused, x), step(stock, x))
    assert shown == [(x.stride(), torch.empty(3, 16, 9, 7).stride())]
    assert normalizations() > before
    before = normalizations()
    with torch.nn.modules.module.register_module_forward_hook(lambda *_: None):
        step(fused, x)
    assert normalizations() == before


def test_copies_pickles_and_shared_blocks() -> None:
    block = Block()
    stock, fused = pair(nn.Sequential(block, nn.Conv2d(16, 3, 1), block))
    x = torch.randn(SIZE)
    file = io.BytesIO()
    torch.save(fused, file)
    file.seek(0)
    for twin in (copy.deepcopy(fused), torch.load(file, weights_only=False)):
        before = normalizations()
        assert_same(step(twin, x), step(copy.deepcopy(stock), x))
        assert normalizations() == before + 6


def test_fuse_again_and_unfuse() -> None:
    stock, fused = pair(Block())
    x, again = torch.randn(SIZE), fuse(fused)
    assert [(it.path, it.ops) for it in again.fused if "channels_last" in it.ops] == [("", ("channels_last",))]
    assert {it.path for it in again.fused if "batch_norm" in it.ops} == {"bn1", "bn2", "downsample.1"}
    assert_same(step(fused, x), step(stock, x))
    unfuse(fused)
    before = normalizations()
    assert_same(step(fused, x), step(stock, x), scale=1e-3)
    assert normalizations() == before


class WrittenByDropout(Block):
    """A dropout in place, whose input is read behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv1(x)
        return self.conv2(self.dropout(h)) + h


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_an_activation_in_place_writes_to_the_callers_tensor(mode: Callable[[], Any]) -> None:
    stock, fused = pair(nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)))
    x = torch.randn(SIZE)
    with mode():
        passed, other = x.clone(), x.clone()
        assert_same([fused(passed)], [stock(other)])
    assert torch.equal(passed, x.relu())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_dropout_in_place_writes_to_its_input(mode: Callable[[], Any]) -> None:
    stock, fused = pair(WrittenByDropout())
    x, results = torch.randn(SIZE), list[Tensor]()
    for model in (stock, fused):
        torch.manual_seed(1)
        with mode():
            results.append(model(x))
    assert_same([results[1]], [results[0]])


@pytest.mark.parametrize("model", [Written, WrittenResidual])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("training", [True, False])
def test_a_write_to_what_a_waiting_normalization_reads(model: type[Block], mode: Any, training: bool) -> None:
    stock, fused = pair(model())
    with mode():
        for _ in range(2):
            x = torch.randn(SIZE)
            assert_same([fused.train(training)(x)], [stock.train(training)(x)])


class WrittenAsResult(Block):
    """As `Written`, by a function that writes its result there."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(x)
        normalized = self.bn1(y)
        torch.add(y, 1.0, out=y)
        return self.conv2(F.relu(normalized)) + y


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_result_that_is_written_to_what_a_waiting_normalization_reads(mode: Any) -> None:
    stock, fused = pair(WrittenAsResult())
    x = torch.randn(SIZE)
    with mode():
        assert_same([fused.eval()(x)], [stock.eval()(x)])


class WrittenLater(Block):
    """As `Written`, by a setting that is another one in a later call."""

    writes = False

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(x)
        normalized = self.bn1(y)
        if self.writes:
            y.add_(1.0)
        return self.conv2(F.relu(normalized))


def test_a_write_that_the_first_call_did_not_make_is_an_error() -> None:
    stock, fused = pair(WrittenLater())
    x = torch.randn(SIZE)
    assert_same(step(fused, x), step(stock, x))
    fused.writes = stock.writes = True
    with pytest.raises(AutodiffError, match="call unfuse on this part"):
        fused(x)
    fused.load_state_dict(stock.state_dict())  # the statistics of that call
    assert_same([fused.eval()(x)], [stock.eval()(x)])  # the first call in evaluation


def test_writes_in_inference_mode_behind_a_call_outside_of_it() -> None:
    stock, fused = pair(nn.Sequential(WrittenLater(), nn.ReLU(inplace=True)).eval())
    before, behind = pair(nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)).eval())
    x = torch.randn(SIZE)
    for model in (fused, behind):
        _without_gradients(model, x.clone())
    fused[0].writes = stock[0].writes = True
    assert_same([_in_inference(fused, x)], [_in_inference(stock, x)])
    passed, other = x.clone(), x.clone()
    assert_same([_in_inference(behind, passed)], [_in_inference(before, other)])
    assert torch.equal(passed, other)


class Again(nn.Module):
    """A part that computes again in backward, by a setting of its own name."""

    def __init__(self) -> None:
        super().__init__()
        self.saves_memory, self.block = True, Block(nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.block, x, use_reentrant=False) if self.saves_memory else self.block(x)  # pyright: ignore[reportReturnType]


def test_a_part_that_computes_again_by_a_setting_of_any_name() -> None:
    stock, fused = pair(Again())
    x, gradients = torch.randn(SIZE), list[Tensor]()
    for model in (stock, fused):
        image = x.clone().requires_grad_()
        torch.manual_seed(0)
        gradients += torch.autograd.grad(model(image).pow(2).sum(), image)
    assert_same(gradients[1:], gradients[:1])


def test_a_batch_in_training_between_the_passes_of_one_in_evaluation() -> None:
    _, fused = pair(Block())

    def with_another(x: Tensor) -> Tensor:
        y = fused.eval()(x)
        fused.train()(x)
        return y

    x, n_buffers = torch.randn(SIZE), len(list(fused.buffers()))
    expected = step(fused.eval(), x)[:-n_buffers]
    assert_same(step(fused, x, with_another)[:-n_buffers], expected)


def test_one_value_for_each_channel_is_the_stock_error() -> None:
    _, fused = pair(nn.Sequential(nn.Conv2d(3, 16, 1), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 1)))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        fused(torch.randn(1, 3, 1, 1))


def _without_gradients(model: nn.Module, x: Tensor) -> Any:
    with torch.no_grad():
        return model(x)


def _in_inference(model: nn.Module, x: Tensor) -> Any:
    with torch.inference_mode():
        return model(x).clone()


def _compiled(model: nn.Module, x: Tensor) -> Any:
    torch.compiler.reset()
    return torch.compile(model, backend="aot_eager", fullgraph=True)(x)


def _scripted(model: nn.Module, x: Tensor) -> Any:
    return torch.jit.script(model.eval())(x)


def _exported(model: nn.Module, x: Tensor) -> Any:
    return torch.export.export(model.eval(), (x,)).module()(x)


def _by_functional_call(model: nn.Module, x: Tensor) -> Any:
    weights = {name: it.detach().double() for name, it in model.named_parameters()}
    return torch.func.functional_call(model.eval().double(), weights, (x.double(),)).float()


def _by_keyword(model: nn.Module, x: Tensor) -> Any:
    return model(x=x)


def _empty(model: nn.Module, x: Tensor) -> Any:
    return model.eval()(x[:0])


def _expanded(model: nn.Module, x: Tensor) -> Any:
    return model(x[:1].expand(3, 3, 9, 7))


def _all_in_channels_last(model: nn.Module, x: Tensor) -> Any:
    layout = torch.channels_last
    return model.to(memory_format=layout)(x.contiguous(memory_format=layout))


def _images_in_channels_last(model: nn.Module, x: Tensor) -> Any:
    return model(x.contiguous(memory_format=torch.channels_last))


CALLS = (
    _without_gradients,
    _in_inference,
    _compiled,
    _scripted,
    _exported,
    _by_functional_call,
    _by_keyword,
    _empty,
    _expanded,
)


@pytest.mark.parametrize("call", [*CALLS, _images_in_channels_last, _all_in_channels_last], ids=lambda it: it.__name__)
def test_other_ways_to_call(call: Callable[[nn.Module, Tensor], Any]) -> None:
    stock, fused = pair(Block())
    x = torch.randn(SIZE)
    results: list[Tensor] = []
    for model in (fused, stock):
        torch.manual_seed(3)
        results.append(call(model, x))
    assert_same([results[0]], [results[1]])
    assert_same(list(fused.buffers()), list(stock.buffers()))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_compute_again_in_the_same_way(reentrant: bool) -> None:
    stock, fused = pair(Block())
    x = torch.randn(SIZE)
    results = [
        step(model, x, lambda x, model=model: checkpoint(model, x, use_reentrant=reentrant)) for model in (fused, stock)
    ]
    assert_same(*results)


@pytest.fixture
def one_process() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


# Of a kernel of 1 x 1 some CPUs' gradient has other strides, of sizes of 1, for which torch says so once in a process.
@pytest.mark.filterwarnings("ignore:Grad strides do not match")
def test_ddp_trains_the_same(one_process: None) -> None:
    stock, fused = pair(Block())
    x = torch.randn(SIZE)
    before = normalizations()
    assert_same(step(fused, x, nn.parallel.DistributedDataParallel(fused)), step(stock, x))
    assert normalizations() == before + 3


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batch_norm_over_a_grid_of_arguments(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images._COMPUTING, "layout", torch.contiguous_format)

    def run(function: Callable[..., Tensor], arguments: dict[str, Any]) -> tuple[list[Tensor], type | None]:
        given = {key: it.detach().clone() if isinstance(it, Tensor) else it for key, it in arguments.items()}
        leaves = [given[key].requires_grad_() for key in ("input", "weight", "bias") if given[key] is not None]
        try:
            y = function(**given)
            y = y.recipe.read() if isinstance(y, LazyNorm) else y
            grads = torch.autograd.grad(y, leaves, leaf(*y.shape, dtype=y.dtype, seed=4).detach())
        except (RuntimeError, ValueError) as error:
            return [], type(error)
        running = [given[key] for key in ("running_mean", "running_var") if given[key] is not None]
        return [y.detach(), *grads, *running], None

    columns = [None, leaf(4, dtype=dtype, seed=1), leaf(4, seed=1), leaf(3, dtype=dtype, seed=1)]
    running = [None, torch.rand(4, dtype=dtype), torch.rand(4), torch.rand(4, dtype=torch.float64), torch.rand(3)]
    before = normalizations()
    for shape in ((*SIZE[:1], 4, 5, 2), (1, 4, 1, 1), (0, 4, 2, 2), (5, 4)):
        x = leaf(*shape, dtype=dtype)
        x = x.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else x
        for weight, bias, mean, variance, training, momentum in itertools.product(
            *(columns, columns[:3], running, running[:3], (True, False), (0.1, 0.0, 1.0))
        ):
            arguments = {"input": x, "weight": weight, "bias": bias, "running_mean": mean, "running_var": variance}
            arguments |= {"training": training, "momentum": momentum, "eps": 1e-3}
            actual, error = run(functions.batch_norm, arguments)
            expected, stock_error = run(F.batch_norm, arguments)
            assert error == stock_error, arguments
            assert [it.dtype for it in actual] == [it.dtype for it in expected]
            tolerance = TOLERANCE[dtype]
            for one, other in zip(actual, expected, strict=True):
                size = max(1.0, other.abs().max().item()) if other.numel() else 1.0
                torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * size, equal_nan=True)
    assert normalizations() > before + 20


@pytest.mark.parametrize("weights", [torch.contiguous_format, torch.channels_last])
def test_a_model_in_channels_last_stays_so_and_has_the_op(weights: torch.memory_format) -> None:
    stock, fused = pair(nn.Sequential(Block(), nn.AvgPool2d(7), nn.Conv2d(16, 96, 3, padding=1), nn.Conv2d(96, 16, 1)))
    for model in (stock, fused):
        model.to(memory_format=weights)
    x, before = torch.randn(SIZE).contiguous(memory_format=torch.channels_last), normalizations()
    assert_same(step(fused, x), step(stock, x))
    assert normalizations() == before + 3


def test_one_convolution_alone_and_a_normalization_outside_are_kept() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    report = fuse(model)
    # A convolution has a rule by itself on CPUs whose products of 16 bits are slow.
    assert [it.class_name for it in report.fused] == ["Conv2d"] * bool(half_products.SLOW)
    assert {it.class_name: it.reason for it in report.kept}["BatchNorm2d"] == "no part in channels_last is around it"


def test_a_machine_without_gain_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "gains", lambda: False)
    assert all("channels_last" not in it.ops for it in fuse(Block()).fused)


def _grouped(groups: int, channels: int = 16) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, channels, 3), nn.Conv2d(channels, channels, 3, groups=groups))


@pytest.mark.parametrize(
    ("model", "is_part"),
    [
        *((_grouped(1), True), (_grouped(16), True), (_grouped(16).half(), False), (_grouped(2), True)),
        *((_grouped(1).bfloat16(), True), (_grouped(6, 18), False)),
    ],
    ids=["plain", "each channel", "each, float16", "in groups", "bfloat16", "in groups of three"],
)
def test_parts_of_kinds_that_lose_in_channels_last_are_kept(model: nn.Module, is_part: bool) -> None:
    assert any("channels_last" in it.ops for it in fuse(model).fused) == is_part
