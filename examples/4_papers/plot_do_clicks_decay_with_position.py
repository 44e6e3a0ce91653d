# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Do clicks decay with the position? The advertisements of exploration scavenging
===============================================================================

Langford, Strehl and Wortman [1]_ asked how much of an advertisement's click rate is its
position on the page, from logs that tend to have better advertisements in better
positions. The plain ratio of the click rates of two positions confuses the two;
comparing every advertisement with itself does not. With the coefficients they then
asked what another order of the shown advertisements would have earned.

Their logs are proprietary. Here the coefficients that they found are the truth of a
simulation, so that the estimates can be judged. The numbers that they reported on
their logs are printed next to ours.

``python plot_do_clicks_decay_with_position.py --full`` simulates two million pages, in
about a minute; ``--full --n-pages 22000000`` as many as the paper has, in 22 minutes of
a core and 12 GB. Where ``SKOPE_OPE_DATA`` names a folder with the Open Bandit logs, the
coefficients of a real shop are estimated, too.

.. [1] Langford, J., Strehl, A., & Wortman, J. (2008). Exploration scavenging. ICML.
"""

# %%
# Pages whose better items come first
# -----------------------------------
#
# Sixty items, four slots. A page is composed without looking at the visitor: of six
# random items one after the other is drawn, with probabilities that grow with a power
# of their quality. `tilt` is that power: 2 puts better items into better slots, -2
# does the opposite. A click in slot i happens with probability :math:`C_i` times the
# quality.

import argparse
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skope_ope import (
    AttentionDecay,
    PositionScavenging,
    ReorderingScavenging,
    SlateLogs,
)
from skope_ope.evaluators import ReorderingPolicy, dcg_attention
from skope_ope.readers import read_open_bandit

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="two million pages")
parser.add_argument("--n-pages", type=int, help="pages, default 200,000")
parser.add_argument("--data-home", default=os.environ.get("SKOPE_OPE_DATA"))
parser.add_argument("--n-seeds", type=int, default=100, help="logs of few impressions")
args = parser.parse_known_args()[0]
N_PAGES = args.n_pages or (2_000_000 if args.full else 200_000)
N_BOOTSTRAP = 100 if args.full else 50

TRUE = np.array([1.0, 0.613387, 0.527310, 0.432521])
PAPER_NAIVE = np.array([1.0, 0.512090, 0.369638, 0.271847])
quality = 0.3 * np.random.RandomState(0).beta(2, 5, size=60)


def draw_pages(n_pages, tilt, random_state, quality=quality):
    """Pages and clicks."""
    rng = np.random.RandomState(random_state)
    six = rng.randint(len(quality), size=(n_pages, 6))
    again = np.arange(n_pages)
    while len(again):  # pages that hold an item twice are drawn anew
        six[again] = rng.randint(len(quality), size=(len(again), 6))
        again = again[(np.diff(np.sort(six[again], axis=1), axis=1) == 0).any(axis=1)]
    score = tilt * np.log(quality[six]) + rng.gumbel(size=six.shape)
    order = np.argsort(-score, axis=1)[:, : len(TRUE)]
    slate = np.take_along_axis(six, order, axis=1)
    clicks = rng.random_sample(slate.shape) < TRUE * quality[slate]
    return SlateLogs(
        np.empty((n_pages, 0)),
        slate,
        None,
        n_candidates=len(quality),
        slot_reward=clicks.astype(float),
    )


logs = draw_pages(N_PAGES, tilt=2.0, random_state=1)
print(f"{logs!r}, {logs.slot_reward.mean():.4f} clicks per impression")
print("mean quality by slot:", quality[logs.slate].mean(axis=0).round(4))

# %%
# The coefficients
# ----------------
#
# Whole pages are drawn for the bootstrap of the standard errors, because the items of a
# page belong together. The paper derives "min_variance" for known variances of the
# clicks; on its logs it took "equal_variance", for want of these: the row "new" of its
# table, which is the truth here.

methods = ("naive", "uniform", "equal_variance", "min_variance")
fitted = {
    method: AttentionDecay(method=method, n_bootstrap=N_BOOTSTRAP, random_state=0).fit(
        logs
    )
    for method in methods
}
rows = [("truth here, the paper's new", TRUE, np.zeros(4))]
rows += [(m, fitted[m].coefficients_, fitted[m].standard_errors_) for m in methods]
rows += [
    ("the paper's naive", PAPER_NAIVE, np.zeros(4)),
    ("discounted cumulative gain", dcg_attention(4), np.zeros(4)),
]
print(f"\n{'':>30}  slot 1  slot 2           slot 3           slot 4")
for name, found, error in rows:
    cells = (
        f"{c:.4f} ({e:.4f})" if e else f"{c:.4f}         "
        for c, e in zip(found[1:], error[1:], strict=True)
    )
    print(f"{name:>30}  {found[0]:.4f}  {'  '.join(cells)}")

for method in methods:
    z = (fitted[method].coefficients_ - TRUE)[1:] / fitted[method].standard_errors_[1:]
    print(f"{method:>30}  standard errors from the truth: {z.round(1)}")
    assert (z < -4).all() if method == "naive" else (np.abs(z) < 4).all(), method

fig, ax = plt.subplots(figsize=(7.5, 3.5), layout="constrained")
slots = np.arange(1, 5)
for name, found, error in rows:
    if name in ("uniform", "equal_variance"):
        continue  # on top of the others
    ax.errorbar(slots, found, 2 * error, marker="o", label=name)
ax.set(xlabel="slot", ylabel="attention", xticks=slots)
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# Few impressions of an item
# --------------------------
#
# The weights of "min_variance" are the best ones where the variances of the clicks are
# known. Where items have few impressions, variances that are estimated from the same
# clicks follow their noise: of the items those get less weight that happened to be
# clicked, and the coefficients are too low. "equal_variance", the default, only counts
# impressions, and "uniform" does not even do that.

SPARSE = (  # items, pages, tilt
    (2000, 10_000, 2.0),
    (2000, 10_000, 0.0),
    (500, 5000, 2.0),
    (500, 5000, 0.0),
    (1000, 2000, 2.0),
    (100, 1000, 2.0),
)


def clearly_positive(x):
    """Is the mean more than two standard errors above zero?"""
    return x.mean() > 2 * x.std(ddof=1) / np.sqrt(len(x))


print("\nbias and root mean square error, slots 2 to 4 together")
gains = []
for n_items, n_pages, tilt in SPARSE:
    rates = 0.3 * np.random.RandomState(0).beta(2, 5, size=n_items)
    errors = []
    for seed in range(args.n_seeds):
        pages = draw_pages(n_pages, tilt, seed, rates)
        decays = (AttentionDecay(method=m).fit(pages) for m in methods[1:])
        errors.append([decay.coefficients_[1:] - TRUE[1:] for decay in decays])
    bias, squares = np.mean(errors, axis=2), np.square(errors).mean(axis=2)
    rmse = np.sqrt(squares.mean(axis=0))
    cells = (f"{b:+.3f} {e:.3f}" for b, e in zip(bias.mean(axis=0), rmse, strict=True))
    pairs = zip(methods[1:], cells, strict=True)
    text = ", ".join(f"{method} {cell}" for method, cell in pairs)
    print(f"{n_items:>5} items, {n_pages:>6} pages, tilt {tilt:.0f}: {text}")
    assert clearly_positive(bias[:, 1] - bias[:, 2])
    gains.append((squares[:, [0, 2]] - squares[:, [1]]) / squares[:, 1].mean())

# %%
# Over all of them, "equal_variance" has the smallest error.

for other, gain in zip(
    ("uniform", "min_variance"), np.concatenate(gains).T, strict=True
):
    print(f"mean square error of {other}: {1 + gain.mean():.2f} of equal_variance's")
    assert clearly_positive(gain)

# %%
# What another order would have earned
# ------------------------------------
#
# The first half of the pages trains the click rates, the second half is reordered; the
# click rates of the same pages would know their clicks. The coefficients come from
# either half. Those of the first half are an array to the evaluator, which takes them
# for the truth: its standard errors leave out theirs. Those of the second half are an
# `AttentionDecay`, fitted anew in every bootstrap sample, which leaves nothing out.
#
# The paper reports 1.086 clicks per logged click for the order by click rate and 1.016
# for a random one. The second number does not go with pages of four slots whose better
# items are in better slots: a random order earns there
#
# .. math:: \bar C \, \frac{\sum_i q_i}{\sum_i C_i q_i} < 1
#
# with the mean quality :math:`q_i` of the items in slot i. In the paper's own table the
# naive coefficients are in proportion to :math:`C_i q_i`, and that gives .945. Its
# pages may have had other numbers of slots.


def random_order(q):
    """Ratio of a random order, from the mean quality in every slot."""
    return TRUE.mean() * q.sum() / (TRUE @ q)


print(f"\nrandom order, by the paper's table: {random_order(PAPER_NAIVE / TRUE):.3f}")


def ratios(pages, n_bootstrap=N_BOOTSTRAP):
    """True click ratio on the second half of the pages, and three values, by order."""
    train, test = pages[: len(pages) // 2], pages[len(pages) // 2 :]
    by_rate = ReorderingPolicy().fit(train).reorder(test)
    orders = {
        "as logged": test.slate,
        "by click rate": by_rate,
        "random": ReorderingPolicy("random"),
    }
    found = quality[test.slate].mean(axis=0)
    truths = (1.0, TRUE @ quality[by_rate].mean(axis=0) / (TRUE @ found))
    truths = dict(zip(orders, (*truths, random_order(found)), strict=True))
    evaluators = [
        ReorderingScavenging(attention=a, n_bootstrap=n, random_state=0)
        for a, n in (
            (TRUE, None),
            (AttentionDecay().fit(train).coefficients_, None),
            (AttentionDecay(), n_bootstrap),
        )
    ]
    fitted = [evaluator.fit(test) for evaluator in evaluators]
    return {k: (truths[k], [e.evaluate(v) for e in fitted]) for k, v in orders.items()}


for tilt, seed in ((2.0, 1), (-2.0, 2)):
    pages = logs if tilt > 0 else draw_pages(N_PAGES, tilt, seed)
    found = ratios(pages)
    where = "better" if tilt > 0 else "worse"
    print(f"\nbetter items in {where} slots: clicks per logged click")
    print(f"{'':>14}  truth   true attention   first half's     estimated by itself")
    for name, (truth, values) in found.items():
        cells = "  ".join(f"{v.value:.4f} ({v.standard_error:.4f})" for v in values)
        print(f"{name:>14}  {truth:.4f}  {cells}")
        for value in values[::2]:
            assert abs(value.value - truth) < 4 * value.standard_error + 1e-12
    best, random = (found[name][1][2] for name in ("by click rate", "random"))
    assert best.value > 1 + 4 * best.standard_error
    assert (random.value < 1) == (found["random"][0] < 1) == (tilt > 0)

# %%
# Which of these standard errors are right? The standard deviation of the values over
# short logs, in units of the mean standard error, should be 1. Where better items are
# in worse slots, coefficients of the first half that are taken for the truth make it
# more than twice that.

N_SHORT = 50
print(f"\n{N_SHORT} short logs: spread of the values over their mean standard error")
print(f"{'':28}{'true':>14}{'first half':>14}{'by itself':>14}")
for tilt, where in ((2.0, "better"), (-2.0, "worse")):
    short = [ratios(draw_pages(20_000, tilt, 10 + i), 20) for i in range(N_SHORT)]
    for name in ("by click rate", "random"):
        rows = [found[name] for found in short]
        off = [[v.value - truth for v in values] for truth, values in rows]
        errors = [[v.standard_error for v in values] for _, values in rows]
        spread = np.std(off, axis=0, ddof=1) / np.mean(errors, axis=0)
        cells = "".join(f"{ratio:14.2f}" for ratio in spread)
        print(f"{f'{name}, {where} slots':28}{cells}")
        assert (spread[::2] < 1.5).all()
        assert tilt > 0 or spread[1] > 1.7

# %%
# Another set of items
# --------------------
#
# With the coefficients a policy that shows other items can be evaluated as well: here
# the four best ones, best first. The logs hardly ever show this very page, and the
# paper's direct approach counts no other; the factored one counts all impressions of
# the four items. The evaluator estimates the coefficients itself, anew in every
# bootstrap sample, so that its standard error counts theirs.

top = np.argsort(-quality)[:4]
target = np.tile(top, (N_PAGES, 1))
truth = TRUE @ quality[top]
together = float((logs.slate == top).all(axis=1).mean())
print(f"\nthe four best items: shown so on {together:.6f} of the pages")
for pooled in (False, True):
    evaluator = PositionScavenging(
        attention=AttentionDecay(),
        pooled=pooled,
        n_bootstrap=N_BOOTSTRAP,
        random_state=0,
    )
    value = evaluator.fit(logs).evaluate(target)
    print(
        f"{'pooled' if pooled else 'factored':>10}: {value.value:.5f} "
        f"({value.standard_error:.5f}) clicks a page, truth {truth:.5f}"
    )
    assert abs(value.value - truth) < 4 * value.standard_error

# %%
# A real shop
# -----------
#
# The Open Bandit logs show one item a row at one of three positions. The uniform logger
# put every item everywhere, so the naive ratio would do. Clicks are too few: the
# standard errors do not tell whether attention decays there at all.

if args.data_home:
    file = Path(args.data_home) / "obd_random_men.csv.gz"
    shop = read_open_bandit(file, as_slates=True)
    slot = shop.columns["position"] - 1
    slate, clicks = np.full((len(shop), 3), -1), np.zeros((len(shop), 3))
    slate[np.arange(len(shop)), slot] = shop.slate[:, 0]
    clicks[np.arange(len(shop)), slot] = shop.slot_reward[:, 0]
    pages = SlateLogs(shop.context, slate, None, n_candidates=34, slot_reward=clicks)
    print(f"\nOpen Bandit, {clicks.sum():.0f} clicks on {len(shop):,} impressions")
    for method in ("naive", "equal_variance", "min_variance"):
        decay = AttentionDecay(method=method, n_bootstrap=200, random_state=0)
        decay.fit(pages)
        cells = (
            f"{c:.2f} ({e:.2f})"
            for c, e in zip(decay.coefficients_, decay.standard_errors_, strict=True)
        )
        print(f"{method:>30}  {'  '.join(cells)}")
