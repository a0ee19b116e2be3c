"""Datasets outside the paper's tables: siblings of its own, d much above n, and packaged ones."""

from __future__ import annotations

from studies.datasets.catalogue.columns import AGNOSTIC, ODD_DIGITS, SCIKIT_FEATURE
from studies.datasets.homes import OpenML, Packaged, WebFile
from studies.datasets.labels import Groups
from studies.datasets.spec import Dataset


def _feature_selection(file: str) -> WebFile:
    """A file of the scikit-feature collection."""
    collection = "https://jundongl.github.io/scikit-feature"
    return WebFile(
        page=f"{collection}/datasets.html",
        url=f"{collection}/files/datasets/{file}.mat",
        form="mat",
    )


EXTRA = (
    Dataset(
        name="hiva",
        title="hiva_agnostic",
        table="extra",
        citation=AGNOSTIC,
        home=OpenML(1039),
        file="hiva.npz",
        standing="subset",
        remark="The training part: 3,845 of 4,229 labelled rows.",
        labels=Groups(("1",), "active against HIV or not"),
    ),
    Dataset(
        name="sylva",
        title="sylva_agnostic",
        table="extra",
        citation=AGNOSTIC,
        home=OpenML(1036),
        file="sylva.npz",
        standing="subset",
        remark="The training part: 13,086 of 14,395 labelled rows.",
        labels=Groups(("1",), "ponderosa pine against the rest"),
    ),
    Dataset(
        name="basehock",
        title="BASEHOCK",
        table="extra",
        citation=f"Lang (1995). NewsWeeder: learning to filter netnews. ICML. {SCIKIT_FEATURE}",
        home=_feature_selection("BASEHOCK"),
        file="basehock.npz",
        standing="as published",
        remark="Word counts of posts about baseball and hockey, sparse.",
        labels=Groups(("2",), "hockey against baseball"),
    ),
    Dataset(
        name="allaml",
        title="ALLAML",
        table="extra",
        citation="Golub et al. (1999). Molecular classification of cancer. Science 286. "
        + SCIKIT_FEATURE,
        home=_feature_selection("ALLAML"),
        file="allaml.npz",
        standing="as published",
        remark="Gene expression, a hundred times as many columns as rows.",
        labels=Groups(("2",), "myeloid against lymphoblastic leukaemia"),
    ),
    Dataset(
        name="prostate_ge",
        title="Prostate_GE",
        table="extra",
        citation="Singh et al. (2002). Gene expression correlates of clinical prostate cancer "
        f"behavior. Cancer Cell 1. {SCIKIT_FEATURE}",
        home=_feature_selection("Prostate_GE"),
        file="prostate_ge.npz",
        standing="as published",
        remark="Gene expression, sixty times as many columns as rows.",
        labels=Groups(("2",), "label 2 against label 1 (tumour and normal tissue)"),
    ),
    Dataset(
        name="tox_171",
        title="TOX_171",
        table="extra",
        citation=SCIKIT_FEATURE,
        home=_feature_selection("TOX_171"),
        file="tox_171.npz",
        standing="as published",
        remark="Gene expression, thirty times as many columns as rows; four unnamed classes.",
        labels=Groups(("1", "2"), "classes 1 and 2 against 3 and 4"),
    ),
)

PACKAGED = (
    Dataset(
        name="digits",
        title="Digits",
        table="packaged",
        citation="Alpaydin, Kaynak (1998). Optical Recognition of Handwritten Digits. UCI Machine "
        "Learning Repository.",
        home=Packaged("load_digits"),
        file="",
        standing="subset",
        remark="Packaged with scikit-learn: the test part, 8 × 8 images.",
        labels=ODD_DIGITS,
    ),
    Dataset(
        name="breast_cancer",
        title="Breast Cancer Wisconsin (Diagnostic)",
        table="packaged",
        citation="Wolberg, Mangasarian, Street, Street (1993). Breast Cancer Wisconsin "
        "(Diagnostic). UCI Machine Learning Repository.",
        home=Packaged("load_breast_cancer"),
        file="",
        standing="as published",
        remark="Packaged with scikit-learn.",
        labels=Groups(("0",), "malignant against benign"),
    ),
)
