# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Is the click on each slot worth logging?
========================================

A page has several slots. One log has the number of clicks per page. A better one has
the clicked slots. How much do clicks by slot help, and what must hold for the readers?

The readers are simulated, so the value of the policy is known.
"""

# %%
# Readers and evaluators
# ----------------------
#
# In the first world a click depends on its own slot only. In the second, readers go
# down the page and stop at what they like, so earlier slots matter. In the third, every
# candidate lowers the clicks on the others.
#
# With clicks per page: :class:`~skope_ope.SlateIPS` assumes nothing, and
# :class:`~skope_ope.PseudoInverse` a sum over slots. With clicks by slot:
# :class:`~skope_ope.IndependentSlotIPS` assumes that slots are independent, and
# :class:`~skope_ope.CascadeDR` that only earlier slots matter.

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skope_ope import CascadeDR, IndependentSlotIPS, PseudoInverse, SlateIPS, evaluate
from skope_ope.datasets import make_slate_logs
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--n-logs", type=int, default=40, help="logs of each world")
n_logs = parser.parse_known_args()[0].n_logs

WORLDS = {
    "slots alone": "additive",
    "readers stop": "cascade",
    "distraction": "interaction",
}
EVALUATORS = {
    "page: SlateIPS": SlateIPS(),
    "page: PseudoInverse": PseudoInverse(),
    "slots: IndependentSlotIPS": IndependentSlotIPS(),
    "slots: CascadeDR": CascadeDR(),
}

errors = []
for reward in WORLDS.values():
    for seed in range(n_logs):
        logs, policy, truth = make_slate_logs(
            1000,
            reward=reward,
            logging_temperature=2.0,
            target_temperature=0.5,
            world_random_state=0,
            random_state=seed,
            return_truth=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OPEWarning)  # large weights of whole pages
            table = evaluate(policy, logs, evaluators=EVALUATORS)
        errors.append([value.value - truth.value for value in table.values()])
errors = np.reshape(errors, (len(WORLDS), n_logs, -1))
bias = errors.mean(axis=1)
in_errors = bias / (errors.std(axis=1, ddof=1) / np.sqrt(n_logs))
rmse = np.sqrt((errors**2).mean(axis=1))

# %%
# Errors
# ------

print(f"rmse, and bias in its standard errors, {n_logs} logs of 1,000 pages")
print(f"{'':28}" + "".join(f"{name:>20}" for name in WORLDS))
for name, line, z in zip(EVALUATORS, rmse.T, in_errors.T, strict=True):
    cells = (f"{x:13.4f}{y:+7.1f}" for x, y in zip(line, z, strict=True))
    print(f"{name:28}" + "".join(cells))

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
for k, (name, line) in enumerate(zip(EVALUATORS, rmse.T, strict=True)):
    ax.bar(np.arange(len(WORLDS)) + 0.2 * k - 0.3, line, 0.2, label=name)
ax.set_xticks(range(len(WORLDS)), WORLDS)
ax.set_ylabel("rmse of the clicks of a page")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# What to do
# ----------
#
# Log the clicks by slot. They cost nothing. The error falls if readers go down the page
# or look at each slot by itself. Use `CascadeDR` if you do not know how readers look:
# it is right in both cases. `IndependentSlotIPS` has a bias if readers stop. If every
# candidate affects the others, only `SlateIPS` has no bias, and its variance is large.

names = list(EVALUATORS)
page, _, alone, cascade = range(len(names))
assert (rmse[:2, cascade] < rmse[:2, page] / 1.2).all()
assert (np.abs(in_errors[:2, cascade]) < 4).all()
assert abs(in_errors[0, alone]) < 4
assert in_errors[1, alone] > 4
plt.show()
