# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of an estimate over a part of a log: parts add up to the whole.

The sums of an estimate merge where every term depends on its round and on parameters
that were stated beforehand. Shares of a mixture, divergences, a smoothing of 1/sqrt(n),
parameters that are "auto" and models that are fitted to the rounds depend on the whole
log: an evaluator refuses to be summed in parts until they are stated.
"""

import json
from collections.abc import Mapping
from numbers import Real

import joblib
import numpy as np

from skope_ope.evaluators.core._estimate import difference
from skope_ope.evaluators.core._loggers import label_list
from skope_ope.evaluators.core._positive_rounds import Part
from skope_ope.evaluators.core._sample_weights import plain_weights
from skope_ope.evaluators.core._sums import Sums
from skope_ope.evaluators.core._tally import Tally
from skope_ope.logs._validation import plain

FORMAT = 1  # of the sums and their tables
N_BUCKETS = 1000
LOGGER = "(logger)"  # stands for the policy that made the logs: their mean reward


class Summary:
    """Sums of one evaluator on one policy over a part of a log.

    Parameters
    ----------
    sums : Sums
        Sums of the terms.
    tally : Tally
        What else was seen.
    form : callable
        Takes sums and tally and returns the estimate.
    about : dict of str
        What must be the same in all parts: evaluator, policy, stated parameters.
    """

    def __init__(self, sums, tally, form, about):
        self.sums, self.tally, self.form = sums, tally, form
        self.about = {"format": str(FORMAT), **about}

    def __add__(self, other):
        """Return the summary of both parts."""
        if not isinstance(other, Summary):
            return NotImplemented
        _refuse_unlike(self.about, other.about)
        sums, tally = self.sums + other.sums, self.tally + other.tally
        return Summary(sums, tally, self.form, self.about)

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if other == 0 else NotImplemented

    @property
    def overlap(self):
        """Sums of the importance weights, an `Overlap`; None where none are used."""
        return None  # follows

    def estimate(self):
        """Return the `Estimate` of all parts."""
        return self.form(self.sums, self.tally)

    def to_table(self, n_buckets=N_BUCKETS):
        """Return the summary as a dict of arrays, for numpy's or pyarrow's files.

        Parameters
        ----------
        n_buckets : int, default=1000
            More groups are merged into as many hash buckets, so that the table stays
            small; groups whose labels are neither numbers nor texts, too.
        """
        sums, clusters = self.sums, self.sums.frame.clusters
        if clusters is not None:
            labels = clusters.tolist() if clusters.dtype == object else []
            texts = all(isinstance(label, str) for label in labels)
            if len(clusters) > n_buckets or not texts:
                sums = sums.bucketed(n_buckets)
        about = {"about": np.array(json.dumps(self.about))}
        return about | sums.to_table() | self.tally.to_table()

    @classmethod
    def from_table(cls, table, like):
        """Return the summary that `to_table` wrote.

        Parameters
        ----------
        table : dict of ndarray, or the file that numpy.load opened
            The table.
        like : Summary
            One of the same evaluator and policy, over any part: a table holds numbers,
            not the functions that make an estimate of them.
        """
        _refuse_unlike(like.about, json.loads(str(table["about"])))
        sums, tally = Sums.from_table(table), Tally.from_table(table)
        return cls(sums, tally, like.form, like.about)


class JointSummary:
    """Sums of one evaluator on several policies over a part of a log.

    Attributes
    ----------
    policies : tuple of str
        Names of the policies; `LOGGER` is not among them, and always known.
    """

    def __init__(self, summaries):
        self._summaries = summaries

    @property
    def policies(self):
        """Names of the policies."""
        return tuple(self._summaries)

    def summary(self, policy):
        """Return the `Summary` of a policy, or of the logged rewards (`LOGGER`)."""
        return self._summaries[policy]

    def difference(self, a, b):
        """Return the estimate of the difference of two policies, or of `LOGGER`.

        Parameters
        ----------
        a, b : str
            Names of policies, or `LOGGER`.

        Returns
        -------
        difference : GivenEstimate
            Exactly what `evaluate(a) - evaluate(b)` gives; it has no round values.
        """
        return difference(self.summary(a).estimate(), self.summary(b).estimate())

    def __add__(self, other):
        """Return the sums of both parts."""
        return JointSummary(
            {p: one + other.summary(p) for p, one in self._summaries.items()}
        )


def _refuse_unlike(one, other):
    """Raise where two summaries are not of one estimate."""
    names = dict.fromkeys([*one, *other])
    unlike = [
        f"{name}: {one.get(name)} and {other.get(name)}"
        for name in names
        if one.get(name) != other.get(name)
    ]
    if unlike:
        raise ValueError(
            "these sums are not parts of one estimate, they differ in "
            f"{'; '.join(unlike)}."
        )


def refuse_unstated(evaluator, logs):
    """Raise where something depends on the whole log and was not stated."""
    reason = evaluator._unstated(logs)
    if reason:
        raise ValueError(
            f"{type(evaluator).__name__} cannot be summed over parts of a log: {reason}"
        )


def unstated_model(source):
    """Return what of a reward model depends on the whole log, or None."""
    if hasattr(source, "held_out_"):
        return (
            "the reward model is fitted to the rounds of fit, out of fold. Fit it "
            "beforehand and pass FrozenEstimator(model), a number, or the name of a "
            "column of predictions."
        )
    if hasattr(source, "q_hat"):
        return (
            "the reward model is an array for the rounds of fit. Carry it as a column "
            "of the logs and pass the column's name."
        )
    return None


def facts_of(evaluator, policy, logs, shares, policy_name):
    """Return what must be the same in all parts, and the shares as an array or None."""
    about = {
        "evaluator": evaluator_text(evaluator),
        "policy": policy_text(policy, policy_name),
    }
    stated = None
    if evaluator._mixes_loggers(logs):
        by_label = stated_shares(shares, logs)
        about["shares"] = str(sorted(by_label.items(), key=str))
        if len(by_label) > 1:
            stated = np.array(list(by_label.values()))
    elif shares is not None:
        raise ValueError(
            f"{type(evaluator).__name__} does not use the mixture of the loggers here: "
            "shares must be None."
        )
    if evaluator._uses_model or evaluator._uses_range:
        about["reward_range"] = str(logs.reward_range)
    return about, stated


def part_of(logs, sample_weight, shares):
    """Return the `Part` of the logs, which has rounds that count."""
    part = Part(logs, plain_weights(logs, sample_weight), shares)
    if not part.n:
        raise ValueError(
            "no round of this part of the log has a positive weight: leave it out."
        )
    return part


def evaluator_text(evaluator):
    """Return the name of an evaluator with all its parameters."""
    given = evaluator.get_params(deep=False)
    if evaluator._model_of_fit is not None:
        given["reward_model"] = evaluator._model_of_fit
    text = ", ".join(f"{name}={_text(value)}" for name, value in sorted(given.items()))
    return f"{type(evaluator).__name__}({text})"


def policy_text(policy, name=None):
    """Return what tells a policy from others: a name, or the hash of what it holds."""
    if name is not None:
        return repr(name)
    if isinstance(policy, str):
        return repr(policy)
    if isinstance(policy, (list, tuple)) or hasattr(policy, "__array__"):
        raise ValueError(
            "an array has other entries in every part of a log and does not tell which "
            "policy it stands for. Pass policy_name=..., or carry it as a column of "
            "the logs and pass the column's name."
        )
    return _text(policy)


def _text(value):
    if value is None or isinstance(value, (str, bool, Real)):
        return repr(plain(value))
    try:
        return f"{type(value).__name__}({joblib.hash(value)})"
    except Exception as error:  # whatever its pickling raises
        raise ValueError(
            f"{type(value).__name__} has no hash by which parts of one estimate could "
            f"be told ({error}). Pass policy_name=... for a policy; define the "
            "class of a model in a module."
        ) from error


def stated_shares(shares, logs):
    """Return the shares of all loggers of a log, as stated.

    Parameters
    ----------
    shares : dict or None
        Share of every logger in the rounds of the whole log. `None`: there is one
        logger.
    logs : BanditLogs
        A part of the log.

    Returns
    -------
    shares : dict
        By label.
    """
    labels = label_list(logs)
    if shares is None:
        if len(labels) > 1:
            raise ValueError(
                "the mixture of the loggers depends on their shares in the whole log. "
                f"Pass shares={{logger: share}} for the loggers {labels}."
            )
        return {labels[0]: 1.0}
    if not isinstance(shares, Mapping):
        raise TypeError(
            f"shares must be a dict of a share per logger, got {type(shares).__name__}."
        )
    values = np.array(list(shares.values()), dtype=float)
    if not (values.min(initial=0) >= 0 and abs(values.sum() - 1) < 1e-9):
        raise ValueError(f"shares must be non-negative and sum to 1, got {shares}.")
    unknown = [label for label in shares if label not in labels and shares[label]]
    if unknown:
        raise ValueError(
            f"shares has logger {unknown[0]!r}, of whose probabilities the logs know "
            f"nothing (their loggers: {labels}). Build all parts with the columns of "
            "all loggers, as logs[rows] of one log have them."
        )
    met = labels
    if logs.loggers is not None:
        met = logs.loggers[np.flatnonzero(logs.logger_counts)].tolist()
    lacking = [label for label in met if not shares.get(label)]
    if lacking:
        raise ValueError(
            f"logger {lacking[0]!r} has rounds in this part and no share in shares."
        )
    return {label: float(shares.get(label, 0.0)) for label in labels}
