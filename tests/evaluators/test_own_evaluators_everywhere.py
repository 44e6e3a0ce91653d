# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators of a user's own give one answer wherever the rounds lie, and a right one.

Right is what numpy computes of all rounds at once, see `_own_evaluators`. An interval
has no such line: it holds its value, is that of the package's own evaluator of the same
formula, and is the same everywhere.
"""

from functools import partial, reduce
from operator import add

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    DoublyRobust,
    FunctionPolicy,
    UniformPolicy,
    audit,
    compare_policies,
    evaluate,
    report,
    scan_logs,
    summarize,
    verdict,
)
from skope_ope.evaluators import ValueSummary
from skope_ope.policies import action_probabilities
from tests.evaluators import _own_evaluators as own
from tests.evaluators._parquet_worlds import lazy_world
from tests.judge import _bandit_worlds as bandits
from tests.judge._evaluators import RIDGE
from tests.judge._sources import FOLDS, frame_world, in_columns
from tests.judge._worlds import traits_of

quiet = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
N_WORLDS, N_DEFAULT = 300, 20
WORLDS = [
    pytest.param(i, marks=() if i < N_DEFAULT else pytest.mark.thorough)
    for i in range(N_WORLDS)
]
KEPT = ("value", "error", "low", "high")
# As the guide says: frames know the largest weight, and not how rare it is, and a part
# that lacks an action knows its largest weight for each action, and not for each round.
WIDER = 1.5


def world_of(i):
    """A drawn world, whose second policy is certain in every third."""
    kind = bandits.KINDS[i % len(bandits.KINDS)]
    world = bandits.bandit_world(kind, traits_of(i), 5000 + i)
    if i % 3 == 0:
        pi = world.logs.columns["pi"]
        certain = np.eye(pi.shape[1])[pi.argmax(axis=1)]
        world.logs = world.logs.with_columns(certain=certain)
        world.policies = ("pi", "certain")
    return world


def predicting(logs):
    """A policy that predicts from the context, where all actions are offered."""
    if logs.available is not None:
        return UniformPolicy()
    slopes = np.random.RandomState(0).normal(size=(2, logs.n_actions))
    return FunctionPolicy(lambda x: softmax(np.asarray(x) @ slopes, axis=1))


def evaluators_of(i, logs):
    """One evaluator of every kind, with parameters and a model that are drawn."""
    rng = np.random.RandomState(i)
    model = ("q_hat", float(np.round(logs.reward.mean(), 2)))[rng.randint(2)]
    found = {
        "weights": [
            own.LogIPS(scale=rng.choice([0.0, 0.5, 2.0])),
            own.SquareRoot(),
            own.OftenTaken(),
        ],
        "ratio": [own.OverlapIPS(), own.SpreadOfWeights()],
        "no weights": [
            own.LikelyReward(),
            own.ModelGain(reward_model=model),
            own.MixedModel(reward_model=model),
        ],
        "both": [
            own.CappedDR(cap=rng.choice([0.5, 2.0, 5.0]), reward_model=model),
            own.RatioDR(reward_model=model),
        ],
    }
    chosen = {name: some[rng.randint(len(some))] for name, some in found.items()}
    if logs.propensity is None:
        chosen = {"no weights": chosen["no weights"]}
    return chosen


def arrays_of(logs, policy, model=0.0):
    """All rounds as the formulas of numpy take them."""
    pi = logs.columns[policy] if isinstance(policy, str) else policy
    q = logs.columns[model] if isinstance(model, str) else np.full(pi.shape, model)
    rows, code, p = np.arange(len(logs)), logs.action_index, logs.propensity
    taken = pi[rows, code]
    return own.Arrays(
        None if p is None else taken / p, taken, logs.reward, q[rows, code],
        (pi * q).sum(axis=1), logs.sample_weight, logs.group,
    )  # fmt: skip


# -- answers: {what is asked: numbers} -------------------------------------------------
def literally(evaluator, logs, policies):
    """What numpy says of two policies, their difference, and days."""
    model = getattr(evaluator, "reward_model", 0.0)
    new, other = (arrays_of(logs, one, model) for one in policies)
    (value, rounds), (less, others) = (evaluator.plain(one) for one in (new, other))
    logged = new.mean(new.r)
    found = {
        "new": new.spread(value, rounds),
        "other": other.spread(less, others),
        "minus": new.spread(value - less, rounds - others),
        "gain": new.spread(value - logged, rounds - new.r),
    }
    for day in range(3):
        part = new.rows(np.asarray(logs.columns["day"]) == day)
        found[f"day {day}"] = part.spread(*evaluator.plain(part))
    return found


def of_rewards(evaluator):
    """Whether a value is a mean reward, so that it lies in their range."""
    return getattr(evaluator, "estimates_rewards", True)


def numbers(value, interval=True):
    """Value, standard error and the limits of the default interval."""
    limits = value.confidence_interval()[:2] if interval else ()
    return np.array([value.value, value.standard_error, *limits])


def told(table, name, evaluator):
    """The same of a table of values."""
    ask = partial(numbers, interval=of_rewards(evaluator))
    new, other = (table[policy, name] for policy in ("new", "other"))
    found = {"new": ask(new), "other": ask(other), "minus": ask(new - other)}
    return found | {f"day {day}": ask(one) for day, one in by_day(new).items()}


def by_day(value):
    """Values of days, which lazy frames have to be asked for beforehand."""
    try:
        return value.by("day")
    except (TypeError, ValueError) as refused:
        assert "by=" in str(refused) or "rounds" in str(refused)
        return {}


def of_comparison(evaluator, logs, policies):
    found = compare_policies(policies, logs, evaluator=evaluator)
    return {"gain": numbers(found.differences["new"], of_rewards(evaluator))}


def disagreements(found, expected, scale, wider=1.0):
    """What two sources say differently."""
    wrong = {}
    for ask in found.keys() & expected.keys():
        for what, one, other in zip(KEPT, found[ask], expected[ask], strict=False):
            near = 1e-12 if what == "value" else 1e-9
            same = np.isclose(one, other, rtol=near, atol=near * scale, equal_nan=True)
            if not same and what in ("low", "high"):
                below, above = (expected[ask][k] - found[ask][k] for k in (2, 3))
                new, old = (np.ptp(one[ask][2:]) for one in (found, expected))
                rounding = near * scale
                same = below >= -rounding and above <= rounding and new <= wider * old
            if not same:
                wrong[f"{ask} {what}"] = (one, other)
    return wrong


def check_literally(found, evaluator, world, scale):
    expected = literally(evaluator, world.logs, world.policies)
    wrong = disagreements(
        found, {ask: np.array(one) for ask, one in expected.items()}, scale
    )
    assert not wrong, evaluator
    ends = world.logs.reward_range or (-np.inf, np.inf)
    if np.isin(world.logs.reward, (0, 1)).all():
        ends = (0.0, 1.0)
    for ask, (value, _, *limits) in found.items():
        if limits and np.isfinite(limits).all():
            if ask not in ("minus", "gain"):  # a mean of weighted rewards may leave it
                value = np.clip(value, *ends)
            near = 1e-12 * scale
            assert limits[0] - near <= value <= limits[1] + near, ask


def scale_of(logs):
    return max(1.0, float(np.abs(logs.reward).max()))


def days_of(logs, policies, evaluators, path):
    """Days that are summed apart, added, saved and loaded."""
    day = np.asarray(logs.columns["day"])
    how = {"evaluators": evaluators, "by": "day"}
    some = [summarize(policies, logs[day == one], **how) for one in np.unique(day)]
    reduce(add, some).save(path)
    return ValueSummary.load(path, evaluators).values()


@pytest.mark.parametrize("i", WORLDS)
@quiet
def test_memory_and_days(i, tmp_path):
    world = world_of(i)
    logs, scale = world.logs, scale_of(world.logs)
    evaluators = evaluators_of(i, logs)
    policies = dict(zip(("new", "other"), world.policies, strict=True))
    table = evaluate(policies, logs, evaluators=evaluators)
    summed = summarize(policies, logs, evaluators=evaluators, by="day").values()
    days = days_of(logs, policies, evaluators, tmp_path / "summary.npz")
    for name, evaluator in evaluators.items():
        found = told(table, name, evaluator)
        check_literally(found, evaluator, world, scale)
        gain = of_comparison(evaluator, logs, policies)
        check_literally(gain, evaluator, world, scale)
        fitted = clone(evaluator).fit(logs)
        arrays = numbers(fitted.evaluate(logs.columns[world.policies[0]]), False)
        assert not disagreements({"new": arrays}, found, scale)
        for source in (summed, days):
            assert not disagreements(told(source, name, evaluator), found, scale)
    check_objects(world, evaluators)


def check_objects(world, evaluators):
    """A policy that predicts is one that was recorded."""
    logs, policy = world.logs, predicting(world.logs)
    table = action_probabilities(policy, logs)
    for evaluator in evaluators.values():
        fitted = clone(evaluator).fit(logs)
        model = getattr(evaluator, "reward_model", 0.0)
        rounds = arrays_of(logs, table, model)
        expected = {"new": np.array(rounds.spread(*evaluator.plain(rounds)))}
        found = {"new": numbers(fitted.evaluate(policy), False)}
        assert not disagreements(found, expected, scale_of(logs))


@pytest.mark.frames
@pytest.mark.parametrize("i", WORLDS)
@quiet
def test_files_and_frames(i, tmp_path):
    for package in ("pyarrow", "narwhals", "polars", "duckdb"):
        pytest.importorskip(package)
    world = world_of(i)
    if not in_columns(world):
        pytest.skip("columns cannot say all that these logs know")
    logs, scale = world.logs, scale_of(world.logs)
    evaluators = evaluators_of(i, logs)
    policies = dict(zip(("new", "other"), world.policies, strict=True))
    table = evaluate(policies, logs, evaluators=evaluators)
    # by default a world has one of the two
    if i % 2 or i >= N_DEFAULT:
        check_frame(i, world, policies, evaluators, table)
    if i % 2 == 0 or i >= N_DEFAULT:
        files = lazy_world(logs, tmp_path, np.random.RandomState(i), n_files=2)
        wider = WIDER if lacks_an_action(tmp_path, logs.n_actions) else 1.0
        wrong = partial(disagreements, scale=scale, wider=wider)
        check_files(policies, files, evaluators, table, wrong)
        one = list(evaluators.values())[i % len(evaluators)]
        check_calls(i, world, files, policies, one, wrong)


def check_frame(i, world, policies, evaluators, table):
    """A database computes arithmetic of columns, and says what it cannot."""
    frame = frame_world(world.logs, ("polars", "duckdb")[i // 2 % 2])
    evaluators = dict(evaluators)
    if isinstance(evaluators.get("weights"), own.SquareRoot):
        beyond = {"weights": evaluators.pop("weights")}
        with pytest.raises(TypeError, match="power cannot be computed inside a lazy f"):
            evaluate(policies, frame, evaluators=beyond)
    values = evaluate(policies, frame, evaluators=evaluators)
    for name, evaluator in evaluators.items():
        found, expected = (told(one, name, evaluator) for one in (values, table))
        assert not disagreements(found, expected, scale_of(world.logs), WIDER), name


def lacks_an_action(folder, n_actions):
    """Whether a row group of the files does, or a day of one."""
    from pyarrow import parquet

    files = [parquet.ParquetFile(path) for path in folder.glob("*.parquet")]
    for file, k in ((one, k) for one in files for k in range(one.num_row_groups)):
        columns = file.read_row_group(k, ["day", "action"]).to_pydict()
        pairs = set(zip(columns["day"], columns["action"], strict=True))
        if len(pairs) < len(set(columns["day"])) * n_actions:
            return True
    return False


def check_files(policies, files, evaluators, table, wrong):
    """Rows of files are asked again for days; those of saved sums were named before."""
    values = evaluate(policies, files, evaluators=evaluators)
    summary = summarize(policies, files, evaluators=evaluators, by="day").values()
    for name, evaluator in evaluators.items():
        expected = told(table, name, evaluator)
        for found in (values, summary):
            assert not wrong(told(found, name, evaluator), expected), name


def check_calls(i, world, files, policies, evaluator, wrong):
    """Comparisons, a model that is fitted and a policy that predicts, as in memory."""
    logs = world.logs
    memory, read = (of_comparison(evaluator, one, policies) for one in (logs, files))
    assert not wrong(read, memory)
    if hasattr(evaluator, "reward_model"):
        evaluator = clone(evaluator).set_params(reward_model=RIDGE, cv=FOLDS)
    policy = (world.policies[0], predicting(logs))[i // 4 % 2]
    memory, read = (
        numbers(clone(evaluator).fit(one).evaluate(policy), of_rewards(evaluator))
        for one in (logs, files)
    )
    assert not wrong({"new": read}, {"new": memory})


@pytest.mark.frames
@quiet
def test_a_part_without_a_round_that_counts(tmp_path):
    """The first has one round, of weight 0; the policy takes the second action."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {
            "part": [1, 3, 3, 4, 4, 4, 4], "day": [0, 2, 0, 0, 1, 2, 0],
            "omega": [0, 1, 1, 1, 1, 1, 1], "action": [1, 0, 0, 0, 0, 0, 1],
            "p": 0.5, "reward": [1, 0, 1, 1, 0, 1, 1],
            "new_0": 0.0, "new_1": 1.0, "q": 0.5,
        }
    )  # fmt: skip
    for part, some in frame.groupby("part"):
        some.to_parquet(tmp_path / f"{part}.parquet")
    files = scan_logs(
        tmp_path, action="action", reward="reward", propensity="p",
        sample_weight="omega", actions=[0, 1],
        columns={"new": ["new_0", "new_1"], "q": ["q", "q"], "day": "day"},
    )  # fmt: skip
    evaluators = [IPS(), SNDR(reward_model="q")]
    table = summarize("new", files, evaluators=evaluators, by="day").values()
    assert abs(table["IPS"].value - 1 / 3) < 1e-12
    assert abs(table["SNDR"].value - 1.0) < 1e-12


# -- what the package has under another name -------------------------------------------
class OwnSNIPS(own.OverlapIPS):
    leaves_bias_out = False

    def weights(self, w):
        return w


@pytest.mark.parametrize(
    ("evaluator", "twin"),
    [
        (own.LogIPS(scale=0.0), IPS()),
        (OwnSNIPS(), SNIPS()),
        (own.CappedDR(cap=2.0, reward_model="q_hat"), DoublyRobust(cmax=2.0)),
        (own.RatioDR(reward_model="q_hat"), SNDR()),
    ],
    ids=["IPS", "SNIPS", "DoublyRobust", "SNDR"],
)
@pytest.mark.parametrize("i", range(0, 60, 10))
@quiet
def test_intervals_are_those_of_the_same_formula_of_the_package(
    i, evaluator, twin, tmp_path
):
    world = world_of(i)
    if hasattr(twin, "reward_model"):
        twin = clone(twin).set_params(reward_model="q_hat")
    policies = dict(zip(("new", "other"), world.policies, strict=True))
    pair = {"own": evaluator, "theirs": twin}
    tables = [
        evaluate(policies, world.logs, evaluators=pair),
        days_of(world.logs, policies, pair, tmp_path / "summary.npz"),
    ]
    for table in tables:
        found, expected = (told(table, name, one) for name, one in pair.items())
        assert not disagreements(found, expected, scale_of(world.logs))


@pytest.mark.parametrize("i", range(0, 300, 60))
@quiet
def test_audits_verdicts_and_reports(i, tmp_path):
    world = world_of(i)
    policies = dict(zip(("new", "other"), world.policies, strict=True))
    evaluators = {
        name: one
        for name, one in evaluators_of(i, world.logs).items()
        if of_rewards(one)
    }
    table = evaluate(policies, world.logs, evaluators=evaluators)
    audited = audit(policies["new"], world.logs)
    page = report(policies, world.logs, tmp_path / "page.html", evaluators=evaluators)
    for name in evaluators:
        value = table["new", name]
        assert verdict(value, audit=audited).answer
        assert page.values["new", name].value == value.value
        assert name in (tmp_path / "page.html").read_text()
    assert page.decision
