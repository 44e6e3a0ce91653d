# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import os
import stat

import pytest

from skope_ope.reports._report import checked_path, write_whole


def test_nothing_is_written_nowhere():
    assert checked_path(None) is None


def test_a_page_is_written_and_replaced(tmp_path):
    path = checked_path(str(tmp_path / "a.html"))
    assert list(tmp_path.iterdir()) == []  # the trial is gone
    for text in ("first ä\n", "second\n"):
        write_whole(path, text)
        assert path.read_bytes() == text.encode("utf-8")
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_page(tmp_path):
    path = tmp_path / "a.html"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "a half\ud800 page")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("", IsADirectoryError, "is a folder"),
        ("none/a.html", FileNotFoundError, "make '.*none' first"),
        ("file/a.html", FileNotFoundError, "does not exist"),
    ],
)
def test_what_cannot_be_a_page_is_refused(tmp_path, name, error, text):
    (tmp_path / "file").write_text("")
    with pytest.raises(error, match=text):
        checked_path(os.path.join(tmp_path, name))


@pytest.mark.parametrize("path", ["", b"a.html", 3, ["a"]])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(TypeError, match="path must be the name of a file"):
        checked_path(path)


def test_a_folder_that_takes_no_files_is_refused(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("skope_ope.reports._report._created", refuse)
    with pytest.raises(PermissionError, match="cannot be written: Permission denied"):
        checked_path(tmp_path / "a.html")


def test_a_file_that_is_protected_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.html"
    path.write_text("old")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PermissionError, match="write-protected"):
        checked_path(path)


@pytest.mark.skipif(os.name == "nt", reason="permissions and links of Unix")
def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "a.html", tmp_path / "link.html"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole(checked_path(link), "new")
    assert path.read_text() == "new" and link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="a device of Unix")
def test_a_device_is_no_page():
    with pytest.raises(PermissionError, match="no ordinary file"):
        checked_path("/dev/null")
