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


def at_interrupt(handler):
    """Set what Ctrl-C does in our program, unless somebody else has."""
    if STARTED and signal.getsignal(signal.SIGINT) in (RAISE, end_at_once):
        signal.signal(signal.SIGINT, handler)


def end_at_once(number, frame):
    """End the program where nothing has to be put in order."""
    os.write(2, f"{PROGRAM}: interrupted\n".encode())
    os._exit(INTERRUPTED)


RAISE = signal.default_int_handler  # so that workers are stopped
STARTED = is_program()
at_interrupt(end_at_once)
