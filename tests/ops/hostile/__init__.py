"""Random calls of the native ops with arguments that nobody should give them.

A call is right if the native op refuses it and has written nothing, or takes it and gives what the reference gives.
Memory that is not there must be refused: torch itself, and so the reference, would crash.
"""

import importlib
import pkgutil
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from burnlike.errors import BurnlikeError

from ..op_case import FLOATS

OTHERS = (torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool, torch.complex64, torch.float8_e5m2)
SHAPES = ((), (1,), (0,), (3, 5), (257,), (2, 0, 3), (31, 9), (4, 4, 4))
SCALARS = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, -1.0, 5e-324, 1e-40, 1e-8, 1.0, 3.5, 1e38, 1e300)


@dataclass
class Call:
    """One call.

    Attributes:
        op: its name.
        native, reference: without arguments; each on tensors of its own, so that both can be compared afterwards.
        tensors, others: the native call's tensors and the reference's, in the same order.
        marks: what is hostile in it.
    """

    op: str
    native: Callable[[], Any]
    reference: Callable[[], Any]
    tensors: list[Tensor]
    others: list[Tensor]
    marks: list[str] = field(default_factory=list)


def special_values(shape: tuple[int, ...], dtype: torch.dtype, chance: random.Random) -> Tensor:
    """Normal values, sometimes with inf, NaN, zeros, subnormal and huge ones among them."""
    values = torch.randn(shape, dtype=torch.float64)
    if values.numel() and chance.random() < 0.2:
        flat = values.view(-1)
        for _ in range(chance.randint(1, 4)):
            flat[chance.randrange(flat.numel())] = chance.choice(SCALARS)
    return values.to(dtype)


def misaligned(tensor: Tensor) -> Tensor:
    """The same values one byte off any address that fits them."""
    count = tensor.numel() * tensor.element_size()
    whole = torch.empty(count + 1, dtype=torch.uint8)
    whole[1:] = tensor.contiguous().view(-1).view(torch.uint8)
    return torch.frombuffer(memoryview(whole.numpy()), dtype=tensor.dtype, offset=1).view(tensor.shape)


def negative_view(tensor: Tensor) -> Tensor:
    """The same values by torch's lazy negation."""
    return torch._neg_view(-tensor)


def overlapping(tensor: Tensor) -> Tensor:
    """Values that share places in memory, of the same shape."""
    return torch.randn(tensor.numel() + 8).to(tensor.dtype).as_strided(tensor.shape, (1,) * tensor.dim())


def freed(tensor: Tensor) -> Tensor:
    """The tensor without its memory."""
    alone = tensor.clone()
    alone.untyped_storage().resize_(0)
    return alone


def shrunk(tensor: Tensor) -> Tensor:
    """The tensor with half of its memory."""
    alone = tensor.clone(memory_format=torch.contiguous_format)
    alone.untyped_storage().resize_(alone.untyped_storage().nbytes() // 2)
    return alone


def in_inference(tensor: Tensor) -> Tensor:
    """A tensor without a version counter."""
    with torch.inference_mode():
        return tensor.clone()


CHANGES: dict[str, Callable[[Tensor, random.Random], Tensor]] = {
    "empty": lambda tensor, chance: tensor.new_empty((0,)),
    "scalar": lambda tensor, chance: tensor.new_ones(()),
    "other shape": lambda tensor, chance: torch.ones(chance.choice(SHAPES)).to(tensor.dtype),
    "expanded": lambda tensor, chance: tensor.new_ones(()).expand(tensor.shape),
    "overlapping": lambda tensor, chance: overlapping(tensor),
    "transposed": lambda tensor, chance: tensor.clone().permute(tuple(range(tensor.dim()))[::-1]),
    "every second": lambda tensor, chance: tensor.repeat_interleave(2, -1)[..., ::2] if tensor.dim() else tensor,
    "misaligned": lambda tensor, chance: misaligned(tensor) if tensor.numel() else tensor,
    "negative": lambda tensor, chance: tensor if tensor.dtype == torch.bool else negative_view(tensor),
    "freed": lambda tensor, chance: freed(tensor),
    "shrunk": lambda tensor, chance: shrunk(tensor),
    "meta": lambda tensor, chance: tensor.to("meta"),
    "inference": lambda tensor, chance: in_inference(tensor),
    "other float": lambda tensor, chance: tensor.to(chance.choice(FLOATS)),
    "other dtype": lambda tensor, chance: torch.ones(tensor.shape).to(chance.choice(OTHERS)),
    "sparse": lambda tensor, chance: tensor.to_sparse(),
    "requires grad": lambda tensor, chance: tensor.clone().requires_grad_(tensor.is_floating_point()),
}
WITHOUT_REFERENCE = {"freed", "shrunk"}
WITHOUT_VALUES = {"overlapping", "expanded"}
"""Where the order of the writes decides, or what is compared is not what was written."""


def twin(tensor: Tensor) -> Tensor:
    """A tensor for the reference with the same values, strides and flags in memory of its own."""
    if tensor.device.type == "meta" or tensor.layout != torch.strided:
        return tensor.clone()
    if tensor.is_inference():
        return in_inference(tensor)
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() == 0:
        return tensor.clone()
    plain = tensor.detach().resolve_neg()
    copy = torch.zeros(last + 1, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())
    if 0 not in tensor.stride():
        copy.copy_(plain)
    else:
        copy.as_strided((1,), (1,)).copy_(plain.reshape(-1)[:1])
    return copy.requires_grad_(tensor.requires_grad)


class Arguments:
    """Tensors for both sides of a call, changed at random; `lost` of them have no memory."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.marks: list[str] = []
        self.native: list[Tensor] = []
        self.reference: list[Tensor] = []

    def tensor(self, tensor: Tensor) -> int:
        """Its number, after it was changed or not."""
        if self.chance.random() < 0.06:
            mark = self.chance.choice(list(CHANGES))
            changed = CHANGES[mark](tensor, self.chance)
            if mark not in WITHOUT_REFERENCE or changed.numel():
                tensor, _ = changed, self.marks.append(mark)
        self.native.append(tensor)
        self.reference.append(tensor if set(self.marks) & WITHOUT_REFERENCE else twin(tensor))
        return len(self.native) - 1

    def tensors(self, tensors: list[Tensor]) -> list[int]:
        """Their numbers; sometimes one is missing or there twice."""
        numbers = [self.tensor(tensor) for tensor in tensors]
        if numbers and self.chance.random() < 0.02:
            self.marks.append("other length")
            if self.chance.random() < 0.5:
                numbers.pop()
            else:
                numbers.append(self.tensor(tensors[0].clone()))
        return numbers

    def scalar(self, usual: float) -> float:
        """The usual value or, one time in eight, a special one."""
        if self.chance.random() < 0.12:
            self.marks.append("scalar")
            return self.chance.choice(SCALARS)
        return usual


def both(arguments: Arguments, op: str, native: Callable, reference: Callable, build: Callable) -> Call:
    """A call whose arguments `build` makes of a side's tensors."""

    def on(tensors: list[Tensor], function: Callable) -> Callable[[], Any]:
        def call() -> Any:
            positional, keywords = build(tensors)
            return function(*positional, **keywords)

        return call

    return Call(
        op,
        on(arguments.native, native),
        on(arguments.reference, reference),
        arguments.native,
        arguments.reference,
        arguments.marks,
    )


def with_gradients(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The function's results and, where one has a derivative, the gradients of their sum.

    Where values are so large that formulas for one gradient overflow at different places, gradients are computed only.
    """

    def call(*arguments: Any) -> list[Any]:
        leaves = [
            it.detach().requires_grad_() if isinstance(it, Tensor) and it.is_floating_point() else it
            for it in arguments
        ]
        results = function(*leaves)
        results = [results] if isinstance(results, Tensor) else list(results)
        tracked = [it for it in leaves if isinstance(it, Tensor) and it.requires_grad]
        sums = [it.double().sum() for it in results if it.requires_grad]
        gradients = torch.autograd.grad(sums, tracked, allow_unused=True) if sums else []
        comparable = all(bool((it.detach().abs() < 1e6).all()) for it in tracked if it.device.type != "meta")
        return [it.detach() for it in results] + [it for it in gradients if it is not None and comparable]

    return call


def pick(tensors: list[Tensor], numbers: list[int]) -> list[Tensor]:
    return [tensors[number] for number in numbers]


@cache
def random_calls() -> list[Callable[[random.Random], Call]]:
    """The functions `random_...` in the files of cases, each of which makes a call of an op; steps have the most
    arguments, and are there four times."""
    from .. import cases

    modules = [importlib.import_module(f"{cases.__name__}.{it.name}") for it in pkgutil.iter_modules(cases.__path__)]
    functions = {name: it for module in modules for name, it in vars(module).items() if name.startswith("random_")}
    return [*(functions[name] for name in sorted(functions)), *[functions["random_steps"]] * 3]


def random_call(seed: int) -> Call:
    """The call with this number."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    return chance.choice(random_calls())(chance)


def bits(tensor: Tensor) -> Any:
    """What a tensor holds, to be compared; of one without memory nothing."""
    if tensor.device.type == "meta" or tensor.layout != torch.strided:
        return None
    if tensor.untyped_storage().nbytes() == 0:
        return None
    return bytes(tensor.untyped_storage())


REFUSALS = (BurnlikeError, RuntimeError, NotImplementedError, TypeError)


def assert_right(seed: int) -> bool:
    """Whether the call was taken; fails if it was neither refused as a whole nor right."""
    call = random_call(seed)
    before = [bits(tensor) for tensor in call.tensors]
    try:
        result = call.native()
    except REFUSALS:
        assert call.marks, f"{seed}: refused without a reason"
        assert [bits(tensor) for tensor in call.tensors] == before, f"{seed} {call.op} {call.marks}: half done"
        return False
    assert not set(call.marks) & WITHOUT_REFERENCE, f"{seed} {call.op} {call.marks}: memory that is not there was taken"
    with torch.inference_mode("inference" in call.marks):  # which torch insists on for tensors made in it
        expected = call.reference()
    if set(call.marks) & WITHOUT_VALUES:
        return True
    pairs = list(zip(call.tensors, call.others, strict=True))
    if isinstance(result, Tensor):
        pairs.append((result, expected))
    if isinstance(result, list):
        # In inference mode the reference has no gradients.
        pairs.extend(zip(result, expected, strict="inference" not in call.marks))
    for number, (one, other) in enumerate(pairs):
        if one.device.type == "meta" or one.layout != torch.strided:
            continue
        torch.testing.assert_close(
            one.detach().double() if one.is_floating_point() else one,
            other.detach().double() if other.is_floating_point() else other,
            rtol=1e-2 if one.element_size() == 2 else 1e-4,
            atol=1e-2 if one.element_size() == 2 else 1e-5,
            equal_nan=True,
            msg=lambda text, number=number: f"{seed} {call.op} {call.marks} tensor {number}: {text}",
        )
    return True
