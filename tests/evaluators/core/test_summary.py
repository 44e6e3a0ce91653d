# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNIPS,
    ActionRewardModel,
    ConstantPolicy,
    DoublyRobust,
    FunctionPolicy,
    MultiLoggerIPS,
)
from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._estimate import Estimate, difference
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._summary import (
    evaluator_text,
    policy_text,
    stated_shares,
)
from skope_ope.evaluators.core._sums import Sums
from skope_ope.evaluators.parts import _part_sums
from skope_ope.evaluators.parts._part_sums import PartSums, sums_of_part
from tests.evaluators._reference_worlds import logged

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


@pytest.fixture(scope="module")
def logs():
    return logged(120, 3, 7, group=np.arange(120) * 7 % 50).logs


def sums_of(logs, evaluator=None, policy="pi", **params):
    evaluator = IPS() if evaluator is None else evaluator
    return sums_of_part({"a": policy}, {"one": evaluator}, logs, **params)


def estimate_of(sums):
    return sums.by_evaluator["one"].summary("a").estimate()


def test_sums_of_other_policies_or_evaluators_do_not_add_up(logs):
    one = sums_of(logs, IPS(cmax=5))
    for other in (
        sums_of_part({"b": "pi"}, {"one": IPS()}, logs),
        sums_of_part({"a": "pi"}, {"two": IPS()}, logs),
        sums_of_part({"a": "pi", "b": "pi"}, {"one": IPS()}, logs),
    ):
        with pytest.raises(ValueError, match="different evaluators or policies"):
            one + other
    with pytest.raises(ValueError, match="has groups and another has none"):
        one + sums_of(logs.replace(group=None), IPS(cmax=5))
    with pytest.raises(TypeError):
        one + 1


def test_models_and_policies_are_told_by_what_they_hold(logs):
    model = ActionRewardModel(Ridge()).fit(logs)
    other = ActionRewardModel(Ridge(alpha=100)).fit(logs)

    def of(model):
        return evaluator_text(DoublyRobust(reward_model=FrozenEstimator(model)))

    assert of(model) == of(pickle.loads(pickle.dumps(model))) != of(other)
    in_fit = DoublyRobust(cv="prefit").fit(logs, model)
    assert evaluator_text(in_fit) != evaluator_text(in_fit.fit(logs, other)) or (
        evaluator_text(DoublyRobust(cv="prefit").fit(logs, model))
        != evaluator_text(DoublyRobust(cv="prefit").fit(logs, other))
    )
    one, same = (policy_text(ConstantPolicy(1).fit(logs)) for _ in range(2))
    assert one == same != policy_text(ConstantPolicy(2).fit(logs))
    assert evaluator_text(IPS(cmax=5)) == "IPS(cmax=5)"


def test_what_has_no_name_needs_one(logs):
    with pytest.raises(ValueError, match=r"Pass policy_name=\.\.\., or add it"):
        policy_text(logs.columns["pi"])
    assert policy_text(logs.columns["pi"], "new") == "'new'" == policy_text("new")
    policy = FunctionPolicy(lambda X: np.full((len(X), 3), 1 / 3)).fit(logs)
    with pytest.raises(ValueError, match=r"For a policy, pass policy_name=\.\.\."):
        policy_text(policy)
    assert policy_text(policy, "uniform") == "'uniform'"


def test_one_logger_needs_no_shares():
    logs = logged(60, 3, 7).logs
    assert stated_shares(None, logs) == {"logger": 1.0}
    evaluator = MultiLoggerIPS(pooling="balanced").fit(logs)
    found = sums_of(logs[:20], evaluator) + sums_of(logs[20:], evaluator)
    assert_allclose(estimate_of(found).value, evaluator.evaluate("pi").value)


def test_sums_are_small_and_pickle_to_themselves(logs):
    found = sums_of(logs, DoublyRobust(reward_model="q_hat"))
    found.log = None  # it keeps a sample of rounds
    again = pickle.loads(pickle.dumps(found))
    assert len(pickle.dumps(found)) < 30_000
    assert estimate_of(again).value == estimate_of(found).value
    tables = (again + again).to_table(), (found + found).to_table()
    assert tables[0].keys() == tables[1].keys()
    for name, array in tables[0].items():
        assert np.asarray(array).tolist() == np.asarray(tables[1][name]).tolist()


def test_tables_hold_what_sums_hold(logs, tmp_path):
    for group in (None, np.arange(120), np.arange(120).astype(str).astype(object)):
        some = logs.replace(group=group)
        found = sums_of(some, SNIPS())
        np.savez(tmp_path / "table.npz", **found.to_table())
        with np.load(tmp_path / "table.npz", allow_pickle=False) as table:
            read = PartSums.from_table(table, found)
        one, other = estimate_of(read), estimate_of(found)
        assert (one.value, one.standard_error) == (other.value, other.standard_error)
        both = read + found
        assert (both.n, both.counts.n) == (240, 240)
        assert_allclose(estimate_of(both).value, one.value)
        assert read.to_table().keys() == found.to_table().keys()


def test_tables_keep_groups_of_several_columns(logs):
    pairs = [(k % 40, "a") for k in range(120)]
    found = sums_of(logs.replace(group=pairs))
    read = PartSums.from_table(found.to_table(), {"one": IPS()})
    assert read.sums["rounds"].frame.n_buckets is None
    assert len(read.sums["rounds"].frame.clusters) == 40
    assert len(found.bucketed(10).sums["rounds"].frame.clusters) <= 10


def test_many_groups_become_buckets(logs, monkeypatch):
    monkeypatch.setattr(_part_sums, "N_GROUPS", 49)
    parts = [sums_of(logs[k::3]) for k in range(3)]
    assert parts[0].sums["rounds"].frame.n_buckets is None  # 40 groups
    found = sum(parts).sums["rounds"].frame
    assert found.n_buckets == 1000


def test_differences_without_rounds(logs):
    a, b = IPS().fit(logs), SNIPS().fit(logs)
    parts = [sums_of_part({"a": "pi"}, {"a": a, "b": b}, logs[k::2]) for k in range(2)]
    one, other = (
        sum(parts).by_evaluator[name].summary("a").estimate() for name in "ab"
    )
    exact = a.evaluate("pi") - b.evaluate("pi")
    found = difference(one, other)
    assert_allclose(found.value, exact.value, rtol=1e-12)
    assert_allclose(found.standard_error, exact.standard_error, rtol=1e-12)
    assert_allclose(found.degrees_of_freedom, exact.degrees_of_freedom)


def test_differences_need_the_same_groups(logs):
    one = sums_of(logs)
    plain = sums_of(logs.replace(group=None))
    with pytest.raises(ValueError, match="needs sums by groups"):
        difference(estimate_of(one), estimate_of(plain))
    fewer = sums_of(logs[:30])
    with pytest.raises(ValueError, match="50 groups and 30 groups"):
        difference(estimate_of(one), estimate_of(fewer))
    with pytest.raises(ValueError, match="of 20 hash buckets"):
        difference(estimate_of(one), estimate_of(one.bucketed(20)))
    lost = estimate_of(one).without_error()
    assert np.isnan(difference(estimate_of(one), lost).standard_error)


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
