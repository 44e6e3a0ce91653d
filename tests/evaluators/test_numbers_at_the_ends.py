# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rewards of any size: numbers scale with them, or are NaN with a sentence."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    AdaptiveDR,
    AdaptiveIPS,
    BanditLogs,
    CascadeDR,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    EpsilonGreedy,
    ExplorationScavenging,
    FunctionPolicy,
    IndependentSlotIPS,
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    PlackettLuceSlatePolicy,
    PseudoInverse,
    RejectionSampling,
    Replay,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
    SoftmaxPolicy,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    UniformPolicy,
    UniformSlatePolicy,
    audit,
    compare_policies,
    evaluate,
    report,
    scan_logs,
    summarize,
)
from skope_ope.exceptions import OPEWarning
from skope_ope.reward_models import AdditiveSlateModel

SCALES = [10.0**k for k in (-300, -165, -140, -80, 80, 140, 165, 300)]
N, RNG = 240, np.random.RandomState(0)
X, MU = RNG.normal(size=(N, 2)), np.array([0.5, 0.3, 0.2])
ACTION, WHO = RNG.choice(3, N, p=MU), RNG.randint(2, size=N)
REWARDS = {"0/1": (RNG.rand(N) < 0.3).astype(float), "normal": RNG.normal(size=N)}
Q, PI = RNG.normal(size=(N, 3)), np.array([0.2, 0.3, 0.5])
SLATES = np.array([RNG.permutation(4)[:2] for _ in range(N)])
CLICKS = RNG.rand(N, 2) * (RNG.rand(N, 2) < 0.4)
POLICY = FunctionPolicy(lambda X: np.tile(PI, (len(X), 1)))
RANKS = PlackettLuceSlatePolicy(np.arange(1.0, 5), 2)
PLAIN = MRDR(), IPS(), SNIPS(), SubGaussianIPS(), AdaptiveIPS(), ExplorationScavenging()
PLAIN += Replay(random_state=0), RejectionSampling(random_state=0)
PLAIN = {type(one).__name__: one for one in PLAIN} | {"naive": MultiLoggerIPS()}
PLAIN["balanced"] = MultiLoggerIPS(pooling="balanced", self_normalized=True)
MODELLED = [DirectMethod, DoublyRobust, SNDR, DRos, SubGaussianDR, AdaptiveDR]
EVALUATORS = {
    **{cls.__name__: lambda s, cls=cls: cls(reward_model=Q * s) for cls in MODELLED},
    **{name: lambda s, one=one: one for name, one in PLAIN.items()},
    "SwitchDR": lambda s: SwitchDR(tau=1.2, reward_model=Q * s),
    "LogSmoothing": lambda s: LogSmoothing(lam=0.1 / s),
    "DRns": lambda s: DRns(reward_model=Q * s, random_state=0),
    "weighted": lambda s: MultiLoggerDR(pooling="weighted", reward_model=Q * s),
}


def logs_of(kind, scale, name=""):
    p = np.full(N, 1 / 3) if name == "Replay" else MU[ACTION]
    given = {"reward_range": (0, scale) if kind == "0/1" else None}
    if name in ("naive", "balanced", "weighted"):
        given |= {"logger": WHO, "logger_proba": np.column_stack([p, p])}
    return BanditLogs(X, ACTION, REWARDS[kind] * scale, p, **given)


def numbers(value, scale):
    """What a value says, over the scale, and all of its warnings."""
    told = list(value.warnings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OPEWarning)
        interval = value.confidence_interval()
        assert isinstance(repr(value), str) and isinstance(value._repr_html_(), str)
    told += [one.message for one in caught]
    return np.array([value.value, value.standard_error, *interval]) / scale, told


def check_law(found, expected):
    """Numbers are those of scale one, or NaN, and then a sentence says why."""
    (numbers, told), (others, _) = found, expected
    lost = np.isnan(numbers)
    assert_allclose(numbers[~lost], others[~lost], rtol=1e-9, atol=1e-12)
    assert not lost[0] or np.isnan(others[0])
    if (lost & ~np.isnan(others)).any():
        [one, *_] = [one for one in told if one.name == "extreme_rewards"]
        assert "leave the range of floats" in str(one)
        assert "Rescale the rewards: reward * 1e" in str(one)


def check_scales(found, scales=SCALES):
    """All pairs of numbers and warnings that are found at a scale keep the law."""
    expected = found(1.0)
    for scale in scales:
        for one, other in zip(found(scale), expected, strict=True):
            check_law(one, other)


def merged(policy, logs, evaluators):
    """The table of two parts that were added up."""
    how, parts = {"evaluators": evaluators}, (logs[:100], logs[100:])
    return sum(summarize({"new": policy}, one, **how) for one in parts).values()


@pytest.fixture(autouse=True)
def only_words_of_ours():
    """Warnings of numpy are errors; those of the package are looked at by the tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", OPEWarning)
        yield


def value_of(name, kind, scale):
    return EVALUATORS[name](scale).fit(logs_of(kind, scale, name)).evaluate(POLICY)


@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("name", EVALUATORS)
def test_values(name, kind):
    if name == "LogSmoothing" and kind == "normal":
        return  # it takes no negative rewards

    def found(scale):
        value = value_of(name, kind, scale)
        assert np.isfinite(value.value) and value.standard_error != 0
        return [numbers(value, scale)]

    check_scales(found)


@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("name", ["IPS", "SNIPS", "DoublyRobust", "naive", "Replay"])
def test_differences_groups_and_gains(name, kind):
    def found(scale):
        evaluator = EVALUATORS[name](scale).fit(logs_of(kind, scale, name))
        value, other = evaluator.evaluate(POLICY), evaluator.evaluate(UniformPolicy())
        lift = value.lift(other)
        assert np.isnan(lift.value) or scale == 1 or 1e-100 < scale < 1e100
        if name == "SNIPS":
            assert repr(value.sensitivity())
        return [numbers(one, scale) for one in (value - other, *value.by(WHO).values())]

    check_scales(found)


@pytest.mark.frames
@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("where", ["table", "summary", "merged", "file", "frame"])
def test_sources(where, kind, tmp_path):
    pandas = pytest.importorskip("pandas")
    roles = {"action": "a", "reward": "r", "propensity": "p", "context": ["x"]}
    names = ["IPS", "SNIPS", "DoublyRobust", "SNDR"][: 2 if where == "frame" else 4]

    def table_of(logs):
        about = roles | {"reward_range": logs.reward_range}
        columns = {"x": X[:, 0], "a": ACTION, "r": logs.reward, "p": MU[ACTION]}
        frame = pandas.DataFrame(columns | dict(zip("def", PI, strict=True)))
        if where == "table":
            return evaluate(POLICY, logs, evaluators=names)
        if where == "summary":
            return summarize({"new": POLICY}, logs, evaluators=names).values()
        if where == "merged":
            return merged(POLICY, logs, names)
        if where == "file":
            frame.to_csv(path := tmp_path / "log.csv", index=False)
            return evaluate(POLICY, scan_logs(path, **about), evaluators=names)
        lazy = pytest.importorskip("polars").from_pandas(frame).lazy()
        lazy = scan_logs(lazy, **about, columns={"pi": ["d", "e", "f"]})
        return evaluate("pi", lazy, evaluators=names)

    def found(scale):
        table = table_of(logs_of(kind, scale))
        assert repr(table) and table._repr_html_()
        return [numbers(one, scale) for one in table.values()]

    check_scales(found)


@pytest.mark.parametrize(
    "evaluator",
    [
        PseudoInverse(),
        PseudoInverse(self_normalized=True),
        PseudoInverse(control_variates="single"),
        SlateIPS(),
        SlateDoublyRobust(reward_model=AdditiveSlateModel()),
        CascadeDR(),
        IndependentSlotIPS(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_slates(evaluator):
    def found(scale):
        given = {"n_candidates": 4, "logging_policy": UniformSlatePolicy(2)}
        given |= {"slot_reward": CLICKS * scale, "reward_range": (0, 2 * scale)}
        logs = SlateLogs(X, SLATES, CLICKS.sum(axis=1) * scale, **given)
        values = [evaluator.fit(logs).evaluate(RANKS)]
        if not isinstance(evaluator, CascadeDR):
            values += merged(RANKS, logs, {"own": evaluator}).values()
        return [numbers(one, scale) for one in values]

    # a model of slates takes its time
    check_scales(found, SCALES[:: 2 if isinstance(evaluator, SlateDoublyRobust) else 1])


@pytest.mark.parametrize("evaluator", [Replay, RejectionSampling, DRns])
def test_policies_that_learn(evaluator):
    def found(scale):
        logs = logs_of("0/1", scale, "Replay")
        fitted = evaluator(horizon=10, random_state=0).fit(logs)
        return [numbers(fitted.evaluate(EpsilonGreedy(0.1)), scale)]

    check_scales(found)


@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("scale", SCALES)
def test_pages_and_decisions(scale, kind, tmp_path):
    logs, policies = logs_of(kind, scale), {"new": POLICY, "old": UniformPolicy()}
    for found in (compare_policies(policies, logs), audit(POLICY, logs), audit(logs)):
        assert repr(found) and found._repr_html_()
    report(policies, logs, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert ("leave the range of floats" in page) == (not 1e-60 < scale < 1e60)
    assert SoftmaxPolicy().fit(logs).predict_proba(X).shape == (N, 3)


@pytest.mark.parametrize("scale", [1e-165, 1.0, 1e165])
@pytest.mark.parametrize("name", ["IPS", "SNIPS", "DoublyRobust", "DRos", "naive"])
def test_tiny_propensities(name, scale):
    logs = logs_of("normal", scale, name)
    p = logs.propensity.copy()
    p[:3] = 1e-300, 1e-160, 1e-80
    given = {"logger_proba": np.column_stack([p, p])} if name == "naive" else {}
    fitted = EVALUATORS[name](scale).fit(logs.replace(propensity=p, **given))
    found, told = numbers(fitted.evaluate(POLICY), scale)
    assert np.isnan(found[1]) or found[1] > 0
    if np.isnan(found[1]):
        assert {"impossible_propensity", "extreme_rewards"} & {o.name for o in told}


def test_the_advice_works():
    value = value_of("IPS", "normal", 1e165)
    with pytest.warns(OPEWarning, match=r"is 3\.\d+e\+165, and .* reward \* 1e-165"):
        low, high = value.confidence_interval()
    assert np.isnan([low, high, value.standard_error]).all()
    logs = logs_of("normal", 1e165)
    again = IPS().fit(logs.replace(reward=logs.reward * 1e-165)).evaluate(POLICY)
    assert_allclose(value.value, again.value * 1e165)
    assert again.standard_error > 0 and again.confidence_interval().width > 0
