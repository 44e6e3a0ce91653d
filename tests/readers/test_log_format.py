# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip

import pytest

from skope_ope.readers._read_logs import tell_format

OPEN_BANDIT = "timestamp,item_id,position,click,propensity_score,user_feature_0\n"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("log.csv", "item,click\na,1\n", "csv"),
        ("log.csv", "item,a|b\n", "csv"),
        ("log.txt", "\n\nitem,click\n", "csv"),
        ("log.csv", OPEN_BANDIT, "open-bandit"),
        ("log.txt", "1:0:0.5 | a b\n", "vw"),
        ("log.txt", "shared | a\n0:1:0.5 | b\n", "vw"),
        ("log.txt", "| a b\n", "vw"),
        ("log.txt", "'tag| a b\n", "vw"),
        ("log.txt", "ccb shared | a\n", "vw"),
        ("log.csv", "0,a|b\n", "csv"),
        ("log.txt", '{"_label_cost": 0}\n', "vw"),
        ("log.dat", "1 2 3\n", "vw"),
        ("log.jsonl", '{"action": "a", "reward": 1}\n', "jsonl"),
        ("log.ndjson", '{"c": "text", "a": 1}\n', "jsonl"),
        ("log.txt", '{"action": "a"}\n', "jsonl"),
        ("log.jsonl", '{"action": \n', "jsonl"),
        ("log.jsonl", "action,reward\n", "jsonl"),
        ("log.jsonl", '{"_label_cost": \n', "vw"),
        ("log.jsonl", '{"_labelIndex": 0, "_multi": []}\n', "vw"),
        ("log.jsonl", '{"EventId": "e", "a": [1], "c": {"x": 1}}\n', "vw"),
        ("log.json", '{"action": "a"}\n', "vw"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_formats(tmp_path, name, text, expected, packed):
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert tell_format(path) == expected


def test_parquet_is_told_by_its_first_bytes(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"PAR1\x15\x04\x00\xff")
    assert tell_format(path) == "parquet"


def test_a_folder_is_an_open_bandit_campaign(tmp_path):
    assert tell_format(tmp_path) == "open-bandit"


def test_what_cannot_be_read(tmp_path):
    path = tmp_path / "log.csv"
    with pytest.raises(FileNotFoundError, match=r"log\.csv: no such file"):
        tell_format(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"log\.csv is empty"):
        tell_format(path)
    path.write_bytes(b"\n \n")
    with pytest.raises(ValueError, match=r"log\.csv is empty"):
        tell_format(path)
    path.write_bytes(gzip.compress(b"item,click\n" * 5)[:-9])
    with pytest.raises(ValueError, match="damaged or cut off"):
        tell_format(path)


def test_the_real_files(data_dir):
    assert tell_format(data_dir / "obd_random_men.csv.gz") == "open-bandit"
    assert tell_format(data_dir / "hillstrom_email_part1.csv.gz") == "csv"
    formats = {tell_format(path) for path in (data_dir / "vw").iterdir()}
    assert formats == {"vw"}
