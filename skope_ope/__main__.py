# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate a policy on a log file from the shell: `python -m skope_ope`."""

import argparse
import csv
import os
import sys
import warnings

from skope_ope import __version__
from skope_ope._command import LEVEL, run_demo, run_evaluate
from skope_ope.displays._progress import Progress
from skope_ope.displays._value_report import to_json, to_text
from skope_ope.evaluators._defaults import DEFAULTS
from skope_ope.evaluators._names import STATIC, names_for
from skope_ope.logs import BanditLogs
from skope_ope.policies._learned_policy import LEARNERS
from skope_ope.readers._numbers import number, whole_number
from skope_ope.readers._read_logs import FORMATS

PROGRAM = "skope-ope"
EPILOG = """examples:
  skope-ope evaluate clicks.csv.gz --action item --reward click --propensity p \\
      --context age,hour --policy uniform
  skope-ope evaluate trial.parquet --action arm --reward cured --propensity 1/2 \\
      --context age,dose --policy greedy --reward-model ridge
  skope-ope evaluate log.dsjson --policy policy.skops --json
  skope-ope evaluate random/men --policy-table prior.csv --policy-table-by position \\
      --compare-logs bts/men
"""


# -- the command line ---------------------------------------------------------------
class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message):
        """Exit with code 2."""
        self.exit(2, f"{self.prog}: error: {one_line(message)} (see {self.prog} -h)\n")


def number_in(low, high, closed=False):
    """Return a parser of numbers between two bounds."""

    def parse(text):
        value = number(text)
        if not (low <= value <= high if closed else low < value < high):
            raise argparse.ArgumentTypeError(
                f"must lie in {'[' if closed else '('}{low:g}, {high:g}"
                f"{']' if closed else ')'}, got {text}"
            )
        return value

    parse.__name__ = "number"  # as argparse calls it
    return parse


def integer(text):
    """Parse a whole number."""
    return whole_number(text)


def names(text):
    """Parse a list with commas; quotes protect commas in names."""
    return tuple(next(csv.reader([text], skipinitialspace=True)))


def propensity(text):
    """Parse a column, a number or a fraction."""
    above, _, below = text.partition("/")
    if text.removesuffix("%").strip().replace(".", "", 1).isdigit() and "%" in text:
        raise argparse.ArgumentTypeError(
            f"must be a number such as 0.25 or 1/3, or a column, got {text}"
        )
    try:
        value = number(above) / number(below or "1")
    except (ValueError, ZeroDivisionError):
        return text
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must lie in (0, 1], got {text}")
    return value


def parser():
    """Return the parser of the command line."""
    main_parser = Parser(
        prog=PROGRAM,
        description="Off-policy evaluation: how good would this policy have been?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    main_parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {__version__}"
    )
    commands = main_parser.add_subparsers(dest="command", metavar="{evaluate,demo}")
    _add_evaluate(commands)
    demo = commands.add_parser(
        "demo",
        help="digits whose true answer is known; needs no file",
        description="Log handwritten digits by a confounded rule, train a classifier's "
        "policy on others, and print all static evaluators beside the true value.",
    )
    demo.add_argument("--random-state", type=integer, default=1, metavar="SEED")
    _add_output(demo)
    demo.set_defaults(run=run_demo)
    return main_parser


def _add_evaluate(commands):
    command = commands.add_parser(
        "evaluate",
        help="evaluate a policy on a log file",
        description="Estimate from a log what another policy would have earned.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run_evaluate)
    command.add_argument("logs", metavar="LOGS", help="the log file, plain or gzip")
    _add_log(command)
    _add_policy(command)
    _add_learning(command)
    _add_evaluation(command)
    _add_output(command)


def _add_log(command):
    add = command.add_argument_group(
        "the log",
        "Columns of csv and parquet files; other formats know theirs. Lists are parted "
        "by commas.",
    ).add_argument
    add("--format", choices=FORMATS, help="default: told from the file")
    add("--action", metavar="COLUMN", help="the logged action")
    add("--reward", metavar="COLUMN", help="its reward; greater is better")
    add(
        "--propensity",
        type=propensity,
        metavar="COLUMN|NUMBER",
        help="probability with which the action was chosen; a number such as 1/3 for "
        "a randomised experiment; 'estimate' fits a classifier of the context",
    )
    add(
        "--context",
        type=names,
        default=(),
        metavar="COLUMNS",
        help="what was known before the decision, for models and learned policies; "
        "patterns such as 'user_*' match columns that mean nothing else",
    )
    add("--actions", type=names, metavar="LABELS", help="all actions, in their order")
    add("--logger", metavar="COLUMN", help="which logger acted")
    add("--timestamp", metavar="COLUMN", help="when; numbers or datetimes")
    add("--group", metavar="COLUMN", help="rows that belong together, as a user's")
    add("--weight", metavar="COLUMN", help="1 / (probability of being kept)")
    add(
        "--skip-bad-lines",
        action="store_true",
        help="skip malformed lines of Vowpal Wabbit logs, with a counted warning",
    )


def _add_policy(command):
    add = command.add_argument_group("the policy, one of").add_argument
    add(
        "--policy",
        metavar="POLICY",
        help="'uniform'; 'always:ACTION'; 'greedy' or 'epsilon-greedy', learned on a "
        "part of the rows and evaluated on the others; 'evaluated', the actions in "
        "vw-cb-eval logs; or the file of a saved policy, "
        ".skops or a pickle (one that learns starts with an empty history). "
        "A PICKLE RUNS CODE WHEN IT IS LOADED: it needs --trust",
    )
    add(
        "--policy-columns",
        type=names,
        metavar="COLUMNS",
        help="columns with the policy's probabilities in the order of the actions, or "
        "one column with that of the logged action",
    )
    add(
        "--policy-table",
        metavar="FILE",
        help="csv of a policy without context: actions in the first column, "
        "probabilities in another",
    )
    add(
        "--policy-table-by",
        metavar="COLUMN",
        help="column of the log whose value chooses the column of the table: the one "
        "that is called like the value or ends in _VALUE",
    )


def _add_learning(command):
    add = command.add_argument_group("saved and learned policies").add_argument
    add(
        "--trust",
        action="store_true",
        help="load a pickle, or unknown types in a .skops file: only from files whose "
        "writer you trust with your account",
    )
    add(
        "--train-share",
        type=number_in(0, 1),
        default=0.5,
        metavar="SHARE",
        help="default 0.5",
    )
    add(
        "--epsilon",
        type=number_in(0, 1, closed=True),
        default=0.1,
        help="exploration of epsilon-greedy, default 0.1",
    )
    add(
        "--learner",
        choices=LEARNERS,
        default="logistic",
        help="classifier behind a learned policy: logistic regression, the default, or "
        "boosted trees",
    )
    add("--random-state", type=integer, default=0, metavar="SEED", help="default 0")


def _add_evaluation(command):
    add = command.add_argument_group("the evaluation").add_argument
    static = f"{next(iter(STATIC))} to {list(STATIC)[-1]}"
    add(
        "--evaluators",
        type=names,
        metavar="NAMES",
        help=f"some of {', '.join(names_for(BanditLogs))}; parameters as in "
        f"IPS:cmax=10; 'all' is {static}; default {','.join(DEFAULTS)} (without "
        "propensities DirectMethod). A policy that learns needs "
        "DRns:horizon=100, RejectionSampling, Replay or DirectMethod",
    )
    add(
        "--reward-model",
        default="none",
        metavar="MODEL",
        help="ridge, logistic or hist, fitted out of fold for each action; a number; "
        "'none', the default: the mean reward of the action (of DRns: of all actions "
        "together)",
    )
    add(
        "--folds", type=integer, default=5, help="parts for fits out of fold, default 5"
    )
    add(
        "--level",
        type=number_in(0, 1),
        default=LEVEL,
        help="of the intervals, default 0.95",
    )
    add(
        "--baseline",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the logger's own mean reward as a line of the table (default: yes)",
    )
    add(
        "--gain",
        action="store_true",
        help="paired differences to the logger's mean reward",
    )
    add(
        "--compare-logs",
        metavar="FILE",
        help="log of the policy itself, with the same columns: its mean reward stands "
        "beside the estimates",
    )


def _add_output(command):
    add = command.add_argument_group("output").add_argument
    add("--json", action="store_true", help="machine readable, with the arguments")
    add(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="on stderr; default: of long work, if that is a terminal",
    )
    add("--traceback", action="store_true", help="of errors, for a bug report")


def main(argv=None):
    """Run the command line; returns the exit code."""
    try:
        args = parser().parse_args(argv)
        if args.command is None:
            parser().error("name a command, evaluate or demo")
    except SystemExit as stop:  # argparse has said what there was to say
        return stop.code
    progress = Progress(sys.stderr, args.progress)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = args.run(args, progress, caught)
        sys.stdout.write(to_json(report) + "\n" if args.json else to_text(report))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        # what is still buffered must not fail once more when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.stderr.write(f"{PROGRAM}: interrupted\n")
        return 130
    except Exception as error:
        if args.traceback:
            raise
        sys.stderr.write(f"{PROGRAM} {args.command}: error: {message_of(error)}\n")
        return 2
    return 0


def one_line(text):
    """Return a text without line ends."""
    return " ".join(str(text).split())


def message_of(error):
    """Return what an exception says, in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    text = one_line(error)
    if isinstance(error, (ValueError, TypeError, OSError, ImportError)) and text:
        return text
    return f"{type(error).__name__}: {text or 'no message'}"


if __name__ == "__main__":
    sys.exit(main())
