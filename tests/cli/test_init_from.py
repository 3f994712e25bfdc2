"""`burnlike init --from DATA`: each kind of data from an empty folder to a trained model, and what is no data."""

import csv
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from burnlike.cli.commands import init
from burnlike.cli.main import main
from burnlike.errors import ArgumentError, DataError

from ..marks import slow, weekly
from .commands import run
from .guides import DOCS, commands_of, run_commands


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, rows: list[list[object]], delimiter: str = ",", encoding: str = "utf-8") -> None:
    with open(name, "w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)


def customers(count: int = 240) -> list[list[object]]:
    draw = random.Random(0)
    rows: list[list[object]] = [["kunden_id", "seit", "laufzeit", "preis", "anrufe", "vertrag", "churn"]]
    for number in range(count):
        term = draw.randint(0, 72)
        price = "" if draw.random() < 0.1 else f"{draw.uniform(5, 90):.2f}".replace(".", ",")
        calls = "k.A." if draw.random() < 0.05 else draw.randint(0, 6)
        contract = draw.choice(["monatlich", "jährlich"])
        leaves = term < 30 and contract == "monatlich"
        row = [f"K{number:05d}", f"{draw.randint(1, 28):02d}.{draw.randint(1, 12):02d}.2021", term, price, calls]
        rows.append([*row, contract, "ja" if leaves else "nein"])
    return rows


def table() -> list[str]:
    write("data.csv", customers(), ";", "cp1252")
    return ["data.csv", "--target", "churn"]


def prices() -> list[str]:
    draw = random.Random(1)
    sizes = [(draw.uniform(20, 200), draw.choice(["old", "new"])) for _ in range(200)]
    write("data.csv", [["size", "state", "price"], *([s, it, 1000 * s + 5000 * (it == "new")] for s, it in sizes)])
    return ["data.csv", "--target", "price"]


def two_targets() -> list[str]:
    draw = random.Random(11)
    rows = [[x := draw.gauss(0, 1), z := draw.gauss(0, 1), 300 + 20 * x - 9 * z, z / 5] for _ in range(200)]
    write("data.csv", [["x", "z", "price", "days"], *rows])
    return ["data.csv", "--target", "price", "--target", "days"]


def series() -> list[str]:
    draw = random.Random(2)
    rows = [[f"2024-{1 + day // 28:02d}-{1 + day % 28:02d}", day % 7, day + draw.random()] for day in range(300)]
    write("data.csv", [["day", "weekday", "load"], *rows])
    return ["data.csv", "--target", "load"]


def texts() -> list[str]:
    draw = random.Random(3)
    good, bad = ("very good and fast", "wonderful, thank you"), ("far too late and broken", "bad, never again")
    begins = ("the product that came was", "I find what they sent", "the parcel of my aunt is")
    rows = [[f"{draw.choice(begins)} {draw.choice(good if it % 2 else bad)} {it}", "yes" if it % 2 else "no"]
            for it in range(120)]  # fmt: skip
    write("data.csv", [["text", "label"], *rows])
    return ["data.csv"]


def compared() -> list[str]:
    draw = random.Random(10)
    ways = [(f"{who} buys {what} today", f"{what} is what {who} purchases") for who in ("a dog", "my aunt", "the boss")
            for what in ("a red car", "fresh bread", "green tea", "an old house")]  # fmt: skip
    rows = []
    for number in range(300):
        one, other = draw.choice(ways), draw.choice(ways)
        one = other if number % 2 else one
        rows.append([f"{one[0]} {number % 9}", other[1], "alike" if one == other else "different"])
    write("data.csv", [["text_a", "text_b", "label"], *rows])
    return ["data.csv"]


def words() -> list[str]:
    draw = random.Random(4)
    lines = []
    for _ in range(60):
        lines += [
            f"{draw.choice(['Anna', 'Ben'])} B-PER",
            "lives O",
            "in O",
            f"{draw.choice(['Rome', 'Oslo'])} B-LOC",
            "",
        ]
    Path("data.conll").write_text("\n".join(lines))
    return ["data.conll"]


def pairs() -> list[str]:
    draw = random.Random(5)
    letters = [[draw.choice("abcdef") for _ in range(draw.randint(3, 6))] for _ in range(120)]
    write("data.csv", [["source", "target"], *([" ".join(it), " ".join(reversed(it))] for it in letters)])
    return ["data.csv"]


def chat() -> list[str]:
    messages = [
        [
            {"role": "user", "content": f"what is {it} plus {it % 7}?"},
            {"role": "assistant", "content": f"{it + it % 7}"},
        ]
        for it in range(60)
    ]
    Path("data.jsonl").write_text("".join(json.dumps({"messages": it}) + "\n" for it in messages))
    return ["data.jsonl"]


def corpus() -> list[str]:
    draw = random.Random(6)
    Path("data").mkdir()
    for number in range(3):
        sentences = (
            f"The dog {draw.choice(['barks', 'sleeps'])} in the {draw.choice(['garden', 'house'])}." for _ in range(150)
        )
        Path("data", f"{number}.txt").write_text("\n".join(sentences))
    return ["data"]


def photos() -> list[str]:
    from PIL import Image

    draw = random.Random(7)
    for name, color in (("red", (200, 30, 30)), ("blue", (30, 30, 200))):
        Path("data", name).mkdir(parents=True)
        for number in range(20):
            shade = tuple(it + draw.randint(-20, 20) for it in color)
            Image.new("RGB", (24, 20 + draw.randint(0, 8)), shade).save(Path("data", name, f"{number}.png"))
    Path("data", "red", "damaged.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut off")
    return ["data"]


def masks() -> list[str]:
    from PIL import Image, ImageDraw

    draw = random.Random(8)
    for name in ("photos", "masken"):
        Path("data", name).mkdir(parents=True)
    for number in range(12):
        image, mask = Image.new("RGB", (32, 32), (20, 20, 40)), Image.new("L", (32, 32), 0)
        x, y = draw.randint(2, 14), draw.randint(2, 14)
        ImageDraw.Draw(image).ellipse((x, y, x + 14, y + 14), fill=(220, 200, 90))
        ImageDraw.Draw(mask).ellipse((x, y, x + 14, y + 14), fill=1)
        image.save(f"data/photos/{number}.png")
        mask.save(f"data/masken/{number}.png")
    return ["data"]


KINDS: dict[str, tuple[Callable[[], list[str]], str, str]] = {
    "table": (table, "Csv", "auroc"),
    "prices": (prices, "Csv", "r2"),
    "two_targets": (two_targets, "Csv", "r2"),
    "series": (series, "Csv", "mae"),
    "texts": (texts, "TextClassification", "accuracy"),
    "compared": (compared, "TextClassification", "accuracy"),
    "words": (words, "TaggedWords", "span_f1"),
    "pairs": (pairs, "TextPairs", "rouge_l"),
    "chat": (chat, "Chat", "perplexity"),
    "corpus": (corpus, "Text", "loss"),
    "photos": (photos, "ImageFolder", "accuracy"),
    "masks": (masks, "ImageFolder", "dice"),
}


def values(metric: str) -> list[float]:
    lines = map(json.loads, Path("runs/data/metrics.jsonl").read_text().splitlines())
    return [it[metric] for it in lines if it["split"] == "valid"]


@pytest.mark.parametrize("kind", [*(it for it in KINDS if it != "corpus"), *slow("corpus")])
def test_each_kind_of_data_becomes_a_job_that_trains_without_an_edit(kind: str, capsys: pytest.CaptureFixture[str]):
    make, data_type, metric = KINDS[kind]
    assert run(init, "--from", *make()) == 0
    said = capsys.readouterr().out
    assert "next: burnlike train data.yaml" in said
    assert yaml.safe_load(Path("data.yaml").read_text("utf-8"))["data"]["type"] == data_type
    assert main(["check", "data.yaml"]) == 0
    shorter = ["--set", "training.epochs=1", "--set", "device=cpu"]
    if "warmup_steps" in Path("data.yaml").read_text("utf-8"):  # longer than this one epoch
        shorter += ["--set", "lr_scheduler.warmup_steps=0"]
    assert main(["train", "data.yaml", *shorter]) == 0
    assert len(values(metric)) == 1


@pytest.mark.parametrize(
    ("kind", "reached"),
    [
        *slow(("table", 95)),
        *weekly(("prices", 0.99), ("words", 99), ("two_targets", 0.99), ("texts", 95), ("compared", 95)),
        *weekly(("photos", 95), ("masks", 0.9)),
    ],
)
def test_the_whole_training_learns_what_is_there_to_learn(kind: str, reached: float):
    make, _, metric = KINDS[kind]
    run(init, "--from", *make())
    assert main(["train", "data.yaml", "--set", "device=cpu"]) == 0
    assert max(values(metric)) >= reached


def test_a_table_of_another_country_is_read_as_it_is_written():
    run(init, "--from", *table())
    data = yaml.safe_load(Path("data.yaml").read_text("utf-8"))["data"]
    assert (data["delimiter"], data["decimal"], data["encoding"]) == (";", ",", "cp1252")
    assert data["missing_values"] == ["k.A."]
    assert data["exclude"] == ["kunden_id"]
    assert data["columns"]["seit"] == {"kind": "date", "format": "%d.%m.%Y", "parts": ["days", "month", "weekday"]}
    assert data["columns"]["preis"] == {"kind": "number", "missing": "flag"}
    assert data["columns"]["vertrag"] == {"kind": "category", "unknown": "own"}


def test_an_image_that_cannot_be_read_is_left_out_and_named():
    run(init, "--from", *photos())
    text = Path("data.yaml").read_text()
    assert yaml.safe_load(text)["training"]["on_bad_item"] == "skip"
    assert "1 image can't be read, such as damaged.jpg" in text


def colours(folder: str, mode: str, names: str = "{}.png") -> None:
    """Images of many colours or greys in a folder of `data`."""
    from PIL import Image

    Path("data", folder).mkdir(parents=True)
    for number in range(14):
        pixels = random.Random(number).randbytes(3 * 20 * 20)
        Image.frombytes("RGB", (20, 20), pixels).convert(mode).save(Path("data", folder, names.format(number)))


@pytest.mark.parametrize("names", ["{}.png", "b{}.png"])
def test_grey_images_of_one_class_are_neither_masks_nor_all(names: str):
    colours("a", "L")
    colours("b", "RGB", names)
    run(init, "--from", "data")
    job = yaml.safe_load(Path("data.yaml").read_text())
    assert job["task"]["type"] == "Classification"
    assert "mode" not in job["data"]


def test_an_image_without_a_mask_and_other_classes_for_validation_are_refused():
    assert masks() == ["data"]
    Path("data/masken/3.png").unlink()
    with pytest.raises(DataError, match="data/masken: expected a mask of the name of each image in data/photos, such"):
        run(init, "--from", "data")
    shutil.rmtree("data")
    for folder in ("train/a", "train/b", "val/a", "val/c"):
        colours(folder, "RGB")
    with pytest.raises(DataError, match="data/val: expected the folders of data/train, a, b, got a, c"):
        run(init, "--from", "data")
    assert not Path("data.yaml").exists()


def test_masks_that_lack_a_class_are_not_balanced():
    from PIL import Image

    masks()
    Image.new("L", (32, 32), 3).save("data/masken/0.png")  # and none has class 2
    run(init, "--from", "data")
    job = yaml.safe_load(Path("data.yaml").read_text())
    assert job["model"]["num_classes"] == 4
    assert "class_weights" not in job["task"]


def test_a_target_is_taken_by_its_name_or_asked_for_with_the_columns(capsys: pytest.CaptureFixture[str]):
    prices()
    assert run(init, "--from", "data.csv") == 0
    assert "the target is 'price', by its name" in capsys.readouterr().out
    write("cars.csv", [["speed", "dist"], *([it % 20, it * it + it % 3 / 10] for it in range(50))])
    with pytest.raises(ArgumentError, match=r"such as --target dist; the columns are\n  speed +number\n  dist +number"):
        run(init, "--from", "cars.csv")
    with pytest.raises(ArgumentError, match=r"--target dits: there is no such column.*did you mean 'dist'"):
        run(init, "--from", "cars.csv", "--target", "dits")
    assert not Path("cars.yaml").exists()


def test_whole_numbers_that_count_the_rows_are_a_feature_where_there_is_no_other():
    write("sunspots.csv", [["YEAR", "activity"], *([1700 + it, 50 + it % 11 + it / 100] for it in range(60))])
    run(init, "--from", "sunspots.csv", "--target", "activity")
    assert "exclude" not in yaml.safe_load(Path("sunspots.yaml").read_text())["data"]


def test_nothing_that_is_there_is_replaced(tmp_path: Path):
    prices()
    Path("data.yaml").write_text("mine")
    with pytest.raises(ArgumentError, match=r"data\.yaml: is there already and stays as it is; .*--force"):
        run(init, "--from", "data.csv")
    with pytest.raises(ArgumentError, match="is an input of the command"):
        run(init, "--from", "data.csv", "--out", "data.csv", "--force")
    assert Path("data.yaml").read_text() == "mine"
    assert run(init, "--from", "data.csv", "--force") == 0
    assert Path("data.yaml").read_text() != "mine"


def test_pairs_of_answers_are_named_with_the_job_that_takes_them() -> None:
    rows = [{"prompt": f"{number}?", "chosen": "yes", "rejected": "no"} for number in range(20)]
    Path("pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(ArgumentError, match=r"pairs of answers.*\{type: Preferences, path: pairs.jsonl, .*type: Dpo"):
        run(init, "--from", "pairs.jsonl")


def test_a_tokenizer_that_is_there_keeps_the_job_from_being_written():
    texts()
    Path("data.tokenizer.json").write_text("mine")
    with pytest.raises(ArgumentError, match=r"data\.tokenizer\.json: is there already"):
        run(init, "--from", "data.csv")
    assert not Path("data.yaml").exists()


def test_a_job_in_another_folder_names_whole_paths(tmp_path: Path):
    prices()
    Path("jobs").mkdir()
    run(init, "--from", "data.csv", "--out", "jobs/first.yaml")
    assert yaml.safe_load(Path("jobs/first.yaml").read_text())["data"]["path"] == str(tmp_path / "data.csv")


def _made(name: str, content: bytes | None) -> str:
    if content is None:
        Path(name).mkdir()
    else:
        Path(name).write_bytes(content)
    return name


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "expected data, got an empty file"),
        ("head.csv", b"a,b\n", "expected rows below the names of the columns, got none"),
        ("one.csv", b"x\n1\n2\n3\n", "expected two or more columns, one of them to predict, got one, 'x'"),
        ("binary.csv", b"PK\x03\x04\x00\x00\x00", "expected text, got a file with bytes that no text has"),
        ("wide.csv", "a,b\n1,2\n".encode("utf-16"), "got UTF-16; save it as UTF-8"),
        ("numbers.csv", b"1,2\n3,4\n", "expected a first line with the names of the columns, got numbers: 1, 2"),
        ("index.csv", b",a\n0,1\n", "column 1 has none; pandas writes its index without one"),
        ("bytes.jsonl", b'{"a": "\xfc"}\n', "bytes.jsonl:1:8: expected UTF-8, got the byte 0xfc; convert the file"),
        ("book.xlsx", b"PK", "a spreadsheet; save the sheet as CSV"),
        ("list.json", b"[]", "write an object a line"),
        ("thing", b"x", "expected data, got a file that ends in nothing"),
        ("nothing", None, "expected data, got an empty folder; --from takes a table"),
        ("same.csv", b"a,b\n1,2\n2,2\n", "expected a target of classes or numbers, 'b' has 1 value"),
        ("few.csv", b"a,b\n1,2\n2,3\n", "expected 10 or more rows to learn of, got 2"),
    ],
)
def test_what_is_no_data_is_refused_with_a_remedy(name: str, content: bytes | None, message: str):
    _made(name, content)
    target = ["--target", "b"] if name in ("same.csv", "few.csv") else []
    with pytest.raises((ArgumentError, DataError)) as caught:
        run(init, "--from", name, *target)
    assert message in str(caught.value)
    assert not Path(f"{Path(name).stem}.yaml").exists()


def test_a_missing_file_and_a_target_of_data_without_columns_are_refused():
    with pytest.raises(DataError, match="there is no file or folder"):
        run(init, "--from", "nowhere.csv")
    with pytest.raises(ArgumentError, match="--target x: data has no columns"):
        run(init, "--from", *corpus(), "--target", "x")


@pytest.mark.parametrize("command", ["train", "check", "data"])
def test_data_in_place_of_a_config_names_the_command(command: str, capsys: pytest.CaptureFixture[str]):
    prices()
    assert main([command, "data.csv"]) == 2
    captured = capsys.readouterr()
    assert "`burnlike init --from data.csv` looks at it and writes a config" in captured.out + captured.err


def test_options_of_one_form_are_refused_with_the_other():
    with pytest.raises(ArgumentError, match="--target is for --from DATA"):
        run(init, "folder", "--target", "x")


def test_the_commands_of_the_page_run_and_say_what_it_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    page = (DOCS.parent / "start/own_data.md").read_text("utf-8")
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
    commands = commands_of(page)
    said = run_commands([commands[0]], monkeypatch, capsys)[commands[0]]
    shown = re.findall(r"```bash\nburnlike init.*?```\n```\n(.*?)```", page, re.DOTALL)[0]
    for line in shown.splitlines():
        if "..." not in line:
            assert line in said.splitlines()
    written = Path("people.yaml").read_text("utf-8")
    for line in re.findall(r"```yaml\n(data:.*?)```", page, re.DOTALL)[0].splitlines():
        assert line in written.splitlines()
    capsys.readouterr()
    run_commands([it.replace("train people.yaml", "train people.yaml --set training.epochs=3") for it in commands[1:]],
                 monkeypatch, capsys)  # fmt: skip
    assert len(Path("bought.csv").read_text().splitlines()) == 401
