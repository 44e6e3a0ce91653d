# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C in the program `skope-ope`: one line and an exit code, also during imports.

It is imported before all else. In other programs, and in workers, nothing is changed.
"""

import os
import signal
import sys

PROGRAM = "skope-ope"
INTERRUPTED = 130


def is_program():
    """Tell whether this process was started as `skope-ope` or `-m skope_ope`."""
    name, words = sys.argv[0] if sys.argv else "", sys.orig_argv
    if name == "-m":
        return words[words.index("-m") + 1 :][:1] == ["skope_ope"]
    return name in words and os.path.basename(name).startswith(PROGRAM)


def end_at_once():
    """Let Ctrl-C end the program where nothing has to be put in order."""
    _replace(signal.default_int_handler, _end)


def raise_again():
    """Let Ctrl-C raise KeyboardInterrupt, so that workers are stopped."""
    _replace(_end, signal.default_int_handler)


def _replace(before, after):
    if signal.getsignal(signal.SIGINT) is before:
        signal.signal(signal.SIGINT, after)


def _end(number, frame):
    os.write(2, f"{PROGRAM}: interrupted\n".encode())
    os._exit(INTERRUPTED)


STARTED = is_program()
if STARTED:
    end_at_once()
