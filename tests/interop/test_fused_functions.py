"""Functions of a fused model beside the stock ones: results, gradients, attention with a soft cap, experts."""

import copy
import importlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from transformers import Gemma2Config, Gemma2ForCausalLM
from transformers.loss import loss_utils
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.llama import modeling_llama

from burnlike.errors import AutodiffError
from burnlike.interop import fuse
from burnlike.interop.fused import experts, functions
from burnlike.interop.fused.replacements import LazyWeights, with_soft_cap
from burnlike.interop.fused.rotations import Rotation, rotating, rotation_of
from burnlike.ops import native_status

from .fused_calls import FLOATS, TOLERANCE, leaf

Outcome = tuple[list[Tensor], Exception | None]


def outcome(function: Callable[..., Any], arguments: dict[str, Any], autocast: bool) -> Outcome:
    """Results, and gradients of all floats that are given; or the error."""
    given = {
        name: it.detach().clone().requires_grad_(it.requires_grad) if isinstance(it, Tensor) else it
        for name, it in arguments.items()
    }
    leaves = [it for it in given.values() if isinstance(it, Tensor) and it.requires_grad]
    try:
        with warnings.catch_warnings(), torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext():
            warnings.simplefilter("ignore")
            results = function(**given)
        results = list(results) if isinstance(results, tuple) else [results]
        torch.manual_seed(5)
        seeds = [torch.randn(it.shape).to(it.dtype) for it in results]
        gradients = torch.autograd.grad(results, leaves, seeds, allow_unused=True) if leaves else ()
    except Exception as error:
        return [], error
    return [*results, *(it for it in gradients if it is not None)], None


def assert_same(stock: Callable[..., Any], fused: Callable[..., Any], autocast: bool = False, **arguments: Any) -> None:
    expected, stock_error = outcome(stock, arguments, autocast)
    actual, error = outcome(fused, arguments, autocast)
    shown = {name: (it.dtype, tuple(it.shape)) if isinstance(it, Tensor) else it for name, it in arguments.items()} | {
        "autocast": autocast
    }
    if stock_error is not None or error is not None:
        assert isinstance(error, type(stock_error)), f"{shown}\nstock: {stock_error!r}\nfused: {error!r}"
        return
    assert [(it.dtype, it.shape) for it in actual] == [(it.dtype, it.shape) for it in expected], shown
    dtypes = {torch.bfloat16} if autocast else {it.dtype for it in arguments.values() if isinstance(it, Tensor)}
    tolerance = max(TOLERANCE.get(it, 0.0) for it in dtypes)
    for one, two in zip(actual, expected, strict=True):
        torch.testing.assert_close(
            one, two, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda text: f"{shown}\n{text}"
        )


def grid(**choices: Any) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_norms(dtype: torch.dtype, autocast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_HAS_AVX512", True)
    shapes = ((2, 3, 4), (4,), (0, 4), (3, 4), (2, 1), ())
    weights = [None, *(leaf(size, dtype=it, seed=1) for size in (4, 1) for it in FLOATS)]
    biases = [None, leaf(4, dtype=dtype, seed=2), leaf(4, seed=2), leaf(1, dtype=dtype, seed=2)]
    for case in grid(shape=shapes, normalized_shape=([4], (3, 4), (1,), 4), weight=weights):
        x = leaf(*case.pop("shape"), dtype=dtype)
        for eps in (1e-5, 0.0, None):
            assert_same(F.rms_norm, functions.rms_norm, autocast, input=x, eps=eps, **case)
        for bias in biases:
            assert_same(F.layer_norm, functions.layer_norm, autocast, input=x, bias=bias, eps=1e-3, **case)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("has_avx512", [False, True])
def test_layer_norm_in_float32_is_torchs_without_avx512(
    dtype: torch.dtype, has_avx512: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "_HAS_AVX512", has_avx512)
    before = native_status().calls.get("layer_norm", 0)
    functions.layer_norm(leaf(3, 4, dtype=dtype), (4,), leaf(4, dtype=dtype))
    calls = native_status().calls.get("layer_norm", 0) - before
    assert calls == (has_avx512 or dtype != torch.float32)


@pytest.mark.parametrize(("rows", "trained", "calls"), [(2, False, 0), (2, True, 1), (2**13, False, 1)])
def test_few_values_are_torchs_where_no_gradient_is_recorded(rows: int, trained: bool, calls: int) -> None:
    x, weight = leaf(1, 1, rows, 8, dtype=torch.bfloat16), leaf(8, dtype=torch.bfloat16)
    before = native_status().calls
    with torch.set_grad_enabled(trained):
        norm = functions.layer_norm(x, (8,), weight)
        attended = functions.attention(x, x[..., :2, :], x[..., :2, :])
    assert [native_status().calls[it] - before.get(it, 0) for it in ("layer_norm", "attention")] == [calls, calls]
    torch.testing.assert_close(norm, F.layer_norm(x, (8,), weight), atol=3e-2, rtol=3e-2)
    expected = F.scaled_dot_product_attention(x, x[..., :2, :], x[..., :2, :])
    torch.testing.assert_close(attended, expected, atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gelu(dtype: torch.dtype, autocast: bool) -> None:
    many = leaf(2, 32, 256, dtype=dtype)
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0, 1e4, -1e4]).to(dtype).repeat(2**12, 1)
    for case in grid(
        input=(many, many.detach().mT, leaf(3, 5, dtype=dtype), leaf(2**14, dtype=dtype), leaf(0, 4), special),
        approximate=("none", "tanh", "other"),
    ):
        if case["approximate"] == "tanh" or case["input"] is not special:  # of the exact one they depend on the CPU
            assert_same(F.gelu, functions.gelu, autocast, **case)


def test_gelu_by_tanh_is_native_for_many_values() -> None:
    def calls(function: Callable[..., Any], x: Tensor, **options: Any) -> int:
        before = native_status().calls.get("bias_gelu", 0)
        function(x, **options)
        return native_status().calls.get("bias_gelu", 0) - before

    x = torch.randn(64, 256)
    for images in (x, x.flatten(), x.view(-1, 4), x.view(4, 4, 32, 32)):  # long rows, whatever the last size is
        assert calls(functions.gelu, images, approximate="tanh") == 1
    assert calls(functions.gelu, torch.randn(129, 129), approximate="tanh") == 0
    assert calls(functions.gelu, x) == calls(functions.gelu, x[:4], approximate="tanh") == 0
    assert calls(functions.gelu, x.mT, approximate="tanh") == 0  # the result has these strides
    assert calls(torch.func.vmap(lambda row: functions.gelu(row, approximate="tanh")), x.expand(3, 64, 256)) == 0


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64], ids=str)
def test_cross_entropy(dtype: torch.dtype) -> None:
    logits = [leaf(*shape, dtype=dtype) if dtype.is_floating_point else torch.ones(shape, dtype=dtype)
              for shape in ((3, 5), (0, 5), (3, 5, 2), (5,), (2, 0), (3, 1))]  # fmt: skip
    targets = [
        torch.tensor([0, 4, -100]),
        torch.tensor([0, 9, 1]),
        torch.tensor([0, 0, 0]),
        torch.tensor([-100] * 3),
        torch.tensor([0, 1]),
        torch.tensor([], dtype=torch.int64),
        torch.tensor(2),
        torch.ones(3, 2, dtype=torch.int64),
        torch.tensor([0, 1, 2], dtype=torch.int32),
        torch.tensor([0, 1, 2], dtype=torch.uint8),
        torch.full((3, 5), 0.2).to(dtype),
    ]
    for case in grid(
        input=logits,
        target=targets,
        reduction=("mean", "sum", "none", "other"),
        label_smoothing=(0.0, 0.3, 1.0, 1.5),
        ignore_index=(-100, 1),
    ):
        assert_same(F.cross_entropy, functions.cross_entropy, **case)
    weight = torch.arange(1.0, 6.0).to(dtype)
    for options in ({"weight": weight}, {"reduce": False}, {"size_average": False}):
        assert_same(F.cross_entropy, functions.cross_entropy, input=logits[0], target=targets[0], **options)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_attention(dtype: torch.dtype, autocast: bool) -> None:
    query = leaf(2, 4, 5, 8, dtype=dtype)
    other = torch.float32 if dtype != torch.float32 else torch.float64
    keys = [leaf(*shape, dtype=dtype, seed=1) for shape in ((2, 4, 5, 8), (2, 4, 7, 8), (2, 2, 5, 8), (1, 4, 5, 8))]
    keys += [leaf(2, 3, 5, 8, dtype=dtype), leaf(4, 5, 8, dtype=dtype), leaf(2, 4, 5, 8, dtype=other)]
    values = [leaf(*shape, dtype=dtype, seed=2) for shape in ((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 5, 6), (2, 2, 5, 8))]
    values += [leaf(1, 4, 5, 8, dtype=dtype, seed=2)]
    masks: list[Any] = [None, torch.rand(5, 5) < 0.7, leaf(2, 1, 5, 5, dtype=dtype).detach(), leaf(5, 5, dtype=dtype)]
    masks += [
        torch.zeros(5, 5, dtype=other),
        torch.zeros(3, 5),
        torch.zeros(5, dtype=dtype),
        torch.zeros(2, 1, 1, 5) > 0,
    ]
    for case in grid(key=keys, value=values, attn_mask=masks, is_causal=(False, True)):
        if case["key"].shape[-2] != case["value"].shape[-2]:
            continue  # torch 2.13 reads and writes out of bounds
        assert_same(F.scaled_dot_product_attention, functions.attention, autocast, query=query, **case)
    for case in grid(
        key=keys[:3:2], value=values[:1] + values[3:4], scale=(None, 0.5, 0.0, -1.0), enable_gqa=(False, True)
    ):
        assert_same(F.scaled_dot_product_attention, functions.attention, autocast, query=query, **case)
    for odd in (query[0].detach(), query[:, :, :0].detach(), query[..., ::2].detach(), leaf(2, 4, 9, 8, dtype=dtype)):
        for is_causal in (False, True):
            arguments = {"query": odd, "key": keys[0], "value": values[0], "is_causal": is_causal}
            assert_same(F.scaled_dot_product_attention, functions.attention, autocast, **arguments)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rotary(dtype: torch.dtype, autocast: bool) -> None:
    stock = modeling_llama.apply_rotary_pos_emb
    fused = rotating(stock, Rotation())
    others = torch.float32 if dtype != torch.float32 else torch.bfloat16
    queries = [
        leaf(*sizes, dtype=dtype) for sizes in ((2, 3, 3, 8), (2, 4, 3, 8), (2, 3, 5, 8), (3, 3, 8), (2, 3, 3, 7))
    ]
    keys = [leaf(*sizes, dtype=it, seed=1) for sizes, it in (((2, 3, 3, 8), dtype), ((2, 2, 3, 8), dtype),
            ((2, 3, 2, 8), dtype), ((1, 3, 3, 8), dtype), ((2, 3, 3, 8), others))]  # fmt: skip
    shapes = ((2, 3, 8), (1, 3, 8), (3, 8), (2, 3, 4), (2, 3, 1), (1, 1, 8), (2, 3, 7), (2, 5, 8))
    tables = [leaf(*sizes, dtype=it, seed=seed).detach() for sizes in shapes for it, seed in ((dtype, 3), (others, 3))]
    for case in grid(q=queries, k=keys, cos=tables[:2], unsqueeze_dim=(0, 1, 2)):
        assert_same(stock, fused, autocast, sin=case["cos"].cos(), **case)
    if autocast:
        return
    for case in grid(q=queries[:1], k=keys[:2], cos=tables, unsqueeze_dim=(0, 1, 2, -1, 9)):
        for sin in (case["cos"].cos(), case["cos"][..., :1], case["cos"].double().sin()):
            assert_same(stock, fused, sin=sin, **case)
    grown = leaf(2, 3, 8, dtype=dtype)  # a table with a gradient
    assert_same(stock, fused, q=queries[0], k=keys[0], cos=grown, sin=grown.detach())


ROTATING = {
    "llama": Rotation(),
    "gpt_neox": Rotation(partial=True),
    "phi3": Rotation(partial=True),
    "olmo2": Rotation(back=True),
    "modernbert": Rotation(back=True),
    "glm4": Rotation(neighbours=True, repeated=True, partial=True),
    "ernie4_5": Rotation(neighbours=True, repeated=True, back=True),
    "helium": Rotation(neighbours=True, repeated=True),
    "cohere": Rotation(neighbours=True, back=True),
    "glm_ocr": Rotation(neighbours=True, partial=True),
    "blt": Rotation(neighbours=True),
    "gpt_oss": Rotation(half=True),
    "nanochat": None,  # turns the other way
    "codegen": None,  # one tensor, sines first
}


@pytest.mark.parametrize(("family", "rotation"), ROTATING.items(), ids=list(ROTATING))
def test_rotary_of_families(family: str, rotation: Rotation | None) -> None:
    """By tables that the op takes, and others, among them such as change later."""
    stock = importlib.import_module(f"transformers.models.{family}.modeling_{family}").apply_rotary_pos_emb
    assert rotation_of(stock) == rotation
    if rotation is None:
        return
    fused = rotating(stock, rotation)
    before = native_status().calls["rotary"]
    for dtype, width, dim in itertools.product((torch.float32, torch.bfloat16), (8, 4, 6, 1), (1, 2)):
        table = leaf(2, 3, width).detach()
        pairs = (
            (table[..., ::2].repeat_interleave(2, -1), table[..., : width // 2].repeat(1, 1, 2)) if width > 1 else ()
        )
        for cos, to in itertools.product((table, *pairs), (dtype, torch.float32)):
            sizes = ((2, 4, 3, 8), (2, 2, 3, 8)) if dim == 1 else ((2, 3, 4, 8), (2, 3, 2, 8))
            given = {"q": leaf(*sizes[0], dtype=dtype), "k": leaf(*sizes[1], dtype=dtype), "cos": cos.to(to)}
            assert_same(stock, fused, sin=cos.cos().to(to), unsqueeze_dim=dim, **given)
    assert native_status().calls["rotary"] >= before + 16  # forward and backward
    q, k, cos = leaf(1, 1, 3, 8), leaf(1, 1, 3, 8), torch.ones(1, 3, 4 if rotation.half else 8)
    fused(q, k, cos, cos)
    cos[..., 1] = 2.0  # the same tensor, whose pairs are no longer equal
    torch.testing.assert_close(fused(q, k, cos, cos), stock(q, k, cos, cos))


@pytest.mark.parametrize("name", functions.LOSSES)
def test_losses_of_transformers(name: str) -> None:
    labels = [torch.tensor([[0, 3, -100], [1, 2, 4]]), torch.full((2, 3), -100), torch.zeros(2, 2, dtype=torch.int64)]
    labels += [None, torch.zeros(2, 3, dtype=torch.int32)]
    for case in grid(
        logits=[*(leaf(2, 3, 5, dtype=it) for it in FLOATS), leaf(6, 5)],
        labels=labels,
        vocab_size=(5, 3),
        num_items_in_batch=(None, 4, torch.tensor(3)),
        ignore_index=(-100, 0),
        **({"shift_labels": labels[:1] + labels[3:]} if name == "ForCausalLMLoss" else {}),
    ):
        assert_same(getattr(loss_utils, name), functions.LOSSES[name], **case)


PACKED = torch.tensor([6, 3, 2])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_fused_recurrent_layer_trains_within_autocast_on_every_cpu(layer: Any, dtype: torch.dtype) -> None:
    """`torch.lstm` fails where oneDNN has no LSTM in 16 bits."""
    model = layer(3, 4, num_layers=2, bidirectional=True).double()
    x = torch.randn(6, 3, 3, dtype=torch.float64)
    output, state = model(x)
    packed, _ = model(pack_padded_sequence(x, PACKED))
    fuse(model.float())
    state = tuple(it.float() for it in state) if isinstance(state, tuple) else state.float()
    with torch.autocast("cpu", dtype):
        found, _ = model(x.float())
        found_packed, _ = model(pack_padded_sequence(x.float(), PACKED))
        model(x.float(), hx=state)[0].float().sum().backward()
    assert found.dtype == (torch.float32 if layer is nn.GRU else dtype)
    near = {"rtol": 0, "atol": 8 * torch.finfo(dtype).eps, "check_dtype": False}
    torch.testing.assert_close(found, output, **near)
    torch.testing.assert_close(found_packed.data, packed.data, **near)
    assert all(param.grad is not None and param.grad.isfinite().all() for param in model.parameters())


pytest.importorskip("transformers")
CONFIG: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "attn_logit_softcapping": 2.0,
    "pad_token_id": 0,
    "use_cache": False,
}


@pytest.fixture(scope="module")
def models() -> tuple[nn.Module, nn.Module]:
    """The stock model and the fused one, in bfloat16, with weights that make large scores."""
    torch.manual_seed(0)
    stock: Any = Gemma2ForCausalLM(Gemma2Config(**CONFIG)).bfloat16()
    with torch.no_grad():
        for it in stock.parameters():
            it.mul_(8.0)
    fused = copy.deepcopy(stock)
    fuse(fused)
    return stock, fused


def inputs(model: Any) -> dict[str, Any]:
    """Of one layer's attention."""
    torch.manual_seed(1)
    hidden = torch.randn(2, 7, 32).bfloat16().requires_grad_()
    return {
        "hidden_states": hidden,
        "position_embeddings": model.model.rotary_emb(hidden, torch.arange(7)[None]),
        "attention_mask": torch.zeros(2, 1, 7, 7).bfloat16().masked_fill(torch.ones(7, 7).triu(1).bool(), -1e30),
    }


def assert_near(ours: Tensor, theirs: Tensor) -> None:
    """Equal but for the rounding of queries and keys that are turned by the op."""
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert (ours.float() - theirs.float()).nan_to_num().norm() <= 0.02 * theirs.float().nan_to_num().norm()


@pytest.mark.skipif(native_status().isa != "avx512_bf16", reason="the op has a soft cap on CPUs that multiply bfloat16")
@pytest.mark.parametrize("padding", [0, 3], ids=["whole", "padded"])
def test_a_step_has_the_gradients_of_the_stock_model(models: tuple[Any, Any], padding: int) -> None:
    exact = copy.deepcopy(models[0]).float()
    ids = torch.randint(1, 50, (2, 40), generator=torch.Generator().manual_seed(2))
    mask = (torch.arange(40) >= padding).long().expand(2, -1)
    before = native_status().calls["attention_backward"]
    found: list[Tensor] = []
    for model in (*models, exact):
        loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss
        found.append(torch.cat([it.flatten().double() for it in torch.autograd.grad(loss, [*model.parameters()])]))
    assert native_status().calls["attention_backward"] == before + (0 if padding else 2)  # padding sees nothing
    stock, fused, true = found
    assert (fused - true).norm() <= 1.2 * (stock - true).norm()


@pytest.mark.skipif(native_status().isa != "avx512_bf16", reason="the op has a soft cap on CPUs that multiply bfloat16")
def test_weights_are_those_of_the_stock_code_when_they_are_read(models: tuple[Any, Any]) -> None:
    stock, fused = (model.model.layers[0].self_attn(**inputs(model)) for model in models)
    assert isinstance(fused[1], LazyWeights)
    assert fused[1].requires_grad
    for ours, theirs in zip(fused, stock, strict=True):
        assert_near(ours, theirs)
    given = [inputs(models[0]) for _ in models]
    for model, arguments in zip(models, given, strict=True):
        model.model.layers[0].self_attn(**arguments)[1].float().square().sum().backward()
    stock_grad, fused_grad = (it["hidden_states"].grad for it in given)
    assert_near(fused_grad, stock_grad)


@pytest.mark.skipif(native_status().isa != "avx512_bf16", reason="the op has a soft cap on CPUs that multiply bfloat16")
def test_weights_whose_mask_was_written_to_are_refused(models: tuple[Any, Any]) -> None:
    given = inputs(models[1])
    weights = models[1].model.layers[0].self_attn(**given)[1]
    given["attention_mask"].zero_()
    with pytest.raises(AutodiffError, match="written to since"):
        weights.sum()


@pytest.mark.skipif(native_status().isa != "avx512_bf16", reason="the op has a soft cap on CPUs that multiply bfloat16")
def test_models_that_are_asked_for_weights_return_the_stock_ones(models: tuple[Any, Any]) -> None:
    ids = torch.arange(1, 9).expand(2, -1)
    stock, fused = (copy.deepcopy(model)(input_ids=ids, output_attentions=True).attentions for model in models)
    assert [type(it) for it in fused] == [Tensor, Tensor]
    assert_near(fused[0], stock[0])


@pytest.mark.skipif(native_status().isa != "avx512_bf16", reason="the op has a soft cap on CPUs that multiply bfloat16")
@pytest.mark.parametrize("change", ["hidden row", "float32", "no cap", "evaluation"])
def test_all_else_is_the_stock_code(models: tuple[Any, Any], change: str) -> None:
    results: list[Any] = []
    before = native_status().calls["attention"]
    for model in models:
        attention = copy.deepcopy(model.model.layers[0].self_attn)
        given = inputs(model)
        if change == "hidden row":
            given["attention_mask"][:, :, 2] = -torch.inf
        elif change == "float32":
            attention.float()
            given = {
                name: tuple(part.float() for part in it) if isinstance(it, tuple) else it.float()
                for name, it in given.items()
            }
        elif change == "no cap":
            attention.attn_logit_softcapping = None
        with torch.set_grad_enabled(change != "evaluation"):
            results.append(attention(**given))
    for stock, fused in zip(*results, strict=True):
        assert_near(fused, stock)
    assert native_status().calls["attention"] == before


@pytest.mark.skipif(native_status().isa != "avx512_bf16", reason="the op has a soft cap on CPUs that multiply bfloat16")
def test_steps_that_compute_anything_else_are_left() -> None:
    def eager_attention_forward(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        softcap: float | None = None,
        **kwargs: Any,
    ) -> Any:
        softcap = None if softcap is None else 1.01 * softcap
        return modeling_gemma2.eager_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, softcap, **kwargs
        )

    assert with_soft_cap(modeling_gemma2.eager_attention_forward) is not None
    assert with_soft_cap(eager_attention_forward) is None


SIZES: Any = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 24,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MODELS: dict[str, Any] = {
    "Mixtral": {"num_local_experts": 4},
    "Qwen3Moe": {"moe_intermediate_size": 8, "num_experts": 6, "num_experts_per_tok": 3, "decoder_sparse_step": 1},
    "GptOss": {"num_local_experts": 4},  # biases, transposed weights, a gate with limits
}


def model_of(name: str) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **MODELS[name]})
    return getattr(transformers, f"{name}ForCausalLM")(config)


def results(model: Any) -> tuple[Tensor, dict[str, Tensor]]:
    ids = torch.randint(3, 40, (2, 9), generator=torch.Generator().manual_seed(0))
    loss = model(input_ids=ids, labels=ids).loss
    model.zero_grad()
    loss.backward()
    return loss.detach(), {name: it.grad.clone() for name, it in model.named_parameters() if it.grad is not None}


def experts_of(model: nn.Module) -> Any:
    return next(it for it in model.modules() if type(it).__name__.endswith("Experts"))


@pytest.mark.parametrize("name", MODELS)
def test_experts_give_the_same_values_and_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(name)
    stock_loss, stock = results(model)
    assert ("experts",) in [it.ops for it in fuse(model).fused]
    calls = []
    own = experts.computed
    monkeypatch.setattr(experts, "computed", lambda *arguments: calls.append(1) or own(*arguments))
    loss, gradients = results(model)
    assert calls == [1]
    torch.testing.assert_close(loss, stock_loss)
    for key, gradient in stock.items():
        torch.testing.assert_close(gradients[key], gradient, rtol=1e-3, atol=1e-6, msg=key)
    model.set_experts_implementation("eager")  # another function than was proved
    torch.testing.assert_close(results(model)[0], stock_loss)
    assert calls == [1]
    model.set_experts_implementation("grouped_mm")
    experts_of(model)._apply_gate = lambda x: x.chunk(2, -1)[0] * 0
    without_gate, fused = copy.deepcopy(experts_of(model)), experts_of(model)
    given = torch.randn(4, 16), torch.tensor([[0, 1]] * 4), torch.ones(4, 2)
    torch.testing.assert_close(fused(*given), type(fused).forward(without_gate, *given))


def test_experts_that_no_row_chose_have_gradients_of_zero_and_all_are_differentiable_twice() -> None:
    x, weight = torch.randn(5, 3, dtype=torch.float64), torch.randn(3, 3, 2, dtype=torch.float64)
    x.requires_grad_()
    weight.requires_grad_()
    order = experts._Order(torch.tensor([3, 0, 4, 1, 2]), 1)

    def function(x: Tensor, weight: Tensor) -> Any:
        sorted_rows: Any = experts._Chosen.apply(x, order)
        return experts._Summed.apply(experts._Grouped.apply(sorted_rows, weight, [3, 0, 2]), order)

    expected = torch.stack([row @ weight[which] for row, which in zip(x, (0, 2, 2, 0, 0), strict=True)])
    torch.testing.assert_close(function(x, weight), expected)
    (grad,) = torch.autograd.grad(function(x, weight).sum(), weight)
    assert grad[1].abs().max() == 0
    assert torch.autograd.gradgradcheck(function, (x, weight))
    assert torch.autograd.gradcheck(function, (x, weight.detach().mT.contiguous().mT.requires_grad_()))
