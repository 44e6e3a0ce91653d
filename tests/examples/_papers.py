# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What breaks the experiments of the papers."""

from dataclasses import replace
from itertools import cycle
from types import SimpleNamespace

import numpy as np

from skope_ope import (
    AttentionDecay,
    EpsilonGreedy,
    Replay,
    SlateIPS,
    UniformSlatePolicy,
    evaluate,
)
from skope_ope.evaluators import repeated_runs
from tests.examples._assertions import row


def rank_at_random(ranker, *data):
    """Learn nothing: rank at random, and say that half of it is outside the range."""
    policy = UniformSlatePolicy(3)
    policy.outside_range_share_ = 0.5
    return policy


def naive_decay(method="equal_variance", **options):
    return AttentionDecay(method="naive", **options)


def surely_half(self, policy):
    return SimpleNamespace(value=0.5, standard_error=0.001)


# -- replay ---------------------------------------------------------------------------
fit = Replay.fit
losses = np.random.RandomState(0)


def clicks_lost_by_day(self, logs):
    """Every fit has shares of its own."""
    kept = losses.uniform(0.1, 1, size=16)[logs.columns["day"]]
    reward = logs.reward * (losses.random_sample(len(logs)) < kept)
    return fit(self, replace(logs, reward=reward).with_columns(**logs.columns))


QUICK_REPLAY = {  # in place of regressions, which take most of the time
    "policies.OnlineClassifierPolicy": lambda *_, **__: EpsilonGreedy(epsilon=0.0),
    "Replay.score": lambda self, policy: 0.1,
}
FEW_ROUNDS = {
    "Replay.fit": lambda self, logs: fit(self, logs[::10]),
    "policies.SegmentedPolicy": lambda policy, segment: policy,
}


# -- slates ---------------------------------------------------------------------------
def all_match(evaluator, slates):
    return SimpleNamespace(
        round_values=np.ones(len(slates)), diagnostics={"sigma2": 1.0}
    )


def ever_better(evaluator, slates):
    """A model without the bias that stays."""
    return SimpleNamespace(round_values=np.full(len(slates), 0.736 + 99 / len(slates)))


def slate_model(evaluate):
    return {
        "SlateDirectMethod.fit": lambda evaluator, logs: evaluator,
        "SlateDirectMethod.evaluate": evaluate,
    }


WHOLE_SLATES = {"PseudoInverse.fit": lambda evaluator, logs: SlateIPS().fit(logs)}


# -- DR-ns ----------------------------------------------------------------------------
table_1, table_2, table_3 = (np.random.RandomState(0) for _ in range(3))


def drns(value, n_accepted):
    """Return a DRns.evaluate whose value and accepted rows are functions of it."""

    def evaluate(self, policy):
        return SimpleNamespace(
            value=value(self),
            accepted=range(n_accepted(self)),
            acceptance_ratios=np.ones(len(policy)),
        )

    return {"DRns.evaluate": evaluate}


def varies_with_q(self, policy):
    """Return a wrong value that varies more, and fewer histories, with a larger q."""
    return SimpleNamespace(
        value=1000 + self.q * table_2.standard_normal(),
        n_trajectories=round(100 * (1 - self.q)),
        accepted=(),
        bias_mass=0.5,
    )


def many_histories(self, policy):
    """Return many histories where there are rounds for one or two."""
    return SimpleNamespace(value=0.0, n_trajectories=9, accepted=(), bias_mass=0.0)


signs = cycle([100.0, -100.0])


def noisy_runs(evaluator, *args, n_runs, **options):
    """Lives of the direct method that are noise, in place of a bias."""
    return SimpleNamespace(mean=next(signs))


def answers(kind, value, n_accepted):
    """Return values, and `repeated_runs`, of one kind of evaluator that draw them."""

    def runs(evaluator, *args, n_runs, **options):
        if type(evaluator).__name__ != kind:
            return repeated_runs(evaluator, *args, n_runs=n_runs, **options)
        values = np.array([value() for _ in range(n_runs)])
        return SimpleNamespace(values=values, n_accepted=np.full(n_runs, n_accepted))

    return {
        "evaluators.repeated_runs": runs,
        f"{kind}.evaluate": lambda self, policy: SimpleNamespace(
            value=value(), accepted=range(n_accepted)
        ),
    }


# -- several loggers ------------------------------------------------------------------
def sizes_ignored(name):
    """One way of pooling counts loggers, not their rounds."""

    def values_of(evaluators, logs, pi):
        table = evaluate(pi, logs, evaluators=evaluators)
        found = {key: (one.value, one.standard_error**2) for key, one in table.items()}
        logger = (logs.logger == 2).astype(int)
        p = logs.logger_proba
        p = p.mean(axis=1) if name == "balanced" else p[np.arange(len(pi)), logger]
        terms = logs.reward * pi / p
        if name == "balanced":
            value = terms.mean()
        else:
            weight = np.ones(2)
            if name == "weighted":
                weight = 1 / np.array([*evaluators[name].divergences.values()])
            means = [terms[logger == i].mean() for i in (0, 1)]
            value = weight @ means / weight.sum()
        return [*(found | {name: (value, terms.var() / len(terms))}).values()]

    return {"example:values_of": values_of}


SIZES_IGNORED = {
    name: sizes_ignored(name) for name in ("naive", "balanced", "weighted")
}


# -- the doubly robust paper ----------------------------------------------------------
draws = np.random.RandomState(0)


def evaluations(value):
    def evaluate(policy, logs, *, evaluators, **kwargs):
        return {name: SimpleNamespace(value=value()) for name in evaluators}

    return {"evaluate": evaluate}


ROWS = {
    "plot_can_rankings_be_learned_from_page_rewards": row(
        {
            "RankingPolicy.fit": rank_at_random,
            "PseudoInverseRanker.fit": rank_at_random,
        },
        args="--pages 10000 --data ''",
    ),
    "plot_do_clicks_decay_with_position": row(
        {
            "AttentionDecay": naive_decay,
            "ReorderingScavenging.evaluate": surely_half,
            "PositionScavenging.evaluate": surely_half,
        },
        args="--n-seeds 60 --data-home ''",
    ),
    "plot_does_replay_agree_with_the_online_bucket": row(
        QUICK_REPLAY | {"Replay.fit": clicks_lost_by_day},
        QUICK_REPLAY | FEW_ROUNDS,
        args="--n-rounds 128000 --n-runs 6",
    ),
    "plot_does_the_pseudoinverse_need_less_data": row(
        slate_model(ever_better)
        | {
            "PseudoInverse.evaluate": all_match,
            "PseudoInverse.score": lambda evaluator, slates: 0.3,
            "SlateIPS.evaluate": all_match,
        },
        slate_model(ever_better) | WHOLE_SLATES,
        args="--largest 60000 --runs 4 --model-runs 2 --data ''",
    ),
    "plot_does_the_pseudoinverse_stand_rewards_that_are_no_sums": row(
        slate_model(all_match) | {"SlateIPS.evaluate": all_match},
        slate_model(all_match) | WHOLE_SLATES,
        args="--model-runs 4",
    ),
    "plot_how_drns_compares_on_a_fixed_policy": row(
        drns(lambda _: 0.0, lambda _: 0),
        # DR-ns falls behind WC, and accepts less with a larger q
        drns(
            lambda self: 2 * (self.acceptance == "quantile"),
            lambda self: round(800 * (1 - self.q)),
        ),
        {"DirectMethod.score": lambda *_: table_1.standard_normal()},
        args="--sets digits --trials 20",
    ),
    "plot_how_drns_values_a_policy_that_learns": row(
        {
            "DRns.evaluate": varies_with_q,
            "RejectionSampling.evaluate": many_histories,
            "evaluators.repeated_runs": noisy_runs,
        },
        args="--trials 5 --runs 5",
    ),
    "plot_how_drns_values_the_logger_itself": row(
        # rejection sampling is a constant that accepts everything
        answers("RejectionSampling", lambda: 0.0, 10**6),
        # DR-ns is noise that accepts nothing
        answers("DRns", table_3.standard_normal, 0),
        args="--rows 2000",
    ),
    "plot_when_does_dropping_logs_help": row(
        {"evaluators.pooling_variance_ratio": lambda *_: 0.0},
        SIZES_IGNORED["balanced"],
        args="--sets digits --n-rows 50 --n-logs 20",
    ),
    "plot_which_static_evaluator_is_most_accurate": row(
        evaluations(lambda: 5 + 0.01 * draws.standard_normal()),
        evaluations(lambda: 100 * draws.standard_normal()),
        args="--sets wine --repetitions 12 --n-jobs 1",
    ),
}
