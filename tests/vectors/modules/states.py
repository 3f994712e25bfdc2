"""The state of an LSTM: what the vectors say of it in words."""

from collections.abc import Callable
from typing import Any

import torch

from burnlike import nn

from .expectations import Failure
from .results import Result
from .subject import Subject


def state_of(subject: Subject, *shape: int) -> Any:
    """A state with random cell and hidden."""
    return nn.LstmState(*(subject.wrapped(torch.randn(shape)) for _ in range(2)))


def expect(condition: bool, text: str) -> None:
    """Raise unless `condition` holds.

    Raises:
        Failure: it doesn't.
    """
    if not condition:
        raise Failure(f"expected: {text}")


def expect_both(subject: Subject, found: Any, given: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The state has what `change` makes of the cell and of the hidden state."""
    for name in ("cell", "hidden"):
        wanted = change(subject.world.plain(getattr(given, name)))
        expect(torch.equal(subject.world.plain(getattr(found, name)), wanted), f"{name} {wanted}")


def new(subject: Subject) -> Result:
    """A state has the tensors that it is made of."""
    cell, hidden = (subject.wrapped(torch.randn(2, 3, 4)) for _ in range(2))
    state = nn.LstmState.new(cell, hidden)
    expect(state.cell is cell and state.hidden is hidden, "the tensors themselves")
    expect(torch.device(str(state.device)).type == subject.world.device.type, "its device")
    return Result(subject.world, {"output": state.cell, "shape": list(state.shape)})


def mismatch(subject: Subject) -> Result:
    """Two shapes."""
    nn.LstmState.new(subject.wrapped(torch.zeros(2, 3)), subject.wrapped(torch.zeros(2, 4)))
    return Result(subject.world)


def initial(subject: Subject) -> Result:
    """Zeros."""
    state = nn.LstmState.initial([2, 3], like(subject))
    expect_both(subject, state, state, torch.zeros_like)
    return Result(subject.world, {"output": state.cell})


def like(subject: Subject) -> Any:
    """What an initial state is made for: a device, or a typed tensor's backend."""
    return subject.world.device if subject.world.backend is None else subject.world.backend


def unpack(subject: Subject) -> Result:
    """Both tensors again."""
    state = state_of(subject, 2, 3)
    cell, hidden = state.unpack()
    expect(cell is state.cell and hidden is state.hidden, "(cell, hidden)")
    return Result(subject.world)


def mapped(*shape: int) -> Callable[[Subject], Result]:
    """A function of both."""

    def check(subject: Subject) -> Result:
        state = state_of(subject, 2, 3)
        expect_both(subject, state.map_state(lambda it: it.reshape(list(shape))), state, lambda it: it.reshape(shape))
        return Result(subject.world)

    return check


def squeezed(subject: Subject) -> Result:
    state = state_of(subject, 2, 1, 3)
    expect_both(subject, state.squeeze_dim(-2), state, lambda it: it.squeeze(-2))
    return Result(subject.world)


def unsqueezed(subject: Subject) -> Result:
    state = state_of(subject, 2, 3)
    expect_both(subject, state.unsqueeze_dim(-2), state, lambda it: it.unsqueeze(-2))
    expect_both(subject, state.unsqueeze_dim(-2).unsqueeze_dim(-1), state, lambda it: it.unsqueeze(-2).unsqueeze(-1))
    return Result(subject.world)


def chunked(subject: Subject) -> Result:
    state = state_of(subject, 3, 2, 3)
    parts = state.chunk(3, -3)
    expect(len(parts) == 3, "3 states")
    for index, part in enumerate(parts):
        expect_both(subject, part, state, lambda it, index=index: it[index : index + 1])
    return Result(subject.world)


def stacked(subject: Subject) -> Result:
    states = [state_of(subject, 2, 3) for _ in range(3)]
    parts = nn.LstmState.stack(states, 0).chunk(3, 0)
    for part, state in zip(parts, states, strict=True):
        expect_both(subject, part.squeeze_dim(0), state, lambda it: it)
    return Result(subject.world)


def unwrapped(subject: Subject) -> Result:
    state = nn.LstmState.unwrap_or_initial(None, [2, 3], like(subject))
    expect(list(state.shape) == [2, 3], "the shape [2, 3]")
    expect_both(subject, state, state, torch.zeros_like)
    return Result(subject.world)


STATES: dict[tuple[str, str], Callable[[Subject], Result]] = {
    ("new", "shape, device, cell and hidden are those given"): new,
    ("initial", "cell and hidden are zeros"): initial,
    ("unpack", "returns (cell, hidden) unchanged"): unpack,
    ("map_state", "map_state(reshape [3,2]) applies to both"): mapped(3, 2),
    ("map_state_changes_rank", "map_state may change the rank: [2,3] -> [1,2,3]"): mapped(1, 2, 3),
    ("squeeze_negative_dim", "squeeze_dim(-2): [2,1,3] -> [2,3]"): squeezed,
    (
        "unsqueeze_negative_dim",
        "[2,3]: unsqueeze_dim(-2) to rank 3 -> [2,1,3]; unsqueeze_dim(-1) to rank 4 -> [2,3,1,1]",
    ): unsqueezed,
    ("chunk_negative_dim", "[3,2,3].chunk(3, -3) -> 3 states of [1,2,3]"): chunked,
    ("stack_chunk_roundtrip", "chunk undoes stack"): stacked,
    ("unwrap_or_initial_none", "None gives zeros of the given shape [2,3]"): unwrapped,
}
"""Properties by their call and text."""
REFUSED: dict[str, Callable[[Subject], Result]] = {"new_shape_mismatch": mismatch}
"""Calls that must fail."""
