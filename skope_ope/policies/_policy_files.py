# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies from files: tables of probabilities."""

import numpy as np

from skope_ope.logs import BanditLogs
from skope_ope.logs._context_encoder import check_features
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._text_files import Texts, empty_file, number, parse_labels, quoted
from skope_ope.logs._validation import in_context, label_codes
from skope_ope.policies._action_probabilities import (
    action_probabilities,
    refuse_non_policies,
)
from skope_ope.policies._classifier_policy import ClassifierPolicy
from skope_ope.propensities._model_fits import behind_encoder_if_odd
from skope_ope.readers._table_columns import csv_at, pandas_frame
from skope_ope.readers._table_logs import rounding

CLOSE = 1e-3  # how far from one a sum may be, whatever the digits


def read_policy_table(path, actions, by=None):
    """Read a context-free policy: probabilities by action and, perhaps, by a value."""
    # The first column holds the actions. Without `by` there is one more column or one
    # called "probability"; with it there is one for every value of `by`, which has the
    # value as its name or at the end of its name, as `prob_position_1`.
    file = csv_at(path)
    header, rows = file.header, list(file.rows())
    if not rows:
        raise empty_file(path)
    labels = parse_labels([row[0].strip() for _, row in rows])
    if labels.dtype.kind == "U" and actions.dtype.kind != "U":
        actions = actions.astype(str)
    codes = label_codes(actions, labels)
    if len(set(labels.tolist())) != len(labels):
        raise ValueError(f"{path}: an action occurs twice. Keep one row per action.")
    if by is None:
        columns, of_round = [_only_column(path, header)], 0
    else:
        values, of_round = np.unique(by, return_inverse=True)
        columns = [_column_of_value(path, header, value) for value in values.tolist()]
    written = path, header, rows, codes, len(actions)
    return np.array([_distribution(column, *written) for column in columns])[of_round]


def _only_column(path, header):
    if "probability" in header[1:]:
        return header.index("probability", 1)
    if len(header) == 2:
        return 1
    raise ValueError(
        f"{path} has the columns {', '.join(map(repr, header))}: call the one with the "
        "probabilities 'probability', or say with --policy-table-by which column of "
        "the log chooses among them."
    )


def _column_of_value(path, header, value):
    names = header[1:]
    matches = [name for name in names if name == str(value)]
    matches = matches or [name for name in names if name.endswith(f"_{value}")]
    if len(matches) != 1:
        found = f"{len(matches)} such columns" if matches else "no such column"
        raise ValueError(
            f"{path} has {found}. Exactly one of {', '.join(map(repr, names))} must be "
            f"called {value!r}, or end in '_{value}'."
        )
    return header.index(matches[0], 1)


def _distribution(column, path, header, rows, codes, n_actions):
    """Return the probabilities of the actions from one column."""
    proba = np.zeros(n_actions)
    written = []
    for (line, row), code in zip(rows, codes, strict=True):
        try:
            p = number(row[column])
        except ValueError:
            p = np.nan
        if not 0 <= p <= 1:
            raise ValueError(
                f"{path}, line {line}: column {header[column]!r} is "
                f"{quoted(row[column])}, expected a probability."
            )
        if code < 0 and p > 0:
            raise ValueError(
                f"{path}, line {line}: the policy gives probability {p:.4g} to action "
                f"{row[0]!r}, which the log does not have. If it can be taken, name "
                "all actions with --actions."
            )
        written.append(p)
        proba[code] = p if code >= 0 else proba[code]
    total = sum(written)
    _, bound = rounding(np.array([written]))
    if abs(total - 1) > max(CLOSE, bound):
        raise ValueError(
            f"{path}: column {header[column]!r} sums to {total:.6g} over the actions, "
            "expected 1."
        )
    return proba / total


# -- saved policies on the columns of a file as they are -------------------------------


def policy_on_columns(policy, source):
    """Return the probabilities of a policy that was trained elsewhere."""
    # The context of logs from a table is encoded for models that are fitted here; a
    # saved policy knows the columns as they are, by name or by order.
    if isinstance(policy, np.ndarray):
        return policy
    refuse_non_policies(policy)
    if source.features is None:
        return policy
    if hasattr(policy, "feature_names_in_"):
        columns = {
            name: source.extra[name, "feature"] for name in policy.feature_names_in_
        }
        context = _frame_of(columns)
    else:
        context = _context_for(policy, source)
    logs = source.logs
    rounds = BanditLogs(context, logs.action, logs.reward, actions=logs.actions)
    return action_probabilities(policy, rounds)


def logs_on_columns(policy, source):
    """Return the logs that a policy that learns acts on."""
    # It starts with an empty history, so it is asked in every round of its own; it sees
    # the named columns as they are, as a data frame where one of them holds texts.
    logs, features = source.logs, source.features
    if features is None or policy.context_free:
        return logs
    if any(isinstance(values, Texts) for values in features.values()):
        context = _frame_of(features)
    else:
        context = _side_by_side(features, len(logs))
    return in_context(logs, context)


def frame_of_context(source):
    """Return the context of a file as a pandas frame; None without pandas."""
    return _frame_of(source.features) if can_name_columns() else None


def can_name_columns():
    """Tell whether what pandas frames need is installed."""
    try:
        import_narwhals()
        _frame_of({})
    except ImportError:
        return False
    return True


def _context_for(policy, source):
    """Return the named columns in their order, as the policy expects them."""
    features = source.features
    texts = [name for name, values in features.items() if isinstance(values, Texts)]
    n_wanted = getattr(policy, "n_features_in_", len(features))
    if texts and not hasattr(policy, "n_features_in_"):  # it was not trained
        return _frame_of(features)
    if texts or len(features) != n_wanted:
        found = f"{len(features)} are named"
        if texts:
            found = f"column {texts[0]!r} holds texts"
        raise ValueError(
            f"the saved policy was trained on {n_wanted} numbers without column names, "
            f"but {found}. Name with --context the columns it was trained on, in their "
            "order."
        )
    return _side_by_side(features, len(source.logs))


def _side_by_side(features, n_rounds):
    return np.column_stack([np.empty((n_rounds, 0)), *features.values()])


def _frame_of(columns):
    """Return a pandas frame, as policies with column names expect."""
    why = "the saved policy takes a data frame, with columns by name or with texts, and"
    return pandas_frame(columns, why)


# -- A policy learned on a part of the rounds, to be evaluated on the others -----------

LEARNERS = ("logistic", "hist")
FEWEST_TO_DIVIDE = 4  # rounds that can be divided


def divide(logs, train_share=0.5, random_state=0):
    """Return the rounds to learn from and the others, groups kept together."""
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

    if len(logs) < FEWEST_TO_DIVIDE:
        raise ValueError(
            f"a policy cannot be learned and evaluated on {len(logs)} round(s); at "
            f"least {FEWEST_TO_DIVIDE} are needed."
        )
    splitter = ShuffleSplit if logs.group is None else GroupShuffleSplit
    split = splitter(1, train_size=train_share, random_state=random_state)
    train, test = next(split.split(np.arange(len(logs)), groups=logs.group_index))
    return logs[np.sort(train)], logs[np.sort(test)]


def learn_policy(logs, context, learner="logistic", epsilon=0.0, random_state=0):
    """Learn a policy from rewards of any sign, for all rows of a context."""
    check_features(logs, f"the learner {learner!r}", takes_sparse=learner != "hist")
    if learner == "hist":
        from sklearn.ensemble import HistGradientBoostingClassifier

        classifier = HistGradientBoostingClassifier(random_state=random_state)
    else:
        from sklearn.linear_model import LogisticRegression

        classifier = LogisticRegression(max_iter=1000)
        classifier = behind_encoder_if_odd(classifier, context)
    low = logs.reward.min()
    if low < 0:  # which action is best does not depend on where rewards start
        logs = logs.replace(reward=logs.reward - low)
    return ClassifierPolicy(classifier, epsilon=epsilon).fit(logs)
