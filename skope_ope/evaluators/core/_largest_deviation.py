# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""How far a round may lie from an estimate, seen or not: at the corners of what it is.

A round value is linear in the reward, and between the extremes of the weight and of the
model values it is furthest from the estimate at one of their ends. So extremes say what
all rounds would, for rounds in memory, files, lazy frames and merged days alike.

With a sample weight :math:`\omega` it is furthest by :math:`\omega` times as much.
Where sample weights follow from the reward, as in a log of all clicks and few other
rounds, a round with reward k has

.. math:: \omega \le o_k, \qquad w \le \max_i w_i, \qquad
    \omega w \le \max_i \omega_i w_i, \qquad
    o_k = \min_{r_i = k} \omega_i \; \max_j \frac{\max_{r_i = j} \omega_i}
    {\min_{r_i = j} \omega_i}:

the reward and something else, which varies as much as it does with any reward, may
decide how heavy it is. Otherwise, and with a reward that was not logged, it may be as
heavy as any.
"""

from copy import copy
from functools import cached_property
from itertools import product
from math import inf, isfinite, sqrt

import numpy as np

from skope_ope._pairs import WithPairs
from skope_ope.evaluators.core._design import weight_of
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._implied_weights import (
    EDGES,
    ImpliedWeights,
    implied_mass,
    only_propensities,
    shares_above,
)
from skope_ope.evaluators.core._products import total
from skope_ope.evaluators.core._reach import SPARE, Reach, typical
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rounds import Rounds, weighted_reward
from skope_ope.evaluators.core._sums import sums_of_rounds
from skope_ope.evaluators.core._tally import both_ranges
from skope_ope.evaluators.core._weight_bound import (
    LOGGED,
    largest_weight,
    stated_weight,
)
from skope_ope.logs._labels import texts_of_labels

NONE = inf, -inf  # extremes of nothing
ROUNDING_OF_LIMITS = 1e-12  # of the ends of a range


class Extremes(WithPairs):
    """Extremes of what the rounds of one policy bring to one evaluator.

    Attributes
    ----------
    weights : dict
        Largest importance weight by the label of the stratum; None: of all.
    q, v, gap : tuple (float, float)
        Smallest and largest model value of the logged actions, of the policy, and what
        the second is more than the first.
    propensity : float
        The smallest one.
    rounds : ndarray of shape (2, 2)
        Rounds of the lower and of the upper half, and those with a reward but zero.
    implied : ndarray of shape (n_edges + 1,)
        Mass of 1 - pi by bin of the weights that propensities imply, see
        `_implied_weights`, of those above the largest that was met before; and the mass
        of all rounds.
    """

    def __init__(self, weights=None, q=NONE, v=NONE, gap=NONE, propensity=inf):
        self.weights = {} if weights is None else weights
        self.q, self.v, self.gap, self.propensity = q, v, gap, propensity
        self.rounds, self.implied = np.zeros((2, 2)), np.zeros(len(EDGES) + 1)

    def take(self, block, rounds, evaluator, design):
        """Take what a block of rounds brings to an evaluator."""
        self.rounds = self.rounds + block.rounds_of_halves
        w = weight_of(evaluator)(rounds)
        if w is not None:
            by_stratum = w is rounds.w or evaluator.sampling.arms is not None
            self._take_weights(block, w, design if by_stratum else None)
            if w is rounds.w and only_propensities(block.logs):
                largest = max(self.weights.values(), default=0.0)
                about = block.p, block.omega, block.entering
                most = block.extremes(block.p)[1]
                self.implied += implied_mass(w, *about, largest, most)
        if rounds.v is not None:
            self._take_model(block, rounds)

    def _take_weights(self, block, w, design):
        if design is None or design.n_strata == 1:
            label = None if design is None else design.strata[0]
            self._raise_to(label, _extremes(block, w)[1])
        else:
            largest = block.of(design).largest(w)
            for label, found in zip(design.strata, largest, strict=True):
                self._raise_to(label, found)
        if block.p is not None:
            self.propensity = min(self.propensity, block.smallest_propensity)

    def _take_model(self, block, rounds):
        """Take what a model says, plain rewards."""
        offset = rounds.offset
        for name in ("q", "v"):
            low, high = _extremes(block, getattr(rounds, name))
            found = low + offset, high + offset
            setattr(self, name, both_ranges(getattr(self, name), found))
        self.gap = both_ranges(self.gap, _extremes(block, rounds.v - rounds.q))

    def model_corners(self):
        """Return pairs (q, v), one of which is the end of any linear function."""
        # Those of the hexagon that the extremes of q, v and v - q enclose.
        if not known(self.q):
            return [(0.0, 0.0)]
        pairs = list(product(self.gap, (0, 1)))
        at_q = [(self.q[k], _clipped(self.q[k] + gap, self.v)) for gap, k in pairs]
        at_v = [(_clipped(self.v[k] - gap, self.q), self.v[k]) for gap, k in pairs]
        return at_q + at_v

    def _raise_to(self, label, weight):
        if weight > -inf:
            self.weights[label] = max(self.weights.get(label, 0.0), weight)

    @property
    def rewarded_share(self):
        """Share of the rounds of either half whose reward is not zero; of none, one."""
        pairs = self.rounds.tolist()
        return [some / every if some else 1.0 for every, some in pairs]

    def largest_weights(self, strata):
        """Return the largest weight of every stratum, by their labels."""
        whole = max(self.weights.values(), default=0.0)
        if None in self.weights or len(strata) == 1:
            return np.full(len(strata), whole)
        return np.array([self.weights.get(label, 0.0) for label in strata])

    def __add__(self, other):
        """Return the extremes of both parts."""
        if not isinstance(other, Extremes):
            return NotImplemented
        out = Extremes(
            dict(self.weights),
            both_ranges(self.q, other.q),
            both_ranges(self.v, other.v),
            both_ranges(self.gap, other.gap),
            min(self.propensity, other.propensity),
        )
        for label, found in other.weights.items():
            out._raise_to(label, found)
        out.rounds = self.rounds + other.rounds
        out.implied = self.implied + other.implied
        return out

    def to_table(self):
        """Return the extremes as a dict of arrays."""
        return {
            "extremes_strata": texts_of_labels(self.weights),
            "extremes_rounds": self.rounds,
            "extremes_implied": self.implied,
            "extremes_weights": np.array(list(self.weights.values()), dtype=float),
            "extremes_numbers": np.array(
                [*self.q, *self.v, *self.gap, self.propensity]
            ),
        }

    @classmethod
    def from_table(cls, table, labels):
        """Return the extremes that `to_table` wrote."""
        texts = table["extremes_strata"].tolist()
        pairs = zip(texts, table["extremes_weights"].tolist(), strict=True)
        *model, propensity = table["extremes_numbers"].tolist()
        weights = {labels(text): weight for text, weight in pairs}
        pairs = (tuple(model[k : k + 2]) for k in (0, 2, 4))
        out = cls(weights, *pairs, propensity)
        out.rounds, out.implied = table["extremes_rounds"], table["extremes_implied"]
        return out


def _extremes(block, values):
    """Return the extremes of the rounds of a block that enter."""
    if block.entering is None:
        return block.extremes(values)
    some = values[block.entering]
    return float(some.min(initial=inf)), float(some.max(initial=-inf))


def _clipped(number, pair):
    return min(max(number, pair[0]), pair[1])


def known(pair):
    """Whether a pair of extremes is one of numbers that were seen."""
    return isfinite(pair[0]) and isfinite(pair[1])


N_SHARES = 33  # weights that are tried where the largest may not be the worst
TRIED_SHARES = np.linspace(0.0, 1.0, N_SHARES)
ZOOMS = 4  # times that the worst of them is looked for between its neighbours


class WeightedRewardTerms:
    """Rewards times the weights of an evaluator, and the weights: no model."""

    combine, shift_with, smooth = staticmethod(ratio), 1, ()
    requires = Requires()

    def __init__(self, proposal):
        self.proposal = proposal

    def terms(self, rounds):
        w = weight_of(self)(rounds)
        return weighted_reward(rounds, w), w

    def weights(self, w):
        return w


class WeightedRounds:
    """Sums of weighted rewards and weights of some rounds; and these, where known."""

    def __init__(self, rows, found=None, job=None, offset=0.0):
        # `found`: where the sums of the job are
        self.rows, self.job, self._offset, self._found = rows, job, offset, found

    @cached_property
    def sums(self):
        """Their sums."""
        if self._found is not None:
            return self._found.of(self.job)
        rows = self.rows
        about = rows.design, rows.terms, self._offset, rows.upper
        return sums_of_rounds(*about, moves=1)

    def on(self, rows):
        """Return the same sums, with their rounds."""
        return WeightedRounds(rows, self._found, self.job)

    def take(self, places):
        """Return those of some rounds; None where they are gone."""
        if self.rows is None:
            return None
        return WeightedRounds(self.rows.take(places), offset=self.sums.offset)

    def __getstate__(self):
        return {**self.__dict__, "rows": None, "_found": None, "sums": self.sums}


class LargestDeviation:
    """Finds the `Reach` of a value from its sums and the extremes of its rounds."""

    of_halves = True
    # Share of the policy that regions of contexts lack, where asked; None: no weights
    # that propensities imply are known
    regional = 0.0
    part = None  # the extremes of the rounds, where `extremes` are those of more rounds
    has_rows_of_files = True  # whether files can be asked for the rounds of the value
    size = 1  # the number of the term whose squares tell effective rounds: the weights

    def __init__(
        self,
        evaluator,
        limits,
        extremes,
        shift=0.0,
        seen=None,
        lost=0.0,
        weighted=None,
        bound=None,
        n_rounds=None,
        sample_weights=None,
        joint=inf,
    ):
        # `extremes`: what the rounds may be, or a function that looks at them
        self.evaluator, self.limits, self._extremes = evaluator, limits, extremes
        self.shift, self.seen, self.lost = shift, seen, lost
        # What has sums of weighted rewards and weights; what knows of weights that were
        # not logged
        self.weighted, self.bound = weighted, bound
        self.n_rounds = n_rounds  # of the whole log, where a parameter follows it
        # Largest sample weights, see `RoundCounts`; and times importance weights
        self.sample_weights, self.joint = sample_weights or {}, joint

    def __call__(self, value, max_weight=None, error=None):
        """Return the `Reach` of a value, or None where no range is known."""
        # `error` is the standard error beside which rare weights are neglected; None:
        # that of the value.
        if self.limits is None:
            return None
        if not self.evaluator.requires.weights:  # model values are what they are
            return Reach(*self.limits)
        return self._within(self.limits, value, max_weight, error)

    def of_seen_rewards(self, value):
        """Return the `Reach` if no reward were beyond those of the log, or None."""
        # A single round may then be as heavy as the heaviest and bring the rarest
        # reward, though no round was both.
        weighted = self.evaluator.requires.weights
        if not weighted or self.seen is None or not known(self.seen):
            return None
        return self._within(self.seen, value, error=inf)  # of seen weights, too

    @property
    def smooth(self):
        """Numbers of the terms that no reward enters; None: no weights are used."""
        return self.evaluator.smooth if self.evaluator.requires.weights else None

    @cached_property
    def extremes(self):
        """Extremes of what the rounds bring."""
        found = self._extremes
        return found() if callable(found) else found

    def estimate_of_halves(self, value):
        """Return the estimate whose sums are in two halves, where rounds tell these."""
        estimate, rows = value._estimate, value._rows
        known = estimate.sums is None or estimate.sums.joint.has_halves
        return (
            estimate if known or rows.dropped else rows.estimate(estimate, halves=True)
        )

    def effective_rounds(self, value):
        """Return (sum w)^2 / sum w^2 of either half, and of the rounds with rewards."""
        sums, share = self.sums_of_weights(value), value._estimate.shares.weight
        parts = (of_term(one, self.size) for one in (sums, sums.upper))
        found = effective(share, *parts)
        pairs = zip(found, self.extremes.rewarded_share, strict=True)
        return [(m, m * share) for m, share in pairs]

    def sums_of_weights(self, value):
        """Return the sums of weighted rewards and of weights."""
        return self.weighted.sums

    def without_model(self, value):
        """Return the value of the same rounds by weights and rewards alone, or None."""
        if not (self.evaluator.requires.model and self.evaluator.requires.weights):
            return None
        alone = copy(self)
        alone.evaluator = WeightedRewardTerms(self.evaluator.proposal)
        alone.bound = None
        estimate = Estimate(self.weighted.sums, ratio, value._estimate.pooling)
        return value._of_weights(estimate, alone, self.weighted)

    def within(self, whole):
        """Return the same within the bounds of all rounds, of which these are some."""
        out = copy(whole)
        out.weighted, out.part = self.weighted, self.extremes
        return out

    def take(self, rows):
        """Return the same of some rounds: bounds are those of all."""
        out = copy(self)
        out.weighted = self.weighted and self.weighted.take(rows)
        return out

    def of_group(self, rows, places):
        """Return the same of some of the `Rows`, with what these imply."""
        out, logs = self.take(places), rows.logs
        asked = self.evaluator.requires.weights and self.regional is not None
        if logs is None or not asked or not only_propensities(logs):
            return out
        omega = rows.design.omega
        if omega is not None:
            places = places[omega[places] > 0]
            omega = omega[places]
        w, p = rows.numbers[0][places], logs.propensity[places]
        largest, most = float(w.max(initial=0.0)), float(p.max(initial=0.0))
        out.part = Extremes({None: largest})
        out.part.implied = implied_mass(w, p, omega, None, largest, most)
        return out

    def _within(self, limits, value, max_weight=None, error=None):
        low, high = limits
        error = value.standard_error if error is None else error
        spare = SPARE * error / (high - low) if error > 0 and high > low else 0.0
        strata = value._estimate.frame.strata
        largest, source = self._largest(strata, max_weight, spare)
        ends = self._corners(value, largest, limits)
        weight = None if source is None else float(largest.max())
        about = self._of_group(value, limits), self.lost
        implied = self.implied(value, limits, (largest, source))
        return Reach(low, high, ends, weight, source, *about, implied)

    def implied(self, value, limits=None, found=None):
        """Return what the log may lack: one `ImpliedWeights`, or none."""
        # `limits`: of the rewards, by default those that were seen; `found`: the
        # largest weights and where they come from, by default those that were logged
        limits = self.seen if limits is None else limits
        asked = self.evaluator.requires.weights and self.regional is not None
        if not asked or limits is None or not known(limits):
            return ()
        own = self.extremes if self.part is None else self.part
        estimate, implied = value._estimate, own.implied.copy()
        strata = estimate.frame.strata
        largest, source = found or self._largest(strata, None, inf)
        if source != LOGGED:  # no weight is larger, but regions may lack rounds
            implied[:-1] = 0.0
        if len(strata) > 1 or not (implied[:-1].any() or self.regional):
            return ()
        largest = float(
            (largest if self.part is None else own.largest_weights(strata)).max()
        )
        ends, unit = self._corners(value, np.zeros(1), limits), implied[-1]
        unit /= value.n_rounds
        pair = (ends[end][:, 0].tolist() for end in limits)
        (omega, low, _), (other, _, high) = pair
        counts = [value.value + unit * low / omega, value.value + unit * high / other]
        least = ROUNDING_OF_LIMITS * max(map(abs, limits))  # a smaller distance is none
        down, up = counts[1] - limits[0], limits[1] - counts[0]
        down, up = (size if size > least else 0.0 for size in (down, up))
        above = np.maximum(shares_above(implied) - self.lost, 0.0)
        about = largest, value.n_rounds, down, up, self.regional
        return (ImpliedWeights(tuple(above.tolist()), *about),)

    def _largest(self, strata, max_weight, spare):
        """Return the largest weight of every stratum, and where it comes from."""
        largest = self.extremes.largest_weights(strata)
        if max_weight is not None:
            return np.full(len(largest), stated_weight(max_weight, largest)), "stated"
        bound = self.bound if len(strata) == 1 else None
        about = bound, spare, lambda: self.extremes.propensity
        most, source = largest_weight(float(largest.max()), *about)
        return largest if source == LOGGED else np.full(len(largest), most), source

    def _corners(self, value, largest, limits):
        """Return how far a round may lie, by its reward and its sample weight."""
        # `Reach.ends`, at all sample weights where another importance weight fits
        estimate, n = value._estimate, value.n_rounds
        offset = 0.0 if self.evaluator.shift_with is None else estimate.offset
        corners = np.array(self.extremes.model_corners())
        heaviest = self._sample_weights(limits, estimate.frame)
        joint, found, m = self._joint(largest), [], len(heaviest)
        levels = np.unique(largest) if len(largest) > 1 else largest
        for most in levels.tolist():
            strata = np.flatnonzero(largest == most)
            bends = [joint / o for o in heaviest.values() if most * o > joint]
            weights = np.append(self._weights_up_to(most), bends)
            r = np.repeat(list(heaviest), len(weights) * len(corners))
            w = np.tile(np.repeat(weights, len(corners)), m)
            q, v = np.tile(corners.T, m * len(weights))
            given = {"r": r - offset, "q": q - offset, "v": v - offset, "w": w, "b": w}
            given |= {"shift": self.shift, "n_rounds": self.n_rounds}
            for p in (1.0, self.extremes.propensity):
                rounds = Rounds(p=p, **given)
                change = influence(estimate, self.evaluator.terms(rounds), strata)
                change = change.reshape(len(strata), m, len(weights), len(corners))
                ends = change.min(axis=(0, 3)), change.max(axis=(0, 3))
                found.append(np.vstack([weights, *ends]))
                if "pi" not in vars(rounds):
                    break
        (w, *ends), out, scale = np.hstack(found), {}, sqrt(n * max(n - 1, 1))
        for k, (reward, most) in enumerate(heaviest.items()):
            omega = np.unique([most, *(joint / w[w * most > joint])])
            fits = omega[:, None] * w <= joint * (1 + ROUNDING_OF_LIMITS)
            low = np.where(fits, ends[k], inf).min(axis=1)  # NaN stays
            high = np.where(fits, ends[m + k], -inf).max(axis=1)
            out[reward] = np.stack([omega, scale * omega * low, scale * omega * high])
        return out

    def _sample_weights(self, limits, frame):
        """Return the largest sample weight by reward: those logged, and both ends."""
        spans = self.sample_weights
        spread = max((most / least for least, most in spans.values()), default=1.0)
        known = {reward: least * spread for reward, (least, _) in spans.items()}
        found = dict.fromkeys(limits, known.pop(inf, inf)) | known
        return {reward: min(omega, frame.heaviest) for reward, omega in found.items()}

    def _joint(self, largest):
        """Return the largest of both weights together, with importance up to some."""
        logged = max(self.extremes.weights.values(), default=0.0)
        return self.joint * float(largest.max()) / logged if logged > 0 else inf

    def _weights_up_to(self, largest):
        """Return weights among which one takes a round furthest from the estimate."""
        some, change = largest * TRIED_SHARES, self.evaluator.weights
        if not largest > 0:
            return np.zeros(1)
        if np.array_equal(change(some), some):
            return some
        tried = np.append(some, np.geomspace(1e-6 * largest, largest, N_SHARES))
        for _ in range(ZOOMS):
            tried.sort()
            top = int(np.argmax(change(tried)))
            ends = tried[[max(top - 1, 0), min(top + 1, len(tried) - 1)]]
            best, tried = (
                tried[top],
                np.append(np.linspace(*ends, N_SHARES), tried[top]),
            )
        return np.append(some, best)

    def _of_group(self, value, limits):
        """Return what a typical group may add upwards and downwards."""
        estimate, n = value._estimate, value.n_rounds
        frame = estimate.frame
        if not frame.clustered:
            return 0.0, 0.0
        gain, w, offset = self._gains(value)
        smooth = self.evaluator.smooth
        moved = [j for j in range(len(estimate.means)) if j not in smooth]
        if not moved:  # no reward enters any term
            return 0.0, 0.0
        first = moved[0]
        slope = estimate.plain_slopes[first]
        slope = slope if frame.n_strata == 1 else slope[frame.cell_stratum]
        scale, change = sqrt(n * max(n - 1, 1)), estimate.cluster_sums
        sums = [
            scale * (change + np.bincount(frame.cell_cluster, moved, len(change)))
            for moved in (slope * ((end - offset) * w - gain) for end in limits)
        ]
        return typical(np.maximum(*sums)), typical(-np.minimum(*sums))

    def _gains(self, value):
        """Return weighted rewards and weights over the cells, and the offset."""
        sums = self.sums_of_weights(value)
        gain, w = (
            found + near * sums.totals[-1]
            for found, near in zip(sums.totals[:2], sums.origin, strict=False)
        )
        return gain, w, sums.offset


def of_term(sums, j=1):
    """Return the sums of a term and of its squares, by stratum; 1: the weights."""
    near = sums.origin[j]
    cross, square = sums.product(sums.n_terms, j), sums.product(j, j)
    return (
        sums.first[j] + near * sums.mass,
        square + 2 * near * cross + near**2 * sums.square,
    )


def effective(share, whole, upper):
    """Return effective numbers of the halves, from sums of weights and of squares."""
    (w, square), (above, square_above) = (
        (total(share * first), total(share * share * second))
        for first, second in (whole, upper)
    )
    pairs = (w - above, square - square_above), (above, square_above)
    return [w * w / square if square > 0 else 0.0 for w, square in pairs]


def influence(estimate, terms, strata):
    """Return psi of rounds with some terms, in each of some strata (a row of each)."""
    *slopes, last = [
        b if np.ndim(b) == 0 else b[strata][:, None] for b in estimate.plain_slopes
    ]
    psi = np.zeros((len(strata), len(terms[0]))) + last
    for b, term, near in zip(slopes, terms, estimate.origin, strict=False):
        psi += b * (term - near)
    return psi
