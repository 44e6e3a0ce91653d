# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import re
from functools import partial

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNIPS,
    ActionRewardModel,
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    FunctionPolicy,
    LogSmoothing,
    MultiLoggerIPS,
)
from skope_ope.evaluators.core import _summary
from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._estimate import Estimate, difference
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._summary import Summary, stated_shares
from skope_ope.evaluators.core._sums import Sums
from tests.evaluators._reference_worlds import logged, several_loggers

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


@pytest.fixture(scope="module")
def logs():
    return logged(120, 3, 7, group=np.arange(120) * 7 % 50).logs


def summary_of(logs, evaluator=None, policy="pi", **params):
    evaluator = IPS() if evaluator is None else evaluator
    return evaluator.fit(logs)._summary(policy, logs, **params)


def refused(one, other):
    with pytest.raises(ValueError, match="not parts of one estimate") as error:
        one + other
    return str(error.value)


def test_summaries_of_different_estimates_do_not_add_up(logs, monkeypatch):
    ips = summary_of(logs, IPS(cmax=5))
    text = refused(ips, summary_of(logs, IPS(cmax=10)))
    assert "evaluator: IPS(cmax=5) and IPS(cmax=10)" in text
    assert "policy" not in text
    text = refused(ips, summary_of(logs, SNIPS(), "other"))
    assert "evaluator: IPS(cmax=5) and SNIPS(" in text
    assert "policy: 'pi' and 'other'" in text
    other = logs.replace(group=None)
    with pytest.raises(ValueError, match="sums with groups and sums without"):
        ips + summary_of(other, IPS(cmax=5))
    monkeypatch.setattr(_summary, "FORMAT", 2)
    assert "format: 1 and 2" in refused(ips, summary_of(logs, IPS(cmax=5)))
    with pytest.raises(TypeError):
        ips + 1


def test_models_and_policies_are_told_by_what_they_hold(logs):
    model = ActionRewardModel(Ridge()).fit(logs)
    other = ActionRewardModel(Ridge(alpha=100)).fit(logs)

    def of(model):
        return summary_of(logs, DoublyRobust(reward_model=FrozenEstimator(model)))

    assert of(model).about == of(pickle.loads(pickle.dumps(model))).about
    assert "evaluator: DoublyRobust" in refused(of(model), of(other))
    in_fit = DoublyRobust(cv="prefit").fit(logs, model)._summary("pi", logs)
    in_other = DoublyRobust(cv="prefit").fit(logs, other)._summary("pi", logs)
    refused(in_fit, in_other)

    one = ConstantPolicy(1).fit(logs)
    same = ConstantPolicy(1).fit(logs)
    another = ConstantPolicy(2).fit(logs)
    whole = summary_of(logs, policy=one) + summary_of(logs, policy=same)
    assert_allclose(
        whole.estimate().value, summary_of(logs, policy=one).estimate().value
    )
    refused(summary_of(logs, policy=one), summary_of(logs, policy=another))


def test_what_has_no_name_needs_one(logs):
    array = logs.columns["pi"]
    with pytest.raises(ValueError, match=r"Pass policy_name=\.\.\., or carry it"):
        summary_of(logs, policy=array)
    named = summary_of(logs, policy=array, policy_name="new")
    assert named.about["policy"] == "'new'"
    whole = summary_of(logs)
    assert_allclose(named.estimate().value, whole.estimate().value)
    policy = FunctionPolicy(lambda X: np.full((len(X), 3), 1 / 3)).fit(logs)
    with pytest.raises(ValueError, match=r"Pass policy_name=\.\.\. for a policy"):
        summary_of(logs, policy=policy)
    assert summary_of(logs, policy=policy, policy_name="uniform").estimate().value > 0


def test_the_range_of_rewards_counts_where_it_enters():
    wide = logged(60, 3, 7, reward_range=(-2, 2)).logs
    other = logged(60, 3, 7, reward_range=(-1, 2)).logs
    smooth = LogSmoothing(lam=0.1)
    text = refused(summary_of(wide, smooth), summary_of(other, smooth))
    assert "reward_range: (-2.0, 2.0) and (-1.0, 2.0)" in text
    summary_of(wide) + summary_of(other)


def test_stated_shares_are_part_of_the_estimate():
    logs = several_loggers(60, 1).logs
    evaluator = MultiLoggerIPS(pooling="balanced").fit(logs)
    one = evaluator._summary("pi", logs, shares={0: 0.2, 1: 0.3, 2: 0.5})
    other = evaluator._summary("pi", logs, shares={0: 0.2, 1: 0.2, 2: 0.6})
    assert "shares" in refused(one, other)
    same = evaluator._summary("pi", logs, shares={2: 0.5, 1: 0.3, 0: 0.2})
    assert (one + same).tally.n == 120


def test_one_logger_needs_no_shares():
    logs = logged(60, 3, 7).logs
    assert stated_shares(None, logs) == {"logger": 1.0}
    evaluator = MultiLoggerIPS(pooling="balanced").fit(logs)
    found = evaluator._summary("pi", logs[:20]) + evaluator._summary("pi", logs[20:])
    assert_allclose(found.estimate().value, evaluator.evaluate("pi").value)


def test_a_summary_is_small_and_pickles_to_itself(logs):
    found = summary_of(logs, DoublyRobust(reward_model="q_hat"))
    again = pickle.loads(pickle.dumps(found))
    assert len(pickle.dumps(found)) < 20_000
    assert again.estimate().value == found.estimate().value
    assert joblib.hash((again + again).to_table()) == joblib.hash(
        (found + found).to_table()
    )


def test_tables_hold_what_sums_hold(logs, tmp_path):
    for group in (None, np.arange(120), np.arange(120).astype(str).astype(object)):
        some = logs.replace(group=group)
        found = summary_of(some, SNIPS())
        np.savez(tmp_path / "table.npz", **found.to_table())
        with np.load(tmp_path / "table.npz", allow_pickle=False) as table:
            read = Summary.from_table(table, found)
        one, other = read.estimate(), found.estimate()
        assert (one.value, one.standard_error) == (other.value, other.standard_error)
        both = read + found
        assert both.tally.n == 240
        assert_allclose(both.estimate().value, one.value)


def test_tables_of_groups_without_a_text_are_of_buckets(logs):
    pairs = [(k % 40, "a") for k in range(120)]
    found = summary_of(logs.replace(group=pairs))
    table = found.to_table()
    assert table["clusters"].dtype.kind == "i"
    assert Summary.from_table(table, found).sums.frame.n_buckets == 1000
    assert found.to_table(n_buckets=10)["totals"].shape[1] <= 10


def test_a_table_of_another_estimate_is_refused(logs):
    table = summary_of(logs).to_table()
    with pytest.raises(ValueError, match=re.escape("evaluator: SNIPS(")):
        Summary.from_table(table, summary_of(logs, SNIPS()))


def test_differences_without_rounds(logs):
    a, b = IPS().fit(logs), SNIPS().fit(logs)
    parts = [logs[:30], logs[30:]]
    one, other = (
        sum(e._summary("pi", part) for part in parts).estimate() for e in (a, b)
    )
    exact = a.evaluate("pi") - b.evaluate("pi")
    found = difference(one, other)
    assert_allclose(found.value, exact.value, rtol=1e-12)
    assert_allclose(found.standard_error, exact.standard_error, rtol=1e-12)
    assert_allclose(found.degrees_of_freedom, exact.degrees_of_freedom)


def test_differences_need_the_same_groups(logs):
    one = summary_of(logs)
    plain = summary_of(logs.replace(group=None))
    with pytest.raises(ValueError, match="needs sums by groups"):
        difference(one.estimate(), plain.estimate())
    fewer = summary_of(logs[:30])
    with pytest.raises(ValueError, match="50 groups and 30 groups"):
        difference(one.estimate(), fewer.estimate())
    stored = Summary.from_table(one.to_table(n_buckets=20), one)
    with pytest.raises(ValueError, match="of 20 hash buckets"):
        difference(one.estimate(), stored.estimate())
    lost = one.estimate().without_error()
    assert np.isnan(difference(one.estimate(), lost).standard_error)


def test_labels_of_several_types_meet():
    def sums(clusters, strata, values):
        n = len(values)
        codes = np.arange(n) % len(clusters), np.arange(n) % len(strata)
        labels = np.empty(len(clusters), dtype=object)
        labels[:] = clusters
        design = Design(n, None, codes[1], strata, codes[0], labels)
        out = Sums(design)
        out.add(design.block(0, n), (np.asarray(values, dtype=float),))
        return out

    one = sums([1, "b"], ["x", 2], [1, 2, 3, 4])
    other = sums(["b", (1, 2)], [2, "y"], [5, 6, 7, 8])
    whole = one + other
    assert whole.frame.strata == ["x", 2, "y"]
    assert whole.frame.clusters.tolist() == [1, "b", (1, 2)]
    assert_allclose(whole.frame.count, [2, 4, 2])
    assert_allclose(Estimate(whole, mean).value, 4.5)
    back = other + one
    assert back.frame.clusters.tolist() == ["b", (1, 2), 1]
    found = difference(Estimate(whole, mean), Estimate(back, mean))
    assert_allclose([found.value, found.standard_error], 0, atol=1e-14)


def test_sums_of_parts_are_about_the_mean_whichever_comes_first():
    def sums(values):
        design = Design(len(values))
        out = Sums(design, offset=values[0], moves=-1)
        out.add(design.block(0, len(values)), (values - values[0],))
        return out

    values = np.append(1e4, np.random.RandomState(0).rand(1000))
    for first, other in ((values[:1], values[1:]), (values[1:], values[:1])):
        whole = sums(first) + sums(other)
        assert whole.offset == values[1]
        assert_allclose(whole.origin, values.mean() - values[1])
        found = Estimate(whole, mean)
        assert_allclose(found.value, values.mean(), rtol=1e-13)
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert_allclose(found.standard_error, error, rtol=1e-13)


def test_sums_of_many_strata_and_parts_stay_fast():
    n, n_arms = 20_000, 4000
    rng = np.random.RandomState(0)
    labels = [("stratum", k) for k in range(n_arms)]
    values, arm = rng.rand(n), rng.randint(n_arms, size=n)
    parts = []
    for rows in np.array_split(rng.permutation(n), 5):
        design = Design(len(rows), None, arm[rows], labels)
        sums = Sums(design)
        sums.add(design.block(0, len(rows)), (values[rows],))
        parts.append(sums)
    whole = sum(parts)
    assert whole.frame.strata == labels
    assert_allclose(Estimate(whole, mean).value, values.mean(), rtol=1e-12)
    table = Sums.from_table(whole.to_table())
    assert table.frame.strata == labels


def test_the_form_of_a_summary_is_called_with_sums_and_tally(logs):
    found = summary_of(logs)
    assert isinstance(found.form, partial)
    assert BanditLogs not in map(type, found.form.args)
