# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The API pages, from one dict.

Every public symbol stands here exactly once, by its name below `skope_ope`; a test
compares the dict with the package. A section is a folder of the package. It names the
task that it belongs to, and the page of the guide that explains it.
"""

from pathlib import Path

# What you want to do, in the order in which most people do it.
TASKS = {
    "Load": "Turn arrays, frames and files into logs, or draw logs with a known truth.",
    "Check": "Find out whether the log can answer, and what a warning says.",
    "Evaluate": "Estimate the value of a policy, with an interval.",
    "Decide": "Compare policies, choose settings, and report a decision.",
    "Learn": "Learn a policy from logs.",
    "Show": "Draw values, weights and intervals.",
    "Extend": "Write your own evaluator or policy, and test it.",
}

API_REFERENCE = {
    "logs": {
        "task": "Load",
        "title": "Logs",
        "summary": "What was logged.",
        "guide": "logs",
        "objects": [
            "BanditLogs",
            "SlateLogs",
            "ContextEncoder",
            "logs.DistinctViews",
            "logs.HashKFold",
            "concat",
            "scan_logs",
            "logs.LazyLogs",
        ],
    },
    "readers": {
        "task": "Load",
        "title": "Readers",
        "summary": "Where logs come from.",
        "guide": "readers",
        "objects": [
            "readers.read_jsonl",
            "readers.read_growthbook",
            "readers.read_eppo",
            "readers.read_open_bandit",
            "readers.read_vw",
            "readers.from_obp",
            "readers.to_obp",
        ],
    },
    "propensities": {
        "task": "Load",
        "title": "Propensities",
        "summary": "With what probability.",
        "guide": "propensities",
        "objects": [
            "PropensityEstimator",
            "propensities.LoggerPropensityEstimator",
            "PropensityClipper",
        ],
    },
    "policies": {
        "task": "Evaluate",
        "title": "Policies",
        "summary": "What we want to evaluate.",
        "guide": "policies",
        "objects": [
            "ClassifierPolicy",
            "ConstantPolicy",
            "FunctionPolicy",
            "MixturePolicy",
            "UniformPolicy",
            "EpsilonGreedy",
            "UCB1",
            "LinUCB",
            "policies.EpochGreedy",
            "policies.OnlineClassifierPolicy",
            "policies.BatchPolicy",
            "policies.SegmentedPolicy",
            "policies.AdaptiveFunctionPolicy",
            "policies.action_probabilities",
            "UniformSlatePolicy",
            "PlackettLuceSlatePolicy",
            "RankingPolicy",
            "policies.ProductSlatePolicy",
            "policies.EmpiricalSlatePolicy",
            "policies.MixtureSlatePolicy",
            "policies.SampledSlatePolicy",
        ],
    },
    "reward_models": {
        "task": "Evaluate",
        "title": "Reward models",
        "summary": "What we believe.",
        "guide": "reward_models",
        "objects": ["ActionRewardModel", "reward_models.AdditiveSlateModel"],
    },
    "intervals": {
        "task": "Evaluate",
        "title": "Intervals",
        "summary": "How sure we are.",
        "guide": "intervals",
        "objects": [
            "intervals.ConfidenceInterval",
            "intervals.gamma_interval",
            "intervals.normal_interval",
            "intervals.student_interval",
            "intervals.bootstrap_interval",
            "intervals.percentile_interval",
            "intervals.clopper_pearson_interval",
            "intervals.hoeffding_interval",
            "intervals.empirical_bernstein_interval",
            "intervals.log_smoothing_interval",
            "intervals.betting_interval",
            "intervals.betting_ratio_interval",
            "intervals.betting_sequence",
            "intervals.empirical_bernstein_sequence",
            "intervals.asymptotic_sequence",
            "intervals.empirical_likelihood_interval",
            "intervals.empirical_likelihood_value",
            "intervals.cressie_read_interval",
            "intervals.cressie_read_value",
            "intervals.fieller_interval",
            "intervals.delta_ratio_interval",
            "intervals.sensitivity_bounds",
            "intervals.breakdown_gamma",
        ],
    },
    "evaluators": {
        "task": "Evaluate",
        "title": "Evaluators",
        "summary": "How we evaluate.",
        "guide": "evaluators",
        "objects": [
            "evaluate",
            "summarize",
            "IPS",
            "SNIPS",
            "DirectMethod",
            "DoublyRobust",
            "SNDR",
            "SwitchDR",
            "DRos",
            "SubGaussianIPS",
            "SubGaussianDR",
            "LogSmoothing",
            "MRDR",
            "Replay",
            "RejectionSampling",
            "DRns",
            "MultiLoggerIPS",
            "MultiLoggerDR",
            "AdaptiveIPS",
            "ConfidenceSequence",
            "AdaptiveDR",
            "evaluators.logger_overlap",
            "evaluators.LoggerOverlap",
            "evaluators.pooling_variance_ratio",
            "evaluators.replay_log_length",
            "evaluators.drns_sum_bias_bound",
            "evaluators.repeated_runs",
            "ExplorationScavenging",
            "AttentionDecay",
            "evaluators.dcg_attention",
            "PositionScavenging",
            "ReorderingScavenging",
            "evaluators.ReorderingPolicy",
            "PseudoInverse",
            "SlateIPS",
            "SlateDirectMethod",
            "SlateDoublyRobust",
            "IndependentSlotIPS",
            "CascadeIPS",
            "CascadeDR",
            "evaluators.PolicyValue",
            "evaluators.Lift",
            "evaluators.Sensitivity",
            "evaluators.ValueSummary",
            "evaluators.ValueTable",
        ],
    },
    "audit": {
        "task": "Check",
        "title": "audit.Audit",
        "summary": "Can the log answer?",
        "guide": "audit",
        "objects": [
            "audit",
            "audit.Audit",
            "verdict",
            "audit.Verdict",
            "audit.VerdictThresholds",
        ],
    },
    "selection": {
        "task": "Decide",
        "title": "Selection",
        "summary": "Which one.",
        "guide": "selection",
        "objects": [
            "suggest",
            "selection.Suggestion",
            "EvaluatorScorer",
            "PolicyScorer",
            "one_standard_error",
            "in_order",
            "OPESearchCV",
            "SlopeSearch",
            "compare_policies",
            "selection.PolicyComparison",
            "selection.rounds_needed",
        ],
    },
    "learning": {
        "task": "Learn",
        "title": "Learning",
        "summary": "What to deploy.",
        "guide": "learning",
        "objects": [
            "IPSPolicy",
            "DRPolicy",
            "SoftmaxPolicy",
            "RewardModelPolicy",
            "PseudoInverseRanker",
        ],
    },
    "displays": {
        "task": "Show",
        "title": "Displays",
        "summary": "What we show.",
        "guide": "displays",
        "objects": [
            "displays.PolicyValueDisplay",
            "displays.PolicyComparisonDisplay",
            "displays.WeightsDisplay",
            "displays.SupportDisplay",
            "displays.ClippingCurveDisplay",
            "displays.ConfidenceSequenceDisplay",
            "displays.SensitivityDisplay",
            "displays.ConvergenceDisplay",
            "displays.HistoryDisplay",
            "displays.QuantileCurveDisplay",
        ],
    },
    "reports": {
        "task": "Decide",
        "title": "Reports",
        "summary": "What we tell.",
        "guide": "reports",
        "objects": ["report", "reports.Report"],
    },
    "datasets": {
        "task": "Load",
        "title": "Datasets",
        "summary": "Where to practise.",
        "guide": "datasets",
        "objects": [
            "datasets.make_bandit_logs",
            "datasets.make_adaptive_logs",
            "datasets.make_search_frame",
            "datasets.make_shop_frame",
            "datasets.make_router_traces",
            "datasets.make_logs_from_classification",
            "datasets.load_classification",
            "datasets.fetch_open_bandit",
            "datasets.make_slate_logs",
            "datasets.make_slate_logs_from_ranking",
            "datasets.RankingWorld",
            "datasets.load_ranking",
            "datasets.ndcg",
            "datasets.dcg",
            "datasets.err",
            "datasets.reciprocal_rank",
        ],
    },
    "base": {
        "task": "Extend",
        "title": "Extension points",
        "summary": "What to subclass, and what tests it.",
        "guide": "utils",
        "objects": [
            "base.AdaptivePolicy",
            "base.BaseEvaluator",
            "base.BaseLogTransformer",
            "base.BasePolicy",
            "base.BaseSlatePolicy",
            "base.EvaluatorTags",
            "base.Requires",
            "base.Sampling",
            "base.StaticEvaluator",
            "base.SlateEvaluator",
            "base.mean",
            "base.sum_of_two",
            "base.ratio",
            "base.mean_plus_ratio",
            "utils.estimator_checks.parametrize_with_evaluator_checks",
            "utils.estimator_checks.check_evaluator",
            "utils.estimator_checks.check_adaptive_policy",
            "utils.all_evaluators",
            "utils.all_policies",
            "utils.all_slate_policies",
            "utils.show_versions",
        ],
    },
    "exceptions": {
        "task": "Check",
        "title": "Warnings",
        "summary": "They carry the number that triggered them in `value`.",
        "guide": "evaluators",
        "objects": [
            "exceptions.OPEWarning",
            "exceptions.SupportWarning",
            "exceptions.LowOverlapWarning",
            "exceptions.PropensityWarning",
            "exceptions.BiasWarning",
            "exceptions.ExplorationWarning",
            "exceptions.LearnedRoundsWarning",
            "exceptions.ModelErrorWarning",
            "exceptions.LogsWarning",
            "exceptions.HorizonWarning",
            "exceptions.FewEventsWarning",
            "exceptions.AdaptiveLoggerWarning",
            "exceptions.FewGroupsWarning",
            "exceptions.TailWarning",
            "exceptions.LoggerWarning",
            "exceptions.SingleTrajectoryWarning",
            "exceptions.ZeroBaselineWarning",
            "exceptions.RowError",
        ],
    },
}


def page_of(key):
    """Text of the API page of one section."""
    section = API_REFERENCE[key]
    title = section["title"]
    lines = [
        f".. _api_{key}:",
        "",
        title,
        "=" * len(title),
        "",
        f"{section['summary']} See :ref:`the guide <{section['guide']}>`.",
        "",
        *table_of(key, ":toctree: ../generated"),
    ]
    return "\n".join(lines)


def table_of(key, *options):
    """Lines of a table of the names of one section, one line each."""
    return [
        ".. currentmodule:: skope_ope",
        "",
        ".. autosummary::",
        *(f"   {option}" for option in (*options, ":nosignatures:")),
        "",
        *(f"   {name}" for name in API_REFERENCE[key]["objects"]),
        "",
    ]


def index():
    """Text of the page that lists all names by task."""
    lines = ["API reference", "=============", "", "What do you want to do?", ""]
    of_task = {
        task: [key for key, one in API_REFERENCE.items() if one["task"] == task]
        for task in TASKS
    }
    for task, keys in of_task.items():
        titles = [
            f":ref:`{API_REFERENCE[key]['title'].lower()} <api_{key}>`" for key in keys
        ]
        lines.append(f"- **{task}.** {TASKS[task]} See {', '.join(titles)}.")
    lines.append("")
    for task, keys in of_task.items():
        lines += [task, "-" * len(task), ""]
        for key in keys:
            section = API_REFERENCE[key]
            lines += [f"**{section['title']}.** {section['summary']}", ""]
            lines += table_of(key)
    lines += [".. toctree::", "   :hidden:", "   :maxdepth: 2", ""]
    lines += [f"   {key}" for keys in of_task.values() for key in keys]
    return "\n".join([*lines, ""])


def write_pages(folder):
    """Write one page per section and an index; unchanged pages keep their time."""
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    pages = {"index": index(), **{key: page_of(key) for key in API_REFERENCE}}
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
