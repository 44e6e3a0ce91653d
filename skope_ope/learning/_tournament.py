# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A binary tree of matches between actions, each decided by a classifier."""

import numpy as np
from sklearn.base import clone

from skope_ope.logs._odd_rows import odd_part
from skope_ope.logs._row_container import take_rows
from skope_ope.policies._base import n_rows, soften
from skope_ope.policies._classifier_actor import probabilities_of
from skope_ope.propensities._model_outputs import predictions_of
from skope_ope.propensities._weighted_fit import fit_classifier


class Match:
    """The winners of two sets of actions against each other; one action has won."""

    def __init__(self, codes):
        self.codes = codes
        self.classifier = None
        self.sides = []
        if len(codes) > 1:
            half = (len(codes) + 1) // 2
            self.sides = [Match(codes[:half]), Match(codes[half:])]

    @property
    def trained(self):
        """Whether a round told anything, here or before."""
        return self.classifier is not None or any(s.trained for s in self.sides)

    def train(self, classifier, rounds, rows):
        """Train the matches from the first round of the tournament to this one."""
        if not self.sides:
            return rows
        won = [
            side.train(
                classifier, rounds, rows[np.isin(rounds.action[rows], side.codes)]
            )
            for side in self.sides
        ]
        rows = np.concatenate(won)
        second = np.repeat([0, 1], [len(part) for part in won])
        order = np.argsort(rows)
        rows, second = rows[order], second[order]
        offered = self._offered(rounds.available, rows)
        played = offered.all(axis=1)  # else the action wins without a match
        gain = rounds.gain[rows]
        tells = played & (gain != 0)
        if tells.any():
            better = np.where(gain > 0, second, 1 - second)
            self.classifier, _ = fit_classifier(
                clone(classifier),
                rounds.context,
                rows[tells],
                better[tells],
                np.abs(gain[tells]),
                rounds.odd,
            )
        wins = ~played
        X = take_rows(rounds.context, rows[played])
        wins[played] = self._chance_of_second(X, None) == second[played]
        return rows[wins]

    def descend(self, X, rows, mass, available, temperature, proba):
        """Write the probabilities of the actions below into `proba`."""
        if not rows.size:
            return
        if not self.sides:
            proba[rows, self.codes[0]] = mass
            return
        offered = self._offered(available, rows)
        chance = offered[:, 1].astype(float)  # of the second side, where it is alone
        played = offered.all(axis=1)
        X_played = take_rows(X, rows[played])
        chance[played] = self._chance_of_second(X_played, temperature)
        for side, share in zip(self.sides, (1 - chance, chance), strict=True):
            go = share > 0
            side.descend(
                X, rows[go], mass[go] * share[go], available, temperature, proba
            )

    def _offered(self, available, rows):
        """Whether the two sides have an offered action, shape (n_rows, 2)."""
        if available is None:
            return np.ones((len(rows), 2), dtype=bool)
        return np.column_stack(
            [available[np.ix_(rows, side.codes)].any(axis=1) for side in self.sides]
        )

    def _chance_of_second(self, X, temperature):
        """Probability that the second side wins."""
        if self.classifier is None or not n_rows(X):
            return np.zeros(n_rows(X))
        if temperature is None:
            return (predictions_of(self.classifier, X) == 1).astype(float)
        proba = probabilities_of(self.classifier, X, temperature)
        with np.errstate(divide="ignore"):  # log(0) is a probability of 0
            proba = soften(np.log(proba), temperature)
        return proba[:, np.asarray(self.classifier.classes_) == 1].sum(axis=1)


class TrainingRounds:
    """What a tournament learns from."""

    def __init__(self, context, action, gain, available):
        self.context = context
        self.odd = odd_part(context)
        self.action = action
        self.gain = gain
        self.available = available
