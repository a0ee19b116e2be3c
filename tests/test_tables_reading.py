"""Files of every kind that is read, and of every kind of badness that is told in a sentence."""

from __future__ import annotations

import gzip
import os
import sys
import types
import zipfile

import numpy as np
import pytest
from scipy import sparse

pd = pytest.importorskip("pandas")

from angcal.tables import (  # noqa: E402
    MissingPackageError,
    TableError,
    TableWarning,
    read_table,
    reading,
    text,
)

ROWS = "a,b,y\n1,x,0\n2,z,1\n3,x,0\n"


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(path, *words, **options):
    """The message of the refusal, one sentence that names the file and has these words."""
    with pytest.raises(TableError) as caught:
        read_table(path, **options)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


# -- what is read ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "T.CSV", "t.csv.gz", "t.tsv", "t.tsv.gz"])
def test_text(tmp_path, name):
    content = (ROWS.replace(",", "\t") if ".tsv" in name else ROWS).encode()
    path = write(tmp_path, name, gzip.compress(content) if name.endswith(".gz") else content)
    frame = read_table(path)
    assert list(frame.columns) == ["a", "b", "y"]
    assert frame["a"].tolist() == [1, 2, 3]
    assert frame["b"].tolist() == ["x", "z", "x"]


def test_semicolons_are_found(tmp_path):
    frame = read_table(write(tmp_path, "t.csv", ROWS.replace(",", ";")))
    assert list(frame.columns) == ["a", "b", "y"]


@pytest.mark.parametrize(("separator", "name"), [(";", "t.csv"), ("\t", "t.tsv")])
def test_decimal_commas_are_numbers(tmp_path, separator, name):
    """As spreadsheets write them where the comma is the decimal mark."""
    text = "a;b;word\n1,5;-0,25;x,1\n2;1,234;y\n".replace(";", separator)
    frame = read_table(write(tmp_path, name, text))
    assert frame["a"].tolist() == [1.5, 2.0]
    assert frame["b"].tolist() == [-0.25, 1.234]
    assert frame["word"].tolist() == ["x,1", "y"]


@pytest.mark.parametrize("text", ["a;b\n1,234;x\n2,345;y\n", "a;b\n1,5;2.5\n2,5;3.5\n"])
def test_commas_that_may_be_thousands_stay_text(tmp_path, text):
    assert read_table(write(tmp_path, "t.csv", text))["a"].tolist()[0].startswith("1,")


def test_what_is_no_archive_is_not_called_a_pickle(tmp_path):
    message = refused(write(tmp_path, "t.npz", "a,b\n1,2\n"), "is no NPZ archive")
    assert "pickle" not in message


def test_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    frame = read_table(write(tmp_path, "t.csv", b"\xef\xbb\xbf" + ROWS.encode()))
    assert frame.columns[0] == "a"


def test_question_mark_is_missing(tmp_path):
    frame = read_table(write(tmp_path, "t.csv", "a,y\n1,0\n?,1\n3,1\n"))
    assert frame["a"].isna().tolist() == [False, True, False]


def test_quoted_separator_and_line_end(tmp_path):
    frame = read_table(write(tmp_path, "t.csv", 'a,y\n"x, y",0\n"p\nq",1\n'))
    assert frame["a"].tolist() == ["x, y", "p\nq"]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_other_line_ends(tmp_path, end):
    assert len(read_table(write(tmp_path, "t.csv", ROWS.replace("\n", end)))) == 3


def test_blank_lines_are_no_rows(tmp_path):
    assert len(read_table(write(tmp_path, "t.csv", ROWS + "\n\n"))) == 3


def test_names_that_count_up_are_names(tmp_path):
    assert list(read_table(write(tmp_path, "t.csv", "0,1,2\n5,6,7\n8,9,1\n")).columns) == list(
        "012"
    )


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_arrow_files(tmp_path, kind):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", None], "y": [True, False]})
    path = tmp_path / f"t.{kind}"
    getattr(frame, f"to_{kind}")(path)
    back = read_table(path)
    assert list(back.columns) == ["a", "b", "y"]
    assert back["a"].tolist() == [1.5, 2.5]
    assert back["b"].isna().tolist() == [False, True]


def test_npz(tmp_path):
    X, y = np.arange(6.0).reshape(3, 2), np.array(["no", "yes", "no"])
    np.savez(tmp_path / "t.npz", X=X, y=y, feature_names=np.array(["u", "v"]))
    frame = read_table(tmp_path / "t.npz")
    assert list(frame.columns) == ["u", "v", "y"]
    np.testing.assert_array_equal(frame[["u", "v"]].to_numpy(), X)
    assert frame["y"].tolist() == ["no", "yes", "no"]


def test_npz_without_labels_or_names(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.ones((2, 3), dtype=np.float32))
    assert list(read_table(tmp_path / "t.npz").columns) == ["x0", "x1", "x2"]


def test_sparse_npz(tmp_path):
    X = sparse.random(20, 7, density=0.3, format="csr", random_state=0)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(tmp_path / "t.npz", y=np.arange(20) % 2, **parts)
    frame = read_table(tmp_path / "t.npz")
    np.testing.assert_array_equal(frame.drop(columns="y").to_numpy(), X.toarray())
    assert isinstance(frame["x0"].dtype, pd.SparseDtype)


@pytest.mark.parametrize("name", ["t.svm", "t.svmlight", "t.libsvm"])
def test_svmlight(tmp_path, name):
    frame = read_table(write(tmp_path, name, "1 1:0.5 3:2\n-1 2:4\n1 3:1\n"))
    assert list(frame.columns) == ["f1", "f2", "f3", "y"]
    np.testing.assert_array_equal(
        frame.drop(columns="y").to_numpy(), [[0.5, 0, 2], [0, 4, 0], [0, 0, 1]]
    )
    assert frame["y"].tolist() == [1, -1, 1]


def test_svmlight_columns_are_those_of_the_file(tmp_path):
    """Two files agree on a column's name whichever columns they happen to mention."""
    first = read_table(write(tmp_path, "a.svm", "1 0:5 2:7\n0 1:1\n"))
    second = read_table(write(tmp_path, "b.svm", "1 2:7\n0 1:1\n"))
    assert first["f2"].tolist() == second["f2"].tolist() == [7, 0]


def test_one_row_where_one_is_enough(tmp_path):
    assert len(read_table(write(tmp_path, "t.csv", "a,b\n1,2\n"), least_rows=1)) == 1


def test_names_become_text(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({("a", "b"): [1, 2]})
    frame.columns = pd.MultiIndex.from_tuples(frame.columns)
    frame.to_parquet(tmp_path / "t.parquet")
    assert all(isinstance(name, str) for name in read_table(tmp_path / "t.parquet").columns)


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "svm"])
def test_missing(tmp_path, suffix):
    refused(tmp_path / f"none.{suffix}", "does not exist")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "svm"])
def test_folder(tmp_path, suffix):
    (tmp_path / f"t.{suffix}").mkdir()
    refused(tmp_path / f"t.{suffix}", "is a folder")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "feather", "npz", "svm"])
def test_empty(tmp_path, suffix):
    refused(write(tmp_path, f"t.{suffix}", ""), "is empty")


@pytest.mark.parametrize("content", ["\n\n\n", "   \n", gzip.compress(b"", mtime=0)])
def test_nothing_but_blanks(tmp_path, content):
    name = "t.csv.gz" if isinstance(content, bytes) else "t.csv"
    refused(write(tmp_path, name, content), "is empty")


@pytest.mark.parametrize("content", ["a,b,y\n", "a,b,y"])
def test_header_only(tmp_path, content):
    refused(write(tmp_path, "t.csv", content), "no rows")


def test_one_row(tmp_path):
    refused(write(tmp_path, "t.csv", "a,b\n1,2\n"), "one row")


def test_arrays_without_rows(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.empty((0, 3)))
    refused(tmp_path / "t.npz", "no rows")


@pytest.mark.parametrize("rows", [1, 200_000], ids=["at once", "far down"])
def test_windows_1252_is_found(tmp_path, rows):
    text = "name,y\n" + "plain,0\n" * rows + "caf\xe9 \u20ac,1\n"
    with pytest.warns(TableWarning, match="read as Windows-1252"):
        frame = read_table(write(tmp_path, "t.csv", text.encode("cp1252")))
    assert frame["name"].iloc[-1] == "caf\xe9 \u20ac"


def test_what_is_neither_utf_8_nor_windows_1252(tmp_path):
    path = write(tmp_path, "t.csv", b"a,y\nx\x81,0\nz,1\n")
    refused(path, "not utf-8 text (byte 0x81)", "--encoding")
    assert read_table(path, encoding="latin-1")["a"].tolist() == ["x\x81", "z"]


def test_an_encoding_that_is_given(tmp_path):
    path = write(tmp_path, "t.csv", "a,y\n\u0436,0\n\u044f,1\n".encode("koi8-r"))
    assert read_table(path, encoding="koi8-r")["a"].tolist() == ["\u0436", "\u044f"]
    refused(path, "not ascii text", encoding="ascii")
    with pytest.raises(TableError, match="--encoding 'none' is unknown"):
        read_table(path, encoding="none")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_found(tmp_path, encoding):
    frame = read_table(write(tmp_path, "t.csv", ROWS.encode(encoding)))
    assert list(frame.columns) == ["a", "b", "y"]
    assert frame["b"].tolist() == ["x", "z", "x"]


# -- what separates cells and thousands --------------------------------------------------------


@pytest.mark.parametrize("mark", [",", ";", "\t", "|", " "])
def test_text_files_by_any_mark(tmp_path, mark):
    frame = read_table(write(tmp_path, "t.txt", ROWS.replace(",", mark)))
    assert list(frame.columns) == ["a", "b", "y"]


def test_a_comma_in_a_name_separates_nothing(tmp_path):
    frame = read_table(write(tmp_path, "t.csv", "age;height, cm;y\n1;2,5;0\n2;3,5;1\n"))
    assert list(frame.columns) == ["age", "height, cm", "y"]
    assert frame["height, cm"].tolist() == [2.5, 3.5]


@pytest.mark.parametrize("given", [":", "tab"])
def test_a_separator_that_is_given(tmp_path, given):
    mark = "\t" if given == "tab" else given
    path = write(tmp_path, "t.csv", f"a,b{mark}y\n1,2{mark}3\n4,5{mark}6\n")
    assert list(read_table(path, separator=given).columns) == ["a,b", "y"]
    with pytest.raises(TableError, match="must be one character"):
        read_table(path, separator="::")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a;y\n4.123,50;0\n950,00;1\n1.000.000,25;0\n", [4123.5, 950.0, 1000000.25]),
        ('a,y\n"4,123.50",0\n950.00,1\n"1,000,000",0\n', [4123.5, 950.0, 1e6]),
        ("a;y\n4,123.50;0\n950.00;1\n1,000,000.5;0\n", [4123.5, 950.0, 1000000.5]),
        ("a;y\n4'123.5;0\n950;1\n12'000;0\n", [4123.5, 950.0, 12000.0]),
        ("a;y\n4 123,5;0\n950,0;1\n12 000,0;0\n", [4123.5, 950.0, 12000.0]),
    ],
)
def test_thousands(tmp_path, text, numbers):
    assert read_table(write(tmp_path, "t.csv", text))["a"].tolist() == numbers


@pytest.mark.parametrize("column", ["12.03.2020;13.04.2021", "1.2.3;1.2.4", "192.168.100.200;x"])
def test_what_are_no_thousands(tmp_path, column):
    first, second = column.split(";")
    path = write(tmp_path, "t.csv", f"a;b;y\n{first};1,5;0\n{second};2,5;1\n")
    assert read_table(path)["a"].tolist() == [first, second]


# -- spreadsheets and statistics programs ------------------------------------------------------


def sheet(path, *tables):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in tables:
        page = book.create_sheet(name)
        for row in rows:
            page.append(row)
    book.save(path)
    return path


SHEET = [["age", "sex", "y"], [41, "m", "yes"], [None, "f", "no"], [63.5, "#N/A", "no"]]


def test_excel(tmp_path):
    frame = read_table(sheet(tmp_path / "t.xlsx", ("Data", [*SHEET, [None, None, None]])))
    assert list(frame.columns) == ["age", "sex", "y"]
    assert frame["age"].tolist()[::2] == [41, 63.5]
    assert frame["age"].dtype == np.float64
    assert frame["sex"].isna().tolist() == [False, False, True]
    assert frame["y"].tolist() == ["yes", "no", "no"]


def test_excel_sheets(tmp_path):
    other = [["x", "y"], [1, 0], [2, 1]]
    path = sheet(tmp_path / "t.xlsx", ("First", SHEET), ("Other", other), ("Empty", []))
    with pytest.warns(TableWarning, match="3 sheets, and 'First', the first, was read"):
        assert "age" in read_table(path).columns
    assert list(read_table(path, sheet="Other").columns) == ["x", "y"]
    refused(path, "no sheet 'Third'", "'First', 'Other'", sheet="Third")
    refused(path, "nothing on the sheet 'Empty'", sheet="Empty")


def test_excel_that_is_no_table(tmp_path):
    path = sheet(tmp_path / "t.xlsx", ("A", [["My study", None, None], *SHEET]))
    refused(path, "2 columns without a name", "above the column names")
    refused(sheet(tmp_path / "u.xlsx", ("A", [["a", "a"], [1, 2], [3, 4]])), "more than one column")
    refused(write(tmp_path, "v.xlsx", b"\xd0\xcf\x11\xe0" * 100), "without a password")
    refused(sheet(tmp_path / "w.xlsx", ("A", [["a", "b"]])), "no rows")
    refused(write(tmp_path, "t.csv", path.read_bytes()), "call it .xlsx")
    refused(write(tmp_path, "u.csv", ROWS), "is for spreadsheets", sheet="A")


def test_stata(tmp_path):
    frame = pd.DataFrame({"age": [40.0, 50.0], "y": pd.Categorical(["no", "yes"])})
    frame.to_stata(tmp_path / "t.dta", write_index=False)
    back = read_table(tmp_path / "t.dta")
    assert back["age"].tolist() == [40.0, 50.0]
    assert back["y"].tolist() == ["no", "yes"]


@pytest.mark.parametrize(("name", "package"), [("t.sav", "pyreadstat"), ("t.h5ad", "anndata")])
def test_packages_that_are_not_there_are_named(tmp_path, name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=f"pip install {package}"):
        read_table(write(tmp_path, name, b"anything"))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_annotated_data(tmp_path, monkeypatch, storage):
    """Labels are columns of obs, names of features those of var."""
    obs = pd.DataFrame({"cell": ["T", "B"]}, index=["c1", "c2"])
    made = types.SimpleNamespace(X=storage(np.eye(2)), obs=obs, var_names=["CD3", "CD19"])
    module = types.SimpleNamespace(read_h5ad=lambda path: made)
    monkeypatch.setitem(sys.modules, "anndata", module)
    frame = read_table(write(tmp_path, "t.h5ad", b"anything"))
    assert list(frame.columns) == ["cell", "CD3", "CD19"]
    np.testing.assert_array_equal(frame[["CD3", "CD19"]].to_numpy(), np.eye(2))


@pytest.mark.parametrize(
    ("name", "way_out"),
    [("t.xls", "as .xlsx"), ("t.rds", "write.csv"), ("t.json", "to_csv"), ("t.pkl", "run code")],
)
def test_other_files_have_a_way_out(tmp_path, name, way_out):
    refused(write(tmp_path, name, ROWS), "unsupported file type", way_out)


# -- files that were made to harm --------------------------------------------------------------


def test_a_file_that_grows_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "HARMLESS", 2**20)
    bomb = gzip.compress(ROWS.encode() + b"1,x,0\n" * 2**20)
    refused(write(tmp_path, "t.csv.gz", bomb), "grows more than 200-fold")
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((2**10, 2**10)))
    refused(tmp_path / "t.npz", "grows more than 200-fold")
    pytest.importorskip("openpyxl")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"<row/>" * 2**20)
    refused(tmp_path / "t.xlsx", "grows more than 200-fold")


def test_more_cells_than_memory(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": np.zeros(10_000), "b": np.zeros(10_000)})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    monkeypatch.setattr(reading, "MOST_BYTES", 8 * 10_000)
    refused(tmp_path / "t.parquet", "20000 cells")
    refused(tmp_path / "t.feather", "cells, too many")


def test_svmlight_on_one_endless_line(tmp_path):
    path = write(tmp_path, "t.svm", b"1 1:1 " * 1000)
    os.truncate(path, 2**31)
    refused(path, "16 MB")


def test_a_column_that_must_be_there_is_asked_for_before_pandas(tmp_path):
    path = write(tmp_path, "t.csv", ROWS)
    with pytest.raises(TableError, match="did you mean 'y'"):
        read_table(path, needed=["Y "])
    assert len(read_table(path, needed=["y"])) == 3


def test_names_have_no_blanks_around_them(tmp_path):
    assert list(read_table(write(tmp_path, "t.csv", " a ,y \n1,2\n3,4\n")).columns) == ["a", "y"]


# -- what is no table --------------------------------------------------------------------------


def test_a_binary_file_called_csv(tmp_path):
    refused(write(tmp_path, "t.csv", b"PK\x03\x04\x00\x00\x08\x00"), "not text")


def test_a_parquet_file_called_csv(tmp_path):
    refused(write(tmp_path, "t.csv", b"PAR1\x15\x04"), ".parquet")


def test_a_line_of_two_gigabytes(tmp_path):
    """All but the start of the file is a hole on disk, so that it costs nothing."""
    path = write(tmp_path, "t.csv", b"1," * (text.BLOCK // 2 + 1000))
    os.truncate(path, 2**31)
    refused(path, "16 MB", "line ends")


def test_a_long_line_after_a_good_start(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "BLOCK", 1000)
    monkeypatch.setattr(text, "LONGEST_LINE", 5000)
    read_table(write(tmp_path, "good.csv", "a,y\n" + "1,0\n" * 5000))
    read_table(write(tmp_path, "wide.csv", "a,y\n" + f"{'x' * 4000},0\n" * 10))
    refused(write(tmp_path, "bad.csv", ROWS + "7" * 8000 + ",z,1\n"), "a line of more than")


def test_repeated_names(tmp_path):
    refused(write(tmp_path, "t.csv", "a,b,a\n1,2,3\n4,5,6\n"), "more than one column called 'a'")


def test_repeated_names_in_npz(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.ones((2, 2)), feature_names=np.array(["a", "a"]))
    refused(tmp_path / "t.npz", "more than one column called 'a'")


def test_a_feature_called_like_the_labels_in_npz(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.ones((2, 1)), y=[0, 1], feature_names=np.array(["y"]))
    refused(tmp_path / "t.npz", "more than one column called 'y'")


@pytest.mark.parametrize(
    ("rows", "line"),
    [("1,2\n3,4,5\n6,7,8\n", 2), ("1,2,3\n4,5\n", 3), ("1,2,3\n4,5,6,7\n", 3)],
    ids=["first too short", "too short", "too long"],
)
def test_ragged_rows(tmp_path, rows, line):
    refused(write(tmp_path, "t.csv", "a,b,y\n" + rows), f"line {line}", "3 in its header")


def test_rows_all_longer_than_the_header(tmp_path):
    """pandas would take the first column for row names."""
    refused(write(tmp_path, "t.csv", "a,b\n1,2,3\n4,5,6\n"), "3 fields on line 2")


def test_numbers_where_names_should_be(tmp_path):
    refused(write(tmp_path, "t.csv", "5.1,3.5,0\n4.9,3.0,1\n4.7,3.2,0\n"), "column names")


@pytest.mark.parametrize("name", ["t", "t.parquet.gz", ".csvx", "t.gz"])
def test_unknown_suffix(tmp_path, name):
    refused(write(tmp_path, name, ROWS), "unsupported file type", ".parquet")


@pytest.mark.parametrize("suffix", ["parquet", "feather", "npz"])
def test_damaged(tmp_path, suffix):
    if suffix != "npz":
        pytest.importorskip("pyarrow")
    refused(write(tmp_path, f"t.{suffix}", b"this is not what it says" * 10), "damaged")


@pytest.mark.parametrize("suffix", ["parquet", "npz"])
def test_cut_off(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    if suffix == "npz":
        np.savez(path, X=np.ones((100, 3)))
    else:
        pytest.importorskip("pyarrow")
        pd.DataFrame({"a": range(100)}).to_parquet(path)
    path.write_bytes(path.read_bytes()[:-40])
    refused(path, "damaged")


def test_gzip_that_is_none(tmp_path):
    refused(write(tmp_path, "t.csv.gz", ROWS), "not a complete gzip file")


def test_gzip_cut_off(tmp_path):
    whole = gzip.compress(os.urandom(1000).hex().encode())
    refused(write(tmp_path, "t.csv.gz", whole[:-20]), "not a complete gzip file")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"Z": np.ones((3, 2))}, "no array called X"),
        ({"X": np.ones(3)}, "shape (3,)"),
        ({"X": np.ones((3, 2, 2))}, "shape (3, 2, 2)"),
        ({"X": np.array([["a", "b"], ["c", "d"]])}, "must be numbers"),
        ({"X": np.ones((3, 2)), "y": np.ones(2)}, "one label each"),
        ({"X": np.ones((3, 2)), "feature_names": np.array(["a"])}, "one name for each"),
        ({"X": np.ones((3, 0))}, "no columns"),
    ],
)
def test_bad_arrays(tmp_path, arrays, words):
    np.savez(tmp_path / "t.npz", **arrays)
    refused(tmp_path / "t.npz", words)


def test_object_arrays_are_not_opened(tmp_path):
    """They could run code."""
    np.savez(tmp_path / "t.npz", X=np.array([[object()]], dtype=object))
    refused(tmp_path / "t.npz", "allow_pickle")


def test_sparse_parts_that_do_not_fit(tmp_path):
    parts = {"data": [1.0], "indices": [9], "indptr": [0, 1, 1], "shape": [2, 3]}
    np.savez(tmp_path / "t.npz", **parts)
    refused(tmp_path / "t.npz", "damaged")


def test_svmlight_that_is_none(tmp_path):
    refused(write(tmp_path, "t.svm", "hello,world\n1,2\n"), "damaged")


def test_a_single_array(tmp_path):
    with (tmp_path / "t.npz").open("wb") as file:
        np.save(file, np.ones((3, 2)))
    refused(tmp_path / "t.npz", "single array", "numpy.savez")


def test_a_few_bytes_that_claim_a_billion_columns(tmp_path):
    refused(write(tmp_path, "t.svm", "1 999999999:1\n0 1:1\n"), "1000000 can be read")
    wide = sparse.csr_matrix((3, 10**9))
    parts = {name: getattr(wide, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "t.npz", y=np.array([0, 1, 0]), **parts)
    refused(tmp_path / "t.npz", "1000000 can be read")


def test_a_header_of_megabytes_is_not_called_empty(tmp_path):
    message = refused(write(tmp_path, "t.csv", "a" * 200_000 + ",y\n1,0\n2,1\n"), "header")
    assert "is empty" not in message
