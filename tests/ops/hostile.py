"""Random calls of the native ops with arguments that nobody should give them.

A call is right if the native op refuses it and has written nothing, or takes it and gives what the reference gives.
Memory that is not there must be refused: torch itself, and so the reference, would crash.
"""

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from burnlike import ops
from burnlike.errors import BurnlikeError
from burnlike.ops import StepOptions

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
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
    "negative": lambda tensor, chance: negative_view(tensor),
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


def _both(arguments: Arguments, op: str, native: Callable, reference: Callable, build: Callable) -> Call:
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


def _pick(tensors: list[Tensor], numbers: list[int]) -> list[Tensor]:
    return [tensors[number] for number in numbers]


def rms_norm_call(chance: random.Random) -> Call:
    """`rms_norm`, forward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice([shape for shape in SHAPES if shape])
    x = arguments.tensor(special_values(shape, dtype, chance))
    gamma = arguments.tensor(special_values(shape[-1:], chance.choice((dtype, torch.float32)), chance))
    epsilon = arguments.scalar(1e-5)
    return _both(
        arguments,
        "rms_norm",
        ops.rms_norm,
        ops.rms_norm_reference,
        lambda tensors: ((tensors[x], tensors[gamma], epsilon), {}),
    )


def squares_call(chance: random.Random) -> Call:
    """`gradient_squares_`."""
    arguments = Arguments(chance)
    grads = arguments.tensors([special_values(chance.choice(SHAPES), chance.choice(FLOATS), chance) for _ in range(3)])
    squares = arguments.tensor(torch.zeros(3, dtype=torch.float64))
    return _both(
        arguments,
        "gradient_squares_",
        ops.gradient_squares_,
        ops.gradient_squares_reference,
        lambda tensors: ((_pick(tensors, grads), tensors[squares]), {}),
    )


def convert_call(chance: random.Random) -> Call:
    """`convert_`."""
    arguments = Arguments(chance)
    shapes = [chance.choice(SHAPES) for _ in range(3)]
    targets = arguments.tensors([torch.zeros(shape, dtype=chance.choice(FLOATS)) for shape in shapes])
    sources = arguments.tensors([special_values(shape, chance.choice(FLOATS), chance) for shape in shapes])
    lost = arguments.tensor(torch.zeros(3, dtype=torch.int32))
    return _both(
        arguments,
        "convert_",
        ops.convert_,
        ops.convert_reference,
        lambda tensors: ((_pick(tensors, targets), _pick(tensors, sources), tensors[lost]), {}),
    )


STEPS: dict[str, tuple[Callable, Callable, tuple[str, ...], dict[str, float]]] = {
    "adamw_step_": (
        ops.adamw_step_,
        ops.adamw_step_reference,
        ("moments_1", "moments_2"),
        {"lr": 0.1, "beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-6, "weight_decay": 0.1},
    ),
    "sgd_step_": (
        ops.sgd_step_,
        ops.sgd_step_reference,
        ("velocities",),
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1},
    ),
    "lion_step_": (
        ops.lion_step_,
        ops.lion_step_reference,
        ("moments",),
        {"lr": 0.1, "beta_1": 0.9, "beta_2": 0.99, "weight_decay": 0.1},
    ),
}


def step_call(chance: random.Random) -> Call:
    """A step of any rule with any options."""
    op = chance.choice(list(STEPS))
    native, reference, keys, usual = STEPS[op]
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shapes = [chance.choice(SHAPES) for _ in range(chance.choice((0, 1, 3)))]

    def values(dtype: torch.dtype) -> list[Tensor]:
        return [special_values(shape, dtype, chance) for shape in shapes]

    moment_dtype = chance.choice((dtype, torch.float32, torch.bfloat16))
    if op == "sgd_step_" and chance.random() < 0.2:
        keys = ()
    lists = {
        "params": arguments.tensors(values(dtype)),
        "grads": arguments.tensors(values(dtype)),
        **{key: arguments.tensors([value.abs() for value in values(moment_dtype)]) for key in keys},
    }
    keywords: dict[str, Any] = {key: arguments.scalar(value) for key, value in usual.items()}
    if op != "lion_step_":
        keywords["times"] = [chance.choice((1, 2, 3, 1000, 2**62)) for _ in shapes]
        if chance.random() < 0.05 and shapes:
            keywords["times"][0] = chance.choice((0, -1))
            arguments.marks.append("time")
    if op == "sgd_step_":
        keywords["nesterov"] = bool(keys) and chance.random() < 0.3
    if op == "adamw_step_":
        keywords |= {"coupled": chance.random() < 0.3, "cautious": chance.random() < 0.3}
        if chance.random() < 0.2:
            lists["max_moments_2"] = arguments.tensors(values(moment_dtype))

    def sometimes(tensor: Tensor, how_often: float = 0.2) -> int | None:
        return arguments.tensor(tensor) if shapes and chance.random() < how_often else None

    factors = sometimes(torch.rand(chance.choice([(), (1,), (len(shapes),)]), dtype=torch.float64))
    skip, skipped = sometimes(torch.zeros(())), sometimes(torch.ones(1, dtype=torch.float64))
    copies = arguments.tensors(values(chance.choice((torch.bfloat16, torch.float32)))) if chance.random() < 0.2 else []
    scalars = {"grad_scale": arguments.scalar(1.0), "clip_value": arguments.scalar(float("inf"))}
    flags = {"zero_grads": chance.random() < 0.2, "seed": chance.choice((None, None, 7, -1, 2**62))}

    def build(tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = {"factors": factors, "skip": skip, "skipped": skipped}
        options = StepOptions(
            **scalars,
            **flags,
            **{key: None if number is None else tensors[number] for key, number in given.items()},
            copies=_pick(tensors, copies),
        )
        picked = {key: _pick(tensors, numbers) for key, numbers in lists.items()}
        return (), picked | keywords | {"options": options}

    return _both(arguments, op, native, reference, build)


def random_call(seed: int) -> Call:
    """The call with this number."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    make = chance.choice((rms_norm_call, squares_call, convert_call, step_call, step_call, step_call))
    return make(chance)


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


def main() -> None:
    """Make calls and print how many were taken; ends at the first that is neither refused nor right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the number of the first call")
    arguments = parser.parse_args()
    taken = sum(assert_right(seed) for seed in range(arguments.first, arguments.first + arguments.calls))
    print(f"{arguments.calls} calls of native ops: {taken} taken and right, the others refused")


if __name__ == "__main__":
    main()
