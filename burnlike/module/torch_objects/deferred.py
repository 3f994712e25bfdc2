"""Builds modules without the memory of their values: what makes these is noted, and done later, tensor by tensor.

Within `Deferred` constructors and initializers run on fake tensors, which have a shape and a type. Each operation is
noted, and with one that draws random numbers the state of its generator, which goes on as if the numbers had been
drawn. So a tensor's values can be made afterwards, alone and to the bit, by the operations that it came from. One that
looks at values gets these: they are made for it, and let go of.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from ..._torch_compat.dispatch import TorchDispatchMode, inner_tensors, is_traceable_wrapper_subclass, schema_of
from ..._torch_compat.fake_tensors import adopt, forget, is_fake, new_mode
from ..._torch_compat.pytree import tree_leaves, tree_map

_FILLING = ("uniform_", "normal_", "exponential_", "log_normal_", "cauchy_", "geometric_", "random_")
"""In-place draws that do not depend on what was there before."""


_VIEWS, _COPIES = ("detach", "alias", "view_as"), ("_to_copy", "clone", "lift_fresh", "copy_")
"""Operations whose result has each value in the place that it had before, in the same memory or in another."""


class Part(Protocol):
    """A box of a tensor: where it begins, and its sizes."""

    @property
    def offsets(self) -> Sequence[int]: ...
    @property
    def sizes(self) -> Sequence[int]: ...


Read = Callable[[Part | None], Tensor]
"""Gives a part of a tensor, or None for all of it."""

current: ContextVar[Any] = ContextVar("burnlike.Deferred", default=None)
"""The innermost block of this thread."""


class Place:
    """The place of a fake tensor in memory: the tensor itself may get other memory, as by `parameter.data = ...`."""

    def __init__(self, tensor: Tensor) -> None:
        self.memory = tensor.untyped_storage()  # held, so that no other gets its address
        self.storage = _storage_of(tensor)
        self.dtype, self.shape, self.offset = tensor.dtype, tensor.shape, tensor.storage_offset()
        self.stride = tensor.stride()

    @property
    def form(self) -> tuple[Any, ...]:
        return self.dtype, self.shape, self.stride, self.offset

    def of(self, values: Tensor) -> bool:
        """True if a tensor lies in its memory as this one does."""
        return (values.dtype, values.shape, values.stride(), values.storage_offset()) == self.form


class Operation(NamedTuple):
    """A call of an operator, with its results, and the state of the generator that it drew from.

    In the places of fake tensors are `Place`s.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: Any
    state: Tensor | None


class Deferred(TorchDispatchMode):
    """A `with` block in which tensors of the CPU get no values; `values` makes those of one, at any later time."""

    def __init__(self) -> None:
        super().__init__()
        self._fake = new_mode()
        self._operations: list[Operation] = []
        self._of_storage: dict[int, list[int]] = {}  # those that made or wrote what lies in it
        self._is_paused = False

    def __enter__(self) -> Self:
        self._token = current.set(self)
        self._quiet = warnings.catch_warnings()
        self._quiet.__enter__()
        # A deep copy asks for it.
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._quiet.__exit__(*error)
        current.reset(self._token)

    def given(self, shape: Sequence[int], dtype: torch.dtype, read: Read) -> Tensor:
        """A tensor that `read` gives, such as one of a file."""
        with self._fake:
            fake = torch.empty(tuple(shape), dtype=dtype)
        self._operations.pop()  # that made it
        del self._of_storage[_storage_of(fake)]
        forget(self._fake)
        self._note(read, (None,), {}, fake)
        return fake

    def part(self, tensor: Tensor, box: Part | None) -> Tensor:
        """As `values`, of a part, or None for all: of a tensor that is read no more than that."""
        read, types = self._read_by(Place(tensor))
        if read is not None:
            values = read(box)
            # One conversion after the other, as the module did: straight to the last type other values may come out.
            for dtype in reversed(types):
                values = values.to(dtype)
            return values
        values = self.values(tensor)
        for dim, (start, length) in enumerate(zip(box.offsets, box.sizes, strict=True) if box else ()):
            values = values.narrow(dim, start, length)
        return values

    def _read_by(self, place: Place) -> tuple[Read | None, list[torch.dtype]]:
        """The function that reads a tensor whose values are a file's, and its types since then, the last one first.

        Its operations are followed back to the last one that wrote all of it, whatever was there before.
        """
        types, number = [place.dtype], len(self._operations)
        while True:
            earlier = (it for it in reversed(self._of_storage.get(place.storage, ())) if it < number)
            number = next((it for it in earlier if self._name(it) not in _VIEWS), -1)
            if number < 0:
                return None, types
            operation = self._operations[number]
            written = operation.results
            if not isinstance(written, Place) or written.form != place.form:
                return None, types
            if (name := self._name(number)) == "":
                return operation.function, types
            source = operation.args[1 if name == "copy_" else 0] if name in _COPIES else None
            if not isinstance(source, Place) or source.form[1] != place.shape:
                return None, types
            place = source
            types.append(place.dtype)

    def _name(self, number: int) -> str:
        """The name of an operator; empty for a function that reads a file."""
        function = self._operations[number].function
        return "" if schema_of(function) is None else function.overloadpacket.__name__

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._is_paused:
            return func(*args, **kwargs)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        fakes = [it for it in tensors if is_fake(it)]
        device = kwargs.get("device")
        is_elsewhere = device is not None and torch.device(device).type != "cpu"
        if is_elsewhere or any(it.device.type != "cpu" for it in tensors):  # as on meta, where a result has no values
            return func(*tree_map(_on_meta, args), **tree_map(_on_meta, kwargs))
        if tensors and not fakes:
            return func(*args, **kwargs)
        is_random = torch.Tag.nondeterministic_seeded in func.tags
        if torch.Tag.data_dependent_output in func.tags or self._writes_to_real(func, args, kwargs):
            return func(*self._real(args), **self._real(kwargs))
        for tensor in fakes:
            adopt(tensor, self._fake)
        generator = kwargs.get("generator")
        generator = torch.default_generator if generator is None else generator
        state = generator.get_state() if is_random else None
        with self._fake:
            results = func(*args, **kwargs)
        forget(self._fake)
        if is_random:
            # The generator goes on as far as the operation moves it.
            if func.overloadpacket.__name__ in _FILLING:
                first, *rest = args
                func(torch.empty_strided(first.shape, first.stride(), dtype=first.dtype), *rest, **kwargs)
            else:
                func(*self._real(args), **self._real(kwargs))
        if not tensors and isinstance(results, Tensor) and any(it.name == "dtype" for it in schema_of(func).arguments):
            kwargs = {**kwargs, "dtype": results.dtype}  # the default one may be another later
        self._note(func, args, kwargs, results, state)
        return results

    def at_once(self, function: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
        """The result of a function of the values of a tensor: with values, which stay."""
        self._is_paused = True
        try:
            return function(self.values(tensor) if is_fake(tensor) else tensor)
        finally:
            self._is_paused = False

    def values(self, tensor: Tensor) -> Tensor:
        """The values of a fake tensor that was made within the block: a new tensor of the CPU."""
        token = current.set(None)  # what is read now is read
        try:
            return self._made(tensor)
        finally:
            current.reset(token)

    def _made(self, tensor: Tensor) -> Tensor:
        roots: dict[tuple[int, torch.dtype], Tensor] = {}

        def real(leaf: Any) -> Any:
            if isinstance(leaf, torch.Generator):
                return generator
            if not isinstance(leaf, Place):
                return leaf
            return roots[leaf.storage, leaf.dtype].as_strided(leaf.shape, leaf.stride, leaf.offset)

        with torch.no_grad():
            for number in self._origin(tensor):
                operation = self._operations[number]
                generator = torch.Generator()
                # Draws without a generator go by torch's default one, whose state is the program's.
                before = torch.get_rng_state() if operation.state is not None else None
                try:
                    if operation.state is not None:
                        generator.set_state(operation.state)
                        torch.set_rng_state(operation.state)
                    results = operation.function(*tree_map(real, operation.args), **tree_map(real, operation.kwargs))
                finally:
                    if before is not None:
                        torch.set_rng_state(before)
                for place, value in zip(tree_leaves(operation.results), tree_leaves(results), strict=True):
                    if isinstance(place, Place):
                        if not place.of(value):
                            raise RuntimeError(f"{operation.function} lays its result out in another way than it said")
                        roots.setdefault((place.storage, place.dtype), value)
            return real(Place(tensor)).detach()

    def _origin(self, tensor: Tensor) -> list[int]:
        """The operations that a tensor's values come from, in order."""
        needed, at, left = {_storage_of(tensor)}, set[int](), [_storage_of(tensor)]
        while left:
            for number in self._of_storage.get(left.pop(), ()):
                if number not in at:
                    at.add(number)
                    inputs = {it.storage for it in _inputs_of(self._operations[number])} - needed
                    needed |= inputs
                    left += inputs
        return sorted(at)

    def settle(self, module: nn.Module) -> Mapping[str, Tensor]:
        """Put parameters on the meta device in the places of fake ones; the fake ones by their names.

        All other tensors of the module get their values. RuntimeError: some come from another thread, or are made of
        several without values.
        """
        for name, tensor in module.named_parameters():
            if is_traceable_wrapper_subclass(tensor) and any(map(is_fake, inner_tensors(tensor))):
                raise RuntimeError(f"'{name}' is a {type(tensor).__name__}, which is made of other tensors")
        fakes = {name: it for name, it in module.named_parameters(remove_duplicate=False) if is_fake(it)}
        for name, tensor in fakes.items():
            inputs = (place for number in self._origin(tensor) for place in _inputs_of(self._operations[number]))
            if not all(self._is_made(place.storage) for place in (Place(tensor), *inputs)):
                raise RuntimeError(f"'{name}' was made in another thread, where nothing is noted")
        meta: dict[int, nn.Parameter] = {}
        for part in module.modules():
            for name, tensor in part._parameters.items():
                if tensor is not None and is_fake(tensor):
                    if id(tensor) not in meta:
                        empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
                        meta[id(tensor)] = nn.Parameter(empty, requires_grad=tensor.requires_grad)
                    part._parameters[name] = meta[id(tensor)]
            for name, tensor in part._buffers.items():
                if tensor is not None and is_fake(tensor):
                    part._buffers[name] = self.values(tensor)
        return fakes

    def _is_made(self, storage: int) -> bool:
        """True if the first operation on some memory is one that was not given it."""
        first = self._of_storage.get(storage, [None])[0]
        return first is not None and all(it.storage != storage for it in _inputs_of(self._operations[first]))

    def _note(self, function: Any, args: Any, kwargs: Any, results: Any, state: Tensor | None = None) -> None:
        written = [leaf for leaf in tree_leaves(results) if is_fake(leaf)]
        schema, shared = schema_of(function), set[int]()
        for argument, value in _named(schema, args, kwargs):
            if argument.alias_info is not None:
                arguments = [leaf for leaf in tree_leaves(value) if is_fake(leaf)]
                shared |= {*map(_storage_of, arguments)}
                written += arguments if argument.alias_info.is_write else []
        shares = schema is not None and len(schema.returns) == 1 and schema.returns[0].alias_info is not None
        if shares and shared and not {*map(_storage_of, written)} <= shared:
            raise RuntimeError(f"{function} does not give the memory that it says")
        for storage in {*map(_storage_of, written)}:
            self._of_storage.setdefault(storage, []).append(len(self._operations))
        self._operations.append(Operation(function, _placed(args), _placed(kwargs), _placed(results), state))

    def _real(self, tree: Any) -> Any:
        return tree_map(lambda leaf: self.values(leaf) if is_fake(leaf) else leaf, tree)

    def _writes_to_real(self, func: Any, args: Any, kwargs: Any) -> bool:
        return any(
            isinstance(value, Tensor) and not is_fake(value)
            for argument, value in _named(schema_of(func), args, kwargs)
            if argument.alias_info is not None and argument.alias_info.is_write
        )


def _on_meta(leaf: Any) -> Any:
    if not is_fake(leaf):
        return leaf
    return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")


def _named(schema: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """The arguments of a schema that were given, with their values."""
    if schema is None:  # of what reads
        return
    for number, argument in enumerate(schema.arguments):
        if number < len(args):
            yield argument, args[number]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def _placed(tree: Any) -> Any:
    return tree_map(lambda leaf: Place(leaf) if is_fake(leaf) else leaf, tree)


def _inputs_of(operation: Operation) -> list[Place]:
    return [leaf for leaf in tree_leaves((operation.args, operation.kwargs)) if isinstance(leaf, Place)]


def _storage_of(tensor: Tensor) -> int:
    return StorageWeakRef(tensor.untyped_storage()).cdata


def at_once(function: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    """The result of a function of a tensor; within a `Deferred` block, of its values, which are let go of again."""
    return function(tensor) if (block := current.get()) is None else block.at_once(function, tensor)


def deferred_tensor(shape: Sequence[int], dtype: torch.dtype, read: Read) -> Tensor | None:
    """Within a `Deferred` block, a tensor that `read` gives when its values are made; None where there is no block."""
    return None if (block := current.get()) is None else block.given(shape, dtype, read)
