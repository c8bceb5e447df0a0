"""Tables: kinds of columns found by looking, files refused with their line, rows encoded and decoded."""

import json
import math

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as pb
from pullback.data import TableEncoder, TargetEncoder, read_table

CSV = """\ufeffsize; town ;built;price;note
50,5;"Ulm";2001-05-01;;a
70;Bonn;1999-12-31;200000;b
;?;1980-01-01T12:00;1.5e5;c
"""


@pytest.fixture
def table():
    return read_table(
        {
            "size": [50.0, 70.0, math.nan, 90.0],
            "town": ["Ulm", "Bonn", None, "Ulm"],
            "built": ["2001-05-01", "1999-12-31", "1980-01-01", "2020-02-29"],
            "same": [1, 1, 1, 1],
            "price": [1.0, 2.0, 3.0, 4.0],
        }
    )


def kinds(table):
    return {column.name: column.kind for column in table}


def write(tmp_path, text, name="rows.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file(tmp_path):
    table = read_table(write(tmp_path, CSV.replace("50,5", "50.5")))
    assert kinds(table) == {
        "size": "number",
        "town": "category",
        "built": "date",
        "price": "number",
        "note": "category",
    }
    np.testing.assert_array_equal(table["size"].values, [50.5, 70, np.nan])
    assert table["town"].values.tolist() == ["Ulm", "Bonn", None]
    assert table["built"].values.tolist() == [11443.0, 10956.0, 3652.5]
    np.testing.assert_array_equal(table["price"].values, [np.nan, 2e5, 1.5e5])
    assert table["price"].missing.tolist() == [True, False, False]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_delimiters_quotes_and_line_ends(tmp_path, delimiter, ending):
    lines = [f'a{delimiter}"b{delimiter}c"', f"1{delimiter}x", "", f'2{delimiter}"y""z"']
    table = read_table(write(tmp_path, ending.join(lines)))
    assert list(table.columns) == ["a", f"b{delimiter}c"]
    assert table["a"].values.tolist() == [1, 2] and table[f"b{delimiter}c"].values.tolist() == ["x", 'y"z']


def test_kinds_can_be_given(tmp_path):
    path = write(tmp_path, "zip,n\n00123,4\n12345,x\n")
    assert kinds(read_table(path)) == {"zip": "number", "n": "category"}
    table = read_table(path, {"zip": "category", "n": "number"})
    assert table["zip"].values.tolist() == ["00123", "12345"]
    np.testing.assert_array_equal(table["n"].values, [4, np.nan])
    with pytest.raises(pb.ArgumentError, match="kind 'text'"):
        read_table(path, {"n": "text"})


def test_data_frames():
    frame = pandas.DataFrame(
        {
            "n": pandas.array([1, None, 3], dtype="Int64"),
            "c": pandas.Categorical(["x", "y", None]),
            "d": pandas.to_datetime(["2000-01-01", None, "2000-01-03T12:00"], format="ISO8601"),
            "b": [True, False, True],
        }
    )
    table = read_table(frame)
    assert kinds(table) == {"n": "number", "c": "category", "d": "date", "b": "category"}
    np.testing.assert_array_equal(table["n"].values, [1, np.nan, 3])
    np.testing.assert_array_equal(table["d"].values, [10957, np.nan, 10959.5])
    assert table["c"].values.tolist() == ["x", "y", None] and table["b"].values.tolist() == ["True", "False", "True"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("a,b\n", r"has column names \(a, b\), but no rows"),
        ("a,b\n1,2\n3\n", "line 3: 1 cells, but the first line names 2 columns"),
        ("a,b\n1,2\n\n3,4,5\n", "line 4: 3 cells"),
        ("a,a\n1,2\n", "two columns are named 'a'"),
        (b"a,b\n\xff\xfe,2\n", "no text file in UTF-8: byte 4 is 0xff"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "no text file"),
    ],
)
def test_files_that_are_no_table(tmp_path, content, message):
    with pytest.raises(pb.FormatError, match=message):
        read_table(write(tmp_path, content))


def test_what_can_not_be_read(tmp_path):
    with pytest.raises(pb.FileAccessError, match="can't read .*none.csv: No such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(pb.ArgumentError, match="expected a CSV file, a data frame or a dict"):
        read_table(3)
    with pytest.raises(pb.ShapeError, match="different lengths"):
        read_table({"a": [1], "b": [1, 2]})


@given(st.binary(max_size=80))
def test_any_bytes_are_a_table_or_refused(tmp_path_factory, content):
    try:
        table = read_table(write(tmp_path_factory.mktemp("fuzz"), content))
    except pb.PullbackError:
        return
    assert all(len(column.values) == len(table) > 0 for column in table)


# --- features ---------------------------------------------------------------------------------------------------------


def test_features(table):
    encoder = TableEncoder.learn(table.without("price"))
    assert encoder.dropped == {"same": "all values are the same"}
    X = encoder.encode(table)
    assert X.dtype == "float32" and X.shape == (4, 2 + 3 + 5)
    size, flag = X[:, 0], X[:, 1]
    np.testing.assert_allclose(size, (np.array([50, 70, 70, 90]) - 70) / np.std([50, 70, 70, 90]), rtol=1e-6)
    np.testing.assert_array_equal(flag, [0, 0, 1, 0])
    np.testing.assert_array_equal(X[:, 2:5], [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]])  # Bonn, Ulm, other
    assert abs(X[:, 5].mean()) < 1e-6 and X[:, 5].std() == pytest.approx(1, rel=1e-5)
    np.testing.assert_allclose(np.square(X[:, [6, 8]]) + np.square(X[:, [7, 9]]), 1, rtol=1e-6)


def test_rows_that_were_never_seen(table):
    encoder = TableEncoder.learn(table.without("price"))
    other = {"size": ["", "60"], "town": ["Köln", "Ulm"], "built": ["x", "2001-05-01"], "new": [1, 2]}
    X = encoder.encode(read_table(other, encoder.kinds))
    np.testing.assert_array_equal(X[0, 1:5], [1, 0, 0, 1])
    assert np.isfinite(X).all()
    with pytest.raises(pb.UnknownNameError, match="lack the column 'town'.*Did you mean 'towns'"):
        encoder.encode(read_table({"size": [1], "towns": ["Ulm"], "built": ["2000-01-01"]}))
    with pytest.raises(pb.DTypeError, match="'size' is a category here, but was a number in training"):
        encoder.encode(read_table({**other, "size": ["big", "small"]}))


def test_encoders_survive_json(table):
    encoder = TableEncoder.learn(table.without("price"))
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(table), encoder.encode(table))
    target = TargetEncoder.learn(column(["a", "b", "a"]))
    assert TargetEncoder.from_json(json.loads(json.dumps(target.to_json()))) == target
    for reader in (TableEncoder, TargetEncoder):
        with pytest.raises(pb.FormatError, match="not the description"):
            reader.from_json({"codes": 3})


def test_useless_columns_are_named():
    names = [f"name {i}" for i in range(200)]
    table = read_table({"id": names, "empty": [None] * 200, "constant": ["x"] * 200, "n": list(range(200))})
    encoder = TableEncoder.learn(table)
    assert [code.name for code in encoder.codes] == ["n"]
    assert {k: v.split()[0] for k, v in encoder.dropped.items()} == {"id": "nearly", "empty": "all", "constant": "all"}
    with pytest.raises(pb.ArgumentError, match="no column is left to learn from"):
        TableEncoder.learn(table.without("n"))


def test_many_levels_share_a_feature():
    towns = [f"town {i % 80}" for i in range(1000)] + ["capital"] * 50
    X = TableEncoder.learn(read_table({"town": towns})).encode(read_table({"town": towns}))
    assert X.shape == (1050, 51)
    np.testing.assert_array_equal(X.sum(1), 1)
    assert X[:, -1].sum() == 31 * 12, "the capital and 49 towns have their own"


# --- targets ----------------------------------------------------------------------------------------------------------


def column(values):
    return read_table({"y": values})["y"]


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        (["yes", "no"] * 10, "classification", ("no", "yes")),
        ([0, 1, 2] * 10, "classification", ("0", "1", "2")),
        ([True, False] * 10, "classification", ("False", "True")),
        ([0.5, 1.25, 3.0] * 10, "regression", ()),
        (list(range(30)), "regression", ()),
    ],
)
def test_the_task_is_found(values, task, classes):
    target = TargetEncoder.learn(column(values))
    assert (target.task, target.classes) == (task, classes)


def test_the_task_can_be_given():
    assert TargetEncoder.learn(column([0, 1, 2] * 10), "regression").task == "regression"
    assert TargetEncoder.learn(column([0.5, 1.5] * 10), "classification").classes == ("0.5", "1.5")
    with pytest.raises(pb.ArgumentError, match="holds text such as 'a'"):
        TargetEncoder.learn(column(["a", "b"]), "regression")
    with pytest.raises(pb.ArgumentError, match="too many for classes"):
        TargetEncoder.learn(column([f"{i}x" for i in range(9)]))
    with pytest.raises(pb.ArgumentError, match="1 different values"):
        TargetEncoder.learn(column([3, 3, 3]))


def test_targets_there_and_back(rng):
    words = column(["b", "a", "c", "a"] * 5)
    target = TargetEncoder.learn(words)
    y = target.encode(words)
    assert y.dtype == "int64" and y[:4].tolist() == [1, 0, 2, 0]
    assert target.decode(np.eye(3)[y]).tolist() == words.values.tolist()
    with pytest.raises(pb.UnknownNameError, match="'y' has the value 'd'"):
        target.encode(column(["d"]))
    numbers = column((1e5 + 1e4 * rng.normal(size=50)).tolist())
    target = TargetEncoder.learn(numbers)
    y = target.encode(numbers)
    assert y.shape == (50, 1) and y.mean() == pytest.approx(0, abs=1e-6) and y.std() == pytest.approx(1, rel=1e-6)
    np.testing.assert_allclose(target.decode(y), numbers.values, rtol=1e-6)
