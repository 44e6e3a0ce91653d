# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of the folds of lazy logs, on any of their partitions, in any process."""

from copy import copy
from functools import cached_property

import numpy as np

from skope_ope.logs._folds import FULL
from skope_ope.reward_models._cross_fit import FoldModels
from skope_ope.reward_models._slate_reward_models import FoldSlateModels


class _OnPartitions:
    """Models of the folds of lazy logs, on any partition of these logs."""

    n_uncovered_ = 0  # every round is in a fold
    _common = None  # rounds of fit that other logs have, too

    def __init__(self, model, cv, lazy, models, of_all, model_rounds, way):
        self.model, self.cv, self.lazy = model, cv, lazy
        self.models_, self._fit_all = models, of_all
        self.model_rounds, self.way = model_rounds, way

    @property
    def facts(self):
        """What the diagnostics of a value say of the model."""
        return {"model_rounds": self.model_rounds, "model_fitted_to": self.way}

    def _folds(self, logs):
        if logs._origin == self.lazy._origin:
            return self._fold_of(logs)
        fold = np.full(len(logs), FULL)
        if self._common is None:
            return fold
        position = self._common.positions(logs)
        seen = np.flatnonzero(position >= 0)
        if seen.size:
            fold[seen] = self._fold_of(logs[seen], position[seen])
        return fold

    def _fold_of(self, logs, position=None):
        """Return the folds of rounds of fit: as they were shared out there."""
        if self.lazy.roles.get("group") is not None:
            if logs.group is None:
                raise self._of_other_groups(None)
            return self.cv.fold_of(logs)
        if position is None and logs.group is not None:
            position = logs.row_id.position  # those groups were not known in fit
        return self.cv.fold_of(logs, position)

    def _of_other_groups(self, group):
        own, other = (
            "no group" if one is None else f"group={_spelled_columns(one)}"
            for one in (self.lazy.roles["group"], group)
        )
        return ValueError(
            f"the reward model holds out rounds of fit by {own}, but these logs, which "
            f"share rounds with fit, have {other}. So these rounds cannot be predicted "
            f"out of fold. Scan these logs with {own}, too, or fit to logs that were "
            "scanned in the same way."
        )

    def on(self, lazy):
        """Return what predicts the rounds of other lazy logs."""
        # By the model of all rounds, but for partitions that are in the logs of fit,
        # too. It is fitted here, before this travels to workers, where it is needed.
        group, own = lazy.roles.get("group"), self.lazy.roles.get("group")
        others = own is not None and group != own
        if lazy._origin == self.lazy._origin:
            if others:
                raise self._of_other_groups(group)
            return self
        other = copy(self)
        common = CommonPartitions(lazy, self.lazy)
        if others and common.n_common:
            raise self._of_other_groups(group)
        other.models_ = dict(self.models_) if common.n_common else {}
        if common.n_common < len(lazy.partitions):
            other.models_[FULL] = self._of_all
        other._common = common
        return other

    @cached_property
    def _of_all(self):
        """The model of all rounds of the sample, fitted when other logs first ask."""
        if FULL in self.models_:
            return self.models_[FULL]
        try:
            return self._fit_all()
        except OSError as error:
            error.add_note(
                "The reward model of all rounds of fit is fitted to the files of fit "
                "when you first evaluate on other logs. This model does not need the "
                "files later: "
                "FrozenEstimator(ActionRewardModel(model).fit(lazy.sample(1_000_000)))."
            )
            raise


class PartModels(_OnPartitions, FoldModels):
    """Models of actions for partitions, see `part_models`."""


class PartSlateModels(_OnPartitions, FoldSlateModels):
    """Models of slates for partitions, see `part_models`."""


def _spelled_columns(names):
    return repr(names[0] if len(names) == 1 else list(names))


# -- rounds of a lazy log that another lazy log holds, too: the same file and row group
# Fitted to a month and asked about one of its days, a model must not predict rounds
# that it has seen.


class CommonPartitions:
    """Where the rounds of some lazy logs lie in others."""

    def __init__(self, lazy, known):
        self.origin = lazy._origin
        starts = {part.key: part.start for part in known.partitions}
        common = [part.key in starts for part in lazy.partitions]
        self.n_common = sum(common)
        if not self.n_common:
            return
        ends = []
        for part, is_common in zip(lazy.partitions, common, strict=True):
            there = starts.get(part.key)
            if part.start is None or (is_common and there is None):
                raise ValueError(
                    f"{lazy.partitions[common.index(True)].name} was also in the logs "
                    "of fit, but the numbers of its rounds are unknown before the "
                    "files are read. So they cannot be predicted out of fold. Evaluate "
                    "on the logs of fit, on other files, or on parquet files."
                )
            ends.append((part.start, there if is_common else -1))
        self._starts, self._there = np.array(ends).T

    def positions(self, logs):
        """Return the position in the known logs of every row of logs; -1: none."""
        position = logs.row_id.position
        if logs._origin != self.origin or not self.n_common:
            return np.full(len(position), -1)
        part = np.searchsorted(self._starts, position, side="right") - 1
        there = self._there[part]
        return np.where(there < 0, -1, there + position - self._starts[part])
