"""Typed tensors in PyTorch code: each way works, or raises and says what to do."""

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_flatten_with_path, tree_map
from torch.utils.data import DataLoader

from burnlike import Autodiff, Bool, Cpu, Int, Tensor
from burnlike.errors import TensorError, TensorTypeError, TensorValueError
from burnlike.tensor import lift

TRACKED = Autodiff(Cpu())


def random(*shape: int, backend: Any = None) -> Tensor[Any, Any]:
    return Tensor(torch.rand(shape), backend or Cpu())


def test_wrapping_shares_the_torch_tensor() -> None:
    inner = torch.rand(2, 3)
    x = Tensor(inner)
    assert x.inner is inner
    assert x.backend == Cpu()
    assert Tensor(inner.clone().requires_grad_()).backend == TRACKED
    assert Tensor(torch.tensor([1])).spec.kind is Int
    assert Tensor(torch.tensor([True])).spec.kind is Bool


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (torch.tensor(1.0), "rank 0"),
        (torch.zeros([1] * 9), "rank 9"),
        (torch.zeros(2, dtype=torch.complex64), "complex64 has no kind"),
        ([1.0, 2.0], "use Tensor.from_data"),
    ],
)
def test_what_has_no_typed_form_is_refused(inner: Any, message: str) -> None:
    with pytest.raises(TensorTypeError, match=message):
        Tensor(inner)


def test_torch_functions_and_layers_take_and_give_typed_tensors() -> None:
    x = random(4, 3, backend=TRACKED)
    layer = torch.nn.Linear(3, 2)
    for result, expected in [
        (torch.relu(x), torch.relu(x.inner)),
        (F.linear(x, layer.weight), F.linear(x.inner, layer.weight)),
        (layer(x), layer(x.inner)),
        (torch.nn.Sequential(layer, torch.nn.GELU(), torch.nn.LayerNorm(2))(x).detach(), None),
        (torch.nn.BatchNorm1d(3)(x).detach(), None),
        (torch.cat([x, x]), torch.cat([x.inner, x.inner])),
        (torch.mean(x), x.inner.mean().reshape(1)),
    ]:
        assert isinstance(result, Tensor)
        assert result.backend == TRACKED
        if expected is not None:
            torch.testing.assert_close(result.inner, expected)
    assert torch.numel(x) == 12
    values, indices = torch.max(x, 1)
    assert values.spec.rank == 1
    assert indices.spec.kind is Int


def test_functions_that_mix_backends_are_refused() -> None:
    with pytest.raises(TensorTypeError, match="different backends"):
        torch.maximum(random(2), random(2, backend=TRACKED))


def test_a_result_without_a_typed_form_is_refused() -> None:
    with pytest.raises(TensorValueError, match=r"complex64.*call it on x\.inner"):
        torch.fft.rfft(random(4))


@pytest.mark.parametrize(
    "write",
    [
        torch.relu_,
        torch.sigmoid_,
        lambda x: F.relu(x, inplace=True),
        lambda x: F.dropout(x, 0.5, inplace=True),
        lambda x: torch.nn.ReLU(inplace=True)(x),
        lambda x: torch.add(x, x, out=torch.empty(3, 3)),
        lambda x: torch.add(x.inner, x.inner, out=x),
        lambda x: x.inner.add_(x),
        lambda x: x.inner.copy_(x),
        lambda x: x.inner.__setitem__(0, x),
        lambda x: x.add_(1.0),
        lambda x: x.zero_(),
        torch.nn.init.ones_,
        torch.nn.init.zeros_,
        torch.nn.init.eye_,
        torch.nn.init.normal_,
        torch.nn.init.uniform_,
        torch.nn.init.xavier_normal_,
        torch.nn.init.kaiming_uniform_,
        torch.nn.init.orthogonal_,
        torch.nn.init.trunc_normal_,
        lambda x: torch.nn.init.constant_(x, 1.0),
        lambda x: torch._foreach_add_([x], 1.0),
        lambda x: F.batch_norm(x, x.sum_dim(0).squeeze(), torch.ones(3), training=True),
    ],
)
def test_what_writes_into_a_tensor_raises_and_changes_nothing(write: Any) -> None:
    x = random(3, 3)
    before = x.inner.clone()
    with pytest.raises(TensorError):
        write(x)
    assert torch.equal(x.inner, before)


def test_an_augmented_assignment_makes_a_new_tensor() -> None:
    x = y = random(3)
    before = x.inner.clone()
    x += 1.0
    assert torch.equal(y.inner, before)
    assert torch.equal(x.inner, before + 1)


def test_unknown_names_say_where_to_find_torchs() -> None:
    x = random(3)
    with pytest.raises(AttributeError, match=r"torch's is x\.inner\.view"):
        x.view(3)  # pyright: ignore
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        x.foo  # noqa: B018  # pyright: ignore
    with pytest.raises(TensorValueError, match="select_dim"):
        x[0]
    with pytest.raises(TensorValueError, match="iter_dim"):
        list(x)
    assert len(x) == 3
    assert x.numel() == 3  # pyright: ignore


def test_clone_shares_and_deepcopy_copies() -> None:
    x = random(2, 2, backend=TRACKED).require_grad()
    assert x.clone().inner is x.inner
    assert copy.copy(x).inner is x.inner
    copied = copy.deepcopy({"a": x, "b": x})
    assert copied["a"] is copied["b"]
    assert copied["a"].inner.data_ptr() != x.inner.data_ptr()
    assert torch.equal(copied["a"].inner, x.inner)
    assert copied["a"].is_require_grad()
    assert copied["a"].spec is x.spec
    with pytest.raises(TensorValueError, match=r"detach\(\) it first"):
        copy.deepcopy(x * x)


@pytest.mark.parametrize("backend", [Cpu(float=torch.float64, int=torch.int32), TRACKED])
def test_pickle_and_torch_save(backend: Any) -> None:
    x = Tensor(torch.rand(2, 3), backend)
    assert pickle.loads(pickle.dumps(x)).spec is x.spec
    file = io.BytesIO()
    torch.save({"x": x, "mask": x > 0.5}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert torch.equal(loaded["x"].inner, x.inner)
    assert loaded["x"].spec is x.spec
    assert loaded["mask"].spec.kind is Bool


def test_numpy_reads_without_a_copy_and_without_writing() -> None:
    x = random(2, 3)
    array = np.asarray(x)
    assert array.__array_interface__["data"][0] == x.inner.data_ptr()
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1.0
    assert np.array(x, dtype=np.float64).dtype == np.float64
    assert x.numpy().shape == (2, 3)
    with pytest.raises(TensorTypeError, match="got ndarray"):
        np.ones((2, 3)) + x  # pyright: ignore


def test_dlpack_shares() -> None:
    x = random(2, 3)
    assert torch.from_dlpack(x).data_ptr() == x.inner.data_ptr()  # pyright: ignore
    assert np.from_dlpack(x).ctypes.data == x.inner.data_ptr()  # pyright: ignore


def test_dlpack_is_read_only_where_the_consumer_knows_of_it() -> None:
    x = random(2, 3)
    leaf = Tensor(torch.ones(3), Autodiff(Cpu())).require_grad()
    for tensor in (x, leaf, Tensor(torch.ones(3, dtype=torch.int64), Cpu()), Tensor(torch.ones(2).bool(), Cpu())):
        array = np.from_dlpack(tensor)  # pyright: ignore
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1
    own = np.array(np.from_dlpack(x))  # pyright: ignore
    own[...] = 0.0
    again = torch.from_dlpack(x, copy=True)  # pyright: ignore
    again.zero_()
    assert x.inner.any()
    assert "dltensor_versioned" not in repr(x.__dlpack__())  # before DLPack 1.0: nothing can be said there


def test_data_loader_collates_typed_tensors() -> None:
    data = [(Tensor(torch.full((3,), float(i))), i) for i in range(4)]
    batches = list(DataLoader(data, batch_size=2))  # pyright: ignore
    assert [batch[0].dims() for batch in batches] == [(2, 3), (2, 3)]
    assert batches[1][0].inner[0].tolist() == [2.0] * 3


def test_pytree_with_keys() -> None:
    x = random(2, 3)
    ((path, leaf),), _ = tree_flatten_with_path({"x": x})
    assert leaf is x.inner
    assert str(path[-1]) == ".inner"
    doubled = tree_map(lambda t: t.double(), x)
    assert doubled.dtype == torch.float64
    assert doubled.spec.dtype == torch.float64


def test_vmap_takes_a_dimension_away_and_gives_it_back() -> None:
    x = random(4, 3)
    result = torch.vmap(lambda row: (row * row).sum())(x)
    assert result.dims() == (4, 1)
    torch.testing.assert_close(result.inner[:, 0], (x.inner**2).sum(1))


def test_func_grad() -> None:
    grad = torch.func.grad(lambda t: (Tensor(t, TRACKED) * 3.0).sum().inner[0])(torch.ones(3))
    assert grad.tolist() == [3.0] * 3


def test_module_hooks_see_typed_tensors() -> None:
    seen: list[Any] = []
    layer = torch.nn.Linear(3, 2)
    layer.register_forward_pre_hook(lambda module, args: seen.append(type(args[0])))
    layer.register_forward_hook(lambda module, args, out: seen.append(type(out)))
    grads: list[Any] = []
    layer.weight.register_hook(lambda grad: grads.append(grad.shape))
    layer(random(4, 3, backend=TRACKED)).sum().backward()
    assert seen == [Tensor, Tensor]
    assert grads == [(2, 3)]


def test_lift_makes_a_function_of_torch_tensors_typed() -> None:
    norms = lift(lambda x, scale=1.0: (x * scale, {"norm": x.norm()}["norm"]))
    scaled, norm = norms(random(2, 3), scale=2.0)
    assert scaled.dims() == (2, 3)
    assert norm.dims() == (1,)
    assert isinstance(norms(torch.rand(2))[0], torch.Tensor)


def test_autocast_follows_torchs_promotion() -> None:
    x, w = random(3, 3), random(3, 3)
    half = Tensor(torch.rand(3, 3, dtype=torch.bfloat16))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = x.matmul(w)
        assert product.dtype == torch.bfloat16
        assert product.spec.dtype == torch.bfloat16
        assert (x + half).spec.dtype == torch.float32
        assert (half + x).spec.dtype == torch.float32
        assert (half + x).dtype == torch.float32
        assert (product + half).dtype == torch.bfloat16
    with pytest.raises(TensorTypeError, match="nothing is promoted"):
        x + half


@pytest.mark.parametrize(
    ("operation", "advice"),
    [
        (lambda x: x.__setitem__(0, 1.0), "slice_assign"),
        (lambda x: x // 2.0, r"\(x / y\)\.floor\(\)"),
        (lambda x: 2.0 // x, r"\(x / y\)\.floor\(\)"),
        (lambda x: divmod(x, x), "x % y"),
        (lambda x: x << 1, "bitwise_left_shift"),
        (lambda x: x >> 1, "bitwise_right_shift"),
        (lambda x: +x, "it would be x"),
        (round, r"x\.round\(\)"),
        (lambda x: x[0], r"select_dim\(0, 0\), which drops the dimension, or slice\(\[0\]\)"),
        (lambda x: x[x > 0.0], "mask_fill and mask_where"),
        (lambda x: x[:, 1], r"slice\(\[\.\.\.\]\), which takes the same"),
        (float, "a tensor of one element"),
        (int, "a tensor of one element"),
        (lambda x: x.item(), "a tensor of one element"),
        (lambda x: x.unsqueeze_dim(0).T, r"use transpose\(\)"),
        (lambda x: x.unsqueeze(0), r"unsqueeze_dim\(dim\)"),
        (lambda x: x.squeeze(0), r"squeeze_dim\(dim\)"),
        (lambda x: x.sum(dim=1), r"use sum_dim\(1\), which keeps the size 1, and squeeze_dim\(1\) to drop it"),
        (lambda x: x.sum(-1), r"use sum_dim\(-1\)"),
        (lambda x: x.mean(dim=(0, 1), keepdim=True), r"use mean_dims\(\[0, 1\]\)"),
        (lambda x: x.prod(1, True), r"use prod_dim\(1\)"),
        (lambda x: x.max(dim=1), r"use max_dim\(1\) \(with the indices: max_dim_with_indices\)"),
        (lambda x: x.min(1), r"use min_dim\(1\)"),
        (lambda x: x.max_abs(1), r"use max_abs_dim\(1\)"),
        (lambda x: x.all(dim=1), r"use all_dim\(1\)"),
        (lambda x: x.any(dim=(0, 1)), r"use any_dim\(dim\) for one after the other"),
        (lambda x: x.sum(keepdim=True), "takes no keepdim"),
        (lambda x: x.autodiff().require_grad().sum().backward(retain_graph=True), r"x\.inner\.backward"),
        (lambda x: x.autodiff().require_grad().backward(torch.ones(2, 2)), "multiply by the gradient"),
        (lambda x: x.argmax(1, True), r"takes no keepdim; squeeze_dim\(1\) drops"),
        (lambda x: x.argmin(dim=1, keepdim=True), r"takes no keepdim; squeeze_dim\(1\) drops"),
        (lambda x: x.int() & 1, "use bitwise_and"),
        (lambda x: ~x.int(), "use bitwise_not"),
        (torch.nn.Parameter, r"torch\.nn\.Parameter\(x\.inner\)"),
        (torch.nn.Buffer, r"torch\.nn\.Parameter\(x\.inner\)"),
        (lambda x: x.cast(torch.bfloat16).numpy(), r"cast\(torch\.float32\)"),
    ],
)
def test_what_a_tensor_does_not_do_names_what_does(operation: Any, advice: str) -> None:
    with pytest.raises(TensorError, match=advice):
        operation(random(2, 2))


@pytest.mark.filterwarnings("ignore")  # torch's remarks on sparse and nested tensors
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    ],
    ids=["coo", "csr", "nested", "jagged"],
)
def test_what_is_not_dense_is_refused(make: Any) -> None:
    inner = make()
    with pytest.raises(TensorTypeError, match=r"expected a dense tensor, got .*to_dense\(\)"):
        Tensor(inner)
    with pytest.raises(TensorTypeError, match="expected a dense tensor"):
        random(3, 3) * inner


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda x, n, tracked: x + tracked, r"without_autodiff\(\) goes to the other"),
        (lambda x, n, tracked: torch.add(x, tracked), r"without_autodiff\(\) goes to the other"),
        (lambda x, n, tracked: x.select(0, tracked.int().reshape((6,))), r"without_autodiff\(\) goes to the other"),
        (lambda x, n, tracked: x + Tensor(x.inner, Cpu(int=torch.int32)), r"use to_device\(backend\)"),
        (lambda x, n, tracked: n / 0, "an Int can't be divided by zero"),
        (lambda x, n, tracked: x + np.ones((2, 3)), r"got ndarray; Tensor\.from_data\(it, backend\)"),
        (lambda x, n, tracked: [1.0, 2.0, 3.0] * x, r"got list; Tensor\.from_data\(it, backend\)"),
        (lambda x, n, tracked: n + "a", "expected an Int tensor of rank 1 or a number, got str"),
        (lambda x, n, tracked: x.select(0, "a"), "expected an Int tensor, got str"),
        (lambda x, n, tracked: x.permute([0, 0]), r"expected each of the 2 dimensions once, got \[0, 0\]"),
        (lambda x, n, tracked: x.permute([0]), r"expected each of the 2 dimensions once, got \[0\]"),
    ],
)
def test_messages_say_what_to_do(operation: Any, message: str) -> None:
    x, n = random(2, 3), Tensor(torch.tensor([1, 2]))
    with pytest.raises(TensorError, match=message):
        operation(x, n, random(2, 3, backend=TRACKED))


def test_numbers_come_out_as_of_torchs_tensors() -> None:
    x, n, b = (Tensor(torch.tensor(values), Cpu()) for values in ([2.5], [[7]], [True]))
    assert [it.item() for it in (x, n, b)] == [2.5, 7, True]
    assert [type(it.item()) for it in (x, n, b)] == [float, int, bool]
    assert [float(it) for it in (x, n, b)] == [2.5, 7.0, 1.0]
    assert [int(it) for it in (x, n, b)] == [2, 7, 1]
    assert complex(x) == 2.5
    assert f"{float(x):.3f}" == "2.500"
    leaf = Tensor(torch.tensor([3.0]), Autodiff(Cpu())).require_grad()
    assert float(leaf * leaf) == (leaf * leaf).item() == 9.0


def test_t_of_a_matrix_is_its_transpose() -> None:
    x = random(2, 3)
    assert torch.equal(x.T.inner, x.inner.T)
    assert x.T.inner.data_ptr() == x.inner.data_ptr()
