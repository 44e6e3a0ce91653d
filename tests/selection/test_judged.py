# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    MultiLoggerIPS,
    OPESearchCV,
    PolicyScorer,
    PseudoInverse,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
    one_standard_error,
)
from skope_ope.base import BaseSlatePolicy
from skope_ope.exceptions import LowOverlapWarning, OPEWarning, SupportWarning
from skope_ope.policies import EmpiricalSlatePolicy, ProductSlatePolicy


class TwoContexts(BaseSlatePolicy):
    """[0, 1], but [2, 3], which is never shown, in contexts from `limit` on."""

    def __init__(self, limit=np.inf):
        self.limit = limit

    def deterministic_slates(self, logs):
        unshown = np.asarray(logs.context)[:, [0]] >= self.limit
        return np.where(unshown, [2, 3], [0, 1])

    def slot_marginals(self, logs):
        shown = self.deterministic_slates(logs)
        return (shown[:, :, None] == np.arange(logs.max_candidates)).astype(float)


def pages(n_rounds=1000, seed=0):
    """Pages with reward 1 in the first half of the contexts, 0 in the others."""
    rng = np.random.RandomState(seed)
    x = rng.permutation(n_rounds) / n_rounds
    slate = np.where(rng.randint(2, size=n_rounds)[:, None], [0, 1], [1, 0])
    policy = EmpiricalSlatePolicy([[0, 1], [1, 0]])
    fields = {"n_candidates": 4, "logging_policy": policy}
    return SlateLogs(x[:, None], slate, (x < 0.5).astype(float), **fields)


def scored(scorer, policy, logs):
    """The score, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        score = scorer(policy, logs)
    return score, [one.message for one in caught]


RANGED = {
    "PI": PseudoInverse(),
    "wPI": PseudoInverse(self_normalized=True),
    "wIPS": SlateIPS(self_normalized=True),
    "DR": SlateDoublyRobust(),
}


@pytest.mark.few_cases(2)
@pytest.mark.filterwarnings("ignore:One or more:UserWarning")
@pytest.mark.parametrize("name", RANGED)
def test_a_search_does_not_take_the_policy_whose_rounds_are_left_out(name):
    # it was scored by the half of the rounds that have a reward: .99 against .49
    scorer = PolicyScorer(RANGED[name])
    search = GridSearchCV(TwoContexts(), {"limit": [np.inf, 0.5]}, scoring=scorer)
    told = "NaN: .* has no information on the policy in"
    with pytest.warns(SupportWarning, match=told):
        search.fit(pages())
    assert search.best_params_ == {"limit": np.inf}
    assert np.isnan(search.cv_results_["mean_test_score"][1])
    assert 0.4 < search.best_score_ < 0.6


@pytest.mark.parametrize("name", RANGED)
def test_a_few_rounds_that_are_left_out_are_said(name):
    logs, scorer = pages(), PolicyScorer(RANGED[name])
    assert scored(scorer, TwoContexts(), logs)[1] == []
    score, [said] = scored(scorer, TwoContexts(0.951), logs)
    assert isinstance(said, SupportWarning)
    assert "leaves out 4.9% of the 1,000 held-out rounds" in str(said)
    value = value_of(RANGED[name], logs, TwoContexts(0.951)).value
    assert score == value
    score, [said] = scored(scorer, TwoContexts(0.949), logs)
    assert np.isnan(score)
    assert isinstance(said, SupportWarning)
    assert said.value == pytest.approx(0.051)
    assert "5.1% of the 1,000" in str(said)


def test_rounds_are_counted_by_their_weight():
    logs = pages()
    light = np.where(logs.context[:, 0] >= 0.9, 0.1, 1.0)
    scorer = PolicyScorer(PseudoInverse())
    assert np.isnan(scored(scorer, TwoContexts(0.9), logs)[0])
    weighted = logs.with_columns(sample_weight=light)
    score, [said] = scored(scorer, TwoContexts(0.9), weighted)
    assert np.isfinite(score)
    assert said.value == pytest.approx(10 / 910)


def test_plain_inverse_propensity_scoring_of_slates_counts_them_as_zero():
    score, said = scored(PolicyScorer(SlateIPS()), TwoContexts(0.5), pages())
    assert 0.4 < score < 0.6
    assert not said


# -- weights that cancel ---------------------------------------------------------------
MARGINALS = np.full((3, 5), 0.02)
MARGINALS[:, 0] = 0.92


def heavy(seed, n_rounds=150, shift=0.0, **fields):
    """Slates of a logger that hardly ever leaves its favourite, and candidates."""
    rng = np.random.RandomState(seed)
    phi = rng.random_sample((3, 5)) / 3
    slate = (rng.random_sample((n_rounds, 3, 1)) > MARGINALS.cumsum(1)).sum(2)
    mean = phi[np.arange(3), slate].sum(axis=1)
    reward = (rng.random_sample(n_rounds) < mean) + shift
    fields |= {"n_candidates": 5, "logging_policy": ProductSlatePolicy(MARGINALS)}
    logs = SlateLogs(np.zeros((n_rounds, 1)), slate, reward, **fields)
    others = [rng.randint(5, size=(1, 3)) for _ in range(11)]
    return logs, [np.zeros((1, 3), dtype=int), *others]


@pytest.mark.few_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [0, 1, 4])
def test_a_search_does_not_take_what_is_beyond_the_range(seed):
    # rewards are 0 or 1, and the scores of the choices were 1.22, 1.42 and 1.42
    logs, slates = heavy(seed)
    first = EmpiricalSlatePolicy(slates[0])
    scorer = PolicyScorer(PseudoInverse(self_normalized=True))
    search = GridSearchCV(first, {"slates": slates}, scoring=scorer, cv=2)
    search.fit(logs)
    assert 0 <= search.best_score_ <= 1
    splits = [search.cv_results_[f"split{k}_test_score"] for k in range(2)]
    known = np.stack(splits)[np.isfinite(splits)]
    assert known.min() >= 0 and known.max() <= 1
    ours = OPESearchCV(first, {"slates": slates}, scoring=scorer, cv=2)
    assert 0 <= ours.fit(logs).best_score_ <= 1


def value_of(score_of, logs, policy):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return score_of.fit(logs).evaluate(policy)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("shift", [0.0, -3.0])
def test_scores_by_the_range(shift):
    """NaN far from it, its end near it, the value itself within."""
    seen = set()
    evaluator = PseudoInverse(self_normalized=True)
    for seed in range(5):
        logs, slates = heavy(seed, 60, shift, reward_range=(shift, 1 + shift))
        for one in slates:
            policy = EmpiricalSlatePolicy(one)
            result = value_of(evaluator, logs, policy)
            score, said = scored(PolicyScorer(evaluator), policy, logs)
            mean, value = result.diagnostics["mean_weight"], result.value - shift
            if np.isnan(value):
                assert np.isnan(score)
                assert "The value is NaN" in str(said[0])
            elif mean < 0.25:
                seen.add("light")
                assert np.isnan(score)
                assert f"average {mean:.3g}, not 1" in str(said[0])
                assert isinstance(said[0], LowOverlapWarning)
            elif not -0.25 <= value <= 1.25:
                seen.add("far")
                assert np.isnan(score)
                text = f"gave {result.value:.4g}, a weighted mean of rewards that lie"
                assert text in str(said[0])
                assert f"[{shift:.4g}, {1 + shift:.4g}]" in str(said[0])
            elif not 0 <= value <= 1:
                seen.add("near")
                assert score == (shift if value < 0 else 1 + shift)
                assert str(said[0]).startswith(f"the score is {score:.4g}: Pseudo")
            else:
                seen.add("within")
                assert score == result.value
                assert all("rest on few effective" in str(one) for one in said)
    assert seen == {"light", "far", "near", "within"}


@pytest.mark.filterwarnings("ignore")
def test_values_that_are_not_divided_by_the_weights_stand():
    beyond = 0
    for evaluator in (PseudoInverse(), PseudoInverse(control_variates="single")):
        for seed in range(3):
            logs, slates = heavy(seed)
            for one in slates:
                policy = EmpiricalSlatePolicy(one)
                value = value_of(evaluator, logs, policy).value
                assert PolicyScorer(evaluator)(policy, logs) == value
                beyond += not 0 <= value <= 1
    assert beyond > 10


@pytest.mark.filterwarnings("ignore")
def test_without_a_known_range_only_the_mean_weight_counts():
    evaluator = PseudoInverse(self_normalized=True)
    far = 0
    for seed in range(6):
        logs, slates = heavy(seed, 60, shift=0.5)  # .5 or 1.5, of no stated range
        for one in slates:
            policy = EmpiricalSlatePolicy(one)
            result = value_of(evaluator, logs, policy)
            score = PolicyScorer(evaluator)(policy, logs)
            if result.diagnostics["mean_weight"] < 0.25:
                assert np.isnan(score)
            elif not np.isnan(result.value):
                assert score == result.value
                far += not 0.25 < result.value < 1.75
    assert far


def lean(taken, **fields):
    """Rounds of uniform propensities 0.1, of which some took the policy's action."""
    action = np.array([0] * taken + [1] * (100 - taken))
    rounds = np.zeros((100, 1)), action, np.tile([0.0, 1.0], 50), np.full(100, 0.1)
    return BanditLogs(*rounds, actions=range(10), **fields)


@pytest.mark.parametrize("taken, nan", [(2, True), (3, False), (10, False)])
def test_mean_weights_of_bandit_logs(taken, nan):
    logs, policy = lean(taken), ConstantPolicy(0)
    for evaluator in (SNIPS(), SNIPS(cmax=2.0)):
        score, said = scored(PolicyScorer(evaluator), policy, logs)
        assert np.isnan(score) == nan
        text = "average 0.2, not 1" if nan else "rest on few effective"
        assert text in str(said[0])
    score, _ = scored(PolicyScorer(IPS()), policy, logs)
    assert score == pytest.approx(10 * logs.reward[:taken].sum() / 100)


def test_mean_weights_of_several_loggers():
    logger, proba = np.tile(["a", "b"], 50), np.full((100, 2), 0.1)
    logs = lean(2, logger=logger, logger_proba=proba)
    for pooling in ("naive", "balanced"):
        evaluator = MultiLoggerIPS(pooling=pooling, self_normalized=True)
        score, said = scored(PolicyScorer(evaluator), ConstantPolicy(0), logs)
        assert np.isnan(score)
        assert "average 0.2" in str(said[0])


def test_few_effective_rounds_are_said_once():
    """The text is the same for all scores, so that the filter shows it once."""
    texts = set()
    for taken in (3, 4, 5):
        _, said = scored(PolicyScorer(IPS()), ConstantPolicy(0), lean(taken))
        assert [type(one) for one in said] == [LowOverlapWarning]
        assert said[0].value == pytest.approx(taken)
        texts.add(str(said[0]))
    assert len(texts) == 1
    assert "refit=one_standard_error" in texts.pop()


# -- none is left ----------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("refit", [True, False, one_standard_error])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_search_without_any_score_raises_with_the_first_reason(refit, n_jobs):
    grid, scorer = {"limit": [0.5, 0.2]}, PolicyScorer(PseudoInverse())
    search = OPESearchCV(TwoContexts(), grid, scoring=scorer, cv=3, refit=refit)
    match = (
        r"none of 2 candidates has a score in all 3 splits.* of {'limit': 0.5} in "
        r"split 0: the score is NaN: PseudoInverse has no information on the policy in"
    )
    with parallel_config("threading"), pytest.raises(ValueError, match=match):
        search.set_params(n_jobs=n_jobs).fit(pages())
    assert not hasattr(search, "cv_results_")


@pytest.mark.filterwarnings("ignore")
def test_what_scikit_learn_does_without_any_score():
    """The guide says so: it takes the first candidate, and best_score_ is NaN."""
    grid = {"limit": [0.5, 0.2]}
    scorer = PolicyScorer(PseudoInverse())
    search = GridSearchCV(TwoContexts(), grid, scoring=scorer, cv=3).fit(pages())
    assert search.best_params_ == {"limit": 0.5}
    assert np.isnan(search.best_score_)
    told = r"the score of {'limit': 0.5} in split 0 is n"
    with pytest.raises(ValueError, match=told):
        search.set_params(refit=one_standard_error).fit(pages())


@pytest.mark.parametrize("evaluator", [DoublyRobust(), DirectMethod(), IPS()])
def test_the_value_of_a_reward_model_alone_is_no_score(evaluator):
    rng = np.random.default_rng(0)
    action, reward = rng.integers(0, 2, 300), (rng.random(300) < 0.3).astype(float)
    rounds = np.zeros((300, 1)), action, reward, np.full(300, 0.5)
    logs = BanditLogs(*rounds, actions=[0, 1, 2])
    score, said = scored(PolicyScorer(evaluator), ConstantPolicy(2), logs)
    assert np.isnan(score)
    assert any("never t" in str(one) for one in said)
