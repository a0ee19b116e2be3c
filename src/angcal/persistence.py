"""A fitted model <-> a file that can be opened without trusting who wrote it.

=====================  ==========================================================================
name of the file       what it is
=====================  ==========================================================================
``model.skops``        written and read by skops: types, their attributes, and NumPy arrays
``model.angcal`` or    the same as one JSON tree and arrays (`angcal.model_files.plain`), for which
``model.npz``          neither skops nor an unpickler is needed
=====================  ==========================================================================

Either way it is a zip archive with a checksum that loading verifies, and a signature if a key was
given (`angcal.model_files.container`). Loading takes the types that are listed here and no others;
arrays and numbers are looked at before the model is used (`angcal.model_files.check`).

A file holds what predictions need and what was found, and no rows of data: its size does not depend
on how many there were. ``observables_`` and leave-one-out probabilities are part of it on request.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from copy import copy
from pathlib import Path
from typing import Any

from angcal.arrays import is_tensor
from angcal.estimators.prediction import states_for_files
from angcal.files import written
from angcal.model_files import plain
from angcal.model_files.check import SPARSE, array_of, check_model, check_nodes, nodes_of, shape_of
from angcal.model_files.container import (
    DAMAGE,
    FORMAT,
    Container,
    PersistenceError,
    damaged,
    pack,
    parts_of,
    read,
    unpack,
)
from angcal.tables.errors import first_line, listed

__all__ = ["FORMAT", "TRUSTED", "PersistenceError", "about", "inspect", "load", "save"]

SCHEMA = "schema.json"
SPARSE_NAMES = tuple(f"{kind.__module__}.{kind.__name__}" for kind in SPARSE)
SUFFIXES = {".skops": "skops", ".angcal": "plain", ".npz": "plain"}
# Types of each module that a model may hold beside numbers, text, arrays and lists of them, and no
# others: to save another one, add its name here.
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
    "angcal.estimators.fold_average": "FoldAverage",
    "angcal.estimators.penalty_cv": "AngularLogisticRegressionCV",
    "angcal.estimators.prevalence": "Prevalence",
    "angcal.estimators.score": "ScoreCalibratedClassifier",
    "angcal.intervals.classes": "ClassLaw KnownClassLaw",
    "angcal.intervals.two_classes": "ChanceLaw TwoClassLaw",
    "angcal.links.families": "Cauchit ClippedLinear ComplementaryLogLog Logit Probit",
    "angcal.links.multiclass": "AdditiveIndex InteractionIndex OneVsRest Softmax TwoLayer",
    "angcal.losses": "Exponential HuberisedHinge Logistic Multinomial ProbitLikelihood Squared "
    "SquaredHinge",
    "angcal.observables": "Observables",
    "angcal.penalty_path.choice": "LeftOutAverage PenaltyAverage PenaltyPath",
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
    # Linear models that a classifier may have been calibrated around.
    "sklearn._loss._loss": "CyHalfBinomialLoss CyHalfSquaredError",
    "sklearn.linear_model._logistic": "LogisticRegression LogisticRegressionCV",
    "sklearn.linear_model._ridge": "RidgeClassifier RidgeClassifierCV",
    "sklearn.linear_model._sgd_fast": "ModifiedHuber SquaredHinge",
    "sklearn.linear_model._stochastic_gradient": "SGDClassifier",
    "sklearn.multiclass": "OneVsRestClassifier",
    "sklearn.preprocessing._label": "LabelBinarizer",
    "sklearn.svm._classes": "LinearSVC",
    # What a fit may have around them: calibrators, covariances, transformers of columns.
    "sklearn.covariance._shrunk_covariance": "LedoitWolf OAS ShrunkCovariance",
    "sklearn.covariance._empirical_covariance": "EmpiricalCovariance",
    "sklearn.compose._column_transformer": "ColumnTransformer _RemainderColsList",
    "sklearn.decomposition._pca": "PCA",
    "sklearn.decomposition._truncated_svd": "TruncatedSVD",
    "sklearn.feature_selection._variance_threshold": "VarianceThreshold",
    "sklearn.frozen._frozen": "FrozenEstimator",
    "sklearn.impute._base": "SimpleImputer",
    "sklearn.isotonic": "IsotonicRegression",
    "sklearn.pipeline": "Pipeline",
    "sklearn.preprocessing._data": "MaxAbsScaler MinMaxScaler Normalizer RobustScaler "
    "StandardScaler",
    "sklearn.preprocessing._encoders": "OneHotEncoder",
    "sklearn.preprocessing._function_transformer": "FunctionTransformer",
}
TRUSTED = tuple(f"{module}.{name}" for module, names in TYPES.items() for name in names.split())


def save(
    model: Any,
    path: Any,
    *,
    about: dict[str, Any] | None = None,
    keep_observables: bool = False,
    key: Any = None,
) -> None:
    """Write a model, so that the file is either whole or not there.

    What a Pipeline's steps learned from tensors is saved as arrays. Rows of data are no part of
    it: ``pool``, ``sign_holdout`` and ``covariance`` are None in the file, but for an estimator.

    Parameters
    ----------
    model : fitted estimator
        One of angcal's, or a scikit-learn Pipeline that ends in one.
    path : str or Path
        A name that ends in ``.angcal`` or ``.npz`` gives plain JSON and arrays; any other one,
        by custom ``.skops``, a file of skops.
    about : dict, optional
        Anything that JSON can hold, given back by `about`.
    keep_observables : bool, default=False
        Whether ``observables_``, ``loo_proba_`` and ``plain_loo_proba_`` are saved too, whose size
        grows with the training rows. Predictions do not need them.
    key : str or Path, optional
        File with a secret of at least 16 bytes, to sign the model with: whoever loads it with the
        same key knows that nobody else wrote or changed it.

    Raises
    ------
    PersistenceError
        Where the model holds something that `load` would refuse, such as a function.

    See Also
    --------
    load : The model again.
    inspect : What a file holds.

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
    kind = SUFFIXES.get(Path(path).suffix.lower(), "skops")
    record = {"format": FORMAT, "kind": kind, "versions": _versions(), "about": about or {}}
    try:
        json.dumps(record)
    except (TypeError, ValueError) as error:
        raise PersistenceError(f"about cannot be written as JSON ({error}).") from error
    with states_for_files(keep_observables):
        data = _encoded(_with_arrays(model), record, Path(path), key)
    with written(Path(path)) as file:
        file.write(data)


def _with_arrays(model: Any) -> Any:
    """A Pipeline whose steps were fitted to tensors, with arrays in their place."""
    if not hasattr(model, "steps"):
        return model
    found = copy(model)
    found.steps = [(name, copy(step)) for name, step in model.steps]
    for _, step in found.steps:
        for name, value in list(getattr(step, "__dict__", {}).items()):
            if hasattr(value, "cpu") and is_tensor(value):
                setattr(step, name, value.cpu().numpy())
    return found


def _encoded(model: Any, record: dict[str, Any], path: Path, key: Any) -> bytes:
    """The file's bytes, which can be loaded."""
    encode = _skops_parts if record["kind"] == "skops" else plain.encode
    try:
        data = pack(record, encode(model, TRUSTED), key)
        _model_of(unpack(data, path))
    except ImportError:
        raise
    except Exception as error:  # skops raises many kinds for what it cannot take
        raise PersistenceError(
            f"{type(model).__name__} cannot be saved: {first_line(error)}; use what angcal trusts, "
            "or keep the model with pickle."
        ) from error
    return data


def load(path: Any, *, key: Any = None) -> Any:
    """The model in a file.

    Parameters
    ----------
    path : str or Path
        A file that `save` wrote.
    key : str or Path, optional
        File with the key that the model must have been signed with.

    Returns
    -------
    fitted estimator
        As it was saved; without what `save` leaves out.

    Raises
    ------
    PersistenceError
        For a file that is missing, damaged, not one of `save`, written by other versions, not
        signed with the key, or that holds types or numbers which are not trusted.

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
    ...     save(model, Path(folder) / "model.angcal")
    ...     load(Path(folder) / "model.angcal")
    MEstimator()
    """
    path = Path(path)
    container = read(path, key)
    _check_versions(path, container.record["versions"])
    try:
        return _model_of(container)
    except ImportError:
        raise
    except Exception as error:  # whoever wrote the file chose what goes wrong
        raise PersistenceError(
            f"{path} holds no model that angcal trusts ({first_line(error)}); get it from where it "
            "was fitted, saved by angcal.persistence.save."
        ) from error


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
    record = read(Path(path)).record
    return {**record["about"], "versions": record["versions"]}


def inspect(path: Any, *, key: Any = None) -> dict[str, Any]:
    """What a file holds, without loading it: checksum, signature, types, arrays.

    Parameters
    ----------
    path : str or Path
        A file that `save` wrote.
    key : str or Path, optional
        File with the key that the model must have been signed with.

    Returns
    -------
    dict
        "kind" ("skops" or "plain"), "format", "versions", "about", "sha256" (of all that the file
        holds), "signature" ("none", "not verified" or "verified"), "types" (name to how often),
        "foreign" (those that `load` would refuse) and "arrays" (part to shape, type and bytes).

    See Also
    --------
    load : The model itself.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from angcal import MEstimator
    >>> model = MEstimator().fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> with TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "model.angcal")
    ...     inspect(Path(folder) / "model.angcal")["types"]
    {'angcal.estimators.m_estimator.MEstimator': 1, 'angcal.penalties.Ridge': 1}
    """
    path = Path(path)
    container = read(path, key)
    record = container.record
    try:
        names = _types_in(container)
        arrays = {name: shape_of(part) for name, part in arrays_in(container.parts).items()}
    except DAMAGE as error:
        raise damaged(path) from error
    return {
        **{name: record.get(name) for name in ("kind", "format", "versions", "about")},
        "sha256": container.sha256,
        "signature": container.signature,
        "types": {name: names.count(name) for name in sorted(set(names))},
        "foreign": sorted(set(names) - set(TRUSTED)),
        "arrays": {
            name: {"shape": list(shape), "type": str(dtype), "bytes": len(container.parts[name])}
            for name, (shape, dtype) in arrays.items()
            if name in container.parts
        },
    }


# -- inside a file -----------------------------------------------------------------------------


def _model_of(container: Container) -> Any:
    """The model of parts whose checksums are right, once all of it has been looked at."""
    for part in arrays_in(container.parts).values():
        array_of(part)
    kind = container.record.get("kind")
    if kind not in SUFFIXES.values():
        raise ValueError(f"a file of the kind {kind!r}")
    decode = _skops_model if kind == "skops" else plain.decode
    model = decode(container.parts, TRUSTED)
    check_model(model, TRUSTED)
    return model


def arrays_in(parts: dict[str, bytes]) -> dict[str, bytes]:
    """The ``.npy`` parts, also those inside of the ``.npz`` parts of sparse matrices."""
    found = {name: part for name, part in parts.items() if name.endswith(".npy")}
    for name, part in parts.items():
        if name.endswith(".npz"):
            inner = parts_of(part, Path(name))
            found |= {f"{name}/{each}": array for each, array in inner.items()}
    return found


def _types_in(container: Container) -> list[str]:
    """Names of the types of objects, one for each object."""
    if container.record.get("kind") == "plain":
        return plain.types_in(container.parts)
    schema = json.loads(container.parts[SCHEMA])
    basic = [name for name in check_nodes(schema, TRUSTED) if name not in TRUSTED]
    return [name for loader, name in nodes_of(schema) if loader == "ObjectNode" or name in basic]


def _skops_parts(model: Any, trusted: Any) -> dict[str, bytes]:
    """The model as skops writes it."""
    data = _skops().dumps(model)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    unknown = check_nodes(json.loads(parts[SCHEMA]), trusted)
    if unknown:
        raise TypeError(f"it holds {listed(unknown)}, which no reader would trust")
    return parts


def _skops_model(parts: dict[str, bytes], trusted: Any) -> Any:
    schema = json.loads(parts[SCHEMA])
    skops = _skops()
    with zipfile.ZipFile(io.BytesIO(skops.dumps(None))) as archive:
        protocol = json.loads(archive.read(SCHEMA))["protocol"]
    # A file may claim an older protocol to be read by older, laxer rules.
    if schema.get("protocol") != protocol:
        raise ValueError("it was written with another version of skops; install that version")
    unknown = check_nodes(schema, trusted)
    if unknown:
        raise TypeError(f"it holds {listed(unknown)}, which angcal does not trust")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # of parts that are known to be right
        for name, part in parts.items():
            archive.writestr(name, part)
    return skops.loads(buffer.getvalue(), trusted=[*trusted, "numpy.dtype", *SPARSE_NAMES])


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            "files that end in .skops need skops; run: pip install 'angcal[cli]', or save the "
            "model as a file that ends in .angcal",
            name="skops",
        ) from error
    return skops.io


def _versions() -> dict[str, str]:
    import sklearn

    from angcal import __version__

    return {"angcal": __version__, "scikit-learn": sklearn.__version__}


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
