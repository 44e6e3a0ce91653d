# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is known of every round before rounds are weighed."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.adaptive_logger._logger_at import logger_of


class ScoredRounds:
    r"""The scores of a policy, and what weights may be made of."""

    def __init__(self, evaluator, target, logs, w, v, q):
        self.weighting, self.floor_decay = evaluator.weighting, evaluator.floor_decay
        self._logger, self._target, self.logs = evaluator.logger, target, logs
        self.w, self.v, self.q = w, v, q
        self.correction = w * (logs.reward - q)
        self.scores = v + self.correction

    def __len__(self):
        return len(self.w)

    @cached_property
    def pi(self):
        """Probabilities of the policy, ndarray of shape (n_rounds, n_actions)."""
        if self._target.logged_only:
            raise ValueError(
                f"weighting={self.weighting!r} needs the policy's probabilities of all "
                "actions, an array of shape (n_rounds, n_actions)."
            )
        return np.asarray(self._target.chunk(self.logs, 0))

    @cached_property
    def logger(self):
        """The logger, asked at any context."""
        return logger_of(self._logger, self.logs, f"weighting={self.weighting!r}")

    @cached_property
    def largest_weights(self):
        """The largest weight that every round might have, or None if not known."""
        e = self.logs.logging_proba
        if e is None or self._target.logged_only:
            return None
        ratio = np.divide(self.pi, e, out=np.zeros_like(self.pi), where=e > 0)
        return np.maximum(ratio.max(axis=1), self.w)
