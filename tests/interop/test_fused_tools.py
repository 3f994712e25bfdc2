"""Fused models under torch's compilers, transforms and exporters; transformers' kernels; the draws of dropout."""

import copy
import importlib
import importlib.util
import itertools
import json
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.distributed import HashStore, init_device_mesh  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module
from transformers.models.llama import modeling_llama

from burnlike.interop import fuse, kernel_mapping, write_kernels
from burnlike.interop.fused import functions
from burnlike.interop.fused.rotations import Rotation, rotating
from burnlike.interop.hub_kernels import LAYERS
from burnlike.nn import CausalAttentionConfig, DropoutConfig
from burnlike.ops import native_status
from burnlike.ops.bernoulli_noise import draws_as_torch

from .fused_calls import FLOATS, TOLERANCE, leaf


@dataclass(frozen=True)
class Usual:
    """A call that an op takes: of tensors, and what stands for the stock function."""

    op: str
    call: Callable[..., Any]
    inputs: Callable[[], tuple[Tensor, ...]]


def usual_calls() -> dict[str, Usual]:
    def table(*sizes: int) -> Tensor:
        return leaf(*sizes, seed=7).detach()

    rotary = rotating(modeling_llama.apply_rotary_pos_emb, Rotation())
    heads = (2, 4, 3, 8)
    bfloat16 = torch.bfloat16
    mask, targets, labels = torch.ones(1, 1, 3, 3).tril() > 0, torch.tensor([1, 2, -100]), torch.ones(2, 3).long()
    made = {
        "layer_norm": (lambda x, w, b: functions.layer_norm(x, (8,), w, b), lambda: (leaf(3, 8), leaf(8), leaf(8))),
        "layer_norm-mixed": (
            lambda x, w: functions.layer_norm(x, torch.Size([8]), w),
            lambda: (leaf(3, 8, dtype=bfloat16), leaf(8)),
        ),
        "rms_norm": (lambda x, w: functions.rms_norm(x, [8], w), lambda: (leaf(3, 8), nn.Parameter(torch.ones(8)))),
        "rms_norm-mixed": (lambda x, w: functions.rms_norm(x, (8,), w), lambda: (leaf(3, 8, dtype=bfloat16), leaf(8))),
        "cross_entropy": (functions.cross_entropy, lambda: (leaf(3, 8), targets)),
        "cross_entropy-causal": (lambda x, t: functions.causal_lm_loss(x, t, 8), lambda: (leaf(2, 3, 8), labels)),
        "cross_entropy-masked": (lambda x, t: functions.masked_lm_loss(x, t, 8), lambda: (leaf(2, 3, 8), labels)),
        "attention": (
            lambda *it: functions.attention(*it, is_causal=True),
            lambda: tuple(leaf(*heads, dtype=bfloat16) for _ in range(3)),
        ),
        "attention-grouped": (
            lambda *it: functions.attention(*it, enable_gqa=True),
            lambda: (leaf(*heads, dtype=bfloat16), *(leaf(2, 2, 3, 8, dtype=bfloat16) for _ in range(2)), mask),
        ),
        "rotary": (rotary, lambda: (leaf(*heads), leaf(2, 2, 3, 8), table(1, 3, 8), table(1, 3, 8))),
        "rotary-sequence-first": (
            lambda *it: rotary(*it, unsqueeze_dim=2),
            lambda: (leaf(2, 3, 4, 8), leaf(2, 3, 2, 8), table(2, 3, 8), table(2, 3, 8)),
        ),
    }
    return {name: Usual(name.partition("-")[0], *it) for name, it in made.items()}


USUAL = usual_calls()


@pytest.fixture(params=USUAL)
def usual(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Usual:
    monkeypatch.setattr(functions, "_HAS_AVX512", True)
    return USUAL[request.param]


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_what_an_op_takes_runs_natively(usual: Usual) -> None:
    """Else predicates that refuse all would pass the tests above."""
    before = native_status().calls[usual.op]
    usual.call(*usual.inputs())
    assert native_status().calls[usual.op] == before + 1


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_compiled_code_has_the_op(usual: Usual) -> None:
    torch.compiler.reset()
    before = native_status().calls[usual.op]
    actual = torch.compile(usual.call, fullgraph=True, backend="aot_eager")(*usual.inputs())
    assert native_status().calls[usual.op] == before + 1
    torch.testing.assert_close(actual, usual.call(*usual.inputs()))


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's, of its attention
def test_vmap_takes_each_item(usual: Usual) -> None:
    floats = [it for it in usual.inputs() if it.is_floating_point()]
    others = [it for it in usual.inputs() if not it.is_floating_point()]
    stacked = [torch.stack([it.detach(), it.detach() + 1]) for it in floats]
    mapped = torch.vmap(lambda *it: usual.call(*it, *others))(*stacked)
    expected = usual.call(*(it[1] for it in stacked), *others)
    for one, two in zip(_as_tuple(mapped), _as_tuple(expected), strict=True):
        torch.testing.assert_close(one[1], two, rtol=TOLERANCE[two.dtype], atol=TOLERANCE[two.dtype])


def _as_tuple(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


class Called(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: Tensor) -> Any:
        return self.call(*inputs)


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_programs_for_other_tools_have_torchs_functions(usual: Usual) -> None:
    inputs = tuple(it.detach() for it in usual.inputs())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated; dtypes are mixed
        program = torch.export.export(Called(usual.call), inputs)
        assert "burnlike" not in program.graph_module.code
        traced: Any = torch.jit.trace(usual.call, inputs, check_trace=False)
        assert "burnlike::" not in str(traced.inlined_graph)


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_subclasses_of_tensors_go_to_torchs_functions(usual: Usual) -> None:
    class Seen(Tensor):
        names: ClassVar[list[str]] = []

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.names.append(getattr(function, "__name__", ""))
            return super().__torch_function__(function, types, args, kwargs)

    for place, given in enumerate(usual.inputs()):
        if not given.is_floating_point():
            continue
        inputs = list(usual.inputs())
        inputs[place] = given.detach().as_subclass(Seen)
        Seen.names.clear()
        before = native_status().calls[usual.op]
        results = _as_tuple(usual.call(*inputs))
        assert native_status().calls[usual.op] == before
        assert Seen.names
        for one, two in zip(results, _as_tuple(usual.call(*usual.inputs())), strict=True):
            torch.testing.assert_close(
                one.as_subclass(Tensor), two, rtol=TOLERANCE[two.dtype], atol=TOLERANCE[two.dtype]
            )


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.filterwarnings("ignore")  # torch's, of these layouts
def test_other_layouts_go_to_torchs_functions(usual: Usual) -> None:
    layouts: list[Callable[[Tensor], Tensor]] = [
        Tensor.to_sparse,
        Tensor.to_mkldnn,
        lambda it: torch.nested.nested_tensor(list(it)),
    ]
    before = native_status().calls[usual.op]
    for place, convert in itertools.product(range(len(usual.inputs())), layouts):
        inputs = [it.detach() for it in usual.inputs()]
        with suppress(RuntimeError):  # mkldnn has floats alone
            inputs[place] = convert(inputs[place])
            with suppress(Exception):  # torch's
                usual.call(*inputs)
            assert native_status().calls[usual.op] == before


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_meta_tensors_have_the_shapes_of_results(usual: Usual) -> None:
    results, expected = usual.call(*(it.detach().to("meta") for it in usual.inputs())), usual.call(*usual.inputs())
    for one, two in zip(_as_tuple(results), _as_tuple(expected), strict=True):
        assert (one.device.type, one.shape, one.dtype) == ("meta", two.shape, two.dtype)


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_sequences_of_many_lengths_are_normalized_as_by_torch() -> None:
    x = torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(2, 8)], layout=torch.jagged)
    weight, bias = leaf(8), leaf(8)
    expected = F.layer_norm(x, (8,), weight, bias)
    torch.testing.assert_close(functions.layer_norm(x, (8,), weight, bias).values(), expected.values())


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_second_derivatives_are_those_of_torch() -> None:
    def second(norm: Callable[..., Tensor], loss: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        x, weight, targets = leaf(3, 8, dtype=torch.float64), leaf(8, dtype=torch.float64), torch.tensor([1, 7, -100])
        value = loss(norm(x, (8,), weight), targets, label_smoothing=0.1)
        (grad,) = torch.autograd.grad(value, x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), (x, weight))

    expected = second(F.rms_norm, F.cross_entropy)
    torch.testing.assert_close(second(functions.rms_norm, functions.cross_entropy), expected)


class Block(nn.Module):
    """Attention between norms, written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.rms = nn.LayerNorm(16), nn.Linear(16, 48), nn.RMSNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (it.unflatten(-1, (2, 8)).transpose(1, 2) for it in self.qkv(self.norm(x)).split(16, -1))
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.rms(y.transpose(1, 2).flatten(2))


@pytest.fixture
def _faster_products(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = importlib.import_module("burnlike.ops.linear")
    monkeypatch.setattr(linear, "_MACHINE_GAINS", True)
    monkeypatch.setattr(linear, "_FEWEST_PRODUCTS", 1)


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.slow
@pytest.mark.usefixtures("_faster_products")
@pytest.mark.filterwarnings("ignore")  # torch's, of its exporter
def test_a_fused_model_is_exported_to_onnx() -> None:
    model, x = Block().bfloat16().eval(), torch.randn(2, 20, 16).bfloat16()
    assert len(fuse(model).fused) == 4
    program = torch.onnx.export(nn.Sequential(model), (x,), dynamo=True, verbose=False)
    assert program is not None
    assert not {node.domain for node in program.model.graph} - {"", "pkg.onnxscript.torch_lib"}


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_sequence_parallel_norms_are_those_of_the_stock_model() -> None:
    x = torch.randn(2, 4, 16)
    torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        for norm in (nn.LayerNorm(16), nn.RMSNorm(16)):
            expected = norm(x)
            model = nn.Sequential(norm)
            assert fuse(model).fused
            parallelize_module(model, mesh, {"0": SequenceParallel(use_local_output=True)})
            torch.testing.assert_close(model(x), expected)
    finally:
        torch.distributed.destroy_process_group()


SIZES: Any = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.fixture
def layers(tmp_path: Path) -> Any:
    """The package's layers as `kernels` 0.17 loads them: the folder of a variant, by the id in its metadata."""
    variant = write_kernels(tmp_path) / "build" / "torch-universal"
    name = json.loads((variant / "metadata.json").read_text())["id"]
    spec: Any = importlib.util.spec_from_file_location(name, variant / "__init__.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.layers
    for it in [it for it in sys.modules if it.startswith(name)]:
        del sys.modules[it]


def results(model: Any) -> tuple[Tensor, dict[str, Tensor]]:
    ids = torch.randint(3, 40, (2, 5), generator=torch.Generator().manual_seed(0))
    loss = model(input_ids=ids, labels=ids).loss
    model.zero_grad()
    loss.backward()
    return loss.detach(), {name: it.grad.clone() for name, it in model.named_parameters() if it.grad is not None}


def test_layers_compute_the_same_in_both_passes_and_what_is_not_proved_stays(layers: Any) -> None:
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    loss, gradients = results(model)
    norms = [it for it in model.modules() if type(it).__name__ == "LlamaRMSNorm"]

    class Scaled(type(norms[0])):
        def forward(self, hidden_states: Tensor) -> Tensor:
            return super().forward(hidden_states) * 1.0

    norms[0].__class__ = Scaled
    for norm in norms:
        norm.forward = MethodType(layers.RMSNorm.forward, norm)  # as `kernels` does
    results(model)  # which proves
    calls = native_status().calls["rms_norm_backward"]
    for it in (model, copy.deepcopy(model)):
        found, others = results(it)
        torch.testing.assert_close(found, loss)
        for name, gradient in gradients.items():
            torch.testing.assert_close(others[name], gradient, rtol=1e-3, atol=1e-6, msg=name)
    assert native_status().calls["rms_norm_backward"] == calls + 2 * (len(norms) - 1)
    assert pickle.loads(pickle.dumps(vars(norms[1])["_burnlike_hub_kernel"]))


def test_layers_are_what_the_kernels_library_asks_of_them(layers: Any) -> None:
    for name in LAYERS:
        kernel = getattr(layers, name)
        own = {it for it in dir(kernel) if it not in dir(nn.Module)}
        assert kernel.__init__ is nn.Module.__init__
        assert own == {"has_backward", "can_torch_compile"}
        assert kernel.has_backward


def test_transformers_finds_the_package_by_use_kernels(tmp_path: Path) -> None:
    kernels: Any = pytest.importorskip("kernels")
    from transformers.utils import import_utils

    if not import_utils.is_kernels_available():
        pytest.skip("transformers takes another version of kernels")
    with kernels.use_kernel_mapping(kernel_mapping(write_kernels(tmp_path))):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
        loss = results(model)[0]
        model.set_use_kernels(True)
        calls = native_status().calls.get("rms_norm_backward", 0)
        torch.testing.assert_close(results(model)[0], loss)
        assert native_status().calls["rms_norm_backward"] > calls


def drawn(call: Callable[[], Any], seed: int = 5, odd: int = 1) -> tuple[Any, Tensor]:
    """What a call gives with this seed, after an odd number of draws, and the generator's state behind it."""
    torch.manual_seed(seed)
    torch.randint(0, 3, (odd,))
    return call(), torch.get_rng_state()


def count() -> int:
    return native_status().calls["bernoulli_noise_"]


@pytest.fixture(autouse=True)
def _only_threads_of_the_test_count(monkeypatch: pytest.MonkeyPatch) -> None:  # not those of a runner of tests
    frames = sys._current_frames
    before = frames().keys() - {threading.get_ident()}
    monkeypatch.setattr(sys, "_current_frames", lambda: {key: it for key, it in frames().items() if key not in before})


@contextmanager
def beside_a_thread(name: str) -> Iterator[None]:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name=name)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@pytest.mark.skipif(not draws_as_torch(), reason="torch draws by another library on this machine")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "dropout", [functions.dropout, lambda x, p: DropoutConfig(prob=p).init()(x)], ids=["fused", "layer"]
)
def test_dropout_is_torchs_bit_by_bit(dropout: Callable[..., Tensor], dtype: torch.dtype) -> None:
    for (p, odd), sizes in itertools.product(((0.1, 1), (0.5, 2), (1e-9, 0)), ((2, 3, 257), (625,), (40, 1, 64))):
        x = leaf(*sizes, dtype=dtype)
        x.data[..., 0] = torch.inf
        before = count()
        (one, state), (other, stock_state) = (drawn(partial(call, x, p), odd=odd) for call in (dropout, F.dropout))
        assert count() == before + 1
        assert torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0))
        assert torch.equal(state, stock_state)
        gradients = (torch.autograd.grad(it.sum(), x)[0] for it in (one, other))
        torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.skipif(not draws_as_torch(), reason="torch draws by another library on this machine")
@pytest.mark.parametrize(
    "call",
    [
        lambda of, x: of(x, 0.0),
        lambda of, x: of(x, 1.0),
        lambda of, x: of(x, 0.5, False),
        lambda of, x: of(x.clone(), 0.5, True, True),
        lambda of, x: of(x.transpose(0, 1), 0.5),
        lambda of, x: of(x[:1], 0.5),
        lambda of, x: of(x.to("meta"), 0.5),
        lambda of, x: of(x.long(), 0.5),
        lambda of, x: torch.compile(lambda y: of(y, 0.5), backend="eager")(x),
    ],
)
def test_what_the_op_does_not_draw_torch_does(call: Callable[..., Any]) -> None:
    x, before = torch.randn(30, 40), count()
    results: list[Any] = []
    for of in (functions.dropout, F.dropout):
        try:
            results.append(drawn(partial(call, of, x)))
        except Exception as error:
            results.append(str(error))
    assert count() == before
    if isinstance(results[0], str):
        assert results[0] == results[1]
    else:
        torch.testing.assert_close(*results, rtol=0, atol=0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        functions.dropout(x, 1.5)


@pytest.mark.skipif(not draws_as_torch(), reason="torch draws by another library on this machine")
@pytest.mark.parametrize(("name", "native"), [("mine", 0), ("QueueFeederThread", 1), ("burnlike-watch", 1)])
def test_torch_draws_beside_threads_that_may_draw(name: str, native: int) -> None:
    # What they draw or seed between the reading and the writing of the generator's state would be lost.
    x, before = torch.randn(40, 64), count()
    with beside_a_thread(name):
        (one, state), (other, stock_state) = (drawn(partial(of, x, 0.5)) for of in (functions.dropout, F.dropout))
    assert count() == before + native
    assert torch.equal(one, other)
    assert torch.equal(state, stock_state)


@pytest.mark.skipif(not draws_as_torch(), reason="torch draws by another library on this machine")
def test_a_fused_model_draws_what_the_stock_one_does() -> None:
    def made() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Sequential(nn.Dropout(0.0), nn.Linear(16, 8)))

    stock, fused, x = made(), made(), torch.randn(80, 8)
    assert ("1", ("dropout",)) in [(it.path, it.ops) for it in fuse(fused).fused]
    for training in (True, False):
        before = count()
        (one, state), (other, stock_state) = (drawn(partial(it.train(training), x)) for it in (fused, stock))
        torch.testing.assert_close(one, other)
        assert torch.equal(state, stock_state)
        assert count() - before == training


@pytest.mark.skipif(not draws_as_torch(), reason="torch draws by another library on this machine")
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_attention_with_dropout(dtype: torch.dtype, autocast: bool) -> None:
    heads = (2, 4, 20, 8)
    hidden = torch.rand(2, 1, 20, 20) > 0.4
    hidden[0, 0, 3] = False
    cases: list[dict[str, Any]] = [{}, {"is_causal": True}, {"attn_mask": hidden}, {"scale": 0.7}]
    cases += [{"attn_mask": torch.randn(20, 20).to(dtype)}, {"enable_gqa": True}]
    for case in cases:
        few = (2, 2, 20, 8) if "enable_gqa" in case else heads
        given = leaf(*heads, dtype=dtype), leaf(*few, dtype=dtype, seed=1), leaf(*few, dtype=dtype, seed=2)
        before, found = count(), []
        for call in (functions.attention, F.scaled_dot_product_attention):
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                result, state = drawn(partial(call, *given, dropout_p=0.2, **case))
            found.append((result, *torch.autograd.grad(result.float().sin().sum(), given), state))
        assert count() == before + 1
        near = TOLERANCE[torch.bfloat16 if autocast else dtype]
        for one, other in zip(*found, strict=True):
            assert one.dtype == other.dtype
            assert (one - other).double().norm() <= near * other.double().norm()


@pytest.mark.skipif(not draws_as_torch(), reason="torch draws by another library on this machine")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("soft_cap", [None, 5.0])
def test_own_attention_draws_what_torchs_does(dtype: torch.dtype, soft_cap: float | None) -> None:
    config = CausalAttentionConfig(d_model=32, n_heads=4, n_heads_kv=2, dropout=0.2, soft_cap=soft_cap)
    layer, x, pad = config.init().to(dtype), torch.randn(2, 20, 32, dtype=dtype), torch.zeros(2, 20, dtype=torch.bool)
    pad[1, 15:] = True
    for mask in (None, pad):
        before = count()
        result, state = drawn(partial(layer, x, mask))
        assert count() == before + 1
        with beside_a_thread("mine"):
            stock, stock_state = drawn(partial(layer, x, mask))
        assert count() == before + 1
        assert torch.equal(state, stock_state)
        assert (result - stock).double().norm() <= TOLERANCE[dtype] * stock.double().norm()
