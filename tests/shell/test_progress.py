# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import io
import time

import pytest

from skope_ope._shell import _progress
from skope_ope._shell._progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_no_terminal_no_word():
    stream = io.StringIO()
    with ProgressLine(stream).step("reading") as tell:
        tell("5 rows")
    assert stream.getvalue() == ""


def test_short_steps_on_a_terminal_are_not_worth_a_word():
    stream = Terminal()
    with ProgressLine(stream).step("reading"):
        pass
    assert stream.getvalue() == ""


def test_wanted_progress_is_a_line_per_step():
    stream = io.StringIO()
    progress = ProgressLine(stream, True)
    with progress.step("reading") as tell:
        tell("5 rows")
    with progress.step("evaluating"):
        pass
    first, second = stream.getvalue().splitlines()
    assert first.startswith("reading: 5 rows (0.")
    assert second.startswith("evaluating (0.")


def test_unwanted_progress_is_silent_on_a_terminal(monkeypatch):
    monkeypatch.setattr(_progress, "PROGRESS_PATIENCE", 0.0)
    stream = Terminal()
    with ProgressLine(stream, False).step("reading"):
        time.sleep(0.02)
    assert stream.getvalue() == ""


def test_long_steps_rewrite_their_line(monkeypatch):
    monkeypatch.setattr(_progress, "PROGRESS_PATIENCE", 0.01)
    monkeypatch.setattr(_progress, "TICK", 0.01)
    stream = Terminal()
    with ProgressLine(stream).step("reading") as tell:
        tell("5 rows")
        time.sleep(0.2)
    text = stream.getvalue()
    assert text.count("\r\x1b[Kreading: 5 rows") >= 2
    assert text.count("\n") == 1


def test_a_log_gets_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr(_progress, "LINE", 0.01)
    stream = io.StringIO()
    with ProgressLine(stream, True).step("reading"):
        time.sleep(0.2)
    assert stream.getvalue().count("\n") >= 2


def test_errors_pass_and_end_the_step():
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError), ProgressLine(stream, True).step("reading"):
        1 / 0  # noqa: B018
    assert stream.getvalue().startswith("reading (")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_what_a_file_is_called_is_shown_harmless(stream):
    with ProgressLine(stream, True).step("reading \x1b]0;x\x07.csv") as tell:
        tell("5 rows\x1b[2J")
    written = stream.getvalue().removeprefix("\r\x1b[K")
    assert r"reading \x1b]0;x\x07.csv: 5 rows\x1b[2J (" in written
    assert "\x1b" not in written
