# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a command says: a record for programs, a text for people, an exit code."""

from dataclasses import dataclass

from skope_ope import __version__
from skope_ope._harmless import harmless

DEFAULT_LEVEL = 0.95


@dataclass(frozen=True)
class Answer:
    """What a command says."""

    record: dict  # for `--json`
    text: str  # for a terminal
    code: int = 0  # the exit code


def start_record(args):
    """Return what every command tells programs: the version and the arguments."""
    # An option that may be repeated is a list where it was.
    arguments = {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in vars(args).items()
        if name not in ("run", "words")
    }
    return {"version": __version__, "command": args.command, "arguments": arguments}


def write(stream, text):
    """Write lines to a stream; letters that it cannot write are shown as escapes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    letters = f"{text}\n".encode(encoding, "backslashreplace")
    stream.write(letters.decode(encoding))
    stream.flush()


def without_line_ends(text):
    """Return a text without line ends."""
    return " ".join(str(text).split())


def message_of(error):
    """Return what an exception says, in one harmless line."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return harmless(f"{error.filename}: {error.strerror}")
    text = harmless(without_line_ends(error))
    if isinstance(error, (ValueError, TypeError, OSError, ImportError)) and text:
        return text
    return f"{type(error).__name__}: {text or 'no message'}"
