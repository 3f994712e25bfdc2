"""Configs that burnlike saves as JSON are read by Burn, and what Burn saves of them is read as the same config."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec.inspect as mi
import pytest

from burnlike import nn, optim
from burnlike.config import Config
from burnlike.config.burn_json import ONLY_HERE, to_burn_json
from burnlike.config.registry import fields_of, imported, is_role, load_built_in
from burnlike.errors import ConfigError
from burnlike.nn.initializers.configs import Initializer
from burnlike.nn.roles import ActivationConfig, NormalizationConfig

from .running import HERE, ask, random_of

pytestmark = pytest.mark.burn
DRAWN = 12
OURS = {
    "LBFGSConfig": "LbfgsConfig",
    "CosineAnnealingLrSchedulerConfig": "CosineAnnealingConfig",
    **{
        f"{name}LrSchedulerConfig": f"{name}LrConfig"
        for name in ("Composed", "Exponential", "Linear", "Noam", "Sequential", "Step")
    },
}
ENUMS: dict[str, type[Config]] = {
    "ActivationConfig": ActivationConfig,
    "GradientClippingConfig": optim.GradientClipping,
    "Initializer": Initializer,
    "NormalizationConfig": NormalizationConfig,
}
BURNS: dict[str, set[str]] = {
    "ActivationConfig": {
        "Identity", "Gelu", "PRelu", "Relu", "LeakyRelu", "SwiGlu", "Selu", "Sigmoid", "Tanh", "HardSigmoid",
        "HardSwish", "Softplus", "Softsign", "Elu", "Celu", "ThresholdedRelu", "HardShrink", "SoftShrink", "Shrink",
    },
    "GradientClipping": {"ClipByNorm", "ClipByValue"},
    "LrSchedulerConfig": {"ConstantLr", "LinearLr", "CosineAnnealing", "ExponentialLr", "NoamLr", "StepLr"},
}  # fmt: skip
"""The variants of Burn's enums that have fewer than burnlike's roles; those of a schedule that are not nested."""


def kinds() -> list[str]:
    """The configs that the program knows."""
    text = (HERE / "src" / "bin" / "configs.rs").read_text()
    return re.findall(r"^        (\w+),$", text, re.MULTILINE)[1:]


def class_of(kind: str) -> Any:
    name = OURS.get(kind, kind)
    return getattr(nn, name, None) or getattr(optim, name)


def drawn(random: Random, cls: type[Config]) -> Config:
    """A config with values at random that Burn's has, too."""
    lacks = {name for base in cls.__mro__ for name in ONLY_HERE.get(base.__name__, ())}
    for _ in range(2000):
        values = {
            field.name: value(random, field.type)
            for key, field in fields_of(cls).items()
            if key not in lacks and (field.required or key in ("num_iters", "output_size") or random.random() < 0.6)
        }
        if "num_iters" in values and values["num_iters"] is None:
            continue  # Burn's has no run to take it from
        try:
            return cls(**values)
        except ConfigError:
            continue  # of numbers that don't go together
    raise AssertionError(f"no values for {cls.__name__}")


def value(random: Random, wanted: mi.Type) -> Any:
    match wanted:
        case mi.Metadata():
            return value(random, wanted.type)
        case mi.UnionType():
            return value(random, random.choice(wanted.types))
        case mi.BoolType():
            return random.random() < 0.5
        case mi.IntType():
            low = wanted.ge if wanted.ge is not None else 1
            step = wanted.multiple_of or 1
            return math.ceil(max(low, 0) / step) * step + step * random.randrange(4)
        case mi.FloatType():
            return float(random.choice(["0.0", "0.125", "0.1", "0.9", "1.0", "2.5", "-0.8", "1e-5", "3.25e-3"]))
        case mi.LiteralType():
            return random.choice([it for it in wanted.values if it != "OriginalTransposed"])  # which Burn lacks
        case mi.VarTupleType() | mi.ListType():
            length = random.randint(wanted.min_length or 1, min(wanted.max_length or 3, 4))
            return [value(random, wanted.item_type) for _ in range(length)]
        case mi.TupleType():
            return [value(random, it) for it in wanted.item_types]
        case mi.StructType() if is_role(wanted.cls):
            variants = imported(wanted.cls)
            names = BURNS.get(wanted.cls.__name__, {*variants})
            return drawn(random, variants[random.choice(sorted(names & {*variants}))])  # pyright: ignore
        case mi.StructType():
            return drawn(random, wanted.cls)  # pyright: ignore[reportArgumentType]
        case mi.NoneType():
            return None
    raise AssertionError(wanted)


def cases(kind: str, folder: Path) -> Iterator[tuple[Config, dict[str, Any]]]:
    random = random_of(f"configs {kind}")
    for number in range(DRAWN):
        config = drawn(random, class_of(kind))
        place = folder / f"{kind}{number}.json"
        if number:
            place.write_text(to_burn_json(config))
        else:
            config.save(place)  # which waits for the disk
        yield config, {"kind": kind, "from": str(place), "to": str(folder / f"{kind}{number} of Burn.json")}


def without_f32(value: Any) -> Any:
    """What a file says, its numbers as Burn rounds them."""
    if isinstance(value, dict):
        return {key: without_f32(it) for key, it in value.items()}
    if isinstance(value, list):
        return [without_f32(it) for it in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def test_all_configs_are_here() -> None:
    names = json.loads((HERE / "names.json").read_text())
    public = {it for crate in ("burn-nn", "burn-optim") for it in names[crate].split() if it.endswith("Config")}
    assert public - {*kinds()} == {"WeightDecayConfig", "LrSchedulerConfig"}  # parts of others


def test_every_config_of_burns_is_read_and_written(tmp_path: Path) -> None:
    load_built_in()
    rows = [it for kind in kinds() if kind not in ENUMS for it in cases(kind, tmp_path)]
    answers = ask("configs", [case for _, case in rows])
    assert len({case["kind"] for _, case in rows}) > 85
    for (config, case), answer in zip(rows, answers, strict=True):
        assert answer == {}, (case["kind"], answer, Path(case["from"]).read_text())
        ours, theirs = (json.loads(Path(case[name]).read_text()) for name in ("from", "to"))
        assert without_f32(ours) == without_f32(theirs), case["kind"]
        again = type(config).load(case["to"])
        assert json.loads(to_burn_json(again)) == theirs, case["kind"]


def test_enums_by_themselves_are_read(tmp_path: Path) -> None:
    load_built_in()
    rows: list[tuple[Config, dict[str, Any]]] = []
    for kind, role in ENUMS.items():
        holder = type("HolderConfig", (Config,), {"__annotations__": {"part": role}, "__module__": __name__})
        for tag in sorted(BURNS.get(role.__name__, {*imported(role)})):
            part = drawn(random_of(f"{kind} {tag}"), imported(role)[tag])  # pyright: ignore[reportArgumentType]
            place = tmp_path / f"{kind}{tag}.json"
            holder(part=part).save(place)
            assert holder.load(place) == holder(part=part)
            place.write_text(json.dumps(json.loads(place.read_text())["part"]))
            rows.append((part, {"kind": kind, "from": str(place), "to": f"{place} of Burn.json"}))
    for (part, case), answer in zip(rows, ask("configs", [case for _, case in rows]), strict=True):
        assert answer == {}, (case, answer)
        again = ENUMS[case["kind"]].load(case["to"])
        assert without_f32(again.to_dict()) == without_f32(part.to_dict()), case
