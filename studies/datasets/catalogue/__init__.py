"""Every dataset by name: the paper's three tables in its order, then extras and packaged sets."""

from __future__ import annotations

from studies.datasets.catalogue.appendix_lower import LOWER_HALF
from studies.datasets.catalogue.appendix_upper import UPPER_HALF
from studies.datasets.catalogue.extra import EXTRA, PACKAGED
from studies.datasets.catalogue.main import PRETRAINED, UCI
from studies.datasets.spec import Dataset

CATALOGUE: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (*PRETRAINED, *UCI, *UPPER_HALF, *LOWER_HALF, *EXTRA, *PACKAGED)
}
