# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which row is recommended and which is marked, by rules that look at no value.

And what sentences call it, and how the shell names evaluators.
"""

import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    EpsilonGreedy,
    LogSmoothing,
    MultiLoggerDR,
    PseudoInverse,
    RankingPolicy,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateLogs,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    UniformPolicy,
    UniformSlatePolicy,
    compare_policies,
    evaluate,
    report,
    scan_logs,
)
from skope_ope.__main__ import main
from skope_ope.datasets import make_adaptive_logs, make_bandit_logs, make_slate_logs
from skope_ope.utils import all_evaluators
from tests._quiet import quiet
from tests.evaluators.core._asked import bare_logs
from tests.test_common import EVALUATORS

N = 60
CODE = np.arange(N) % 2
REWARD = (np.arange(N) % 3 == 0).astype(float)
PLAIN = BanditLogs(np.zeros((N, 1)), CODE, REWARD, np.full(N, 0.5))
UNKNOWN = PLAIN.replace(propensity=None)
PAIR = {"logger": np.arange(N) % 4 < 2, "logger_proba": np.full((N, 2), 0.5)}
LOGGERS = BanditLogs(np.zeros((N, 1)), CODE, REWARD, **PAIR)
SLATE = np.column_stack([CODE, 1 - CODE])
WHOLE_SLATES = SlateLogs(np.zeros((N, 1)), SLATE, REWARD, propensity=np.full(N, 0.5))
UNKNOWN_SLATES = WHOLE_SLATES.replace(propensity=None)
SLATES = UNKNOWN_SLATES.replace(logging_policy=UniformSlatePolicy(2))
OTHER_REWARDS = np.zeros(N), np.ones(N), np.arange(N) - 30.0
ignore_warnings = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def table_of(logs, evaluators=None):
    policy = UniformSlatePolicy(2) if isinstance(logs, SlateLogs) else UniformPolicy()
    return evaluate(policy, logs, evaluators=evaluators)


@ignore_warnings
@pytest.mark.parametrize(
    ("logs", "name", "evaluator"),
    [
        (PLAIN, "DoublyRobust", DoublyRobust()),
        (LOGGERS, "BalancedDR", MultiLoggerDR(pooling="balanced")),
        (LOGGERS[LOGGERS.logger], "DoublyRobust", DoublyRobust()),
        (UNKNOWN, None, None),
        (SLATES, "ControlledPI", PseudoInverse(control_variates="multiple")),
        (WHOLE_SLATES, "wIPS", None),
        (UNKNOWN_SLATES, None, None),
        # values do not change it
        *((PLAIN.replace(reward=r), "DoublyRobust", None) for r in OTHER_REWARDS),
    ],
)
def test_the_rule(logs, name, evaluator):
    table = table_of(logs)
    assert table.recommended == name
    assert table.reason and not table.reason.endswith(".")
    if name:
        assert not table[name].leaves_bias_out
    if evaluator:  # its form is known under any name
        assert table_of(logs, {"x": evaluator}).recommended == "x"


HALF, ONE = DoublyRobust(reward_model=0.5), DoublyRobust(reward_model=1.0)


@ignore_warnings
@pytest.mark.parametrize(
    ("logs", "evaluators", "name", "reason"),
    [
        (PLAIN, {"mine": DoublyRobust(reward_model=Ridge(), cv=3)}, "mine", ""),
        (PLAIN, {"IPS": IPS(), "SNIPS": IPS()}, None, "which was not asked for"),
        (PLAIN, {"clipped": DoublyRobust(cmax=2.0)}, None, ""),
        (PLAIN, {"DirectMethod": DirectMethod()}, None, ""),
        (PLAIN, {"a": HALF, "b": ONE}, None, "a, b differ only in their reward models"),
        (PLAIN, {"DoublyRobust": DoublyRobust(), "b": HALF}, "DoublyRobust", ""),
        (PLAIN, {"DoublyRobust": IPS()}, None, ""),
        (LOGGERS, {"x": MultiLoggerDR(pooling="naive")}, None, ""),
        (SLATES, {"x": PseudoInverse()}, None, ""),
    ],
)
def test_among_named_evaluators(logs, evaluators, name, reason):
    table = table_of(logs, evaluators)
    assert table.recommended == name
    assert table.reason and reason in table.reason


@pytest.mark.frames
def test_what_is_left_out_is_recommended_with_what_it_needs():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": CODE, "r": REWARD, "pi": np.full(N, 0.5)}).lazy()
    roles = {"action": "a", "reward": "r", "actions": [0, 1]}
    roles["columns"] = {"pi": ["pi", "pi"]}
    table = evaluate("pi", scan_logs(frame, propensity=0.5, **roles))
    told = "DoublyRobust would be recommended, but the logs lack predictions that are"
    assert table.recommended is None and table.reason.startswith(told)
    assert table.left_out == ("DoublyRobust", "SNDR")


# -- wrong propensities -------------------------------------------------------------
MISFIT = "the propensities do not fit the logged actions: trust no row of this table"


def drawn_logs(*claimed):
    """3,000 rounds of a logger of three actions that claims these probabilities."""
    random = np.random.RandomState(0)
    action = random.choice(3, 3000, p=[0.6, 0.3, 0.1])
    reward = (random.random_sample(3000) < 0.2).astype(float)
    return bare_logs(action, reward, np.array(claimed)[action])


@ignore_warnings
def test_wrong_propensities_are_the_first_to_be_told():
    logs = drawn_logs(0.1, 0.6, 0.3)
    table = table_of(logs)
    assert table.recommended == "DoublyRobust"
    assert table.reason.startswith(MISFIT)
    assert "unbiased" not in repr(table)
    other = table_of(logs, ["IPS"])
    assert other.recommended is None
    assert other.reason.startswith(MISFIT)
    assert "; these logs allow DoublyRobust" in other.reason
    # right ones leave the reason alone; a bias by design is no fault of theirs
    plain = table_of(PLAIN).reason
    assert table_of(drawn_logs(0.6, 0.3, 0.1)).reason == plain
    assert table_of(PLAIN, ["DoublyRobust", "DRos"]).reason == plain


@ignore_warnings
def test_weights_of_a_policy_that_copies_what_was_logged():
    logs = drawn_logs(0.6, 0.3, 0.1)
    copies = np.eye(3)[logs.action_index]
    table = evaluate({"copy": copies, "uniform": UniformPolicy()}, logs)
    assert table.recommended == "DoublyRobust"
    assert table.reason.startswith("the weights are wrong, because of the propensities")
    alone = evaluate(copies, logs, evaluators=["DirectMethod"])
    assert alone.reason.startswith("these logs allow DoublyRobust")


@pytest.mark.thorough
@ignore_warnings
def test_a_logger_that_learned_is_told():
    logs = make_adaptive_logs(5000, means=(0.6, 0.4), random_state=0)
    table = evaluate(ConstantPolicy(0), logs)
    assert "AdaptiveDR is made for such logs" in " ".join(repr(table).split())
    still = evaluate(ConstantPolicy(0), make_adaptive_logs(5000, floor_decay=0))
    assert "AdaptiveDR" not in repr(still)


# -- sentences ----------------------------------------------------------------------
def clicked_pages(n=3000):
    """Two of four items in a uniform order; clicks follow the worth of an item."""
    rng = np.random.RandomState(0)
    slate = np.argsort(rng.random_sample((n, 4)), axis=1)[:, :2]
    worth = np.array([0.05, 0.1, 0.3, 0.6])
    clicks = (rng.random_sample(slate.shape) < worth[slate]).astype(float)
    items = {"item_features": worth[:, None], "item_feature_names": ["worth"]}
    given = {"n_candidates": 4, "logging_policy": UniformSlatePolicy(2), **items}
    return SlateLogs(np.zeros((n, 1)), slate, slot_reward=clicks, **given)


def test_decisions_name_the_row_of_the_table_and_what_it_assumes():
    logs, new = clicked_pages(), {"new": RankingPolicy("worth", n_slots=2)}
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
    assert "Assumed" not in str(compare_policies({"new": POLICY}, ROUNDS))


@ignore_warnings
@pytest.mark.parametrize(
    ("logs", "evaluator", "told"),
    [
        (LOGGERS, None, "BalancedDR (MultiLoggerDR with the mixture of all loggers)"),
        (WHOLE_SLATES, None, "wIPS (SlateIPS, divided by the sum of the weights)"),
        (SLATES, "wPI", "wPI (PseudoInverse, divided by the sum of the weights)"),
        (SLATES, PseudoInverse(control_variates="single"), "PseudoInverse"),
        (PLAIN, IPS(), "IPS"),
    ],
)
def test_rows_whose_name_is_no_class_say_what_they_are(logs, evaluator, told):
    logs = logs.replace(reward=CODE * 1.0)
    policy = [[1, 0]] * N if isinstance(logs, SlateLogs) else np.eye(2)[[1] * N]
    compared = compare_policies({"new": policy}, logs, evaluator=evaluator)
    assert f"Deploy new: by {told} it is better" in compared.sentence


# -- names in the shell -------------------------------------------------------------
@pytest.fixture
def shell(tmp_path, capsys):
    """Evaluate by named evaluators: the exit code, and what is told."""
    path = tmp_path / "log.csv"
    rows = [f"{k % 2},{k % 3 % 2},0.5" for k in range(40)]
    path.write_text("\n".join(["a,r,p", *rows]) + "\n")
    words = f"evaluate {path} --action a --reward r --propensity p --policy uniform"

    def told(names, *more):
        code = main([*words.split(), "--context=", "--evaluators", names, *more])
        return code, "".join(capsys.readouterr())

    return told


def test_names_in_any_case_and_parameters(shell):
    named = ["IPS", "IPS:cmax=10", "DRos:lam=2.5", "LogSmoothing:lam=none", "MRDR"]
    named += ["BalancedIPS:self_normalized=true", "MultiLoggerIPS:pooling=balanced"]
    words = ",".join(named).replace("IPS,", "ips,", 1).replace("DRos", "dros")
    static = [n for n, cls in all_evaluators() if ".static." in cls.__module__]
    for asked, expected in ((words, named), ("all", static)):
        code, out = shell(asked, "--json", "--folds", "3")
        assert code == 0, out
        found = [row["evaluator"] for row in json.loads(out)["values"]]
        assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (",", "evaluator '' is unknown"),
        ("IPSS", "evaluator 'IPSS' is unknown; there are IPS, SNIPS"),
        ("DR", "BalancedDR. Did you mean DoublyRobust?"),
        ("DM", "Did you mean DirectMethod"),
        ("SwichtDR", "Did you mean SwitchDR"),
        ("IPS:tau=1", "'IPS:tau=1': IPS has the parameter cmax, got 'tau'"),
        ("DirectMethod:cv=1", "DirectMethod has no parameter, got 'cv'"),
        ("IPS:cmax=x", "'IPS:cmax=x': 'x' is not a number"),
        ("IPS:cmax=1_0", "'1_0' is not a number"),
        ("IPS:cmax", "'' is not a number"),
        ("IPS,ips", "evaluator 'IPS' is named twice"),
    ],
)
def test_what_cannot_be_understood_is_said(names, message, shell):
    code, told = shell(names)
    assert code == 2
    assert message in " ".join(told.split())


# -- intervals that leave out a bias ------------------------------------------------
CLIPPED = "the bias of clipped weights"
SHRUNK = "the bias of shrunk weights"
MODEL = "the error of the reward model"
INF = float("inf")
WALK = DRns(random_state=0)
RARELY = "the bias of rounds accepted too rarely"
ROUNDS, POLICY, _ = make_bandit_logs(400, random_state=0, return_truth=True)
PAGES, RANKED, _ = make_slate_logs(200, random_state=0, return_truth=True)


def value_of(evaluator, policy=None):
    slates = ".slate." in type(evaluator).__module__
    fitted = evaluator.fit(PAGES if slates else ROUNDS)
    return quiet(fitted, policy or (RANKED if slates else POLICY))


@pytest.mark.parametrize(
    ("evaluator", "reason"),
    [
        *((IPS(cmax=bound), CLIPPED) for bound in (2.0, "auto")),
        (SNIPS(cmax=2.0), CLIPPED),
        *((DoublyRobust(cmax=bound), CLIPPED) for bound in (2.0, 0.0)),
        *((cls(), MODEL) for cls in (DirectMethod, SlateDirectMethod)),
        (SwitchDR(), "the bias of dropped weights"),
        *((DRos(lam=lam), SHRUNK) for lam in (10.0, "auto")),
        *((cls(), SHRUNK) for cls in (SubGaussianIPS, SubGaussianDR)),
        (LogSmoothing(), "the bias of smoothed rewards"),
        *((cls(cmax=2.0), CLIPPED) for cls in (PseudoInverse, SlateDoublyRobust)),
        *((one, False) for one in (SwitchDR(tau=INF), DRos(lam=INF), PseudoInverse())),
        *((x(lam=0.0), False) for x in (SubGaussianIPS, SubGaussianDR, LogSmoothing)),
        (WALK, False),  # R / C of a policy that does not learn
        (clone(WALK).set_params(horizon=20), RARELY),
        (clone(WALK).set_params(horizon=20, q=0.0), False),
        (clone(WALK).set_params(horizon=20, acceptance="worst_case"), False),
    ],
    ids=repr,
)
def test_parameters_tell(evaluator, reason):
    assert value_of(evaluator).leaves_bias_out == reason


def test_policies_that_learn():
    for evaluator, reason in (
        (DRns(random_state=0), RARELY),
        (DRns(random_state=0, acceptance="worst_case"), False),
        (DirectMethod(), MODEL),
    ):
        assert value_of(evaluator, EpsilonGreedy()).leaves_bias_out == reason


# Not consistent on the log of all cells for other reasons than a bias by design.
OTHER_REASONS = (
    *("DRns", "Replay", "RejectionSampling"),  # walk through the log
    # assumptions about the logger
    *("ExplorationScavenging", "PositionScavenging", "ReorderingScavenging"),
    *("MultiLoggerIPS", "MultiLoggerDR"),  # divergences of folds
    *("AdaptiveIPS", "AdaptiveDR"),  # weigh rounds themselves
)


@pytest.mark.parametrize("evaluator", EVALUATORS, ids=repr)
def test_whoever_misses_the_value_of_all_cells_is_marked(evaluator):
    """A log that holds every cell once shows which evaluators are biased by design."""
    if type(evaluator).__name__ not in OTHER_REASONS:
        marked = bool(value_of(clone(evaluator)).leaves_bias_out)
        assert marked == (not evaluator.__sklearn_tags__().consistent)


def test_values_and_differences_carry_it():
    shrunk, model, plain = value_of(DRos()), value_of(DirectMethod()), value_of(IPS())
    again = pickle.loads(pickle.dumps(shrunk))
    gains = plain - shrunk, shrunk - plain, shrunk - shrunk
    for one in (shrunk, again, *gains, *shrunk.by("action").values()):
        assert one.leaves_bias_out == SHRUNK
    assert repr(shrunk).endswith(f", estimator='DRos', leaves_bias_out={SHRUNK!r})")
    assert f">it leaves out</th><td>{SHRUNK}</td>" in shrunk._repr_html_()
    assert plain.leaves_bias_out is False
    assert repr(plain).endswith("estimator='IPS')")
    assert "leaves out" not in plain._repr_html_()
    assert (shrunk - model).leaves_bias_out == f"{SHRUNK}; {MODEL}"
    assert (plain - value_of(SNIPS())).leaves_bias_out is False
