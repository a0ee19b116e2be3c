"""Every dataset by name: the paper's three tables in its order, then extras and packaged sets."""

from __future__ import annotations

from angcal.datasets.catalogue.appendix_lower import LOWER_HALF
from angcal.datasets.catalogue.appendix_upper import UPPER_HALF
from angcal.datasets.catalogue.extra import EXTRA, PACKAGED
from angcal.datasets.catalogue.main import PRETRAINED, UCI
from angcal.datasets.spec import Dataset

CATALOGUE: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (*PRETRAINED, *UCI, *UPPER_HALF, *LOWER_HALF, *EXTRA, *PACKAGED)
}
