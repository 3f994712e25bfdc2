"""Plans of tensor and sequence parallelism: which module takes part in which way, by words.

Models and layers say theirs by `parallel_plan()`, models of transformers by their `tp_plan`; a program may say it by a
dict. The words are those of `parallel_words.py`.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from ..errors import ConfigError, nearest
from ..module import Module
from ..module.torch_objects.wrappers import base_tensor, own_class, unwrap
from ..nn.embedding import Embedding
from .parallel_words import HEADS, known_words
from .tensor_parallel import (
    ColwiseParallel,
    DividedInside,
    DrawsItsOwn,
    EmbeddingParallel,
    InSequence,
    OwnDraws,
    RowwiseParallel,
    SequenceBegin,
    SequenceEnd,
    Stretch,
    Style,
    SummedGradients,
)

_STYLES: Mapping[str, Callable[[], Style] | None] = {
    "colwise": ColwiseParallel,
    "rowwise": RowwiseParallel,
    "colwise_gather_output": lambda: ColwiseParallel(gathers=True),
    "rowwise_split_input": lambda: RowwiseParallel(splits=True),
    "embedding": EmbeddingParallel,
    "vocab": lambda: ColwiseParallel(is_head=True),
    "summed": SummedGradients,
    "divided": DividedInside,
    "draws": DrawsItsOwn,
    "sequence": InSequence,
    "sequence_begin": SequenceBegin,
    "sequence_end": SequenceEnd,
    "replicated": None,
}

Plan = dict[str, tuple[str, ...]]
"""By the path of a module, its words."""


def parallelize(
    model: nn.Module, mesh: DeviceMesh, plan: Mapping[str, str] | None = None, without: Collection[str] = ()
) -> nn.Module:
    """Divide the layers of a model among the processes of a mesh of one dimension, in place; returns the model.

    All processes have the same weights and give the model the same inputs. Its results are whole in each.

    Args:
        model: on any device, also `meta`, before `fully_shard`.
        mesh: such as `init_device_mesh("cuda", (8,))`.
        plan: words by path, in which `*` stands for one part of a path; they go before what the model says.
        without: paths of modules that stay as they are, as they are on other processes.

    Raises:
        ConfigError: a word or a path is unknown, no layer has a plan, or sizes do not divide; the message says which.
    """
    model = unwrap(model)
    resolved = plan_of(model, plan or {})
    expect_whole_heads(model, resolved, mesh.size())
    for path, style in _styles(model, resolved).items():
        if path not in without:
            parallelize_module(model.get_submodule(path), mesh, style)
    return model


def tensor_parallel_plan(model: nn.Module) -> dict[str, ParallelStyle]:
    """The model's own plan, for torch's `parallelize_module`."""
    return _styles(model, plan_of(model, {}))


def plan_of(model: nn.Module, overrides: Mapping[str, str]) -> Plan:
    """The words for each module: of the program, else of the modules around it, else of itself."""
    modules = dict(model.named_modules())
    words_of: Plan = {}
    for pattern, words in overrides.items():
        matching = [path for path in modules if _matches(path, pattern)]
        if not matching:
            hint = nearest(pattern, [*modules]) or f"; it has {', '.join(filter(None, modules))}"[:300]
            raise ConfigError(f"distributed.plan.{pattern}: the model has no such module{hint}")
        words_of |= dict.fromkeys(matching, _known(words, f"distributed.plan.{pattern}"))
    covered: list[str] = []
    for owner, module in modules.items():
        plan = _own_plan(module)
        if plan is None or (not isinstance(module, Module) and any(_is_in(owner, it) for it in covered)):
            continue
        covered.append(owner)
        where = f"the plan of {own_class(module).__name__}"
        for pattern, words in plan.items():
            parsed = _known(words, f"{where}, {pattern}")
            for path in modules:
                if _is_in(path, owner) and _matches(path[len(owner) :].lstrip("."), pattern):
                    words_of.setdefault(path, parsed)
    _tie(modules, words_of)
    _expect_plans(modules, words_of, covered, has_own=bool(overrides))
    return words_of


def _own_plan(module: nn.Module) -> Mapping[str, str] | None:
    if callable(getattr(type(module), "parallel_plan", None)):
        return cast("Any", module).parallel_plan()
    library = sys.modules.get("transformers.modeling_utils")
    if library is None or not isinstance(module, library.PreTrainedModel):
        return None
    plan = dict(getattr(module, "tp_plan", None) or {})
    if not plan:
        return None
    head = cast("Any", module).get_output_embeddings()
    names = {id(it): path for path, it in module.named_modules()}
    if head is not None and plan.get(names.get(id(head), "")) in ("colwise_rep", "colwise_gather_output"):
        # Losses of divided classes need no gathered logits, which transformers' word stands for.
        plan[names[id(head)]] = "vocab"
    # Between its layers values are divided: what is dropped there is drawn by each process.
    parents = {path.rpartition(".")[0] for path, words in plan.items() if words == "rowwise"}
    return plan | dict.fromkeys(sorted(parents - {*plan, ""}), "draws")


def _known(text: str, where: str) -> tuple[str, ...]:
    words, problem = known_words(text)
    if problem:
        raise ConfigError(f"{where}: {problem}")
    return words


def _matches(path: str, pattern: str) -> bool:
    parts, wanted = path.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _is_in(path: str, owner: str) -> bool:
    return not owner or path == owner or path.startswith(f"{owner}.")


def _tie(modules: Mapping[str, nn.Module], plan: Plan) -> None:
    """An embedding that a divided head is tied to is divided as it is, and the other way round."""
    tables = {path: base_tensor(module, "weight") for path, module in modules.items() if _kind_of(module)}
    for path, table in tables.items():
        for other, its in tables.items():
            if path in plan or other not in plan or its is not table or table is None:
                continue
            if {"embedding", "vocab", "colwise_gather_output"} & {*plan[other]}:
                word = "embedding" if _kind_of(modules[path]) == "embedding" else "vocab"
                plan[path] = (word,)


def _kind_of(module: nn.Module) -> str:
    if isinstance(module, nn.Embedding | Embedding):
        return "embedding"
    return "linear" if isinstance(module, nn.Linear) else ""


def _expect_plans(modules: Mapping[str, nn.Module], plan: Plan, covered: list[str], *, has_own: bool) -> None:
    """Refuse a model of which no layer is divided, and one with modules of the program's own that say nothing."""
    divides = any(word not in ("replicated", "sequence", "summed") for words in plan.values() for word in words)
    holders = [path for path, module in modules.items() if any(True for _ in module.parameters(recurse=False))]
    unsaid = [path for path in holders if path not in plan and not any(_is_in(path, it) for it in covered)]
    if divides and not has_own:
        unsaid = [path for path in unsaid if not modules[path].__module__.startswith(("torch.nn.", "burnlike."))]
    if (divides and has_own) or (divides and not unsaid):
        return
    unsaid = unsaid or holders  # each says that every process has all of it
    some = ", ".join(it or "the model itself" for it in unsaid[:20]) + (", ..." if len(unsaid) > 20 else "")
    raise ConfigError(
        f"distributed.tensor: nothing says how processes divide these modules: {some}; say it by `distributed.plan:"
        " {PATH: WORD}` (such as colwise for a linear layer, rowwise for the one after it, replicated), or by a"
        " `parallel_plan()` of the model"
    )


def expect_whole_heads(model: nn.Module, plan: Plan, size: int) -> None:
    """Refuse attention whose heads several processes can't share equally, with the numbers."""
    parents = {path.rpartition(".")[0] for path, value in plan.items() if "colwise" in value}
    for path in sorted(parents):
        module: Any = model.get_submodule(path)
        for name in HEADS:
            counts = (getattr(holder, name, None) for holder in (module, getattr(module, "config", None)))
            count = next((it for it in counts if isinstance(it, int)), 0)
            if count % size:
                raise ConfigError(
                    f"distributed.tensor: {size} processes can't share the {count} heads of {path or 'the model'}"
                    f" ({name}) equally; tensor has to be a divisor of {count}"
                )


class _Several(ParallelStyle):
    def __init__(self, styles: Iterable[Style]) -> None:
        super().__init__()
        self.styles = [*styles]

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        for style in self.styles:
            style._apply(module, device_mesh)
        return module


def _styles(model: nn.Module, plan: Plan) -> dict[str, ParallelStyle]:
    stretches = _stretches(model, plan)
    inside = [path for path, value in plan.items() if "divided" in value]
    divided, draws = dict[int, Any](), OwnDraws()
    styles_of: dict[str, ParallelStyle] = {}
    for path, words in plan.items():
        styles: list[Style] = []
        for word in words:
            make = _STYLES[word]
            if make is None:
                continue
            style = make()
            style.path, style.divided, style.draws = path, divided, draws
            style.stretch = stretches.get(path, style.stretch)
            if isinstance(style, ColwiseParallel):
                # The module around them exchanges an input once for query, key and value.
                style.copies = not any(_is_in(path, it) for it in inside)
            styles.append(style)
        if styles:
            styles_of[path] = styles[0] if len(styles) == 1 else _Several(styles)
    return styles_of


def _stretches(model: nn.Module, plan: Plan) -> dict[str, Stretch]:
    """The stretch of each module that lies in one: from one with `sequence_begin` up to one with `sequence_end`."""
    stretches: dict[str, Stretch] = {}
    current, begin, end = None, "", None
    for path, _ in model.named_modules():
        words = plan.get(path, ())
        if end is not None and not _is_in(path, end):
            current = end = None
        if "sequence_begin" in words:
            current, begin = Stretch(), path
        if "sequence_end" in words:
            end = path
        if current is not None:
            stretches[path] = current
    if current is not None and end is None:
        raise ConfigError(f"distributed.plan.{begin}: sequence_begin without a sequence_end after it")
    return stretches
