# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that the tests of other libraries state, beside ours.

Inputs and numbers are theirs; no code is. `CASES` is the only list: the page
docs/same_numbers.rst is read and compared with it. Where a case has `ours`, our number
differs, and the page says why.
"""

import re
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    PseudoInverse,
    SlateIPS,
    SwitchDR,
)
from skope_ope.policies import ProductSlatePolicy
from tests.evaluators.core._asked import bare_logs
from tests.evaluators.slate._worlds import showed
from tests.packaging._tree import ROOT

VW, REAGENT = "VW estimators", "ReAgent"
COBA, RIPS = "coba", "RIPS"


def two_actions(propensity, reward, probability):
    """Logs of action 0 of two, and a policy that takes it with `probability`."""
    p, r, q = np.broadcast_arrays(*np.atleast_1d(propensity, reward, probability))
    logs = bare_logs(np.zeros(len(p), int), r, p * 1.0, actions=[0, 1])
    return logs, np.column_stack([q, 1 - q])


# VowpalWabbit/estimators, tests/test_bandits_ips.py, test_bandits_snips.py,
# test_bandits.py, commit 2b8bc182c77cbfe9011aaabf88fcda905eb74c8c.
ONE = two_actions(0.3, 1.0, 0.6)
TENS = two_actions(np.ones(10), 10.0, 1.0)
NEGATIVE = two_actions(np.ones(10), -1.0, 1.0)
# The same repository, estimators/test/test_bandits.py (test_convergence_with_count),
# commit 02d6acc659f5293e0354d104e7043d6dd1a1c5a6.
COUNTED = (
    *two_actions(np.ones(1500), np.repeat([1.0, 0.0], [1000, 500]), 1.0),
    np.repeat([1.0, 2.0], [1000, 500]),
)


def alternating():
    """Two actions in turn, p .5; the first has reward 1 and probability .8."""
    action = np.arange(10_000) % 2
    logs = bare_logs(action, action == 0.0, np.full(10_000, 0.5))
    return IPS().fit(logs).evaluate(np.tile([0.8, 0.2], (10_000, 1)))


# The same repository, tests/test_slates_pseudo_inverse.py, commit
# 1807d2ee958df6739070e56521233ca5e2e466be. Its test asks that the pseudoinverse of one
# slot be the IPS of its inputs; that is the number.
def one_slot():
    p, q = np.array([0.8, 0.25, 0.5, 0.2]), np.array([0.6, 0.4, 0.3, 0.9])

    def two(first):
        return ProductSlatePolicy(np.column_stack([first, 1 - first])[:, None])

    rows, known = np.zeros((4, 1), int), {"n_candidates": 2, "logging_policy": two(p)}
    return showed(rows, [0.1, 0.2, 0.0, 1.0], **known), two(q)


# The same repository, tests/test_slates.py, commit
# 8ce387134195a5b2381708bc420d0fb11b2c0e1a (test_estimate_1_from_1s and
# test_convergence_simple).
def sure_slots():
    sure = ProductSlatePolicy(np.ones((4, 1)))
    return showed(np.zeros((10, 4), int), np.ones(10), logging_policy=sure), sure


def two_slots():
    slate = np.column_stack([np.arange(1000) % 2, np.arange(1000) % 4 // 2])
    even = ProductSlatePolicy(np.full((2, 2), 0.5))
    logs = showed(slate, slate.prod(axis=1), logging_policy=even)
    return logs, ProductSlatePolicy([[0.8, 0.2], [0.8, 0.2]])


# facebookresearch/ReAgent, reagent/test/evaluation/test_evaluation_data_page.py, commit
# 11b05c4c112831d91029521228d3d98b441d03ee. A ranking of two items is an action here.
SEEN, NAMES = ["3, 2"] * 3, ["2, 3", "3, 2"]
RANKINGS = BanditLogs(np.eye(3), SEEN, [4.0, 5.0, 7.0], [0.2, 0.5, 0.4], actions=NAMES)
PREDICTED = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
GREEDY = RANKINGS, np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
SAMPLED = RANKINGS, np.array([[0.6, 0.4], [0.7, 0.3], [0.3, 0.7]])

# VowpalWabbit/coba, coba/tests/test_environments_filters.py, OpeRewards_Tests.test_IPS.
# coba 8.1.0 computes these numbers.
SCORED = BanditLogs(np.zeros((2, 1)), [1, 2], [1.0, 0.25], [0.5, 0.25], actions=[1, 2])

# spotify-research/RIPS_KDD2020, rips/eval/offpolicy/ips_test.py, commit
# 84f9cde9528a176b36cad2417f363a7890e92486. All propensities are 1.
CLICKS = [[0, 1, 1, 0, 1]]
PAGE = showed([[0, 1, 2, 3, 4]], slot_reward=CLICKS, propensity=[1.0])


@dataclass
class Case:
    library: str
    theirs: float
    evaluator: object
    log: tuple
    ours: float = None  # where it is not theirs

    def compute(self):
        if self.library == COBA:  # the score of a round and an action
            return self.evaluator.fit(SCORED).action_scores()[self.log]
        logs, policy, *weight = self.log
        return self.evaluator.fit(logs).evaluate(policy, None, *weight).value


MODEL = DirectMethod(reward_model=PREDICTED)
ROBUST = DoublyRobust(reward_model=PREDICTED)
NORMALIZED = SlateIPS(self_normalized=True)
SWITCHES = [SwitchDR(reward_model=PREDICTED, tau=tau) for tau in (np.inf, 0.0)]
SHOWN, OTHER = (PAGE, [[0, 1, 2, 3, 4]]), (PAGE, [[0, 1, 2, 4, 3]])
SHARES = (0.4 / 0.2 * 4 + 0.3 / 0.5 * 5 + 0.7 / 0.4 * 7) / 3
BOTH = (1 + 4 + 5) / 3 + 1 / 0.5 * (5 - 4) / 3
CASES = {
    "one round, p .3": Case(VW, 2, IPS(), ONE),
    "one round, p .3, normalised": Case(VW, 1, SNIPS(), ONE),
    "ten rewards of 10": Case(VW, 10, IPS(), TENS),
    "ten rewards of -1": Case(VW, -1, SNIPS(), NEGATIVE),
    "rounds that count twice": Case(VW, 0.5, IPS(), COUNTED),
    "rounds that count twice, normalised": Case(VW, 0.5, SNIPS(), COUNTED),
    "slates of one slot": Case(VW, 1.22375, PseudoInverse(), one_slot()),
    "slates that are certain": Case(VW, 1, PseudoInverse(), sure_slots()),
    "slates of two slots": Case(VW, 0.2, PseudoInverse(), two_slots(), ours=-0.05),
    "model, greedy ranking": Case(REAGENT, (1 + 4 + 5) / 3, MODEL, GREEDY),
    "weights, greedy ranking": Case(REAGENT, 5 / 0.5 / 3, IPS(), GREEDY),
    "both, greedy ranking": Case(REAGENT, BOTH, ROBUST, GREEDY),
    "switch, no weight is too large": Case(REAGENT, 4, SWITCHES[0], GREEDY),
    "switch, every weight is too large": Case(REAGENT, 10 / 3, SWITCHES[1], GREEDY),
    "weights, sampled ranking": Case(REAGENT, SHARES, IPS(), SAMPLED),
    "score of round 1, logged action": Case(COBA, 2, IPS(), (0, 0)),
    "score of round 1, other action": Case(COBA, 0, IPS(), (0, 1)),
    "score of round 2, other action": Case(COBA, 0, IPS(), (1, 0)),
    "score of round 2, logged action": Case(COBA, 1, IPS(), (1, 1)),
    "page that is shown again": Case(RIPS, 3, SlateIPS(), SHOWN),
    "page in another order": Case(RIPS, 3, NORMALIZED, OTHER, ours=np.nan),
}


@pytest.mark.parametrize("name", CASES)
def test_number(name):
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such small logs ring every alarm
        found = case.compute()
    expected = case.theirs if case.ours is None else case.ours
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_interval_lies_within_their_bounds():
    """VW estimators, tests/test_bandits.py (test_simple_convergence): .75 to .85."""
    value = alternating()
    low, high = value.confidence_interval(method="normal")
    assert 0.75 <= low < 0.8 < high <= 0.85
    # vw-estimators 0.2.2 computes this interval.
    np.testing.assert_allclose([low, high], [0.7843195, 0.8156805], atol=1e-7)


def page_rows():
    """Return library, case, evaluator, their number, ours and why of every row."""
    text = (ROOT / "docs" / "same_numbers.rst").read_text()
    for line in re.split(r"\n=+  [= ]+\n", text)[2].splitlines():
        cells = re.split(r" {2,}", line)
        yield cells if len(cells) == 6 else [*cells, ""]


def as_shown(number):
    return "none" if np.isnan(number) else f"{number:.6g}"


def test_page_shows_these_numbers_and_says_why_where_they_differ():
    shown = {
        name: (library, evaluator, theirs, ours)
        for library, name, evaluator, theirs, ours, _ in page_rows()
    }
    assert shown == {
        name: (
            case.library,
            f":class:`{type(case.evaluator).__name__}`",
            as_shown(case.theirs),
            as_shown(case.theirs if case.ours is None else case.ours),
        )
        for name, case in CASES.items()
    }
    for _, name, _, theirs, ours, why in page_rows():
        assert bool(why) == (theirs != ours), name
