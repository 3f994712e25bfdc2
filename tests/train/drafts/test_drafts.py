"""What is decided for data: how a file is written, what its columns are, the split, the weights and the size."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from burnlike.errors import ArgumentError, DataError
from burnlike.train import TrainConfig
from burnlike.train.drafts.drafting import drafted
from burnlike.train.drafts.writing import Draft, Key, Place, job_text, table_text


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def job_of(content: str | bytes, *targets: str, name: str = "data.csv") -> dict[str, Any]:
    """The job for a file, which is read as a config too."""
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    draft = drafted(Place(Path(name), Path("data.yaml")), targets)
    text = job_text(draft, ["data"])
    for file, made in draft.files.items():
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_bytes(made)
    Path("data.yaml").write_text(text, "utf-8")
    TrainConfig.load("data.yaml")
    return yaml.safe_load(text)


def rows(head: str, make: Any, count: int = 60) -> str:
    return "\n".join([head, *(make(it) for it in range(count))]) + "\n"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_that_by_which_all_lines_have_as_many_columns(delimiter: str):
    others = "".join(it for it in (",", ";", "|") if it != delimiter)
    text = rows(delimiter.join("abc"), lambda it: delimiter.join((str(it % 7), f"k{others[: it % 3]}", str(it % 2))))
    assert job_of(text, "c")["data"].get("delimiter", ",") == delimiter


def test_a_comma_in_quotes_and_a_byte_order_mark_are_no_delimiter():
    text = rows("name,n,y", lambda it: f'"a, b {it % 3}",{it * it % 13},{it % 2}')
    data = job_of(b"\xef\xbb\xbf" + text.encode(), "y")["data"]
    assert "delimiter" not in data
    assert "encoding" not in data


def test_bytes_that_are_no_utf_8_are_cp1252_and_control_characters_latin_1():
    text = rows("städte;y", lambda it: f"Köln {it % 3};{it % 2}")
    assert job_of(text.encode("cp1252"), "y")["data"]["encoding"] == "cp1252"
    assert job_of(text.replace("K", "\x81").encode("latin-1"), "y")["data"]["encoding"] == "latin-1"


def test_a_decimal_comma_is_seen_and_a_thousand_of_other_numbers_is_not():
    assert job_of(rows("x;y", lambda it: f"{it},5;{it % 2}"), "y")["data"]["decimal"] == ","
    assert "decimal" not in job_of(rows("x;y", lambda it: f"{it}.5;{it % 2}"), "y")["data"]


def test_ids_constants_sentences_and_texts_that_are_rare_are_left_out():
    text = rows(
        "id,code,one,note,city,x,y",
        lambda it: f"{it},K{it:04d},7,this is a note of the row {it},town {it % 55},{it % 9},{it % 2}",
    )
    assert job_of(text, "y")["data"]["exclude"] == ["id", "code", "one", "note", "city"]


def test_numbers_with_separators_or_a_unit_are_no_names_of_rows():
    text = rows("amount,pct,code,x,y", lambda it: f'"{it + 1},{it * 7 + 100}.50",{it}.5%,K{it:04d},{it % 9},{it % 2}')
    assert job_of(text, "y")["data"]["exclude"] == ["amount", "pct", "code"]
    job = Path("data.yaml").read_text()
    assert "amount has numbers written as 1,100.50; write plain ones" in job
    assert "code names the rows" in job
    job_of(rows("zip,x,y", lambda it: f"{it:05d},{it % 9},{it % 2}"), "y")
    assert "zip names the rows" in Path("data.yaml").read_text()


def test_a_gap_becomes_a_feature_and_a_row_without_a_target_is_dropped():
    text = rows(
        "x,k,y", lambda it: f"{'' if it == 3 else it},{'' if it == 4 else 'ab'[it % 2]},{'' if it == 5 else it % 2}"
    )
    columns = job_of(text, "y")["data"]["columns"]
    assert columns == {
        "x": {"kind": "number", "missing": "flag"},
        "k": {"kind": "category", "unknown": "own", "missing": "flag"},
        "y": {"missing": "drop"},
    }


def test_what_stands_for_no_value_in_one_column_does_in_all():
    text = rows("x,k,y", lambda it: f"{'unknown' if it == 3 else it / 2},{('unknown', 'b', 'c')[it % 3]},{it % 2}")
    data = job_of(text, "y")["data"]
    assert data["missing_values"] == ["unknown"]
    assert data["columns"]["k"]["missing"] == "flag"


def test_a_class_or_a_truth_value_stands_for_no_missing_one():
    text = rows("dose,kids,old,x,y", lambda it: f"{(1, 2, 'none')[it % 3]},{(1, 2, 3, 1, 2, 'no')[it % 6]},"
                f"{('yes', 'no')[it % 2]},{it}.5,{('none', 'mild', 'bad')[it % 3]}")  # fmt: skip
    data = job_of(text, "y")["data"]
    assert (data["exclude"], data.get("missing_values")) == (["dose", "kids"], None)
    assert data["columns"] == {"old": "boolean"}  # the target lacks no value either
    assert "dose has none for no value, which other columns have as a class" in Path("data.yaml").read_text()


def test_spaces_around_a_class_are_no_other_class():
    words = "a longer note about the order"
    assert job_of(rows("text,y", lambda it: f"{words} {it}, {it % 2}"), "y")["task"]["type"] == "Classification"
    for one, other in (("yes ", "yes"), ("1", " 1")):
        with pytest.raises(ArgumentError, match=f"'y' has classes that differ in spaces alone, '{one}' and '{other}'"):
            job_of(rows("x,y", lambda it, names=(one, other, "0"): f"{it},{names[it % 3]}"), "y")


@pytest.mark.parametrize(
    ("value", "task"),
    [
        (lambda it: f"{it % 3}", "Classification"), (lambda it: "ab"[it % 2], "Classification"),
        (lambda it: f"{it % 40}", "Regression"), (lambda it: f"{it % 4}.5", "Regression"),
    ],
)  # fmt: skip
def test_text_and_few_whole_numbers_are_classes_other_numbers_a_regression(value: Any, task: str):
    job = job_of(rows("x,y", lambda it: f"{it * 7 % 31},{value(it)}", 80), "y")
    assert job["task"]["type"] == task
    assert job["data"].get("standardize_targets", False) is (task == "Regression")


def test_the_rare_one_of_two_classes_is_weighed_and_another_metric_decides():
    rare = job_of(rows("x,y", lambda it: f"{it * 7 % 31},{it % 10 == 0}"), "y")
    assert rare["task"]["class_weights"] == "balanced"
    assert rare["training"]["keep_best"] == {"metric": "auroc"}
    several = job_of(rows("x,y", lambda it: f"{it * 7 % 31},{'abc'[min(it % 10, 2)]}"), "y")
    assert several["task"] == {"type": "Classification"}
    even = job_of(rows("x,y", lambda it: f"{it * 7 % 31},{it % 2 == 0}"), "y")
    assert "class_weights" not in even["task"]
    assert even["training"]["keep_best"] == {"metric": "loss"}


def test_the_latest_rows_validate_where_a_date_is_their_order():
    ordered = rows("day,x,y", lambda it: f"2024-{1 + it // 28:02d}-{1 + it % 28:02d},{it % 7},{it % 2}")
    assert job_of(ordered, "y")["data"]["split"] == {"time": "day"}
    shuffled = rows("day,x,y", lambda it: f"2024-01-{1 + it * 7 % 28:02d},{it % 7},{it % 2}")
    assert job_of(shuffled, "y")["data"]["split"] == "stratified"


def test_a_second_format_of_all_dates_is_said():
    text = rows("on,y", lambda it: f"{1 + it % 12:02d}/{1 + it * 5 % 12:02d}/2024,{it % 5}.5")
    assert job_of(text, "y")["data"]["columns"]["on"]["format"] == "%m/%d/%Y"
    assert "# or as %d/%m/%Y, which fits all of them too; days grow" in Path("data.yaml").read_text()


def test_times_with_and_without_an_offset_are_left_out():
    text = rows("at,x,y", lambda it: f"2024-01-01 {it % 24:02d}:00{'+02:00' * (it == 3)},{it},{it % 5}.5")
    assert job_of(text, "y")["data"]["exclude"] == ["at"]
    assert "at has times with and without an offset of UTC" in Path("data.yaml").read_text()


def test_dates_with_times_have_their_hour():
    text = rows("at,y", lambda it: f"2024-01-{1 + it // 24:02d} {it % 24:02d}:00,{it % 5}.5")
    assert job_of(text, "y")["data"]["columns"]["at"]["parts"] == ["days", "month", "weekday", "hour"]


def test_more_rows_have_wider_layers_and_larger_batches():
    jobs = [job_of(rows("x,y", lambda it: f"{it * 7 % 31},{it % 2}", count), "y") for count in (60, 5000)]
    assert [it["training"]["batch_size"] for it in jobs] == [8, 64]
    assert [it["model"]["norm"]["num_features"] for it in jobs] == [64, 256]


def test_sentences_beside_a_class_are_texts_and_names_beside_numbers_a_table():
    reviews = rows("text,label", lambda it: f"this is the review number {it} of a thing,{'ab'[it % 2]}")
    assert job_of(reviews)["data"]["type"] == "TextClassification"
    passengers = rows("name,age,fare,y", lambda it: f"Mrs. Anna Maria {it},{it % 60},{it * 3 % 50},{it % 2}")
    assert job_of(passengers, "y")["data"]["type"] == "Csv"


def test_texts_with_numbers_and_texts_without_a_class_are_refused():
    with pytest.raises(ArgumentError, match="expected classes of the texts, 'score' has numbers"):
        job_of(rows("text,score", lambda it: f"this is the review number {it} of a thing,{it}.5"), "score")
    with pytest.raises(DataError, match="expected a class in 'y' of each row, 1 row has none"):
        job_of(rows("text,y", lambda it: f"this is the review number {it} of a thing,{'' if it == 3 else it % 2}"), "y")
    with pytest.raises(DataError, match="expected text in 'text' of each row, 1 row has none"):
        job_of(rows("text,y", lambda it: f"{'' if it == 3 else f'this is the review number {it}'},{it % 2}"), "y")
    some = [
        {"text": f"this is the review number {it}", **({} if it == 3 else {"label": "ab"[it % 2]})} for it in range(9)
    ]
    with pytest.raises(ArgumentError, match=r"such as --target label; the columns are\n  label +not in each row"):
        job_of("\n".join(map(json.dumps, some)), name="data.jsonl")


def test_few_long_texts_have_epochs_by_what_is_read_of_them():
    long = rows("text,label", lambda it: f"{f'this is the review number {it} ' * 1000},{'ab'[it % 2]}", 40)
    assert job_of(long)["training"]["epochs"] == 30


def compared(names: str, classes: str = "ab", text: str = "this is the text number") -> str:
    return rows(names, lambda it: f"{text} {it % 7},and that is another one {it},{classes[it % 2]}")


def test_each_kind_of_texts_has_its_ready_model():
    reviews = rows("text,label", lambda it: f"this is the review number {it} of a thing,{'abc'[it % 3]}")
    model = job_of(reviews)["model"]
    assert (model["type"], model["n_classes"]) == ("TextClassifier", 3)
    tagged = "\n\n".join(f"Anna{it % 9} B-PER\nlives O\nhere O" for it in range(20))
    model = job_of(tagged, name="data.conll")["model"]
    assert (model["type"], model["n_classes"]) == ("TokenTagger", 2)


@pytest.mark.parametrize(
    ("content", "target"),
    [
        (compared("text_a,text_b,label"), "label"),
        (compared("sentence1,sentence2,gold"), "gold"),
        (compared("premise,hypothesis,y"), "y"),
        (compared("new,old,is_duplicate", "01"), "is_duplicate"),
        (rows("new,old,gold", lambda it: f"this is one {it},that is another {it},{('same', 'not')[it % 2]}"), "gold"),
    ],
)
def test_two_texts_that_are_compared_are_pairs_by_their_names_or_by_those_of_the_classes(content: str, target: str):
    job = job_of(content, target)
    assert job["data"]["text"] == content.split("\n")[0].split(",")[:2]
    assert job["model"]["type"] == "Siamese"


def test_a_title_and_a_text_are_no_pair():
    job = job_of(compared("title,body,label"), "label")
    assert job["data"]["text"] == "body"
    assert job["model"]["type"] == "TextClassifier"


def test_several_targets_are_numbers_in_one_job():
    content = rows(
        "x,price,days", lambda it: f"{it * 7 % 31},{'' if it == 3 else it / 2},{'' if it == 4 else it * 1.5}"
    )
    job = job_of(content, "days", "price")
    assert job["data"]["target"] == ["days", "price"]
    assert (job["data"]["kind"], job["data"]["standardize_targets"]) == ("numbers", True)
    assert job["data"]["columns"] == {"days": {"missing": "drop"}, "price": {"missing": "drop"}}
    assert job["task"]["type"] == "Regression"
    assert [it["type"] for it in job["metrics"]] == ["Mae", "Rmse", "R2"]


@pytest.mark.parametrize("targets", [("x", "k"), ("k", "x"), ("k", "few")])
def test_a_class_among_several_targets_is_refused_by_name(targets: tuple[str, ...]):
    content = rows("z,x,k,few", lambda it: f"{it},{it * 7 % 31}.5,{'ab'[it % 2]},{it % 3}")
    with pytest.raises(ArgumentError, match=r"several targets have numbers each, 'k' has classes; .* --target k$"):
        job_of(content, *targets)
    with pytest.raises(ArgumentError, match=r"'few' has classes"):
        job_of(content, "x", "few")


def test_columns_that_are_not_in_each_object_and_lists_are_left_out_of_json_lines():
    objects = ({"x": it * 7 % 31, "tags": [it], "y": it % 2, **({"z": it} if it % 2 else {})} for it in range(60))
    data = job_of("".join(json.dumps(it) + "\n" for it in objects), "y", name="data.jsonl")["data"]
    assert sorted(data["exclude"]) == ["tags", "z"]


def test_numbers_with_leading_zeros_and_keys_like_words_of_yaml_are_text():
    text = rows("on,yes,y", lambda it: f"0{it % 4}1,{it % 5},{'no' if it % 2 else 'yes'}")
    job = job_of(text, "y")
    assert job["data"]["columns"]["on"]["kind"] == "category"
    assert job["data"]["target"] == "y"


def test_a_text_of_the_data_can_end_no_comment():
    keys = [Key("data", [Key("path", "a\nb", "a\nb: {c: 1}\u2028d\x85e")])]
    text = job_text(Draft("t", keys, [("a",)]), ["a\nb: 1"])
    assert yaml.safe_load(text) == {"data": {"path": "a\nb"}}


def test_a_long_table_shows_its_first_rows_and_the_last():
    lines = table_text([("column", "kind"), *((f"x{it}", "number") for it in range(1500))])
    assert len(lines) == 42
    assert [lines[-2].split(), lines[-1].split()] == [["...", "1,460", "more"], ["x1499", "number"]]
