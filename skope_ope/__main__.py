# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate a policy on a log file, or audit the log, from the shell."""

import os
import sys
import warnings

from skope_ope._interrupted import (
    INTERRUPTED,
    PROGRAM,
    RAISE,
    at_interrupt,
    end_at_once,
)
from skope_ope._shell._answer import ProgressLine, message_of, to_json, write
from skope_ope._shell._options import parser


def main(argv=None):
    """Run the command line; returns the exit code."""
    try:
        args = parser().parse_args(argv)
        args.words = [PROGRAM, *(sys.argv[1:] if argv is None else argv)]
        if args.command is None:
            parser().error("name a command: evaluate, audit or demo")
    except SystemExit as stop:  # argparse has said what there was to say
        return stop.code
    progress = ProgressLine(sys.stderr, args.progress)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            at_interrupt(RAISE)
            answer = args.run(args, progress, caught)
        write(sys.stdout, to_json(answer.record) if args.json else answer.text)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        # what is still buffered must not fail once more when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        write(sys.stderr, f"{PROGRAM}: interrupted")
        return INTERRUPTED
    except Exception as error:
        if args.traceback:
            raise
        write(sys.stderr, f"{PROGRAM} {args.command}: error: {message_of(error)}")
        return 2
    finally:
        at_interrupt(end_at_once)
    return answer.code


if __name__ == "__main__":
    sys.exit(main())
