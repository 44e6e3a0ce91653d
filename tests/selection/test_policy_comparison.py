# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import warnings

import numpy as np
import pytest
from scipy.stats import t

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    compare_policies,
)
from skope_ope.displays import PolicyComparisonDisplay
from skope_ope.exceptions import ZeroBaselineWarning
from tests.selection._logs import three_policies

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


@pytest.fixture
def found():
    logs, policies = three_policies()
    how = {"evaluator": SNIPS(), "baseline": "uniform", "level": 0.9}
    return compare_policies(policies, logs, **how)


def test_intervals_hold_together(found):
    assert found.level_of_each == pytest.approx(1 - 0.1 / 2)
    for record in found.to_records():
        name = record["policy"]
        low, high = found[name].confidence_interval(1 - (1 - 0.9) / 3)
        assert (record["low"], record["high"]) == (low, high)
        if name != "uniform":
            gain = found.differences[name]
            low, high = gain.confidence_interval(1 - (1 - 0.9) / 2)
            assert (record["difference_low"], record["difference_high"]) == (low, high)
            assert record["difference"] == gain.value
    assert np.isnan(found.to_records()[0]["difference"])
    assert found.to_records()[0]["answer"] == ""


def test_relative_gains_stand_beside_the_gains(found):
    baseline, *others = found.to_records()
    names, answers = ("lift", "lift_low", "lift_high"), set()
    assert np.isnan([baseline[name] for name in names]).all()
    assert list(found.lifts) == list(found.differences)
    for record in others:
        name, reference = record["policy"], found.reference
        lift = found[name].lift(reference)
        assert lift.gain == found.lifts[name].gain == found.differences[name].value
        ratio = found[name].value / reference.value
        assert lift.value == pytest.approx(ratio - 1, rel=1e-12)
        assert record["lift"] == lift.value == found.lifts[name].value
        limits = lift.confidence_interval(1 - (1 - 0.9) / 2)
        assert (record["lift_low"], record["lift_high"]) == limits
        for end in ("low", "high"):  # a relative gain never contradicts its gain
            gain = record[f"difference_{end}"]
            assert np.sign(record[f"lift_{end}"]) == np.sign(gain)
        answers.add(record["answer"])
    assert len(answers) == 2
    again = found.to_records(0.99)[1]
    assert again["lift_low"] < others[0]["lift_low"]


def test_a_baseline_that_may_be_zero_has_no_relative_gain():
    logs, policies = three_policies()
    fields = logs.context, logs.action, logs.reward - logs.reward.mean()
    logs = type(logs)(*fields, logs.propensity)
    policies = {"fitted": policies["fitted"]}
    with warnings.catch_warnings():  # the table says it, and nothing else
        warnings.simplefilter("error", ZeroBaselineWarning)
        [record] = compare_policies(policies, logs, evaluator=SNIPS()).to_records()
    assert np.isnan([record["lift"], record["lift_low"], record["lift_high"]]).all()
    assert np.isfinite(record["difference"])


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
def test_p_values_agree_with_intervals(level):
    logs, policies = three_policies()
    for evaluator in (IPS(), SNIPS()):
        how = {"evaluator": evaluator, "baseline": "uniform", "level": level}
        found = compare_policies(policies, logs, **how)
        for record in found.to_records()[1:]:
            inside = record["difference_low"] <= 0 <= record["difference_high"]
            assert inside == (record["p_value"] >= 1 - level)
            gain = found.differences[record["policy"]]
            p = record["p_value"]
            if 1e-9 < p < 1:  # at its own level an end of the interval is zero
                ends = gain.confidence_interval(1 - p / 2)
                assert min(map(abs, ends)) < 1e-6 * (ends[1] - ends[0])


def test_p_values_of_student():
    logs, policies = three_policies()
    logs = type(logs)(logs.context, logs.action, logs.reward + 0.5, logs.propensity)
    found = compare_policies(policies, logs, evaluator=IPS(), baseline="uniform")
    for name, gain in found.differences.items():
        assert gain.confidence_interval(0.95).method == "student"
        ratio = abs(gain.value) / gain.standard_error
        raw = 2 * t.sf(ratio, gain.degrees_of_freedom)
        assert found.p_values[name] == pytest.approx(min(2 * raw, 1), abs=1e-9)


def test_another_level_gives_its_own_answers():
    logs, policies = three_policies()
    policies = {name: policies[name] for name in ("fitted", "mixed")}
    how = {"evaluator": SNIPS(), "baseline": "fitted"}
    found = compare_policies(policies, logs[:150], **how)
    gain, p = found.differences["mixed"], found.p_values["mixed"]
    assert 1e-9 < p < 1
    for level, answer in ((1 - 1.01 * p, "worse"), (1 - 0.99 * p, "cannot tell")):
        record = found.to_records(level)[1]
        ends = gain.confidence_interval(level)
        assert (record["difference_low"], record["difference_high"]) == ends
        assert record["answer"] == answer


def test_text_and_its_numbers(found):
    lines = repr(found).splitlines()
    header = lines[0]
    assert header.index("gain over uniform") < header.index("value")
    assert "90% low" in header and "rounds needed" in header
    assert lines[1].startswith("uniform (baseline)") and " - " in lines[1]
    assert " ".join(lines[4:]).startswith(found.sentence)
    assert "each alone has the level 95%" in repr(found)
    assert "The intervals of values hold together" in " ".join(lines)
    baseline, *rows = (line.split() for line in repr(found).splitlines()[1:4])
    for column in (1, 2, 3, -3, -2, -1):
        texts = [row[column] for row in rows + [baseline] * (column < 0)]
        assert len({len(text.split(".")[1]) for text in texts}) == 1
    assert all(row[1][0] in "+-" for row in rows)


def test_text_says_that_nobody_audited_and_what_a_round_is():
    logs, policies = three_policies()
    found = compare_policies(policies, logs)
    low, high = found.reference.confidence_interval(0.95)
    text = "The logger, the system that made the log: "
    text += f"{logs.reward.mean():.3f} ({low:.3f} to {high:.3f})."
    assert text in repr(found) and text in found._repr_html_()  # below the table
    text = " ".join(repr(found).split())
    assert text.endswith("does not audit the log: audit(policy, logs) does.")
    assert "each is wider than in evaluate" in text
    assert "A group has" not in text
    grouped = logs.replace(group=np.arange(len(logs)) // 4)
    text = " ".join(repr(compare_policies(policies, grouped)).split())
    assert "per round. A group has 4.00 rounds on average" in text


def test_a_limit_that_is_not_zero_does_not_look_like_zero():
    n = 400
    rng = np.random.default_rng(0)
    action = np.arange(n) % 2
    reward = rng.normal(size=n)
    logs = BanditLogs(np.zeros((n, 1)), action, reward, np.full(n, 0.5))
    compared = compare_policies({"one": ConstantPolicy(1)}, logs, evaluator=IPS())
    (gain,) = compared.differences.values()
    low, _ = gain.confidence_interval()
    shifted = logs.replace(reward=reward + np.where(action, 1, -1) * (0.0004 - low))
    compared = compare_policies({"one": ConstantPolicy(1)}, shifted, evaluator=IPS())
    low = compared.to_records()[0]["difference_low"]
    assert 0 < low < 0.005
    assert float(repr(compared).splitlines()[1].split()[2]) > 0


def test_html_and_pickle(found):
    text = found._repr_html_()
    assert "gains over uniform" in text and found.sentence in text
    hostile = type(found)({"<b>": found["fitted"]}, found["uniform"], "uniform")
    assert "<b>" not in hostile._repr_html_()
    again = pickle.loads(pickle.dumps(found))
    assert again.sentence == found.sentence and repr(again) == repr(found)


def test_frame(found):
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert frame.index.tolist() == list(found) and frame.index.name == "policy"
    assert frame.columns[0] == "difference"
    assert frame.loc["fitted", "value"] == found["fitted"].value


def test_plot(found, pyplot):
    display = found.plot()
    assert isinstance(display, PolicyComparisonDisplay) and display.ax_.has_data()
    assert display.level == 0.9
