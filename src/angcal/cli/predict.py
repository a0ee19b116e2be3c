"""Calibrated probabilities of new rows, by a model that angcal fit has saved.

The result has one column for each class, p_CLASS, the likeliest class, and in outside_training how
many entries of the row lie outside the range of the training rows or are categories that these did
not have. Columns that the model does not know are ignored; those that it needs must be there under
the same names. Text that a spreadsheet would take for a formula gets an apostrophe in front. Where
classes have other shares than in training, say which, or give rows without labels that tell.

With --interval every probability comes with two intervals: low_CLASS and high_CLASS, of the
calibrated probability of rows with this score; row_low_CLASS and row_high_CLASS, of the row's own
probability. Of two classes the second has them. --plain adds plain_CLASS, what the logistic
regression itself says before calibration, and --score its score: of each class where there are more
than two.

Examples
--------
  angcal predict model.skops new.csv --out probabilities.csv
  angcal predict model.skops new.parquet --id patient --out probabilities.parquet
  angcal predict model.skops new.csv --out - | head
  angcal predict model.skops new.csv --interval 0.9 --out probabilities.csv
  angcal predict model.skops new.csv --plain --score --out probabilities.csv
  angcal predict model.skops new.csv --prevalence 0.02
  angcal predict model.skops new.csv --prevalence mild=0.7,severe=0.2,fatal=0.1
  angcal predict model.skops new.csv --prevalence-from new.csv

exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage, 3 a package is missing
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from angcal.cli import terminal

ROWS_AT_ONCE = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal predict``."""
    parser.add_argument("model", type=Path, help="file that angcal fit --out has written")
    parser.add_argument("data", type=Path, help="table with the rows to predict")
    parser.add_argument(
        "--out", default="-", help="a .csv or .parquet file; - prints CSV (default: -)"
    )
    terminal.add_key(parser, "file with the key that the model must have been signed with")
    parser.add_argument(
        "--id",
        metavar="COLUMN",
        help="carry this column over to the result (default: that of angcal fit --id)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object about the rows and the model; --out names the table's file",
    )
    parser.add_argument("--force", action="store_true", help="let --out overwrite the input")
    parser.add_argument(
        "--raw-text",
        action="store_true",
        help="write text as it is, even if a spreadsheet would take it for a formula",
    )
    parser.add_argument(
        "--interval",
        nargs="?",
        type=terminal.between_zero_and_one(0.9),
        const=0.9,
        metavar="CONFIDENCE",
        help="add intervals of this confidence (default: 0.9)",
    )
    parser.add_argument(
        "--plain", action="store_true", help="add the probabilities before calibration"
    )
    parser.add_argument("--score", action="store_true", help="add the score of the linear model")
    terminal.add_reading_arguments(parser)
    shares = parser.add_mutually_exclusive_group()
    shares.add_argument(
        "--prevalence",
        metavar="SHARE",
        help="share of the second of two classes where the rows come from, or CLASS=SHARE,... for "
        "all classes",
    )
    shares.add_argument(
        "--prevalence-from",
        type=Path,
        metavar="TABLE",
        help="estimate the shares of the classes from the rows of this table, without labels",
    )


def execute(options: argparse.Namespace) -> None:
    """Carry out a parsed command line."""
    parquet = options.out.lower().endswith(".parquet")
    packages = ["pandas", "rich", *(["pyarrow"] if parquet else [])]
    terminal.require_packages("predict", *packages)
    if options.out == "-" and options.json:
        raise terminal.UsageError("--json needs a file for the probabilities; name it with --out.")
    if options.out != "-":
        inputs = () if options.force else (options.data, options.model)
        terminal.check_out(Path(options.out), ".csv", ".parquet", inputs=inputs)
    from angcal.tables.reading import check_file, is_large, read_table

    check_file(options.data)
    if not options.model.exists():
        raise ValueError(f"{options.model} does not exist; check the name and the folder.")
    from angcal.persistence import about, load

    with terminal.stages(3) as begin, terminal.noted() as notes:
        begin("reading the model")
        model, known = load(options.model, key=options.key), about(options.model)
        begin("reading the table")
        if large := is_large(options.data):
            frame = _without_rows(options.data)
        else:
            needed = [] if options.id is None else [options.id]
            given = terminal.reading_options(options)
            frame = read_table(options.data, least_rows=1, needed=needed, **given)
        options.id = _identifier(options, known, frame)
        rows = _rows_for(model, known, frame.head(0), options.data, options.id)
        model = _at_prevalence(model, known, options)
        begin("predicting, block by block" if large else f"predicting {len(frame)} rows")
        frames = _large_frames(rows, frame, options) if large else [frame]
        numbers, first, more = _predict(model, known, frames, options)
        notes += [f"of the first {first} rows: {note}" if large else note for note in more]
    _say(numbers, notes, known, options)


def _without_rows(path: Path) -> Any:
    """A frame with the columns of a Parquet file."""
    import pandas as pd

    from angcal.tables.fitting import columns_of

    return pd.DataFrame({name: [] for name in columns_of(path)})


def _large_frames(rows: Any, frame: Any, options: argparse.Namespace) -> Iterator[Any]:
    """Blocks of a Parquet file, with the columns that the model needs."""
    from angcal.tables.fitting import batches

    # A model that knows no names takes the columns as they are.
    others = [name for name in frame.columns if name != options.id]
    needed = list(getattr(rows, "columns", others))
    columns = needed if options.id is None else [options.id, *needed]
    return (block for _, block in batches(options.data, columns))


def _move_first(table: Any, first: Any, positive: Any) -> None:
    """Put the class that was asked about before the others."""
    if positive is not None and f"p_{positive}" in table.columns:
        place = list(table.columns).index(f"p_{first}")
        table.insert(place, f"p_{positive}", table.pop(f"p_{positive}"))


def _counted(table: Any) -> dict[str, Any]:
    """How many rows there are, of which classes, and how many are unlike training rows."""
    outside = table.get("outside_training")
    return {
        "rows": len(table),
        "classes": {str(name): int(n) for name, n in table["predicted"].value_counts().items()},
        "rows_outside_training": None if outside is None else int((outside > 0).sum()),
    }


def _say(
    numbers: dict[str, Any], notes: list[str], known: dict[str, Any], options: argparse.Namespace
) -> None:
    """The notes; or what is in the file, and the model's own figures under their names in fit."""
    if not options.json:
        for note in notes:
            terminal.tell(f"note: {note}")
        return
    numbers = numbers | {
        "target": known.get("target"),
        "leave_one_out": known.get("leave_one_out"),
        "warnings": notes,
        "model": str(options.model),
        "predictions": options.out,
    }
    terminal.say(json.dumps(numbers, allow_nan=False))


def _predict(
    model: Any, known: dict[str, Any], frames: Iterable[Any], options: argparse.Namespace
) -> tuple[dict[str, Any], int, list[str]]:
    """Write the probabilities of every block: (counts, rows of the first, notes on the first)."""
    first, notes = 0, []
    total: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    with blocks_written(options) as write:
        for frame in frames:
            rows = _rows_for(model, known, frame, options.data, options.id, quiet=True)
            table = _probabilities(model, rows, frame, options)
            found = _compared_with_training(model, rows, table)
            if not first:
                first, notes = len(frame), found
            _move_first(table, model.classes_[0], known.get("positive"))
            write(table)
            own = _counted(table)
            classes.update(own.pop("classes"))
            total.update({name: n or 0 for name, n in own.items()})
    outside = total["rows_outside_training"] if "outside_training" in table else None
    counts = {"rows": total["rows"], "classes": dict(classes), "rows_outside_training": outside}
    return counts, first, notes


def _identifier(options: argparse.Namespace, known: dict[str, Any], frame: Any) -> str | None:
    """The column to carry over: the one asked for, or that of the fit where it is there."""
    from angcal.tables.errors import require_column

    if options.id is None:
        kept = known.get("id")
        return kept if kept in frame.columns else None
    require_column(list(frame.columns), options.id)
    return str(options.id)


def _compared_with_training(model: Any, rows: Any, table: Any) -> list[str]:
    """Add how many entries of each row are unlike all training rows; say what may be wrong."""
    from angcal.tables import unlike_training

    steps = getattr(model, "steps", None)
    outside, notes = unlike_training(steps[0][1] if steps else None, rows)
    if outside is not None:
        table["outside_training"] = outside
    return notes


def _at_prevalence(model: Any, known: dict[str, Any], options: argparse.Namespace) -> Any:
    """The model itself, or a copy for other shares of the classes, which are printed."""
    from angcal.estimators import with_prevalence, with_prevalence_from
    from angcal.tables import TableError, read_table

    names = [str(label) for label in model.classes_]
    try:
        if options.prevalence is not None:
            model = with_prevalence(model, _given_shares(options.prevalence, names))
        elif options.prevalence_from is not None:
            given = terminal.reading_options(options)
            frame = read_table(options.prevalence_from, least_rows=1, **given)
            rows = _rows_for(model, known, frame, options.prevalence_from, options.id, quiet=True)
            model = with_prevalence_from(model, rows)
        else:
            return model
    except ValueError as error:
        option = "--prevalence" if options.prevalence_from is None else "--prevalence-from"
        raise TableError(f"{option}: {error}") from error
    _tell_shares(model.steps[-1][1] if hasattr(model, "steps") else model, names)
    return model


def _given_shares(text: str, names: list[str]) -> Any:
    """A number, or shares in the order of the classes."""
    parts = [part.rpartition("=") for part in text.split(",")]
    try:
        shares = {name.strip(): float(share) for name, _, share in parts}
    except ValueError:
        raise ValueError(f"{text!r} is neither a number nor CLASS=SHARE,...") from None
    if list(shares) == [""]:
        return shares[""]
    unknown, missing = sorted(set(shares) - set(names)), sorted(set(names) - set(shares))
    if unknown or missing:
        raise ValueError(
            f"give one share for each of the classes {names}; unknown: {unknown}, "
            f"missing: {missing}."
        )
    return [shares[name] for name in names]


def _tell_shares(classifier: Any, names: list[str]) -> None:
    """One line on standard error: which class has which share, and how that is known."""
    found = classifier.prevalence_
    listed = list(zip(names, found.trained, found.shares, strict=True))
    shown = listed[1:] if len(listed) == 2 else listed[:6]
    shares = ", ".join(f"{name} {share:.3g} ({trained:.3g})" for name, trained, share in shown)
    more = ", ..." if len(shown) < len(listed) - (len(listed) == 2) else ""
    line = f"note: shares of classes (in training): {shares}{more}"
    if found.source == "estimated":
        error = found.standard_error[1] if len(listed) == 2 else found.standard_error.max()
        most = "" if len(listed) == 2 else "at most "
        line += (
            f"; from {found.n_rows} rows, standard error {most}{error:.2g}, "
            f"p = {found.p_value:.2g} for no shift"
        )
    terminal.tell(line)


def _rows_for(
    model: Any,
    known: dict[str, Any],
    frame: Any,
    path: Path,
    identifier: str | None,
    quiet: bool = False,
) -> Any:
    """The rows as the model wants them; extra columns are named and left out."""
    from angcal.tables import TableError, aligned
    from angcal.tables.errors import listed

    names = known.get("columns") or list(getattr(model, "feature_names_in_", []))
    others = frame if identifier is None else frame.drop(columns=identifier, errors="ignore")
    if not names:
        wanted = getattr(model, "n_features_in_", others.shape[1])
        if others.shape[1] != wanted:
            raise TableError(
                f"{path} has {others.shape[1]} columns, but the model, which knows no "
                f"names, wants {wanted}; give just those, in their order."
            )
        return others.to_numpy()
    rows = aligned(frame, [str(name) for name in names], str(path))
    known_names = set(names)
    extra = [name for name in others.columns if name not in known_names]
    if extra and not quiet:
        plural = "s" if len(extra) > 1 else ""
        terminal.tell(
            f"note: ignored {len(extra)} column{plural} not used by the model: {listed(extra)}"
        )
    return rows


def _probabilities(model: Any, rows: Any, frame: Any, options: argparse.Namespace) -> Any:
    """A table with the identifier, one column per class, the likeliest class, and intervals."""
    import numpy as np
    import pandas as pd

    from angcal.tables import TableError

    p = _in_blocks(model.predict_proba, rows)
    classes, identifier = np.asarray(model.classes_), options.id
    result = pd.DataFrame(p, columns=[f"p_{label}" for label in classes])
    result["predicted"] = classes[p.argmax(axis=1)]
    if options.interval is not None:
        result = pd.concat([result, _intervals(model, rows, options.interval)], axis=1)
    if options.plain or options.score:
        result = pd.concat([result, _uncalibrated(model, rows, options)], axis=1)
    if identifier is not None:
        if identifier in result.columns:
            raise TableError(
                f"--id {identifier} is also the name of a column of the result; rename it first."
            )
        result.insert(0, identifier, frame[identifier].to_numpy())
    return result


def _in_blocks(predict: Any, rows: Any) -> Any:
    import numpy as np

    starts = range(0, len(rows), ROWS_AT_ONCE)
    return np.concatenate([predict(rows[i : i + ROWS_AT_ONCE]) for i in starts])


def _intervals(model: Any, rows: Any, confidence: float) -> Any:
    """Both intervals of each class, or of the second of two."""
    import numpy as np
    import pandas as pd

    classifier, transform = _classifier(model)
    classes = np.asarray(model.classes_)
    named = classes if len(classes) > 2 else classes[1:]
    columns = {}
    for kind, prefix in (("curve", ""), ("row", "row_")):
        asked = partial(classifier.predict_interval, kind=kind, confidence=confidence)
        found = _in_blocks(lambda block, asked=asked: asked(transform(block)), rows)
        found = found.reshape(len(rows), len(named), 2)
        for k, label in enumerate(named):
            columns[f"{prefix}low_{label}"] = found[:, k, 0]
            columns[f"{prefix}high_{label}"] = found[:, k, 1]
    return pd.DataFrame(columns)


def _uncalibrated(model: Any, rows: Any, options: argparse.Namespace) -> Any:
    """Scores of the linear model, and the probabilities that it takes them for."""
    import pandas as pd
    from scipy.special import expit, softmax

    from angcal.estimators import AngularLogisticRegressionCV
    from angcal.metrics.scores import both_classes
    from angcal.tables import TableError

    classifier, transform = _classifier(model)
    if not isinstance(classifier, AngularLogisticRegressionCV):
        raise TableError(
            "--plain and --score are about the logistic regression of angcal fit, and the model is "
            f"a {type(classifier).__name__}; leave them out."
        )
    scores = _in_blocks(lambda block: classifier._scores(transform(block)), rows)
    columns: dict[str, Any] = {}
    if options.plain:
        p = both_classes(expit(scores)) if scores.ndim == 1 else softmax(scores, axis=1)
        columns |= {f"plain_{label}": p[:, k] for k, label in enumerate(classifier.classes_)}
    if options.score and scores.ndim == 1:
        columns["score"] = scores
    elif options.score:
        columns |= {f"score_{label}": scores[:, k] for k, label in enumerate(classifier.classes_)}
    return pd.DataFrame(columns)


def _classifier(model: Any) -> tuple[Any, Any]:
    """(classifier with intervals, what its rows go through first); a Pipeline has none itself."""
    from sklearn.pipeline import Pipeline

    from angcal.tables import TableError

    piped = isinstance(model, Pipeline)
    classifier = model[-1] if piped else model
    if not hasattr(classifier, "predict_interval"):
        raise TableError(
            f"--interval needs a model with intervals, which {type(classifier).__name__} does not "
            "have; leave --interval out, or fit one with: angcal fit."
        )
    return classifier, model[:-1].transform if piped and len(model) > 1 else lambda rows: rows


# -- the table, written block by block; text in it is harmless -----------------------------------


@contextmanager
def blocks_written(options: argparse.Namespace) -> Iterator[Callable[[Any], None]]:
    """A function that adds a block to the result, which has its name once it is complete."""
    from contextlib import ExitStack

    from angcal.files import written

    with ExitStack() as stack:
        file = None if options.out == "-" else stack.enter_context(written(Path(options.out)))
        if options.out.lower().endswith(".parquet"):
            import pyarrow as pa
            from pyarrow.parquet import ParquetWriter

            writers: list[Any] = []

            def write(table: Any) -> None:
                if not writers:
                    schema = pa.Table.from_pandas(table, preserve_index=False).schema
                    writers.append(stack.enter_context(ParquetWriter(file, schema)))
                block = pa.Table.from_pandas(table, writers[0].schema, preserve_index=False)
                writers[0].write_table(block)
        else:
            begun: list[bool] = []
            if file is None and hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(encoding="utf-8")  # as in a file: names must not get lost

            def write(table: Any) -> None:
                if not options.raw_text:
                    table = _harmless(table)
                text = table.to_csv(index=False, header=not begun)
                begun.append(True)
                if file is None:
                    sys.stdout.write(text)
                else:
                    file.write(text.encode("utf-8"))

        yield write


def _harmless(table: Any) -> Any:
    """The table with text that is neither a formula nor an order to a terminal that shows it."""
    from angcal.files import safe_cell
    from angcal.tables.errors import clean

    changed = 0

    def harmless(entry: Any) -> Any:
        nonlocal changed
        if not isinstance(entry, str):
            return entry
        safe = safe_cell(clean(entry))
        changed += safe != entry
        return safe

    text = [name for name in table.columns if table[name].dtype.kind not in "biuf"]
    table = table.assign(**{name: table[name].map(harmless) for name in text})
    table.columns = [harmless(name) for name in table.columns]
    if changed:
        terminal.tell(
            f"note: {changed} cells that look like formulas or hold control characters were made "
            "harmless; --raw-text leaves them as they are"
        )
    return table
