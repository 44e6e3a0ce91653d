# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The options of the commands: groups that several of them share, built once."""

import argparse

from skope_ope import __version__
from skope_ope._interrupted import PROGRAM
from skope_ope._shell._answer import DEFAULT_LEVEL
from skope_ope._shell._commands import run_audit, run_demo, run_evaluate
from skope_ope._shell._policies import (
    integer,
    names,
    number_in,
    option_of,
    propensity,
)
from skope_ope._shell._require import requirement
from skope_ope._texts import harmless, one_line
from skope_ope.evaluators._names import STATIC, names_for
from skope_ope.evaluators._rules import DEFAULTS
from skope_ope.logs import BanditLogs
from skope_ope.logs._fields import BANDIT, FIELDS, column_fields
from skope_ope.policies._policy_files import LEARNERS
from skope_ope.readers._read_logs import LOG_FORMATS

EVALUATE = """\
  skope-ope evaluate clicks.csv.gz --action item --reward click \\
      --propensity p --context age,hour --policy uniform
  skope-ope evaluate trial.parquet --action arm --reward cured --propensity 1/2 \\
      --exclude died,cost --policy greedy --reward-model ridge
  skope-ope evaluate log.dsjson --policy policy.skops --json
  skope-ope evaluate random/men --policy-table prior.csv --policy-table-by position \\
      --compare-logs bts/men
  skope-ope evaluate clicks.csv.gz --action item --reward click \\
      --propensity p --context age,hour --policy new=policy.skops \\
      --policy even=uniform --require "new.gain.lower > 0" && ./deploy
"""
EVALUATE_CODES = """exit code:
  0  every requirement holds, or there is none
  1  a requirement does not hold
  2  no decision: an option or the input is wrong; one line says what to change
"""
AUDIT = """\
  skope-ope audit clicks.csv.gz --action item --reward click \\
      --propensity p --context age,hour
  skope-ope audit trial.parquet --action arm --reward cured --propensity 1/2 \\
      --exclude died,cost --policy always:drug && echo "no alarm"
"""
AUDIT_CODES = """exit code:
  0  no alarm
  1  alarms: errors or warnings among the findings
  2  no audit: an option or the input is wrong; one line says what to change
"""


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message):
        """Exit with code 2."""
        told = harmless(one_line(message))
        self.exit(2, f"{self.prog}: error: {told} (see {self.prog} -h)\n")


def parser():
    """Return the parser of the command line."""
    main_parser = Parser(
        prog=PROGRAM,
        description="Off-policy evaluation: how good would this policy have been?",
        epilog=f"examples:\n{EVALUATE}{AUDIT}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    main_parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {__version__}"
    )
    commands = main_parser.add_subparsers(
        dest="command", metavar="{evaluate,audit,demo}"
    )
    _add_evaluate(commands)
    _add_audit(commands)
    _add_demo(commands)
    return main_parser


def _add_evaluate(commands):
    command = commands.add_parser(
        "evaluate",
        help="evaluate a policy on a log file",
        description="Estimate from a log what another policy would have earned.",
        epilog=f"{EVALUATE_CODES}\nexamples:\n{EVALUATE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run_evaluate)
    _add_log(command)
    _add_policy(command, "the policies", several=True)
    _add_learning(command)
    _add_evaluation(command)
    _add_gate(command)
    _add_output(command)


def _add_audit(commands):
    command = commands.add_parser(
        "audit",
        help="check whether a log can answer, before any estimate",
        description="Check a log for faults that make estimates wrong. With a policy, "
        "check also whether the log can answer for it.",
        epilog=f"{AUDIT_CODES}\nexamples:\n{AUDIT}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run_audit)
    _add_log(command)
    _add_policy(command, "a policy, if wanted, one of")
    _add_learning(command)
    _add_output(command)


def _add_demo(commands):
    demo = commands.add_parser(
        "demo",
        help="handwritten digits with a known true value; needs no file",
        description="Log handwritten digits by a confounded rule, train a classifier's "
        "policy on others, and print all static evaluators beside the true value.",
    )
    demo.add_argument("--random-state", type=integer, default=1, metavar="SEED")
    _add_output(demo)
    demo.set_defaults(run=run_demo)


def _add_log(command):
    command.add_argument("logs", metavar="LOGS", help="the log file")
    add = command.add_argument_group(
        "the log",
        "Columns of csv and parquet files, and fields of JSON lines (user.age). "
        "Other formats have fixed names. Separate the items of a list by commas.",
    ).add_argument
    add("--format", choices=LOG_FORMATS, help="default: told from the file")
    of_propensity = {
        "type": propensity,
        "metavar": "COLUMN|NUMBER",
        "help": f"{FIELDS['propensity'].words}; a number such as 1/3 for a randomised "
        "experiment; 'estimate' fits a classifier of the context",
    }
    for name in column_fields(BANDIT):
        how = of_propensity if name == "propensity" else {"help": FIELDS[name].words}
        add(f"--{option_of(name)}", **{"metavar": "COLUMN", **how})
    add(
        "--logging-proba",
        type=names,
        metavar="COLUMNS",
        help=f"{FIELDS['logging_proba'].words}: in the order of the actions, called "
        "like them behind the last dot (probs.a,probs.b), or as LABEL=COLUMN; an "
        "object of JSON lines stands for its fields",
    )
    add(
        "--context",
        type=names,
        metavar="COLUMNS",
        help="what was known before the decision, for models and learned policies. "
        "Patterns such as 'user_*' match columns without another role; '' is "
        "for logs without features. Give this or --exclude if there are such "
        "columns",
    )
    add(
        "--exclude",
        type=names,
        metavar="COLUMNS",
        help="instead of --context: what was not known before the decision, such as "
        "outcomes, by name or as 'new_*'. All other columns without another "
        "role are the context",
    )
    add("--actions", type=names, metavar="LABELS", help=FIELDS["actions"].words)
    add(
        "--skip-bad-lines",
        action="store_true",
        help="skip malformed lines of JSON and Vowpal Wabbit, with a counted warning",
    )


def _add_policy(command, title, several=False):
    add = command.add_argument_group(title).add_argument
    before = "several are NAME=POLICY, repeated. POLICY is " if several else ""
    add(
        "--policy",
        action="append",
        metavar="[NAME=]POLICY" if several else "POLICY",
        help=f"{before}'uniform'; 'always:ACTION'; 'greedy' or 'epsilon-greedy', "
        "learned on a part of the rows and evaluated on the others; 'evaluated', the "
        "actions in vw-cb-eval logs; columns:A,B or table:FILE as in the next two "
        "options; or the file of a saved policy, .skops or a pickle (one that learns "
        "starts with an empty history). "
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
        help="column of the log whose value chooses the column of the table: one "
        "with this value as its name, or whose name ends in _VALUE",
    )


def _add_learning(command):
    add = command.add_argument_group(
        "saved and learned policies, and other fits"
    ).add_argument
    add(
        "--trust",
        action="store_true",
        help="load a pickle, or unknown types in a .skops file. Such a file can run "
        "any code: trust its author",
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
    add(
        "--folds",
        type=integer,
        default=5,
        help="number of folds for out-of-fold fits, default 5",
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
        "--level",
        type=number_in(0, 1),
        default=DEFAULT_LEVEL,
        help="level of the intervals, for all policies together; default 0.95",
    )
    add(
        "--baseline",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show the logger's own mean reward as a line of the table (default: yes)",
    )
    add(
        "--gain",
        action="store_true",
        help="show paired differences to the logger's mean reward (always shown for "
        "several policies)",
    )
    add(
        "--compare-logs",
        metavar="FILE",
        help="log of the policy itself, with the same columns; its mean reward is "
        "shown beside the estimates",
    )
    add(
        "--report",
        metavar="FILE",
        help="write one HTML page with the question, the evidence and a "
        "recommendation; an existing file is replaced",
    )


def _add_gate(command):
    add = command.add_argument_group("the gate of a deployment").add_argument
    add(
        "--require",
        type=requirement,
        action="append",
        default=[],
        metavar="REQUIREMENT",
        help="what must hold, or the exit code is 1: 'new.lower > logger', "
        "'new.gain.lower > 0' (in pairs), 'new.verdict == trustworthy'. May be "
        "repeated. A value that the logs do not support satisfies none",
    )
    add(
        "--audit",
        action=argparse.BooleanOptionalAction,
        help="audit the log for the verdicts; default: if there is a requirement or "
        "a page",
    )
    add(
        "--accept",
        type=names,
        default=(),
        metavar="REASONS",
        help="names of reasons in verdicts that you accept",
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
