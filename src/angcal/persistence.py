"""A fitted model <-> a ``.skops`` file that can be opened without trusting who wrote it.

The file is a zip archive by skops: arrays and a description of types, no code. Beside it lies
``angcal.json`` with the versions that wrote it and what the writer said about the model. Loading
accepts the types that are listed here and those that skops trusts by itself (scikit-learn's public
estimators, NumPy's and SciPy's arrays), and no others.

A file holds what predictions need and what was found, and no rows of data: its size does not depend
on how many there were. ``observables_`` and leave-one-out probabilities are part of it on request.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from angcal.estimators.prediction import states_for_files
from angcal.files import written
from angcal.tables.errors import first_line, listed
from angcal.tables.reading import UNREADABLE

# Raised whenever the types in a file change; files of another format are refused.
FORMAT = 3
ABOUT, SCHEMA = "angcal.json", "schema.json"
DAMAGE = (*UNREADABLE, AttributeError, IndexError, RuntimeError)
# Types of each module that a model may hold besides those that skops trusts by itself.
TYPES = {
    "angcal.angle": "Angle",
    "angcal.calibrate": "LeftOut",
    "angcal.link_posterior": "Belief Curves LinkPosterior",
    "angcal.score_bins": "BinnedScores",
    "angcal.baselines.adapters": "OneVsRestCalibration PairedScores",
    "angcal.baselines.calibrators": "BetaCalibration HistogramBinning IsotonicCalibration "
    "PlattScaling QuadraticScaling TemperatureScaling",
    "angcal.baselines.multiclass": "DirichletCalibration MatrixScaling SoftmaxTemperature "
    "StructuredMatrixScaling VectorScaling",
    "angcal.covariance.scale": "ScoreScale",
    "angcal.estimators.angular": "AngularCalibratedClassifier",
    "angcal.estimators.m_estimator": "MEstimator",
    "angcal.estimators.penalty_cv": "AngularLogisticRegressionCV FoldAverage",
    "angcal.estimators.prevalence": "Prevalence",
    "angcal.estimators.score": "ScoreCalibratedClassifier",
    "angcal.intervals": "ChanceLaw ClassLaw KnownClassLaw TwoClassLaw",
    "angcal.links.families": "Cauchit ClippedLinear ComplementaryLogLog Logit Probit",
    "angcal.links.multiclass": "AdditiveIndex InteractionIndex OneVsRest Softmax TwoLayer",
    "angcal.losses": "Exponential HuberisedHinge Logistic Multinomial ProbitLikelihood Squared "
    "SquaredHinge",
    "angcal.observables": "Observables",
    "angcal.penalty_path.choice": "PenaltyAverage PenaltyPath",
    "angcal.penalties": "ElasticNet NoPenalty PseudoHuber Quadratic Ridge",
    "angcal.curve.curves": "AveragedCurve CalibratedCurve ConstantCurve",
    "angcal.curve.predictor": "CurvePart",
    "angcal.sklearn_problems.problem": "LinearHead",
    "angcal.multiclass.calibrate": "AngleMatrix LeftOutClasses",
    "angcal.multiclass.choice": "MapChoice",
    "angcal.multiclass.class_map": "ClassMap",
    "angcal.multiclass.integration": "Noise Rule",
    "angcal.multiclass.predictor": "MulticlassPredictor SeveralPredictor",
    "angcal.tables.columns": "NumberColumns SparseColumns TextColumns",
    "numpy": "dtype",
    "scipy.sparse._csc": "csc_array csc_matrix",
    "scipy.sparse._csr": "csr_array csr_matrix",
    "sklearn.compose._column_transformer": "_RemainderColsList",
    "sklearn.frozen._frozen": "FrozenEstimator",
}
TRUSTED = tuple(f"{module}.{name}" for module, names in TYPES.items() for name in names.split())


class PersistenceError(ValueError):
    """A model cannot be saved or loaded; the message says why and what to do."""


def save(
    model: Any,
    path: Any,
    *,
    about: dict[str, Any] | None = None,
    keep_observables: bool = False,
) -> None:
    """Write a model, so that the file is either whole or not there.

    Rows of data are not part of it: ``pool``, ``sign_holdout`` and ``covariance`` of angcal's
    classifiers are None in the file, but for a covariance estimator.

    Parameters
    ----------
    model : fitted estimator
        One of angcal's, or a scikit-learn Pipeline around one.
    path : str or Path
        By custom its name ends in ``.skops``.
    about : dict, optional
        Anything that JSON can hold, given back by `about`.
    keep_observables : bool, default=False
        Whether ``observables_``, ``loo_proba_`` and ``plain_loo_proba_`` are saved too, whose size
        grows with the training rows. Predictions do not need them.

    Raises
    ------
    PersistenceError
        Where the model holds something that `load` would refuse, such as a function.

    See Also
    --------
    load : The model again.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from angcal import MEstimator
    >>> model = MEstimator().fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> with TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "model.skops", about={"rows": 3})
    ...     about(Path(folder) / "model.skops")["rows"]
    3
    """
    path = Path(path)
    try:
        record = json.dumps({"format": FORMAT, "versions": _versions(), "about": about or {}})
    except (TypeError, ValueError) as error:
        raise PersistenceError(f"about cannot be written as JSON ({error}).") from error
    buffer = io.BytesIO(_packed(model, keep_observables))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(ABOUT, record)
    with written(path) as file:
        file.write(buffer.getbuffer())


def _packed(model: Any, keep_observables: bool) -> bytes:
    """The model as skops writes it, of types that `load` trusts."""
    skops = _skops()
    try:
        with states_for_files(keep_observables):
            data = skops.dumps(model, compression=zipfile.ZIP_DEFLATED)
    except Exception as error:  # skops raises many kinds for what it cannot take
        raise PersistenceError(
            f"{type(model).__name__} cannot be saved: {first_line(error)}; keep it with pickle, "
            "or leave out the part that is named."
        ) from error
    unknown = _untrusted(data)
    if unknown:
        raise PersistenceError(
            f"{type(model).__name__} cannot be saved: it holds {listed(unknown)}, which no reader "
            "would trust; use a link, loss or penalty of angcal, or keep it with pickle."
        )
    return data


def load(path: Any) -> Any:
    """The model in a file.

    Parameters
    ----------
    path : str or Path
        A file that `save` wrote.

    Returns
    -------
    fitted estimator
        As it was saved; without what `save` leaves out.

    Raises
    ------
    PersistenceError
        For a file that is missing, damaged, not one of `save`, written by other versions, or that
        holds types which are not trusted.

    See Also
    --------
    save : Writes the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from angcal import MEstimator
    >>> model = MEstimator().fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> with TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "model.skops")
    ...     load(Path(folder) / "model.skops")
    MEstimator()
    """
    path = Path(path)
    data, record = _read(path)
    _check_versions(path, record["versions"])
    try:
        # A file may claim an older protocol to be read by older, laxer rules.
        if _schema(data).get("protocol") != _schema(_skops().dumps(None)).get("protocol"):
            raise PersistenceError(
                f"{path} was written with another version of skops; install that version, or fit "
                "the model again."
            )
        unknown = _untrusted(data)
        if unknown:
            raise PersistenceError(
                f"{path} holds {listed(unknown)}, which angcal does not trust; get the model from "
                "where it was fitted, saved by angcal.persistence.save."
            )
        return _skops().loads(data, trusted=list(TRUSTED))
    except PersistenceError:
        raise
    except DAMAGE as error:
        raise _damaged(path) from error


def about(path: Any) -> dict[str, Any]:
    """What was said about the model when it was saved, and "versions": those that wrote it.

    Parameters
    ----------
    path : str or Path
        A file that `save` wrote. The model in it is not opened.

    Returns
    -------
    dict
        What `save` was given as ``about``, and "versions".

    See Also
    --------
    save : Writes the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from angcal import MEstimator
    >>> model = MEstimator().fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> with TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "model.skops", about={"by": "me"})
    ...     sorted(about(Path(folder) / "model.skops"))
    ['by', 'versions']
    """
    _, record = _read(Path(path))
    return {**record["about"], "versions": record["versions"]}


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            "model files need skops; run: pip install 'angcal[cli]'", name="skops"
        ) from error
    return skops.io


def _versions() -> dict[str, str]:
    import sklearn

    from angcal import __version__

    return {"angcal": __version__, "scikit-learn": sklearn.__version__}


def _read(path: Path) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a file whose checksums are right, and the part of it that is angcal's own."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise PersistenceError(f"{path} does not exist; check the name and the folder.") from error
    except IsADirectoryError as error:
        raise PersistenceError(f"{path} is a folder; name the model file in it.") from error
    except OSError as error:
        raise PersistenceError(f"{path} cannot be read: {error.strerror}.") from error
    # A zip archive starts with PK; one that does but cannot be opened is cut off or damaged.
    if not data.startswith(b"PK"):
        raise PersistenceError(
            f"{path} is not a model file; make one with: angcal fit --out, or "
            "angcal.persistence.save."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            whole, names = archive.testzip() is None, archive.namelist()
            ours = ABOUT in names and SCHEMA in names
            record = json.loads(archive.read(ABOUT)) if whole and ours else {}
    except DAMAGE as error:
        raise _damaged(path) from error
    if whole and not ours:
        raise PersistenceError(
            f"{path} was not written by angcal.persistence.save; save the model with it."
        )
    if not isinstance(record, dict) or not isinstance(record.get("format"), int):
        raise _damaged(path)
    if record["format"] != FORMAT:
        older = record["format"] < FORMAT
        way_out = "fit the model again with this version" if older else "update angcal"
        raise PersistenceError(
            f"{path} has file format {record['format']}, but this version of angcal reads "
            f"{FORMAT}; {way_out}."
        )
    if not all(isinstance(record.get(part), dict) for part in ("versions", "about")):
        raise _damaged(path)
    return data, record


def _damaged(path: Path) -> PersistenceError:
    return PersistenceError(f"{path} is damaged or cut off; copy it again, or fit it again.")


def _check_versions(path: Path, wrote: dict[str, str]) -> None:
    """Refuse files of another minor version, or of a newer one than this."""
    for package, here in _versions().items():
        there = str(wrote.get(package, "?"))
        theirs, ours = _numbers(there), _numbers(here)
        if theirs is None or ours is None or theirs[:2] != ours[:2] or theirs > ours:
            raise PersistenceError(
                f"{path} was written with {package} {there}, but this is {package} {here}; install "
                "that version, or fit the model again."
            )


def _numbers(version: str) -> tuple[int, int, int] | None:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))


def _untrusted(data: bytes) -> list[str]:
    """Types in a file that are not on the list; no module that it names has been imported."""
    foreign = sorted(set(_foreign(_schema(data))))
    return foreign or sorted(set(_skops().get_untrusted_types(data=data)) - set(TRUSTED))


def _schema(data: bytes) -> dict[str, Any]:
    """What skops has written about the types in a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        schema = json.loads(archive.read(SCHEMA))
    if not isinstance(schema, dict):
        raise ValueError("no description of types")
    return schema


def _foreign(schema: Any) -> Iterator[str]:
    """Types of other packages than those that a model can need; looked at before skops is."""
    packages = ("angcal", "sklearn", "numpy", "scipy", "builtins", "collections")
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            module = node.get("__module__")
            if isinstance(module, str) and module.split(".")[0] not in packages:
                yield f"{module}.{node.get('__class__')}"
            node = list(node.values())
        if isinstance(node, list):
            waiting += node
