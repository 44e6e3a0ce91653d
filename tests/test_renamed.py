# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import inspect
import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

import skope_ope
from skope_ope import (
    IPS,
    AdditiveSlateModel,
    AttentionDecay,
    BanditLogs,
    ConstantPolicy,
    EpochGreedy,
    PolicyScorer,
    PositionScavenging,
    PseudoInverseRanker,
    ReorderingScavenging,
    RewardModelPolicy,
    SlateLogs,
    UniformPolicy,
    compare_policies,
    logger_overlap,
    with_logger_policies,
)
from skope_ope._renamed import (
    keyword_only,
    renamed_keywords,
    renamed_parameters,
    renamed_value,
    reordered,
)
from skope_ope.datasets import RankingWorld, make_bandit_logs, make_slate_logs
from skope_ope.utils import all_evaluators


@renamed_keywords(old="new")
def area(new, width=1):
    return new * width


def test_renamed_keywords_of_functions():
    assert list(inspect.signature(area).parameters) == ["new", "width"]
    message = re.escape("old of area is called new since skope_ope 0.2")
    with pytest.warns(FutureWarning, match=message) as caught:
        assert area(old=2, width=3) == 6
    assert caught[0].filename == __file__
    assert area(2, width=3) == area(new=2, width=3) == 6
    with pytest.raises(TypeError, match="got old and new, two names of one parameter"):
        area(old=1, new=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'older'"):
        area(older=1)


@renamed_parameters(regressor="reward_model", regressor_="reward_model_")
class Learner(BaseEstimator):
    def __init__(self, reward_model=None, *, other=1):
        self.reward_model = reward_model
        self.other = other

    def fit(self, X, y=None):
        self.reward_model_ = self.reward_model
        return self

    @property
    def broken(self):
        raise AttributeError("the reason")


def test_the_old_parameter_of_a_constructor():
    with pytest.warns(FutureWarning, match="regressor of Learner is called re") as seen:
        old = Learner(regressor=Ridge(2.0), other=3)
    assert len(seen) == 1 and seen[0].filename == __file__
    assert set(old.get_params(deep=False)) == {"reward_model", "other"}
    assert old.reward_model.alpha == 2.0 and "regressor" not in vars(old)
    assert list(inspect.signature(Learner).parameters) == ["reward_model", "other"]
    assert repr(old) == "Learner(other=3, reward_model=Ridge(alpha=2.0))"
    for copy in (clone(old), pickle.loads(pickle.dumps(old))):
        assert copy.get_params()["reward_model__alpha"] == 2.0
    with pytest.raises(TypeError, match="two names of one parameter"):
        Learner(regressor=Ridge(), reward_model=Ridge())
    with pytest.raises(TypeError, match="multiple values"), pytest.warns(FutureWarning):
        Learner(Ridge(), regressor=Ridge())


def test_set_params_takes_old_names_nested_ones_too():
    learner = Learner(Ridge())
    with pytest.warns(FutureWarning, match="is called reward_model since") as caught:
        assert learner.set_params(regressor__alpha=5.0) is learner
    assert caught[0].filename == __file__
    assert learner.reward_model.alpha == 5.0
    with pytest.warns(FutureWarning):
        learner.set_params(regressor=Ridge(7.0), other=2)
    assert (learner.reward_model.alpha, learner.other) == (7.0, 2)
    with pytest.warns(FutureWarning):
        Pipeline([("learner", learner)]).set_params(learner__regressor__alpha=9.0)
    assert learner.reward_model.alpha == 9.0
    with pytest.raises(ValueError, match="Invalid parameter 'regresor'"):
        learner.set_params(regresor=None)


def test_old_attributes():
    learner = Learner(Ridge()).fit(None)
    with pytest.warns(FutureWarning, match="regressor_ of Learner") as caught:
        assert learner.regressor_ is learner.reward_model_
    assert caught[0].filename == __file__
    with pytest.warns(FutureWarning, match="regressor of Learner"):
        learner.regressor = None
    assert learner.reward_model is None and "regressor" not in vars(learner)
    assert not hasattr(Learner(), "regressor_")  # not fitted: nothing to warn of
    with pytest.raises(AttributeError, match="no attribute 'regresor'"):
        _ = learner.regresor
    with pytest.raises(AttributeError, match="the reason"):
        _ = learner.broken


@pytest.mark.filterwarnings("ignore:scores of .* rest on few effective rounds")
def test_a_search_over_an_old_name():
    logs = make_bandit_logs(300, random_state=0)
    policy, scorer = RewardModelPolicy(Ridge()), PolicyScorer(IPS())

    def search(name):
        grid = {f"{name}__alpha": [1.0, 1e6]}
        return GridSearchCV(policy, grid, scoring=scorer, cv=2).fit(logs)

    new = search("reward_model")
    with pytest.warns(FutureWarning, match="of RewardModelPolicy is called reward_mod"):
        old = search("regressor")
    assert_allclose(
        old.cv_results_["mean_test_score"], new.cv_results_["mean_test_score"]
    )


@keyword_only("first", "second")
class Named:
    def __init__(self, *, first, second=2):
        self.values = first, second


def test_parameters_that_were_positional():
    message = re.escape("write Named(first=..., second=...)")
    with pytest.warns(FutureWarning, match=message) as caught:
        assert Named(3, 4).values == (3, 4)
    assert caught[0].filename == __file__
    with pytest.warns(FutureWarning):
        assert Named(3, second=5).values == (3, 5)
    assert Named(first=3).values == (3, 2)
    with pytest.raises(TypeError, match="positional"):
        Named(1, 2, 3)
    with pytest.raises(TypeError, match="multiple values"), pytest.warns(FutureWarning):
        Named(1, first=1)


@reordered("logs", "policies", told_by=lambda first, *others, **named: first == "logs")
def together(policies, logs, *, level=1):
    return policies, logs, level


def test_arguments_in_the_old_order():
    message = re.escape("write together(policies, logs). together(logs, policies) is")
    for args, kwargs in (
        (("logs", "policies"), {}),
        (("logs",), {"policies": "policies"}),
    ):
        with pytest.warns(FutureWarning, match=message) as caught:
            assert together(*args, level=2, **kwargs) == ("policies", "logs", 2)
        assert caught[0].filename == __file__
    assert together("policies", "logs") == ("policies", "logs", 1)
    assert together(logs="logs", policies="policies") == ("policies", "logs", 1)
    with pytest.raises(TypeError, match="multiple values"), pytest.warns(FutureWarning):
        together("logs", "policies", logs="logs")
    with pytest.raises(TypeError, match="positional"):
        together("logs", "policies", 3)


def test_old_values():
    def method(value):
        return renamed_value("method", value, {"a-b": "a_b", None: "auto", 0: 1})

    message = re.escape("method='a-b' is called method='a_b' since")
    with pytest.warns(FutureWarning, match=message) as caught:
        assert method("a-b") == "a_b"
    assert caught[0].filename == __file__
    with pytest.warns(FutureWarning):
        assert method(None) == "auto"
    array = np.zeros(2)  # has no truth value
    assert method("a_b") == "a_b" and method(array) is array


@pytest.mark.parametrize(
    ("cls", "old", "new"),
    [
        (RewardModelPolicy, "regressor", "reward_model"),
        (PseudoInverseRanker, "regressor", "reward_model"),
        (AdditiveSlateModel, "regressor", "model"),
        (EpochGreedy, "model", "reward_model"),
    ],
)
def test_renamed_parameters_of_the_package(cls, old, new):
    with pytest.warns(FutureWarning, match=f"{old} of {cls.__name__} is called {new}"):
        made = cls(**{old: Ridge(alpha=3.0)})
    assert clone(made).get_params()[f"{new}__alpha"] == 3.0
    assert old not in made.get_params()


def test_renamed_attributes_of_the_package():
    logs = make_slate_logs(200, random_state=0)
    model = AdditiveSlateModel(Ridge()).fit(logs)
    with pytest.warns(FutureWarning, match="regressor_ of AdditiveSlateModel"):
        assert model.regressor_ is model.model_
    world = RankingWorld(np.arange(6)[:, None], [0, 1, 2, 0, 1, 2], [0] * 6, n_slots=2)
    ranker = PseudoInverseRanker(Ridge()).fit(world.draw(100, random_state=0))
    with pytest.warns(FutureWarning, match="regressor_ of PseudoInverseRanker"):
        assert ranker.regressor_ is ranker.reward_model_


def uniform_logs():
    return make_bandit_logs(300, logging_temperature=np.inf, random_state=0)


def test_policies_come_before_logs():
    logs = uniform_logs()
    policies = {"u": UniformPolicy(), "a": ConstantPolicy(logs.actions[0]).fit(logs)}
    new = compare_policies(policies, logs, evaluator=IPS())
    for args, kwargs in (
        ((IPS(), policies, logs), {}),
        ((IPS(),), {"policies": policies, "logs": logs}),
    ):
        with pytest.warns(
            FutureWarning,
            match=r"write compare_policies\(policies, logs, evaluator=evaluator\)",
        ):
            old = compare_policies(*args, **kwargs)
        assert repr(old) == repr(new)
    loggers = {0: UniformPolicy(), 1: UniformPolicy()}
    logs = BanditLogs(logs.context, logs.action, logs.reward, logger=np.arange(300) % 2)
    two = with_logger_policies(loggers, logs)
    with pytest.warns(FutureWarning, match=r"with_logger_policies\(policies, logs\)"):
        old = with_logger_policies(logs, loggers)
    assert_allclose(old.logger_proba, two.logger_proba)
    expected = repr(logger_overlap(UniformPolicy(), two))
    target = UniformPolicy()
    for args, kwargs in (((two, target), {}), ((two,), {"policy": target})):
        with pytest.warns(FutureWarning, match=r"logger_overlap\(policy, logs\)"):
            assert repr(logger_overlap(*args, **kwargs)) == expected
    assert repr(logger_overlap(logs=two)) == repr(logger_overlap(two))


def public_callables():
    """Public functions, and public methods of public classes, by name."""
    for name in skope_ope.__all__:
        value = getattr(skope_ope, name)
        yield name, value
        if inspect.isclass(value):
            for method, member in inspect.getmembers(value, callable):
                if not method.startswith("_"):
                    yield f"{name}.{method}", member


def test_no_public_callable_takes_logs_before_policies():
    found = set()
    for name, value in public_callables():
        try:
            parameters = list(inspect.signature(value).parameters)
        except ValueError:  # of a class written in C
            continue
        both = [one for one in parameters if one in ("policy", "policies", "logs")]
        if len(both) > 1:
            found.add(name)
            # new rounds come first, as in partial_fit; a suggestion needs no policy
            first = ("ConfidenceSequence.update", "suggest")
            assert both[-1] == "logs" or name in first, name
    assert {"evaluate", "compare_policies", "logger_overlap", "IPS.score"} <= found


def test_parameters_of_evaluators_are_keyword_only():
    for name, cls in all_evaluators():
        for parameter in inspect.signature(cls).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY, (name, parameter)


def test_one_default_each():
    """Policies, audits and intervals are seeded, all else is as scikit-learn's is."""
    asked_twice = "audit", "confidence_interval", "confidence_intervals"
    for name, value in public_callables():
        try:
            parameters = inspect.signature(value).parameters
        except ValueError:
            continue
        seeded = hasattr(value, "predict_proba") or hasattr(value, "slot_marginals")
        seeded = seeded or value.__name__ in asked_twice
        for one in ("random_state", "n_bootstrap", "n_jobs"):
            if one in parameters:
                expected = 0 if seeded and one == "random_state" else None
                assert parameters[one].default is expected, name


@pytest.mark.parametrize("cls", [PositionScavenging, ReorderingScavenging])
def test_the_attention_by_position(cls):
    with pytest.warns(FutureWarning, match=rf"write {cls.__name__}\(attention=...\)"):
        assert clone(cls([1.0, 0.5])).attention == [1.0, 0.5]


def test_no_bootstrap_was_0():
    slates, clicks = [[0, 1], [1, 0]] * 2, [[1, 0], [1, 1], [1, 0], [1, 0]]
    logs = SlateLogs(np.zeros((4, 1)), slates, None, slot_reward=clicks)
    decay = AttentionDecay(method="uniform", n_bootstrap=0)
    with pytest.warns(FutureWarning, match="n_bootstrap=0 is called n_bootstrap=None"):
        decay.fit(logs)
    assert not hasattr(decay, "standard_errors_") and decay.n_bootstrap == 0


def test_the_logger_as_a_baseline_was_none():
    logs = uniform_logs()
    policies = {"u": UniformPolicy()}
    new = compare_policies(policies, logs, evaluator=IPS())
    with pytest.warns(FutureWarning, match="called baseline='logger'") as caught:
        old = compare_policies(policies, logs, evaluator=IPS(), baseline=None)
    assert caught[0].filename == __file__
    assert new.baseline == old.baseline == "logger" and repr(new) == repr(old)
