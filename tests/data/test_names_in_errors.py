"""Errors about the data of a job say what stands in its config, and name no class that does not stand there."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import burnlike.data
import burnlike.train
from burnlike.cli.main import main
from burnlike.config import Config, registry
from burnlike.data import ComposedDataset, InMemDataset, MapperDataset, PartialDataset
from burnlike.data.dataset import kind_of_batches, name_of_data
from burnlike.errors import DataError
from burnlike.train.tasks.task import call

END = "\noptimizer: {type: AdamW}\ntraining: {epochs: 1, batch_size: 4}\n"
NUMBERS = "{type: Csv, path: t.csv, target: y, kind: numbers}"
TEXT = "{type: Text, path: corpus.txt, validation_fraction: 0.2, context_length: 8}"
PHOTOS = "{type: ImageFolder, path: photos, validation_fraction: 0.5}"
ROWS = "\nmodel: {type: Mlp, hidden: [4]}\ntask: {type: Regression}"
TOKENS = "\nmodel: {type: LstmLm, vocab_size: 256, d_model: 8, d_hidden: 8, n_layers: 1}\ntask: {type: LanguageModel}"
IMAGES = (
    "\nmodel: {type: ResNet, stem: Small, depths: [1], widths: [4], stem_channels: 4}\ntask: {type: Classification}"
)
CASES = {
    "a part beyond the items": (
        f"data: {NUMBERS}\ntransforms: [{{type: Partial, end: 900}}]{ROWS}",
        "Partial: expected 0 <= start <= end <= 18, got 0 and 900",
    ),
    "items that are not there": (
        f"data: {NUMBERS}\ntransforms: [{{type: Selection, indices: [900]}}]{ROWS}",
        r"Selection: expected indices in 0\.\.17",
    ),
    "images of a table": (
        f"data: {NUMBERS}\ntransforms: [{{type: Sampler, ratio: 2.0}}, {{type: MixUp}}]{ROWS}",
        r"items [\d, ]+ of the data: transforms: MixUp and CutMix expect batches",
    ),
    "masks that are mixed": (
        "data: {type: ImageFolder, path: seen, masks: seen, mode: L, validation_fraction: 0.5}\n"
        "transforms: [{type: MixUp}]\nmodel: {type: UNet, channels: 1, num_classes: 2, widths: [4, 4]}\n"
        "task: {type: Segmentation}",
        r"got targets of torch.int64\[\d, 8, 8\]; leave them out for masks, and for numbers(?!\. Mend)",
    ),
    "images of texts": (
        f"data: {TEXT}\ntransforms: [{{type: CutMix}}]{TOKENS}",
        "the batches of this data are windows of tokens",
    ),
    "a file that is no image": (
        f"data: {PHOTOS}\ntransforms: [{{type: Sampler, ratio: 3.0}}]{IMAGES}",
        r"item \d+ of the data can't be read: .*\.png can't be read",
    ),
    "a crop of rows": (
        f"data: {NUMBERS}\ntransforms: [{{type: RandomCrop, padding: 1}}]{ROWS}",
        r"item \d+ of the data can't be read: RandomCrop: expected images \[channels, height, width\]",
    ),
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x,z,y\n" + "".join(f"{it},{it % 3},{it * 2}\n" for it in range(20)))
    Path("corpus.txt").write_text("a line of text, and one more\n" * 20)
    Path("seen").mkdir()
    for number in range(4):
        Image.new("L", (8, 8)).save(f"seen/{number}.png")
    for name in "ab":
        Path("photos", name).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (8, 8)).save(Path("photos", name, f"{number}.png"))
    for path in Path("photos").rglob("[123].png"):
        path.write_bytes(b"no image")


def private_names() -> set[str]:
    """The names of the classes of `burnlike.data` and `burnlike.train` that no config and no guide has."""
    names: set[str] = set()
    for package in (burnlike.data, burnlike.train):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            names |= {
                name
                for name, it in inspect.getmembers(module, inspect.isclass)
                if it.__module__.startswith("burnlike.") and not issubclass(it, Exception | Config)
            }
    registry.load_built_in()
    return names - {tag for role in registry.types_by_role(Config).values() for tag in role}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_said_in_the_words_of_the_config(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    config, message = CASES[case]
    Path("job.yaml").write_text(config + END)
    private = re.compile(rf"\b({'|'.join(sorted(private_names()))}|\w+Dataset)\b|\b_[A-Z]\w+")
    for command in ("check", "train"):
        assert main([command, "job.yaml"]) != 0
        printed = " ".join("".join(capsys.readouterr()).split())
        assert re.search(message, printed), printed
        assert not private.search(printed), printed


def test_a_data_set_of_the_users_own_is_named_and_others_are_not() -> None:
    class Photos:
        dataset = InMemDataset([1])

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int, /) -> int:
            return index

    class Stack:
        def batch(self, items: Any, device: Any) -> Any:
            raise AssertionError

    photos: Any = Photos()
    assert name_of_data(PartialDataset(MapperDataset(photos, str), 0, 2)) == "Photos"
    for ours in (InMemDataset([1]), MapperDataset(InMemDataset([1]), str), ComposedDataset([photos])):
        assert name_of_data(ours) == "the data"
    assert [kind_of_batches(it) for it in (None, Stack())] == ["stacked items", "made by Stack"]
    makers = {
        name: it
        for module in ("text", "chat.codec", "chat.conversations", "chat.preferences", "texts.rows")
        for name, it in vars(importlib.import_module(f"burnlike.data.{module}")).items()
        if name.endswith("Batcher") and name != "Batcher"
    }
    assert len(makers) >= 5
    assert all(" " in it.makes or it.makes.islower() for it in makers.values())


def test_a_model_has_the_name_of_its_class() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(Tensor([[1.0]]))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight

    model = parametrizations.orthogonal(Net())
    assert type(model).__name__ == "ParametrizedNet"
    with pytest.raises(DataError, match="text such as 'a', which Net does not take"):
        call(model, ["a"])
