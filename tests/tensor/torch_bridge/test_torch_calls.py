"""torch's functions on typed tensors, beyond the usual: named results, packed sequences, Jacobians, hidden writes."""

import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorError, TensorTypeError
from burnlike.tensor import lift

TRACKED = Autodiff(Cpu())


def typed(*shape: int) -> Any:
    return Tensor(torch.rand(shape), Cpu())


def in_a_group(communicate: Any) -> None:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        communicate()
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "write",
    [
        lambda x, s: F.embedding(Tensor(torch.tensor([0, 1])), x, max_norm=0.1),
        lambda x, s: F.embedding(torch.tensor([0, 1]), x, None, 0.1),
        lambda x, s: F.embedding_bag(torch.tensor([[0, 1]]), x, max_norm=0.1),
        lambda x, s: torch.batch_norm(x, None, None, s, s, True, 0.1, 1e-5, False),
        lambda x, s: torch.batch_norm(x.inner, None, None, s, s, True, 0.1, 1e-5, False),
        lambda x, s: torch.instance_norm(x, None, None, s, s, True, 0.1, 1e-5, False),
        lambda x, s: torch.native_batch_norm(x, None, None, s, s, True, 0.1, 1e-5),
        lambda x, s: torch.batch_norm_update_stats(x, s, s, 0.1),
        lambda x, s: torch.ops.aten.native_batch_norm(x, None, None, s, s, True, 0.1, 1e-5),
        lambda x, s: torch.ops.aten._native_batch_norm_legit(x, None, None, s, s, True, 0.1, 1e-5),
        lambda x, s: torch.ops.aten.rrelu_with_noise(x.inner, x, training=True),
        lambda x, s: in_a_group(lambda: torch.distributed.all_reduce(x)),
        lambda x, s: torch.ops.aten.add_.Tensor(x, x),
        lambda x, s: torch.ops.aten.add.out(x.inner, x.inner, out=x),
    ],
)
def test_hidden_writes_are_refused(write: Any) -> None:
    x, statistics = Tensor(torch.rand(3, 3) + 5.0), typed(3)
    before = x.inner.clone(), statistics.inner.clone()
    with pytest.raises(TensorError, match=r"writes? into|written to"):
        write(x, statistics)
    assert torch.equal(x.inner, before[0])
    assert torch.equal(statistics.inner, before[1])


def test_broadcast_is_refused_by_torch_or_by_us() -> None:
    x = Tensor(torch.rand(3, 3))
    before = x.inner.clone()
    message = "written to|writes? into" if torch.__version__ >= (2, 13) else "of type torch.Tensor"
    with pytest.raises(TypeError, match=message):
        in_a_group(lambda: torch.distributed.broadcast(x, 0))  # pyright: ignore[reportArgumentType]
    assert torch.equal(x.inner, before)


def test_layers_that_write_only_to_their_own_tensors_work() -> None:
    table = torch.nn.Embedding(5, 4, max_norm=0.5)
    assert table(Tensor(torch.tensor([[0, 1]]))).dims() == (1, 2, 4)
    norm = torch.nn.BatchNorm1d(3)
    norm(typed(4, 3))
    assert norm.running_mean is not None
    assert norm.running_mean.abs().sum() > 0


def test_a_typed_source_says_to_hand_over_the_torch_tensor() -> None:
    target = torch.zeros(3, 3)
    with pytest.raises(TensorTypeError, match=r"give it x\.inner"):
        target[0] = typed(3)
    with pytest.raises(TensorTypeError, match=r"give it x\.inner"):
        target.copy_(typed(3, 3))
    assert target.sum() == 0


def test_named_results_keep_their_names() -> None:
    x = typed(3, 4)
    assert torch.equal(torch.topk(x, 2).indices.inner, torch.topk(x.inner, 2).indices)
    assert torch.equal(torch.max(x, 1).values.inner, x.inner.max(1).values)
    assert torch.linalg.slogdet(typed(2, 2)).logabsdet.dims() == (1,)


def test_packed_sequences_go_through_recurrent_layers() -> None:
    torch.manual_seed(0)
    sequences, lengths = torch.rand(3, 2, 4), torch.tensor([3, 2])
    layer = torch.nn.LSTM(4, 5)
    packed = torch.nn.utils.rnn.pack_padded_sequence(Tensor(sequences), lengths)  # pyright: ignore
    result, (hidden, _) = layer(packed)
    expected, (expected_hidden, _) = layer(torch.nn.utils.rnn.pack_padded_sequence(sequences, lengths))
    torch.testing.assert_close(result.data.inner, expected.data.detach())
    torch.testing.assert_close(hidden.inner, expected_hidden.detach())


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's, of jacfwd
def test_a_jacobian_of_a_typed_function_is_typed() -> None:
    x = Tensor(torch.tensor([1.0, 2.0, 3.0]), TRACKED)
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        result = jacobian(lambda t: t * t)(x)
        assert isinstance(result, Tensor)
        assert torch.equal(result.inner, torch.diag(torch.tensor([2.0, 4.0, 6.0])))


def test_vmap_over_a_vector_says_how() -> None:
    with pytest.raises(TensorTypeError, match=r"rank 0.*unsqueeze_dim\(1\)"):
        torch.vmap(lambda t: t * 2.0)(typed(3))
    assert torch.vmap(lambda t: t * 2.0)(typed(3).unsqueeze_dim(1)).dims() == (3, 1)


def test_torch_warns_that_backward_hooks_of_modules_do_not_see_typed_results() -> None:
    layer = torch.nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        layer(Tensor(torch.rand(4, 3), TRACKED))
    assert "For backward hooks to be called" in str(caught[0].message)


def test_lift_runs_layers_that_call_methods_of_torch_tensors() -> None:
    layer = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    x, mask = torch.rand(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool)
    typed_x, typed_mask = Tensor(x, TRACKED), Tensor(mask, TRACKED)
    result, weights = lift(layer)(typed_x, typed_x, typed_x, key_padding_mask=typed_mask)
    expected, _ = layer(x, x, x, key_padding_mask=mask)
    torch.testing.assert_close(result.inner, expected)
    assert weights.dims() == (2, 3, 3)
    with pytest.raises(TensorError, match=r"lift\(function\) runs"):
        torch.nn.Unflatten(1, (2, 2))(typed(3, 4))


def test_lift_lets_backward_hooks_of_layers_run() -> None:
    layer = torch.nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 2.0,))
    x = Tensor(torch.rand(4, 3), TRACKED).require_grad()
    grads = lift(layer)(x).sum().backward()
    torch.testing.assert_close(x.grad(grads).inner, 2.0 * layer.weight.detach().sum(0).expand(4, 3))
