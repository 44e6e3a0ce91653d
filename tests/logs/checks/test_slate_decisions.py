# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""No answer rests on logs of slates that are wrong, and each says why."""

import numpy as np
import pytest

from skope_ope import (
    PseudoInverse,
    RankingPolicy,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
    audit,
    compare_policies,
    evaluate,
    report,
    suggest,
    verdict,
)
from skope_ope.exceptions import LowOverlapWarning, OPEWarning, PropensityWarning
from tests._quiet import quiet
from tests.logs.checks.test_lost_rows import lose, made
from tests.logs.checks.test_lost_rows import pages as clicked_pages
from tests.logs.checks.test_shared_pages import best, pages
from tests.logs.checks.test_slate_order import as_sorted

pytestmark = [
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning"),
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.SupportWarning"),
    pytest.mark.filterwarnings("ignore:.*mean importance weight"),
]


def forgotten_of_short_pages():
    """Rows of a frame, some pages with three of four slots, candidates forgotten."""
    pytest.importorskip("narwhals")
    pd = pytest.importorskip("pandas")
    full = pages(3000, 40, 4, 8, 10)
    page, slot = (axis.ravel() for axis in np.indices(full.slate.shape))
    kept = (slot < 3) | (page % 10 > 0)
    columns = {"page": page, "slot": slot, "item": full.slate.ravel()}
    columns |= {"clicked": full.slot_reward.ravel(), "query": full.context[page, 0]}
    items = pd.DataFrame({"item": np.arange(40), "worth": full.item_features[:, 0]})
    roles = {"round": "page", "slot": "slot", "item": "item", "slot_reward": "clicked"}
    roles |= {"context": ["query"], "logging_policy": UniformSlatePolicy(4)}
    frame = pd.DataFrame(columns)[kept]
    wrong = SlateLogs.from_frame(frame, **roles, item_features=items)
    assert wrong.candidates.ndim == 3
    return wrong, RankingPolicy("worth", n_slots=4)


def forgotten():
    wrong = pages(8000, 40, 4, 8, 10)
    return wrong, best(wrong)


def sorted_pages():
    wrong = as_sorted(pages(8000, 40, 4, 8, 10, passed=True), key=-np.arange(40))
    return wrong, best(wrong)


def lost_rows():
    return made(*lose(*clicked_pages(), keep_first=True)), UniformSlatePolicy(4)


CANDIDATES = "candidates were not passed", "the candidates or the logging policy do not"
OFFERS = *CANDIDATES, "acceptance ratios in doubt", "candidates"
LOST = "Rows without a reward were not logged", "rows of pages are missing from the"
ORDER = "were sorted by a ranking", "pages whose items are not in random order"
WORLDS = {  # what is said, the reason of a table, of a comparison, of a suggestion
    "slate_pairs": (forgotten, *OFFERS),
    "slate_pairs of frames": (forgotten_of_short_pages, *OFFERS),
    "slate_order": (sorted_pages, ORDER[0], CANDIDATES[1], ORDER[1], ""),
    "lost_rows": (lost_rows, *LOST, "pages that may be missing", "Rows of pages"),
}


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(name, marks=[pytest.mark.frames] * ("frames" in name))
        for name in WORLDS
    ],
)
def test_every_answer_says_what_is_wrong(world):
    make, match, reason, sentence, stop = WORLDS[world]
    (wrong, policy), name = make(), world.split(" ")[0]
    with pytest.warns(PropensityWarning, match=match):
        table = evaluate(policy, wrong)
    assert table.reason.startswith(reason)
    with pytest.warns(PropensityWarning, match=match):
        compared = compare_policies({"new": policy}, wrong)
    assert compared.decision == "undecided"
    assert sentence in compared.sentence
    value = quiet(PseudoInverse().fit(wrong), policy)
    assert value.verdict.answer == "not supported"
    assert name in [one.name for one in value.verdict.reasons]
    of_log = audit(wrong)
    assert of_log.alarms[0].name == name
    assert verdict(value, audit=of_log).answer == "not supported"
    suggested = suggest(None, wrong)
    assert suggested.evaluator is None and stop in suggested.stop


def test_right_candidates_decide():
    right = pages(8000, 40, 4, 8, 10, passed=True)
    assert compare_policies({"new": best(right)}, right).decision == "deploy"


def test_recorded_propensities_do_not_help():
    slate, clicked = lose(*clicked_pages(), keep_first=True)
    given = {"propensity": 0.01, "n_candidates": 6, "slot_reward": clicked}
    logs = SlateLogs(np.zeros((len(slate), 1)), slate, **given)
    target = UniformSlatePolicy(4)
    with pytest.warns(PropensityWarning, match="Rows without a reward"):
        compared = compare_policies({"new": target}, logs, evaluator=SlateIPS())
    assert compared.decision == "undecided"
    assert "rows of pages that may be missing" in compared.sentence


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_slate_warnings_name_the_causes_and_the_classes():
    wrong, policy = forgotten()
    fitted = PseudoInverse().fit(wrong)
    given = np.array(wrong.slate)  # a policy made from what is shown
    texts = [str(one) for one in fitted.evaluate(given).warnings]
    [weights] = [text for text in texts if "mean importance weight" in text]
    assert "(1) The candidates were not passed" in weights
    told = fitted.evaluate(policy).warnings
    [few] = [str(w) for w in told if isinstance(w, LowOverlapWarning)]
    assert "IndependentSlotIPS needs the fewest" in few


@pytest.mark.filterwarnings("default::skope_ope.exceptions.OPEWarning")
def test_a_report_names_the_evaluators_that_it_warns_of():
    right = pages(2000, 40, 4, 8, 10, passed=True)
    with pytest.warns(OPEWarning) as record:
        report({"new": best(right)}, right)
    texts = [str(one.message) for one in record]
    few = [text for text in texts if "effective rounds" in text]
    assert few and all(": The estimate rests" in text for text in few)


@pytest.mark.parametrize("make", [forgotten, sorted_pages])
def test_a_report_of_wrong_logs_deploys_nothing(make):
    wrong, policy = make()
    with pytest.warns(OPEWarning) as record:
        found = report({"new": policy}, wrong)
    texts = [str(one.message) for one in record]
    match = "not passed" if make is forgotten else "were sorted by a ranking"
    assert any(match in text for text in texts)
    assert match in str(found) and "Deploy new" not in str(found)
    assert not any(text.startswith("SlateIPS has no estimate") for text in texts)
    if make is forgotten:
        assert "SlateIPS has no estimate" in found.to_html()  # it does not decide
