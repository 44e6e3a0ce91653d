# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A policy is not judged in silence by rounds that it has learned from."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupShuffleSplit,
    cross_validate,
    train_test_split,
)
from sklearn.pipeline import make_pipeline

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ClassifierPolicy,
    DirectMethod,
    DRPolicy,
    EpsilonGreedy,
    EvaluatorScorer,
    IPSPolicy,
    MixturePolicy,
    PolicyScorer,
    PropensityClipper,
    PseudoInverse,
    PseudoInverseRanker,
    RankingPolicy,
    RejectionSampling,
    RewardModelPolicy,
    SlateLogs,
    SlopeSearch,
    UniformPolicy,
    UniformSlatePolicy,
    audit,
    compare_policies,
    evaluate,
    summarize,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.exceptions import LearnedRoundsWarning
from skope_ope.policies import MixtureSlatePolicy
from tests._learned_share import learned_share

N = 120
LOGS = make_bandit_logs(N, reward="binary", random_state=0)
pytestmark = pytest.mark.filterwarnings(
    "ignore::skope_ope.exceptions.LowOverlapWarning"
)
TRAIN, TEST = train_test_split(LOGS, test_size=0.25, random_state=0)
DUMMY = DummyClassifier(strategy="prior")
LEARNERS = [
    ClassifierPolicy(DUMMY, epsilon=0.5),
    IPSPolicy(DUMMY, epsilon=0.5),
    DRPolicy(DUMMY, epsilon=0.5, n_steps=1),
    RewardModelPolicy(Ridge(), epsilon=0.5),
]
SLATES = make_slate_logs(60, random_state=0)


def warned(result):
    """Shares that a result warns of."""
    return [w.value for w in result.warnings if isinstance(w, LearnedRoundsWarning)]


@pytest.mark.parametrize("policy", LEARNERS, ids=lambda p: type(p).__name__)
def test_the_share_of_learned_rounds(policy):
    policy = clone(policy).fit(TRAIN)
    assert learned_share(policy, LOGS) == 0.75
    assert learned_share(policy, TRAIN) == 1
    assert learned_share(policy, TEST) == 0
    assert learned_share(policy, TRAIN[[3, 3, 5]]) == 1
    assert learned_share(pickle.loads(pickle.dumps(policy)), TRAIN[:7]) == 1
    assert learned_share(policy, pickle.loads(pickle.dumps(LOGS))) == 0.75
    rewards = TRAIN.replace(reward=1 - TRAIN.reward).with_columns(z=TRAIN.reward)
    assert learned_share(policy, rewards) == 1
    assert learned_share(policy.fit(TEST), LOGS) == 0.25  # the last fit counts
    policy.fit(LOGS[10:20])
    assert learned_share(policy, LOGS[15:]) == 5 / (N - 15)
    assert learned_share(policy, LOGS[20:]) == 0


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_rounds_of_logs_that_were_built_anew():
    policy = clone(LEARNERS[0]).fit(TRAIN)
    again = BanditLogs(LOGS.context, LOGS.action, LOGS.reward)
    assert learned_share(policy, again) == 0.75
    value = DirectMethod().fit(again).evaluate(policy)
    assert warned(value) == [0.75]
    [found] = [f for f in audit(policy, again).findings if "learned" in str(f)]
    assert found.rows == tuple(sorted(TRAIN.row_id.position)[:10])
    test = again[TEST.row_id.position]
    assert learned_share(policy, test) == 0
    assert warned(DirectMethod().fit(test).evaluate(policy)) == []
    assert learned_share(pickle.loads(pickle.dumps(policy)), again) == 0.75
    assert learned_share(policy, make_bandit_logs(N, random_state=1)) == 0


def test_a_pickle_grows_by_eight_bytes_and_a_bit_for_every_round():
    sizes = []
    for n_rounds in (10_000, 20_000):
        logs = make_bandit_logs(n_rounds, random_state=0)
        sizes.append(len(pickle.dumps(clone(LEARNERS[0]).fit(logs))))
    assert sizes[1] - sizes[0] == pytest.approx(10_000 * 8.125, abs=50)


def test_parts_of_a_policy():
    assert learned_share(UniformPolicy().fit(TRAIN), TRAIN) == 0
    unknown = clone(LEARNERS[0]).fit(TRAIN).fit(TRAIN.context, TRAIN.action)
    assert learned_share(unknown, TRAIN) == 0  # contexts and labels have no rounds
    mixture = MixturePolicy([LEARNERS[0], UniformPolicy()], [0.5, 0.5])
    assert learned_share(clone(mixture).fit(TRAIN), LOGS) == 0.75
    two = [clone(LEARNERS[0]).fit(LOGS[:40]), clone(LEARNERS[1]).fit(LOGS[20:60])]
    assert learned_share(MixturePolicy(two, [0.5, 0.5]), LOGS) == 0.5
    assert learned_share(make_pipeline(PropensityClipper(), two[0]), LOGS) == 1 / 3
    scoring = PolicyScorer(IPS())
    search = GridSearchCV(LEARNERS[0], {"epsilon": [0.5]}, scoring=scoring, cv=2)
    assert learned_share(search.fit(TRAIN), LOGS) == 0.75
    # what has learned from no round
    pi = np.full((N, 5), 0.2)
    logs = make_bandit_logs(N, n_actions=5, random_state=1).with_columns(pi=pi)
    for target in (pi, "pi", EpsilonGreedy()):
        assert learned_share(target, logs) == 0


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_evaluators_warn():
    policy = clone(LEARNERS[0]).fit(TRAIN)
    for evaluator in (IPS(), DirectMethod(), RejectionSampling(random_state=0)):
        assert warned(evaluator.fit(LOGS).evaluate(policy)) == [0.75]
        assert warned(evaluator.evaluate(policy, TEST)) == []
        policies, name = {"p": policy, "u": UniformPolicy()}, type(evaluator).__name__
        table = evaluate(policies, LOGS, evaluators=[evaluator])
        assert warned(table["p", name]) == [0.75]
        assert warned(table["u", name]) == []
    # learned rounds add up over parts
    policy = clone(LEARNERS[1]).fit(TRAIN)
    parts = [summarize(policy, part) for part in (LOGS[:50], LOGS[50:90], LOGS[90:])]
    value = (parts[2] + parts[0] + parts[1]).values()["IPS"]
    assert warned(value) == [0.75]


def test_the_message():
    policy = clone(LEARNERS[0]).fit(TRAIN)
    with pytest.warns(LearnedRoundsWarning, match=r"75\.0% of these rounds") as caught:
        evaluate(policy, LOGS, evaluators=["IPS", "SNIPS"])
    assert len([w for w in caught if w.category is LearnedRoundsWarning]) == 1
    with pytest.warns(LearnedRoundsWarning, match=r"75\.0%"):
        compare_policies({"p": policy, "u": UniformPolicy()}, LOGS, evaluator=SNIPS())
    search = SlopeSearch(SNIPS(), {"cmax": [3, 1]}, scoring=EvaluatorScorer(policy))
    with pytest.warns(LearnedRoundsWarning, match="75.0%") as caught:
        search.fit(LOGS)
    assert [w.filename for w in caught] == [__file__]


def test_searches_are_silent_and_scores_of_training_parts_warn():
    # parts of a search are disjoint; warnings are errors here
    options = {"scoring": PolicyScorer(IPS()), "cv": 2}
    search = GridSearchCV(LEARNERS[0], {"epsilon": [0.5, 1]}, **options)
    cross_validate(search, LOGS, **options)
    with pytest.warns(LearnedRoundsWarning, match="100.0%"):
        cross_validate(LEARNERS[0], LOGS, **options, return_train_score=True)
    # a search over evaluators warns of its policy
    policy = clone(LEARNERS[0]).fit(LOGS[:60])
    scorer = EvaluatorScorer(policy, validator=SNIPS())
    search = GridSearchCV(SNIPS(), {"cmax": [1, 3]}, scoring=scorer, cv=2)
    with pytest.warns(LearnedRoundsWarning, match="100.0%") as caught:
        search.fit(LOGS)  # the first of two parts is what it has learned from
    assert len(caught) == 2  # candidates, which share nothing in scikit-learn's search
    assert len({str(w.message) for w in caught}) == 1
    search.fit(LOGS[60:])


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_slate_policies():
    first, second = SLATES[:40], SLATES[40:]
    ranker = PseudoInverseRanker(Ridge()).fit(first)
    assert learned_share(ranker, SLATES) == 2 / 3
    assert warned(PseudoInverse().fit(first).evaluate(ranker)) == [1.0]
    assert warned(PseudoInverse().fit(second).evaluate(ranker)) == []
    assert learned_share(ranker.fit([first]), SLATES) == 2 / 3
    assert learned_share(ranker.fit([first, second]), SLATES) == 1
    stream = ranker.fit(part for part in (first, second))
    assert learned_share(stream, SLATES) == 0  # it may not fit into memory
    # rankings
    fields = {"slot_reward": np.zeros(SLATES.slate.shape)}
    fields |= {f: getattr(SLATES, f) for f in ("n_candidates", "item_features")}
    logs = SlateLogs(SLATES.context, SLATES.slate, SLATES.reward, **fields)
    ranking = RankingPolicy(Ridge(), SLATES.n_slots).fit(logs[:30])
    uniform = UniformSlatePolicy(SLATES.n_slots)
    for policy in (ranking, MixtureSlatePolicy([ranking, uniform], [0.5, 0.5])):
        assert learned_share(policy, logs) == 0.5
    ranking.fit(np.zeros((3, 2)), np.zeros(3))
    assert learned_share(ranking, logs) == 0


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_logs_with_groups_are_split_by_group():
    logs, policy = LOGS.replace(group=np.arange(N) // 2), clone(LEARNERS[0])
    for some, text in ((logs, "GroupShuffleSplit"), (LOGS, "train_test_split(logs)")):
        told = IPS().fit(some).evaluate(policy.fit(some)).warnings
        [told] = [str(w) for w in told if isinstance(w, LearnedRoundsWarning)]
        assert text in told
    # what the warning says to do works
    train, test = next(GroupShuffleSplit().split(logs, groups=logs.group))
    assert not set(logs[train].group) & set(logs[test].group)
    assert not warned(IPS().fit(logs[test]).evaluate(policy.fit(logs[train])))
