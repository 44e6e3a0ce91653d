# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of static evaluators: one formula of per-round arrays."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skope_ope._types import Array
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._action_shares import support_of_actions
from skope_ope.evaluators.core._auto import AUTO
from skope_ope.evaluators.core._drowned import is_huge
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._jobs import (
    BoundOfJob,
    evaluate_jobs,
    rows_of_job,
    weighted_rounds,
)
from skope_ope.evaluators.core._kept_rounds import (
    largest_of_job,
    weights_of_job,
)
from skope_ope.evaluators.core._part_weights import ROUNDS
from skope_ope.evaluators.core._plain_weights import PlainWeights
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._pooling import pooled
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._summary import summary_of
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.static._action_scores import action_scores
from skope_ope.evaluators.static._clipping_curve import clipping_curve
from skope_ope.evaluators.static._facts import StaticFacts
from skope_ope.evaluators.static._known_of_sums import known_of_sums
from skope_ope.evaluators.static._weights_of import weights_of
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.policies._adaptive import AdaptivePolicy


class StaticEvaluator(BaseEvaluator):
    """Base class of evaluators of stationary policies.

    A subclass implements `terms(rounds)`, a tuple of per-round arrays, and names in
    `combine` the function of their means that is the estimate. If all rewards rise by
    one, the value may rise by one. Then `shift_with` says how the first term rises: by
    the term of this number, or by the weight of the round (`WEIGHT`).
    """

    combine, proposal = staticmethod(mean), "logger"
    shift_with = None
    smooth = ()  # numbers of the terms that no reward enters, as values of a model
    _auto = None  # the AutoParameter, where one may be "auto"
    _was_auto = False  # whether its number was chosen for the policy
    # Why there are no scores of actions; None: the value is a mean of them.
    _no_scores = "its value is not known to be linear in the policy's probabilities"

    def terms(self, rounds):
        """Per-round terms of a block of rounds."""
        raise TypeError(f"{type(self).__name__} does not define terms(rounds).")

    def weights(self, w):
        """Transform of the importance weights."""
        return w

    def _evaluate(self, policy, logs, sample_weight):
        positive = PositiveRounds(logs, combined_weights(logs, sample_weight))
        job = self._prepared(Target(policy, logs), positive)
        [result] = evaluate_jobs([job], positive)
        return result

    def action_scores(self, logs: BanditLogs | None = None) -> Array:
        r"""Score every action in every round, for tools that learn targeting.

        The score of `DoublyRobust` is :math:`\hat q(x_i, a) + 1[a_i = a]\, w_i
        (r_i - \hat q(x_i, a))` with :math:`w_i = 1 / p_i`. That of `IPS` has no
        model, :math:`\hat q = 0`; that of `DirectMethod` is the model alone. The mean
        over rounds of :math:`\sum_a \pi(a|x_i) S_{ia}` is `score(policy)` for every
        policy. Policy trees and other targeting tools take such scores as rewards.

        Parameters
        ----------
        logs : BanditLogs, default=None
            The rounds; `None`: those of `fit`, which are predicted out of fold.

        Returns
        -------
        scores : ndarray of shape (n_rounds, n_actions)
            Columns in the order of `actions_`. Weights of rounds are left out: pass
            `logs.sample_weight` on. Actions that were not offered have scores, too.

        Raises
        ------
        ValueError
            If the value is not linear in the policy's probabilities, as for `SNIPS`,
            `SwitchDR` or `MRDR`. If a parameter is "auto".
        TypeError
            If the rounds are not in memory.

        Notes
        -----
        With a number as `cmax` the weight is :math:`\min(1 / p_i, c_{max})`. The mean
        is then `score(policy)` for policies that take one action in every round, and
        not for those that draw one.

        References
        ----------
        .. [1] Athey, S., & Wager, S. (2021). Policy learning with observational data.
           Econometrica 89(1).

        Examples
        --------
        A tree of depth two that decides by the scores:

        >>> import numpy as np
        >>> from sklearn.linear_model import Ridge
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from skope_ope import DoublyRobust
        >>> from skope_ope.datasets import make_bandit_logs
        >>> logs = make_bandit_logs(2000, n_actions=3, random_state=0)
        >>> train, test = logs[:1000], logs[1000:]
        >>> scores = DoublyRobust(reward_model=Ridge()).fit(train).action_scores()
        >>> tree = DecisionTreeRegressor(max_depth=2).fit(train.context, scores)
        >>> best = tree.predict(test.context).argmax(axis=1)
        >>> policy = np.eye(3)[best]
        >>> value = DoublyRobust(reward_model=Ridge()).fit(test).score(policy)
        >>> bool(value > test.reward.mean())
        True
        """
        check_is_fitted(self)
        if logs is None:
            logs = self.logs_
        else:
            self._check_kind(logs)
        self._check_logs(logs)
        self._match_those_of_fit(logs)
        self._match_features(logs)
        return action_scores(self, logs)

    def _takes_part(self, target):
        """Whether a pass that is shared with other evaluators can value the policy."""
        return True

    def _prepared(self, target, positive, shared=None):
        """Return what a pass over the rounds takes: evaluator, policy and model."""
        self._check_target(target)
        source = self._source_for(target, positive, shared)
        return self._chosen(target, positive, source), target, source

    def _weights_on(self, policy, logs=None):
        """Return the importance weights of the rounds, and what they become."""
        return weights_of(self, policy, self.logs_ if logs is None else logs)

    def _support_on(self, policy, logs=None):
        """Return what `SupportDisplay` shows of a policy on the rounds."""
        logs = self.logs_ if logs is None else logs
        self._check_logs(logs)
        target = Target(policy, logs)
        refuse_learning("SupportDisplay", target)
        if target.logged_only:
            raise ValueError(
                "the probabilities of the logged actions are not enough here. Pass "
                "the probabilities of all actions, an array of shape (n_rounds, "
                "n_actions), or the policy."
            )
        return support_of_actions(target, logs)

    def _clipping_curve(self, policy, logs=None, bounds=None):
        """Return the values with many bounds on the weights."""
        logs = self.logs_ if logs is None else logs
        return clipping_curve(self, policy, logs, bounds)

    @property
    def _is_auto(self):
        """Whether a parameter is "auto"."""
        return self._auto is not None and getattr(self, self._auto.name) == AUTO

    @property
    def _chosen_number(self):
        """The number that "auto" was for a policy, by the name of the parameter."""
        name = self._auto.name if self._was_auto else None
        return {} if name is None else {name: getattr(self, name)}

    def _chosen(self, target, positive, source):
        """Return self, or a copy with the number that "auto" is for this policy."""
        auto = self._auto
        if not self._is_auto:
            return self
        return auto.fixed(self, auto.choose_in_memory(self, target, positive, source))

    def _check_target(self, target):
        refuse_learning(type(self).__name__, target)
        if self.requires.model:
            check_all_actions(self, target)

    def _source_for(self, target, positive, shared):
        if not self.requires.model:
            return None
        return self.reward_model_ if shared is None else shared.source_for(self)

    def _policy_value(self, job, whole):
        """Return the value of a job, from the pass over rounds in memory."""
        positive, summary = whole.part, self._summary_in(whole, job)
        estimate, known = known_of_sums(self, summary, positive.logs)
        rows = summary.rows
        if estimate.offset != job.offset:
            rows = rows_of_job(job, estimate.offset)
        out = PolicyValue(
            estimate,
            rows,
            estimator=type(self).__name__,
            bound=self._deviation_bound,
            plain_weights=self._plain_weights(job, positive),
            leaves_bias_out=self.leaves_bias_out or positive.leaves_bias_out,
            **known,
        )
        out._joint, out._owner = whole.sums, job.key
        return out

    def _summary_in(self, whole, job):
        """Return the `Summary` of a job, from the pass over rounds in memory."""
        out = summary_of(whole, self, job.key)
        out.job, out.bound, out.rows = job, BoundOfJob(job), rows_of_job(job)
        known, policy = whole.overlaps, job.key[1]
        if self.proposal == "logger":  # one for all evaluators
            if policy not in known:
                known[policy] = out.overlap
            out.overlap = known[policy]
        if job.weighted is not None:
            sums = whole.sums.of(job.weighted.key)
            out.weighted = weighted_rounds(job.weighted, sums)
        return out

    # Whether the value is sum(w r) / sum(w) of plain weights, and not sum(w r) / n;
    # None: it is neither
    _plain_ratio = None

    def _plain_weights(self, job, positive):
        """Return the `PlainWeights` of a value that is of weighted rewards, or None."""
        if self._plain_ratio is None:
            return None
        find, limit = partial(weights_of_job, job), partial(largest_of_job, job)
        about = positive.all_logs, positive, find, self._plain_ratio
        return PlainWeights(*about, limit=limit)

    def _unstated(self, logs):
        auto = self._auto
        if self._is_auto:
            return f"{auto.name}='auto' is chosen from all rounds. Pass a number."
        return self._unstated_model()

    def _enter_frame(self, whole, name):
        self._enter(whole, name)  # its formulas take columns as they take arrays

    def _enter(self, whole, name):
        source = self.reward_model_ if self.requires.model else None
        for policy in whole.policies:
            target = whole.target(policy)
            self._check_target(target)
            one = whole.resolved.get((name, policy), self)
            one._add_to(whole, (name, policy, None), target, source)

    def _add_to(self, whole, key, target, source):
        """Add what a pass does for one policy, and return its job."""
        whole.add_weights(self.proposal, key[1], target)
        return whole.add(key, self, whole.sums_by(ROUNDS), target, source)

    def _estimate_of_sums(self, summary):
        return Estimate(summary.sums, self.combine, self._pooling(summary))

    def _pooling(self, summary):
        """Return what strata count."""
        return pooled

    def _known_of_sums(self, summary, log, n_rounds):
        return known_of_sums(self, summary, log)

    def _own_warnings(self, summary, estimate):
        """Return the warnings of this family alone."""
        return []

    def _is_huge(self, overlap):
        """Whether a weight that the evaluator uses leaves the range of floats."""
        largest = overlap.max_w
        if not is_huge(largest):
            return False
        return is_huge(float(self.weights(np.array([largest]))[0]))

    def _facts(self, summary, logs):
        """Return the `StaticFacts` of a value, from what is known of the logs."""
        return StaticFacts(self, summary, logs)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.shift_equivariant = self.shift_with is not None
        return tags

    _deviation_bound = None


def refuse_learning(name, target):
    """Raise where the policy learns: its probabilities depend on its history."""
    if isinstance(target.policy, AdaptivePolicy):
        raise TypeError(
            f"{type(target.policy).__name__} learns while it acts, and {name} "
            "evaluates stationary policies. Use DRns, RejectionSampling or Replay. "
            "Or evaluate the policy as it is now: policy.frozen()."
        )


def check_all_actions(evaluator, target):
    """Raise where only the probability of the logged action is known."""
    if target.logged_only:
        raise ValueError(
            f"{type(evaluator).__name__} needs the policy's probabilities of all "
            "actions, an array of shape (n_rounds, n_actions), or of files one column "
            "per action: columns={'pi': [...]}. With the probability of the logged "
            "action alone, use IPS, SNIPS, MultiLoggerIPS, Replay or "
            "RejectionSampling: evaluators=['IPS', 'SNIPS'] of evaluate."
        )
