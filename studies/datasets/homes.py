"""Where a dataset lives in public, and the name under which its download is cached.

A download and the file of a data folder may differ: the folder may hold a stand-in or some of the
rows. So a download is cached under a name of its own, and what was loaded always knows which of the
two it came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Recode = tuple[tuple[str, int], ...]
"""(label at home, label in the catalogue); used only where it covers every label of a file."""


@dataclass(frozen=True)
class OpenML:
    """A dataset of OpenML, by its number."""

    number: int
    # Whether its columns have names and categories worth keeping; otherwise it is a matrix
    table: bool = False
    recode: Recode = ()  # Labels that OpenML writes in another way than the catalogue

    @property
    def page(self) -> str:
        """The page to read about the dataset."""
        return f"https://www.openml.org/d/{self.number}"

    def cached_as(self, name: str) -> str:
        """File name of the download in the cache."""
        return f"{name}-openml-{self.number}" + (".csv.gz" if self.table else ".npz")


@dataclass(frozen=True)
class WebFile:
    """A file behind an address: a zip archive with a CSV file, or a MATLAB file with X and Y."""

    page: str  # The page to read about the dataset
    url: str  # The file itself
    form: Literal["zip", "mat"]
    member: str = ""  # Name of the CSV file in the archive, in whatever folder
    # File of the archive that names the columns in lines ``@attribute <name> ...``, where the CSV
    # file has no header
    names_member: str = ""
    # Checksum of the file behind ``url`` where it is known. Otherwise the checksum of the first
    # complete download is recorded, and later loads are checked against that.
    sha256: str = ""
    recode: ClassVar[Recode] = ()
    """Labels are as in the catalogue."""

    def cached_as(self, name: str) -> str:
        """File name of the download in the cache."""
        return f"{name}-web" + (".csv.gz" if self.form == "zip" else ".npz")


@dataclass(frozen=True)
class ByHand:
    """A dataset that no program can simply download."""

    page: str  # Where the raw data are
    reason: str  # A sentence: why the matrix cannot be downloaded, and how one would make it


@dataclass(frozen=True)
class Packaged:
    """A dataset that scikit-learn carries, by the name of its loader."""

    loader: Literal["load_digits", "load_breast_cancer"]
    page: ClassVar[str] = "https://scikit-learn.org/stable/datasets/toy_dataset.html"
    """The page to read about the dataset."""


Home = OpenML | WebFile | ByHand | Packaged
