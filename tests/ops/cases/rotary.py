"""Cases of `rotary`."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops import rotary, rotary_reference

from ..hostile import Arguments, Call, both, special_values, with_gradients
from ..op_case import FLOATS, OpCase, dtype_name

Heads = tuple[Tensor, Tensor]


def _plain(batch: int, heads: int, heads_kv: int, length: int, width: int) -> Callable[[torch.dtype], Heads]:
    return lambda dtype: (
        torch.randn(batch, heads, length, width, dtype=dtype),
        torch.randn(batch, heads_kv, length, width, dtype=dtype),
    )


def _projected(dtype: torch.dtype) -> Heads:
    query, key = torch.randn(2, 7, 4, 16, dtype=dtype), torch.randn(2, 7, 2, 16, dtype=dtype)
    return query.transpose(1, 2), key.transpose(1, 2)


def _of_one_projection(dtype: torch.dtype) -> Heads:
    query, key, _ = torch.randn(2, 5, 3, 4, 8, dtype=dtype).permute(2, 0, 3, 1, 4)
    return query, key


def _strided(dtype: torch.dtype) -> Heads:
    query, key = torch.randn(2, 3, 9, 24, dtype=dtype)[..., 1:-1:2], torch.randn(2, 11, 9, 3, dtype=dtype)
    return query, key.transpose(1, 3)


def _case(
    name: str,
    dtype: torch.dtype,
    make: Callable[[torch.dtype], Heads],
    half: int,
    *,
    interleaved: bool = False,
    table_batch: int | None = None,
    table_dtype: torch.dtype | None = None,
    whole: bool = False,
) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        return list(make(dtype))

    length = make(dtype)[0].shape[2]
    shape = (length, 2 * half) if table_batch is None else (table_batch, length, 2 * half)
    angle = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    # A view, of tables with a column for each value.
    columns = slice(None) if whole else slice(half)
    made = [table.to(table_dtype or dtype)[..., columns] for table in (angle.cos(), angle.sin())]

    def tables(query: Tensor) -> tuple[Tensor, Tensor]:
        return made[0].to(query.device), made[1].to(query.device)

    kind = "neighbours" if interleaved else "halves"
    dtypes = dtype_name(dtype) if table_dtype is None else f"{dtype_name(dtype)}-{dtype_name(table_dtype)}"
    return OpCase(
        name=f"rotary-{name}-{kind}-{dtypes}",
        raw=torch.ops.burnlike.rotary.default,
        native=lambda query, key: rotary(query, key, *tables(query), interleaved=interleaved),
        reference=lambda query, key: rotary_reference(query, key, *tables(query), interleaved=interleaved),
        inputs=inputs,
        raw_arguments=lambda tensors: (*tensors, *tables(tensors[0]), interleaved, False),
        differentiable=True,
        dtype=dtype,
    )


CASES = [
    *(
        _case("odd", dtype, _plain(2, 3, 1, 5, 43), 21, interleaved=interleaved)
        for dtype in FLOATS
        for interleaved in (False, True)
    ),
    *(_case("projected", dtype, _projected, 8, table_batch=1, interleaved=dtype in FLOATS[::2]) for dtype in FLOATS),
    *(_case("of-one-projection", dtype, _of_one_projection, 4, table_batch=2) for dtype in FLOATS),
    *(_case("partial", dtype, _plain(1, 4, 4, 6, 32), 8, interleaved=dtype in FLOATS[1::2]) for dtype in FLOATS),
    *(
        _case("float32-tables", dtype, _projected, 8, table_dtype=torch.float32, interleaved=interleaved)
        for dtype in FLOATS[1:]
        for interleaved in (False, True)
    ),
    *(_case("whole-tables", dtype, _projected, 8, table_batch=2, whole=True) for dtype in FLOATS),
    _case("whole-odd-tables", torch.float64, _plain(2, 3, 1, 5, 42), 21, whole=True),
    _case("whole-float32-tables", torch.bfloat16, _projected, 8, table_dtype=torch.float32, whole=True),
    _case("strided", torch.float32, _strided, 5),
    _case("large", torch.float32, _plain(2, 5, 2, 130, 64), 32, table_batch=2),
    _case("large", torch.bfloat16, _plain(2, 5, 2, 130, 64), 32, interleaved=True),
    _case("nothing-turned", torch.float32, _plain(2, 1, 1, 3, 5), 0),
    _case("no-heads", torch.float32, _plain(2, 3, 0, 3, 4), 2),
    _case("empty", torch.float32, _plain(2, 3, 2, 0, 4), 2),
    _case("no-columns", torch.float32, _plain(2, 3, 2, 4, 0), 0),
    _case("one", torch.float32, _plain(1, 1, 1, 1, 2), 1, interleaved=True),
]


SIZES = ((1, 1, 1, 1, 2), (2, 3, 2, 5, 9), (0, 1, 1, 3, 4), (2, 4, 1, 0, 4), (1, 0, 2, 3, 6), (2, 2, 2, 33, 32))


def random_rotary(chance: random.Random) -> Call:
    """`rotary`, forward and backward; the tables have no gradient."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    batch, heads, heads_kv, length, width = chance.choice(SIZES)
    table_dtype = chance.choice((dtype, torch.float32))
    interleaved = chance.random() < 0.5
    is_whole = not interleaved and width % 2 == 0 and chance.random() < 0.5
    columns = width if is_whole else chance.randint(0, width // 2)
    shape = (*chance.choice(((), (1,), (batch,))), length, columns)
    query = arguments.tensor(special_values((batch, heads, length, width), dtype, chance))
    key = arguments.tensor(special_values((batch, heads_kv, length, width), dtype, chance))
    cos = arguments.tensor(special_values(shape, table_dtype, chance))
    sin = arguments.tensor(special_values(shape, table_dtype, chance))

    def build(tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tensors[query], tensors[key], tensors[cos], tensors[sin]), {"interleaved": interleaved}

    def of_constants(function: Any) -> Any:
        return with_gradients(
            lambda query, key, cos, sin, **keywords: function(query, key, cos.detach(), sin.detach(), **keywords)
        )

    def native(*tensors: Tensor, interleaved: bool) -> Any:
        return of_constants(lambda *given: ops.rotary(*given, interleaved=interleaved))(*tensors)

    def reference(*tensors: Tensor, interleaved: bool) -> Any:
        return of_constants(lambda *given: ops.rotary_reference(*given, interleaved=interleaved))(*tensors)

    return both(arguments, "rotary", native, reference, build)
