"""Cases of metadata, of reading elements back, and of tracking."""

import asyncio
from typing import Any

import torch

from burnlike import Tensor
from burnlike.errors import TensorError
from burnlike.tensor import PrintOptions, QuantScheme, TensorData, Transaction, set_print_options

from .api_cases import Pairs, bools, case, double, floats, ints, tracking

ROWS = [[1.0, -2.0], [0.5, 4.0]]


@case("rank", "dtype", "dims", "shape", "device")
def metadata(backend: Any) -> Pairs:
    x, n = floats([ROWS, ROWS, ROWS], backend), ints([1], backend)
    return [
        (x.rank(), 3),
        (n.rank(), 1),
        (x.dims(), (3, 2, 2)),
        (x.shape, torch.Size([3, 2, 2])),
        (x.dtype, torch.float32),
        (n.dtype, torch.int64),
        (x.device, torch.device("cpu")),
    ]


@case("to_device")
def to_device(backend: Any) -> Pairs:
    x = floats(ROWS, backend)
    moved = x.to_device(backend)
    return [(moved, ROWS), (moved.backend, backend)]


@case("assert_shape")
def assert_shape(backend: Any) -> Pairs:
    x = floats([ROWS, ROWS, ROWS], backend)
    try:
        x.assert_shape([3, ..., 5])
    except TensorError as error:
        message = str(error)
    else:
        message = "no error"
    return [
        (x.assert_shape([3, ..., 2]), None),
        (x.assert_shape([None, 2, None]), None),
        ("axis 2 expected 5, got 2 (dims [3, 2, 2])" in message, True),
    ]


@case("into_primitive", "from_primitive", "inplace", "extract", "can_mut")
def handles(backend: Any) -> Pairs:
    x = floats(ROWS, backend)
    return [
        (x.into_primitive() is x.inner, True),
        (Tensor.from_primitive(x.inner, backend), ROWS),
        (Tensor.from_primitive(torch.tensor([1, 2]), backend), [1, 2]),
        (x.inplace(lambda it: it + 1.0), [[2.0, -1.0], [1.5, 5.0]]),
        (x.extract(), ROWS),
        (x.can_mut(), False),
    ]


@case("set_print_options")
def print_options(backend: Any) -> Pairs:
    x = floats([0.123456], backend)
    set_print_options(PrintOptions(precision=2))
    try:
        shown = str(x)
    finally:
        set_print_options(PrintOptions())
    return [("[0.12]" in shown, True), ("[0.123456]" in str(x), True)]


READERS = "into_data to_data try_into_data try_to_data"


@case(*READERS.split())
def data(backend: Any) -> Pairs:
    x, n, b = floats(ROWS, backend), ints([3, -4], backend), bools([True, False], backend)
    return [pair for name in READERS.split() for pair in (
        (getattr(x, name)(), ROWS),
        (getattr(n, name)(), [3, -4]),
        (getattr(b, name)(), [True, False]),
        (getattr(x, name)().dtype, torch.float32),
    )]  # fmt: skip


@case("into_data_async", "to_data_async")
def data_async(backend: Any) -> Pairs:
    x = floats(ROWS, backend)
    return [(asyncio.run(x.into_data_async()), ROWS), (asyncio.run(x.to_data_async()), ROWS)]


TYPED = "to_data_as try_to_data_as into_data_as try_into_data_as"
NAMED = "to_data_dtype try_to_data_dtype into_data_dtype try_into_data_dtype"


@case(*TYPED.split(), *NAMED.split())
def data_of_another_type(backend: Any) -> Pairs:
    n = ints([3, -4], backend)
    pairs: Pairs = []
    for name in TYPED.split():
        pairs.append((getattr(n, name)(float), double([3.0, -4.0])))
    for name in NAMED.split():
        found = getattr(n, name)(torch.float16)
        pairs += [(found, [3.0, -4.0]), (found.dtype, torch.float16)]
    return pairs


@case("try_to_vec_as", "try_into_vec_as")
def vectors_of_another_type(backend: Any) -> Pairs:
    n = ints([[3, -4], [0, 1]], backend)
    return [(n.try_to_vec_as(float), [3.0, -4.0, 0.0, 1.0]), (n.try_into_vec_as(int), [3, -4, 0, 1])]


@case("into_scalar", "try_into_scalar", "into_scalar_async", "try_into_scalar_async")
def scalars(backend: Any) -> Pairs:
    x, n = floats([[2.5]], backend), ints([7], backend)
    return [
        (x.into_scalar(), 2.5),
        (n.into_scalar(), 7),
        (bools([True], backend).into_scalar(), True),
        (x.try_into_scalar(), 2.5),
        (isinstance(floats(ROWS, backend).try_into_scalar(), TensorError), True),
        (asyncio.run(n.into_scalar_async()), 7),
        (asyncio.run(n.try_into_scalar_async()), 7),
    ]


@case("Transaction.register", "Transaction.execute", "Transaction.try_execute", "Transaction.execute_async")
def transactions(backend: Any) -> Pairs:
    def registered() -> Any:
        return Transaction().register(floats(ROWS, backend)).register(ints([5], backend))

    pairs: Pairs = []
    for found in (registered().execute(), registered().try_execute(), asyncio.run(registered().execute_async())):
        pairs += [(len(found), 2), (found[0], ROWS), (found[1], [5]), (type(found[0]), TensorData)]
    return pairs


@case("quantize", "quantize_dynamic", "dequantize")
def quantization(backend: Any) -> Pairs:
    # The largest of 1.27 by 127 steps: a scale of 0.01.
    x = floats([0.5, -1.27, 0.004], backend)
    scheme = QuantScheme(value="Q8S")
    dynamic, static = x.quantize_dynamic(scheme), x.quantize(scheme, floats([0.1], backend))
    return [
        (dynamic.dequantize(), [0.5, -1.27, 0.0]),
        (static.dequantize(), [0.5, -1.3, 0.0]),
    ]


@case("backward", "grad", "grad_remove", "require_grad", "is_require_grad", "is_tracked")
def gradients(backend: Any) -> Pairs:
    x = floats([2.0, 3.0], tracking(backend)).require_grad()
    y = x * x
    grads = y.backward()
    return [
        (x.is_require_grad(), True),
        (y.is_require_grad(), False),
        (x.is_tracked(), True),
        (y.is_tracked(), True),
        (x.grad(grads), [4.0, 6.0]),
        (x.grad_remove(grads), [4.0, 6.0]),
        (x.grad(grads), None),
    ]


@case("grad_replace")
def grad_replace(backend: Any) -> Pairs:
    tracked = tracking(backend)
    x = floats([2.0, 3.0], tracked).require_grad()
    grads = (x * x).backward()
    x.grad_replace(grads, floats([7.0, 8.0], tracked.inner_backend))
    return [(x.grad(grads), [7.0, 8.0])]


@case("set_require_grad", "detach")
def detached(backend: Any) -> Pairs:
    x = floats([2.0, 3.0], tracking(backend)).set_require_grad(True)
    y = x * x
    grads = (y * y.detach()).backward()
    return [
        (x.is_require_grad(), True),
        (x.set_require_grad(False).is_require_grad(), False),
        (y.detach(), [4.0, 9.0]),
        (y.detach().is_tracked(), False),
        (x.grad(grads), [16.0, 54.0]),
    ]


@case("without_autodiff", "inner", "autodiff", "from_inner", "is_autodiff", "no_grad")
def with_and_without_autodiff(backend: Any) -> Pairs:
    tracked = tracking(backend)
    x = floats([2.0, 3.0], tracked)
    plain = x.without_autodiff()
    return [
        (x.is_autodiff(), True),
        (plain.is_autodiff(), False),
        (plain, [2.0, 3.0]),
        (plain.without_autodiff(), [2.0, 3.0]),
        (plain.autodiff(), [2.0, 3.0]),
        (plain.autodiff().backend, tracked),
        (Tensor.from_inner(plain).backend, tracked),
        (Tensor.from_inner(x) is x, True),
    ]


@case("gradient_checkpointing_strategy", "with_gradient_checkpointing_strategy")
def checkpointing(backend: Any) -> Pairs:
    x = floats([2.0], tracking(backend)).require_grad()
    kept = x.with_gradient_checkpointing_strategy(x.gradient_checkpointing_strategy())
    grads = (kept * kept).backward()
    return [(x.gradient_checkpointing_strategy(), "NoCheckpointing"), (x.grad(grads), [4.0])]


@case("is_distributed", "set_distributed")
def distributed(backend: Any) -> Pairs:
    x = floats([2.0], backend)
    try:
        x.set_distributed("0")
    except TensorError:
        refused = True
    else:
        refused = False
    return [(x.is_distributed(), False), (refused, True)]
