# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators of a user's own that leave the common path: a right answer or a sentence.

They ask for what was not required, return what is no term, estimate what is no reward.
Whatever the source, none of them may be answered by a wrong number, or by an error
about the inside of the package.
"""

import numpy as np
import pytest

from skope_ope import IPS, BanditLogs, evaluate, summarize
from skope_ope.base import StaticEvaluator, ratio
from tests.evaluators import _own_evaluators as own
from tests.evaluators._parquet_worlds import lazy_world
from tests.judge._sources import frame_world

quiet = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
N, K = 300, 3


def small_log(**given):
    """Clicks of a uniform logger, and the probabilities of a policy."""
    rng = np.random.RandomState(0)
    pi, action = rng.dirichlet(np.ones(K), N), rng.randint(0, K, N)
    click = (rng.random_sample(N) < 0.4).astype(float)
    logs = BanditLogs(np.zeros((N, 1)), action, click, 1 / K, **given)
    return logs.with_columns(pi=pi, q=rng.random_sample((N, K)), day=np.arange(N) % 3)


def weights_of(logs):
    return logs.columns["pi"][np.arange(N), logs.action_index] * K


def summed_days(logs, evaluators):
    parts = [summarize("pi", logs[k::3], evaluators=evaluators) for k in range(3)]
    return sum(parts).values()


def of_files(logs, evaluators, folder):
    files = lazy_world(logs, folder, np.random.RandomState(0), n_files=3)
    return evaluate("pi", files, evaluators=evaluators)


SOURCES = {
    "memory": lambda logs, some, _: evaluate("pi", logs, evaluators=some),
    "days": lambda logs, some, _: summed_days(logs, some),
    "files": of_files,
    "frame": lambda logs, some, _: evaluate(
        "pi", frame_world(logs, "polars"), evaluators=some
    ),
}
each_source = pytest.mark.parametrize("source", SOURCES)


def answer(source, evaluator, folder):
    """The value of one evaluator, after what follows from it."""
    if source in ("files", "frame"):
        for package in ("pyarrow", "polars"):
            pytest.importorskip(package)
    value = SOURCES[source](small_log(), {"own": evaluator}, folder)["own"]
    value.confidence_interval()
    return value.value


def of_formula(terms):
    """An evaluator of any formula."""
    return type("Formula", (StaticEvaluator,), {"terms": lambda self, r: terms(r)})()


@pytest.mark.parametrize(
    "evaluator",
    [
        of_formula(lambda rounds: (-rounds.gain,)),
        of_formula(lambda rounds: (2 + 2 * rounds.gain,)),
        own.ModelGain(reward_model="q"),
        own.SpreadOfWeights(),
    ],
    ids=["cost", "twice", "gain of a model", "weights"],
)
@quiet
def test_an_interval_holds_its_value(evaluator):
    value = evaluator.fit(small_log()).evaluate("pi")
    low, high = value.confidence_interval()
    assert low <= value.value <= high
    student = value.confidence_interval(method="student")
    assert 0.9 < (high - low) / student.width < 1.5


@quiet
def test_no_term_of_groups_holds_rewards():
    logs = small_log(group=np.arange(N) // 2, reward_range=(0, 1))
    value = own.SpreadOfWeights().fit(logs).evaluate("pi")
    assert value.confidence_interval().width > 0


def smoothed(rounds):
    lam = 1 / np.sqrt(rounds.n_rounds)
    return (np.log1p(lam * rounds.gain) / lam,)


@pytest.mark.parametrize("source", ["memory", "days", "files", "frame"])
@quiet
def test_the_number_of_rounds(source, tmp_path):
    """It is that of the whole log, or a sentence says what to do."""
    logs = small_log()
    lam = 1 / np.sqrt(N)
    expected = np.mean(np.log1p(lam * weights_of(logs) * logs.reward) / lam)
    try:
        found = answer(source, of_formula(smoothed), tmp_path)
    except TypeError as error:
        assert "n_rounds" in str(error) and "NoneType" not in str(error)
    else:
        assert abs(found - expected) < 1e-12


@each_source
@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("q", "model=True"),
        ("v", "model=True"),
        ("residual", "model=True"),
        ("correction", "model=True"),
        ("b", "mixture=True"),
    ],
)
@quiet
def test_what_was_not_required_is_named(source, name, needs, tmp_path):
    with pytest.raises(TypeError, match=rf"{name}.*Requires\(.*{needs}"):
        answer(source, of_formula(lambda r: (0.5 * getattr(r, name),)), tmp_path)


@quiet
def test_weights_that_were_not_required_are_named():
    class Wrong(own.LikelyReward):
        def terms(self, rounds):
            return rounds.gain, rounds.pi

    logs = small_log().replace(propensity=None)
    with pytest.raises(TypeError, match=r"Requires\(.*weights=True"):
        Wrong().fit(logs).evaluate("pi")


@each_source
@pytest.mark.parametrize(
    "formula",
    [
        lambda rounds: rounds.w * rounds.r,
        lambda rounds: (1.0,),
        lambda rounds: (),
        lambda rounds: (rounds.gain.sum(),),
    ],
    ids=["no tuple", "a number", "nothing", "the sum"],
)
@quiet
def test_what_is_no_term_is_named(source, formula, tmp_path):
    message = r"Formula: terms\(rounds\) must (be|return) a tuple"
    with pytest.raises((TypeError, ValueError), match=message):
        answer(source, of_formula(formula), tmp_path)


@pytest.mark.parametrize("source", ["memory", "days", "files", "frame"])
@quiet
def test_flags_are_terms(source, tmp_path):
    share = answer(source, of_formula(lambda rounds: (rounds.w > 1,)), tmp_path)
    assert abs(share - np.mean(weights_of(small_log()) > 1)) < 1e-12


@quiet
def test_an_evaluator_cannot_change_the_rounds_of_others():
    def halved(rounds):
        w = rounds.w
        w *= 0.5
        return (w * rounds.r,)

    evaluators = {"halved": of_formula(halved), "IPS": own.LogIPS(scale=0.0)}
    logs = small_log()
    try:
        found = evaluate("pi", logs, evaluators=evaluators)["IPS"].value
    except ValueError as refused:
        assert "read-only" in str(refused)
    else:
        assert found == IPS().fit(logs).score("pi")


def of_means(m):
    return m[0] / m[1]


def short_gradient(m):
    return m[0] / m[1], (1 / m[1],)


@pytest.mark.parametrize(
    ("member", "given"),
    [
        ("combine", ratio),  # a method of the class: no staticmethod
        ("combine", staticmethod(of_means)),
        ("combine", staticmethod(short_gradient)),
        ("shift_with", 5),
        ("smooth", (7,)),
        ("proposal", "loggers"),
        ("requires", {"model": True}),
    ],
    ids=["no staticmethod", "no gradient", "a short one", "shift", "smooth", "p", "r"],
)
@quiet
def test_members_that_are_wrong_are_named(member, given):
    body = {"terms": lambda self, rounds: (rounds.gain, rounds.w)}
    body |= {"combine": staticmethod(ratio), member: given}
    with pytest.raises((TypeError, ValueError), match=f"Own: {member}"):
        type("Own", (StaticEvaluator,), body)().fit(small_log()).evaluate("pi")
