# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np

from skope_ope import (
    IPS,
    PseudoInverse,
    RankingPolicy,
    SlateLogs,
    UniformSlatePolicy,
    compare_policies,
    evaluate,
    report,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators._defaults import DEFAULTS, FORMS
from skope_ope.evaluators._row_names import SETTINGS, row_of, told_row


def test_every_form_is_known_by_its_row():
    assert list(SETTINGS) and set(SETTINGS) == set(FORMS)
    for name, one in FORMS.items():
        assert row_of(one) == name
        assert told_row(name) == f"{name} ({SETTINGS[name]})"
    for name, one in DEFAULTS.items():
        assert row_of(one) is None
        assert told_row(name) == name


def test_a_setting_of_your_own_is_named_by_its_class():
    assert row_of(PseudoInverse(control_variates="single")) is None
    assert row_of(IPS()) is None


def clicked_pages(n=3000):
    """Two of four items in a uniform order; clicks follow the worth of an item."""
    rng = np.random.RandomState(0)
    slate = np.argsort(rng.random_sample((n, 4)), axis=1)[:, :2]
    worth = np.array([0.05, 0.1, 0.3, 0.6])
    return SlateLogs(
        np.zeros((n, 1)),
        slate,
        slot_reward=(rng.random_sample(slate.shape) < worth[slate]).astype(float),
        n_candidates=4,
        item_features=worth[:, None],
        item_feature_names=["worth"],
        logging_policy=UniformSlatePolicy(2),
    )


def test_decisions_name_the_row_of_the_table_and_what_it_assumes():
    logs, new = clicked_pages(), {"new": RankingPolicy("worth", n_slots=2)}
    assert evaluate(new, logs).recommended == "ControlledPI"
    compared = compare_policies(new, logs)
    assert compared.decision == "deploy"
    told = "ControlledPI (PseudoInverse with multiple control variates)"
    assert f"Deploy new: by {told} it is better" in compared.sentence
    assumed = "Assumed: the value of a slate is about a sum over its slots and items."
    assert assumed in str(compared)
    found = report(new, logs)
    assert assumed in found.sentence
    assert f"The gains are those of {told}" in found.to_html()
    by_slot = compare_policies(new, logs, evaluator="IndependentSlotIPS")
    assert "by IndependentSlotIPS it is better" in by_slot.sentence
    assert "Assumed: what a slot earns does not depend on" in str(by_slot)
    assert "Assumed" not in str(compare_policies(new, logs, evaluator="SlateIPS"))


def test_actions_assume_nothing_of_slates():
    logs, policy = make_bandit_logs(random_state=0, return_truth=True)[:2]
    assert "Assumed" not in str(compare_policies({"new": policy}, logs))
