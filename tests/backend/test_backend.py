"""Backends as values: element types, equality, names, seeds, and what is refused."""

import copy
import pickle
from typing import Any

import pytest
import torch

import burnlike
from burnlike import Autodiff, Bool, Cpu, Cuda, Int, Tensor
from burnlike.backend import AutodiffBackend, Backend, backend_for, map_ops, missing_ops, op_names
from burnlike.errors import BackendError, DeviceError, TensorTypeError

BACKENDS = [Cpu(), Cpu(float=torch.bfloat16), Cpu(int=torch.int32), Cuda(), Cuda(1), Autodiff(Cpu())]
IDS = repr
NO_DEVICE = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


@pytest.mark.parametrize("backend", BACKENDS, ids=IDS)
def test_equal_by_value_and_hashable(backend: Any) -> None:
    twin = pickle.loads(pickle.dumps(backend))
    assert twin == backend
    assert hash(twin) == hash(backend)
    assert [other for other in BACKENDS if other == backend] == [backend]


@pytest.mark.parametrize("backend", BACKENDS, ids=IDS)
def test_copies_are_equal(backend: Any) -> None:
    assert copy.copy(backend) == backend
    assert copy.deepcopy(backend) == backend


class Own(Cpu):
    """A backend with functions of its own, as docs/backends.md makes them."""


def test_copies_of_a_subclass_are_of_its_class() -> None:
    backend = Own(float=torch.bfloat16)
    copies = [copy.copy(backend), copy.deepcopy(backend), pickle.loads(pickle.dumps(backend))]
    assert copies == [backend] * 3
    assert backend.full_precision() == Own()
    other: Any = Tensor.ones((2,), Cpu())
    with pytest.raises(TensorTypeError, match=r"backends: Own\(.*\) and Cpu\("):
        Tensor.ones((2,), Own()).add(other)


@pytest.mark.parametrize("backend", BACKENDS, ids=IDS)
def test_repr_makes_the_backend_again(backend: Any) -> None:
    assert eval(repr(backend), {"torch": torch, **{name: getattr(burnlike, name) for name in dir(burnlike)}}) == backend


@pytest.mark.parametrize("backend", BACKENDS, ids=IDS)
@pytest.mark.parametrize("name", ["device", "float_dtype", "other"])
def test_immutable(backend: Any, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(backend, name, torch.float16)


@pytest.mark.parametrize("backend", BACKENDS, ids=IDS)
def test_complete(backend: Any) -> None:
    assert isinstance(backend, Backend)
    assert isinstance(backend, AutodiffBackend) == backend.ad_enabled
    assert missing_ops(backend) == []


def test_names_show_what_is_around_what() -> None:
    assert [backend.name for backend in (Cpu(), Cuda(1), Autodiff(Cpu()), Autodiff(Cuda()))] == [
        "torch<cpu>",
        "torch<cuda>",
        "autodiff<torch<cpu>>",
        "autodiff<torch<cuda>>",
    ]


def test_another_element_type_is_another_backend() -> None:
    assert Cpu() == Cpu(float=torch.float32, int=torch.int64)
    assert Cpu() != Cpu(float=torch.float64)
    assert Cpu() != Cpu(int=torch.int32)
    assert Cpu() != Autodiff(Cpu())
    assert Autodiff(Cpu()) != Autodiff(Cpu(float=torch.float64))


@pytest.mark.parametrize("make", [Cpu, Cuda])
@pytest.mark.parametrize("dtype", [torch.int32, torch.bool])
def test_the_float_type_is_floating_point(make: Any, dtype: torch.dtype) -> None:
    with pytest.raises(BackendError, match=rf"float: expected a floating point dtype .*, got {dtype}"):
        make(float=dtype)


@pytest.mark.parametrize("make", [Cpu, Cuda])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_the_int_type_is_an_integer(make: Any, dtype: torch.dtype) -> None:
    with pytest.raises(BackendError, match=rf"int: expected an integer dtype .*, got {dtype}"):
        make(int=dtype)


@pytest.mark.parametrize("backend", [Cpu(float=torch.bfloat16, int=torch.int32), Cpu(torch.float64, torch.int16)])
@pytest.mark.parametrize("decorate", [lambda backend: backend, Autodiff], ids=["plain", "autodiff"])
def test_creation_takes_the_backends_element_types(backend: Cpu, decorate: Any) -> None:
    chosen = decorate(backend)
    assert Tensor.zeros((2, 3), chosen).dtype is backend.float_dtype
    assert Tensor.zeros((2, 3), chosen, kind=Int).dtype is backend.int_dtype
    assert Tensor.zeros((2, 3), chosen, kind=Bool).dtype is torch.bool
    assert Tensor.from_floats([1.0, 2.0], chosen).dtype is backend.float_dtype
    assert Tensor.from_ints([1, 2], chosen).dtype is backend.int_dtype
    assert Tensor.arange(0, 3, chosen).dtype is backend.int_dtype


def test_conversions_take_the_backends_element_types() -> None:
    backend = Cpu(float=torch.bfloat16, int=torch.int32)
    x = Tensor(torch.tensor([1.5, -2.0], dtype=torch.float64), backend)
    assert x.dtype is torch.float64
    assert x.int().dtype is torch.int32
    assert x.int().float().dtype is torch.bfloat16
    assert x.bool().int().dtype is torch.int32
    assert x.argmax(0).dtype is torch.int32


def test_full_precision_widens_halves_only() -> None:
    assert Cpu(float=torch.bfloat16, int=torch.int32).full_precision() == Cpu(int=torch.int32)
    assert Cpu(float=torch.float16).full_precision() == Cpu()
    assert Cpu(float=torch.float64).full_precision() == Cpu(float=torch.float64)
    assert Autodiff(Cpu(float=torch.float16)).full_precision() == Autodiff(Cpu())


@pytest.mark.parametrize("backend", [Cpu(), Autodiff(Cpu())], ids=IDS)
def test_the_seed_repeats_random_tensors(backend: Any) -> None:
    from burnlike.tensor.host.distribution import Distribution

    def draw() -> list[float]:
        return Tensor.random((8,), Distribution.Default, backend).inner.tolist()

    backend.seed(7)
    first, next_ = draw(), draw()
    backend.seed(7)
    assert draw() == first
    assert next_ != first
    backend.seed(8)
    assert draw() != first


def test_sync_waits_for_the_backends_device(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    Cpu().sync()
    Autodiff(Cpu()).sync()
    assert waited == []
    Cuda(1).sync()
    Autodiff(Cuda(2)).sync()
    assert waited == [torch.device("cuda", 1), torch.device("cuda", 2)]


def test_autodiff_of_autodiff_is_refused() -> None:
    inner: Any = Autodiff(Cpu())
    with pytest.raises(BackendError, match=r"Autodiff\(Cpu\(.*\)\) tracks already"):
        Autodiff(inner)


def test_autodiff_of_what_is_no_backend_is_refused() -> None:
    inner: Any = Cpu
    with pytest.raises(BackendError, match="expected a backend such as Cpu"):
        Autodiff(inner)


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("device", "cpu", r"Wrong\.device: expected a torch\.device such as torch\.device\('cpu'\), got 'cpu'"),
        ("float_dtype", torch.int32, r"Wrong: float: expected a floating point dtype .*, got torch\.int32"),
        ("int_dtype", torch.float32, r"Wrong: int: expected an integer dtype .*, got torch\.float32"),
        ("int_dtype", "int64", r"Wrong: int: expected an integer dtype .*, got int64"),
    ],
)
def test_a_wrong_member_of_ones_own_backend_is_named(member: str, value: Any, message: str) -> None:
    class Wrong(Cpu):
        pass

    wrong = Wrong()
    wrong.__dict__[member] = value
    with pytest.raises(BackendError, match=message):
        Tensor.ones((2,), wrong)
    with pytest.raises(BackendError, match=message):
        Autodiff(wrong)


class Answering:
    """A table that has its functions by `__getattr__` alone."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.table, name)


class AnsweringCpu(Cpu):
    """`Cpu` by tables of `__getattr__`; equal only to itself."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


for _name in ("float_ops", "int_ops", "bool_ops", "module_ops", "activation_ops"):
    setattr(AnsweringCpu, _name, property(lambda self, name=_name: Answering(getattr(Cpu(), name))))


@pytest.mark.parametrize("decorate", [lambda backend: backend, Autodiff], ids=["plain", "autodiff"])
def test_a_table_may_have_its_functions_by_getattr(decorate: Any) -> None:
    x = Tensor.ones((2, 2), decorate(AnsweringCpu()))
    found = burnlike.nn.ReluConfig().init()(x.exp().matmul(x))
    torch.testing.assert_close(found.inner, torch.full((2, 2), 2 * torch.e))


def test_backend_for_a_device() -> None:
    assert backend_for(torch.device("cpu")) == Cpu()
    assert backend_for(torch.device("cuda")) == Cuda()
    assert backend_for(torch.device("cuda", 1)) == Cuda(1)
    with pytest.raises(BackendError, match="no backend for device 'meta'"):
        backend_for(torch.device("meta"))


def test_a_wrapped_tensor_is_on_the_backends_device() -> None:
    with pytest.raises(TypeError, match="the tensor is on 'meta', the backend on 'cpu'"):
        Tensor(torch.ones(2, device="meta"), Cpu())


@NO_DEVICE
def test_cuda_is_constructed_without_a_device_but_creates_nothing() -> None:
    backend = Cuda()
    assert backend.device == torch.device("cuda", 0)
    with pytest.raises(DeviceError, match=r"Cuda\(0.*no such device, torch sees 0 CUDA devices; use burnlike\.Cpu"):
        Tensor.zeros((2, 3), backend)


@pytest.mark.cuda
def test_cuda_creates_on_its_device() -> None:
    backend = Cuda()
    x = Tensor.ones((2, 3), backend)
    assert x.inner.device == backend.device
    backend.sync()


def test_op_names_are_those_of_the_three_kinds() -> None:
    names = op_names()
    assert list(names) == sorted(set(names))
    assert {"add", "exp", "from_data"} <= set(names)


def test_map_ops_changes_each_function_of_a_table() -> None:
    seen: list[str] = []

    def note(name: str, function: Any) -> Any:
        seen.append(name)
        return function

    table = map_ops(Cpu().float_ops, note)
    assert table.add is Cpu().float_ops.add
    assert {"add", "exp", "sum"} <= set(seen)
    assert not [name for name in seen if name.startswith("_")]
