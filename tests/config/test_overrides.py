import pytest

from burnlike.config import Config, ModuleConfig, apply_overrides
from burnlike.config.overrides import paths_of
from burnlike.errors import ConfigError
from burnlike.train import TrainConfig

from .samples import Box, Circle, Dot, Everything, Group, Pair, Shape

FILE = """
first:
  type: Group
  members:
    - {type: Circle, radius: 1, name: one}
    - &box {type: Box, width: 3}
    - *box
second_value: 1
"""


def errors(cls, text, *overrides):
    with pytest.raises(ConfigError) as caught:
        cls.from_yaml(text, "f.yaml", overrides)
    return str(caught.value).split("\n")


@pytest.mark.parametrize(
    ("override", "field", "value"),
    [
        ("count=3", "count", 3),
        ("ratio=1e-4", "ratio", 1e-4),
        (" ratio = 2 ", "ratio", 2.0),
        ("on=true", "on", True),
        ("text=no", "text", "no"),
        ("text='3'", "text", "3"),
        ('text="a\\tb"', "text", "a\tb"),
        ("text=ROMEO: who # there", "text", "ROMEO: who # there"),
        ("text=a=b", "text", "a=b"),
        ("text=''", "text", ""),
        ("text=- x", "text", "- x"),
        ("maybe=null", "maybe", None),
        ("sizes=[1, 2]", "sizes", [1, 2]),
        ("table.a=1", "table", {"a": 1.0}),
        ("table={a: 1, b: 2}", "table", {"a": 1.0, "b": 2.0}),
        ("box.width=5", "box", Box(width=5)),
        ("shape={type: Circle, radius: 2}", "shape", Circle(radius=2)),
    ],
)
def test_an_option_sets_one_value(override, field, value):
    for config in (Everything.from_yaml("{maybe: 3}", overrides=[override]), apply_overrides(Everything(), [override])):
        assert getattr(config, field) == value
        assert type(getattr(config, field)) is type(value)


def test_options_are_applied_in_order_to_nested_values_and_items():
    config = Pair.from_yaml(FILE, overrides=["first.members.1.width=4", "second_value=5", "second_value=6"])
    assert config == Pair(
        first=Group(members=[Circle(radius=1, name="one"), Box(width=4), Box(width=3)]), second_value=6
    )


def test_indices_in_brackets_replace_and_append():
    config = Pair.from_yaml(
        FILE,
        overrides=[
            "first.members[1].width=4",
            "first.members[+]={type: Dot}",
            "first.members[+].type=Circle",
            "first.members[4].radius=2",
        ],
    )
    members = [Circle(radius=1, name="one"), Box(width=4), Box(width=3), Dot(), Circle(radius=2)]
    assert config == Pair(first=Group(members=members), second_value=1)
    assert Everything.from_yaml("{on: true}", overrides=["sizes[+]=3", "sizes[+]=4"]).sizes == [3, 4]
    assert apply_overrides(Everything(sizes=[1, 2]), ["sizes[1]=5"]).sizes == [1, 5]
    assert paths_of(["a.b[2].c[+]=1", "a.b.2=x"]) == ["a.b.2.c.[+]", "a.b.2"]


def test_an_option_may_give_what_the_file_lacks():
    assert Pair.from_yaml("first: {type: Dot}", overrides=["second_value=2"]) == Pair(first=Dot(), second_value=2)
    assert errors(Pair, "second_value: 1", "first.radius=2") == [
        "--set first.radius=2: first: missing key 'type'; expected one of 'Box', 'Circle', 'Dot', 'Group'"
    ]


def test_a_changed_type_keeps_only_the_keys_that_it_has():
    circle = "{type: Circle, radius: 2, name: x}"
    assert Shape.from_yaml(circle, overrides=["type=Dot"]) == Dot()
    assert Shape.from_yaml(circle, overrides=["type=Box", "width=3"]) == Box(width=3)
    assert Shape.from_yaml(circle, overrides=["width=3", "type=Box"]) == Box(width=3)
    assert Shape.from_yaml(circle, overrides=["type=Circle"]) == Circle(radius=2, name="x")
    # what the old type did not know either, or what an option sets, is a mistake still
    assert errors(Shape, "{type: Circle, radiu: 2}", "type=Dot") == [
        "f.yaml:1:16: radiu: unknown key 'radiu'; Dot has no keys"
    ]
    assert errors(Shape, circle, "type=Dot", "radius=3") == [
        "--set radius=3: radius: unknown key 'radius'; Dot has no keys"
    ]


def test_a_changed_type_does_not_take_defaults_of_the_old_one():
    class Noise(Config):
        """A role."""

    class Low(Noise, tag="Low"):
        name: str = "low"
        level: int = 1

    class Loud(Noise, tag="Loud"):
        name: str = "loud"
        level: int = 9

    class Room(Config):
        noise: Noise

    room = apply_overrides(Room(noise=Low(level=2)), ["noise.type=Loud"])
    assert room == Room(noise=Loud(name="loud", level=2))


def test_a_config_given_is_not_changed():
    pair = Pair.from_yaml(FILE)
    text = pair.to_yaml()
    assert apply_overrides(pair, ["first.members.0.radius=9"]) != pair
    assert pair.to_yaml() == text
    assert apply_overrides(pair, []) == pair


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("second_value", "expected KEY=VALUE, such as training.epochs=3, or ~KEY"),
        ("=3", "expected KEY=VALUE, such as training.epochs=3, or ~KEY"),
        ("first..x=3", "a path is keys joined by dots, with indices in brackets: model.layers[2].d_output"),
        ("first.members[1=3", "a path is keys joined by dots, with indices in brackets: model.layers[2].d_output"),
        ("first.members[1]x=3", "a path is keys joined by dots, with indices in brackets: model.layers[2].d_output"),
        ("[0].members=3", "a path is keys joined by dots, with indices in brackets: model.layers[2].d_output"),
        ("first.members[-1]=3", "[-1] is no index of a list; expected a number from 0, such as [2]"),
        ("first[0]=3", "first: [0] is an item of a list, and here is a mapping with the keys type, members"),
        ("first[+]=3", "first: [+] is an item of a list, and here is a mapping with the keys type, members"),
        ("second_value[0]=3", "second_value: can't set a key of 1 (an int); a mapping is needed here"),
        ("second_value=", "the value is missing; write null for none, '' for an empty string"),
        ("second_value=-1", "second_value: expected an int >= 0, got -1"),
        (
            "second_value=1e999",
            "1e999 is too large for a float (the largest is about 1.8e308); write .inf for infinity",
        ),
        ("second_value=[1", "this '[' is not closed"),
        ("second_value={a: 1, a: 2}", "a: duplicate key 'a'; it stands first in line 1: remove one"),
        ("second_value='a' b", "this does not belong to what stands before it"),
        ("second_vlaue=3", "second_vlaue: unknown key 'second_vlaue'; did you mean 'second_value'?"),
        ("frist.type=Dot", "frist: unknown key 'frist'; did you mean 'first'?"),
        ("second_value.x=3", "second_value: can't set a key of 1 (an int); a mapping is needed here"),
        (
            "first.members.3.width=3",
            "first.members.3: expected the number of an item (0 to 2), or [+] for a new one; got '3'",
        ),
        (
            "first.members.x.width=3",
            "first.members.x: expected the number of an item (0 to 2), or [+] for a new one; got 'x'",
        ),
        ("first.members.1.width=0", "first.members.1.width: expected an int from 1 to 64, got 0"),
        (
            "first.type=Dott",
            "first.type: unknown type 'Dott'; did you mean 'Dot'? A class of your own comes in by --import MODULE",
        ),
    ],
)
def test_a_wrong_option_is_named(override, message):
    (line,) = errors(Pair, FILE, override)
    assert line.startswith(f"--set {override}: ")
    assert line.endswith(message)


def test_mistakes_of_the_file_and_of_options_are_reported_together():
    assert errors(Pair, "{first: {type: Dot}, second_value: 1, zzz: 1}", "second_value=x", "first.a=1") == [
        "f.yaml:1:39: zzz: unknown key 'zzz'; Pair has first, second_value",
        "--set first.a=1: first.a: unknown key 'a'; Dot has no keys",
        "--set second_value=x: second_value: expected an int >= 0, got 'x' (a string)",
    ]


def test_keys_of_too_many_parts_are_refused():
    override = ".".join(["a"] * 100_000) + "=1"
    (line,) = errors(Pair, FILE, override)
    assert line.endswith("...: a key of 100000 parts, nested deeper than 64 levels")


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("epochs=2", "training.epochs"),
        ("Epochs=2", "training.epochs"),
        ("epoch=2", "training.epochs"),
        ("model.epochs=2", "training.epochs"),
        ("d_model=64", "model.d_model"),
        ("threshold=1", "optimizer.grad_clipping.threshold"),
        ("beta_2=0.9", "optimizer.beta_2"),
        ("sed=1", "seed"),
        ("training.epoch=2", "epochs"),
    ],
)
def test_a_key_in_the_wrong_place_is_told_its_path(override, meant):
    with pytest.raises(ConfigError, match=rf"unknown key '\w+'; did you mean '{meant}'\?$"):
        TrainConfig.load("configs/char_gpt.yaml", [override])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("layers.hed.d_input=9", r"layers\.hed: there is no 'hed'; did you mean 'head'\?$"),
        ("layers.other.d_input=9", r"layers\.other: missing key 'type'; expected one of "),
        ("layers.hed={type: Linear, d_input: 9}", r"layers\.hed: missing key 'd_output'"),
    ],
)
def test_a_wrong_name_on_the_way_is_told_the_nearest(override, message):
    text = "{type: Sequential, layers: {head: {type: Linear, d_input: 2, d_output: 3}}}"
    with pytest.raises(ConfigError, match=message):
        ModuleConfig.from_yaml(text, overrides=[override])


def test_a_key_that_is_nowhere_gets_the_list_of_keys():
    with pytest.raises(ConfigError, match=r"unknown key 'xyzzy'; TrainConfig has data, transforms, model, .*$"):
        TrainConfig.load("configs/char_gpt.yaml", ["xyzzy=2"])


TRAINING = """
data: {type: Text, path: a.txt, context_length: 16}
model: {type: DecoderLm, vocab_size: 256, max_sequence_length: 16, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 8}
optimizer: {type: AdamW, beta_1: 0.5, weight_decay: 0.1}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
training: {epochs: 9, batch_size: 64, ema: {decay: 0.5}}
"""


def test_a_mapping_is_put_over_the_one_that_is_there_as_under_defaults(tmp_path):
    given = "{epochs: 3, ema: {warmup: false}}"
    option = TrainConfig.from_yaml(TRAINING, "f.yaml", [f"training={given}"])
    assert (option.training.epochs, option.training.batch_size) == (3, 64)
    assert (option.training.ema.decay, option.training.ema.warmup) == (0.5, False)
    (tmp_path / "lower.yaml").write_text(TRAINING.replace("a.txt", "/a.txt"))
    (tmp_path / "upper.yaml").write_text(f"defaults: lower.yaml\ntraining: {given}\n")
    assert TrainConfig.load(tmp_path / "upper.yaml") == option.replace(data=option.data.replace(path="/a.txt"))
    assert apply_overrides(TrainConfig.from_yaml(TRAINING), [f"training={given}"]) == option


def test_a_mapping_with_another_type_keeps_the_keys_that_it_has():
    config = TrainConfig.from_yaml(TRAINING, "f.yaml", ["optimizer={type: Sgd, momentum: {}}"])
    assert config.optimizer.to_dict()["weight_decay"] == 0.1
    replaced = ["~optimizer", "optimizer={type: AdamW}"]
    assert TrainConfig.from_yaml(TRAINING, "f.yaml", replaced).optimizer.beta_1 == 0.9


def test_an_item_of_a_list_merges_and_a_list_is_replaced():
    config = Pair.from_yaml(FILE, overrides=["first.members[0]={radius: 5}"])
    assert config.first.members[0] == Circle(radius=5, name="one")
    assert len(Pair.from_yaml(FILE, overrides=["first.members=[{type: Dot}]"]).first.members) == 1


def test_a_key_is_deleted():
    config = TrainConfig.from_yaml(TRAINING, "f.yaml", ["~training.ema", "~optimizer.beta_1", "~training.batch_size"])
    assert (config.training.ema, config.optimizer.beta_1, config.training.batch_size) == (None, 0.9, 32)
    assert len(Pair.from_yaml(FILE, overrides=["~first.members[1]"]).first.members) == 2
    # what an alias repeats stays in the other places
    assert Pair.from_yaml(FILE, overrides=["first.members[0]={type: Box, width: 1}", "~first.members.0"])
    assert paths_of(["~a.b[2]"]) == ["a.b.2"]
    assert errors(TrainConfig, TRAINING, "~training.epoch") == [
        "--set ~training.epoch: training: there is no 'epoch' here to delete; did you mean 'epochs'?"
    ]
    assert errors(TrainConfig, TRAINING, "~data.path.x") == [
        "--set ~data.path.x: data.path: there is no 'x' here to delete"
    ]
    (line,) = errors(TrainConfig, TRAINING, "~model.d_ff")
    assert line.startswith("--set ~model.d_ff: model: missing key 'd_ff'")


@pytest.mark.parametrize(
    ("options", "begin"),
    [
        # what an option breaks stands at the option, also where the file has the value that is wrong now
        (["data.context_length=32"], "--set data.context_length=32: model.max_sequence_length: expected at least 32"),
        (["seed=3", "model.type=Linear"], "--set model.type=Linear: model: missing key 'd_input'"),
        (["model.n_heads=3", "seed=3"], "--set model.n_heads=3: model.n_heads: "),
        (["training={epochs: 0}"], "--set training={epochs: 0}: training.epochs: expected an int >= 1"),
        (["training.early_stopping={warmup_epochs: 9}"], "--set training.early_stopping={warmup_epochs: 9}: training"),
    ],
)
def test_a_mistake_that_an_option_makes_stands_at_the_option(options, begin):
    for line in errors(TrainConfig, TRAINING, *options):
        assert line.startswith(begin.split(": ", 1)[0])
    assert any(line.startswith(begin) for line in errors(TrainConfig, TRAINING, *options))


def test_a_mistake_of_the_file_stays_in_the_file():
    lines = errors(TrainConfig, TRAINING.replace("seed", "sed") + "sede: 1\n", "training.epochs=2")
    assert lines == ["f.yaml:7:1: sede: unknown key 'sede'; did you mean 'seed'?"]
    added = ["first.members[+].type=Circle", "first.members[3].radius=2"]
    assert errors(Pair, FILE + "x: 1\n", *added) == ["f.yaml:9:1: x: unknown key 'x'; Pair has first, second_value"]
