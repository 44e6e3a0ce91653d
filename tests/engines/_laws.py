# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What holds on every engine that joblib sends tasks to."""

import os
import sys
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from skope_ope import BanditLogs, evaluate, summarize
from skope_ope.base import BasePolicy
from skope_ope.exceptions import OPEWarning
from skope_ope.logs import HashKFold
from tests.evaluators._parquet_worlds import lazy_world
from tests.evaluators._reference_worlds import WORLDS
from tests.evaluators.test_merging import FAMILIES, world_of

FAMILY_WORLDS = [
    ("real_weighted", True),
    ("loggers_weighted", True),
    ("context_free_weighted", False),
    ("slates_uniform", True),
]


def check_numbers(folder, seed=0, worlds=FAMILY_WORLDS):
    """Every family has the numbers of memory, however the files are cut."""
    rng = np.random.RandomState(seed)
    for k, (name, grouped) in enumerate(worlds):
        logs, atol = world_of(name, grouped)
        policy = WORLDS[name][1]().policies[0]
        evaluators = {str(i): one for i, one in enumerate(FAMILIES[name])}
        (folder / str(k)).mkdir()
        lazy = lazy_world(logs, folder / str(k), rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OPEWarning)
            whole = evaluate(policy, logs, evaluators=evaluators)
            found = evaluate(policy, lazy, evaluators=evaluators)
        for key, value in whole.items():
            for what in ("value", "standard_error", "degrees_of_freedom"):
                one, other = getattr(found[key], what), getattr(value, what)
                assert_allclose(one, other, rtol=1e-11, atol=atol, err_msg=name)


def some_logs(n=400):
    """Rounds of three actions with users and a context."""
    rng = np.random.RandomState(7)
    mu = 0.2 + 0.4 * rng.dirichlet(np.ones(3), n)
    action = (mu.cumsum(axis=1) > rng.random_sample((n, 1))).argmax(axis=1)
    x = rng.normal(size=(n, 2))
    reward = action + x[:, 0] + rng.normal(size=n)
    p = mu[np.arange(n), action]
    return BanditLogs(x, action, reward, p, group=rng.randint(60, size=n))


def in_main(cls):
    """Return a class as if it were defined in a notebook or a script."""
    cls.__module__, cls.__qualname__ = "__main__", cls.__name__
    setattr(sys.modules["__main__"], cls.__name__, cls)
    return cls


def notebook_policy(**given):
    """A policy of a class that no worker can import."""

    @in_main
    class NotebookPolicy(BasePolicy):
        """Prefers an action that the context tells; may fail, or kill its process."""

        def __init__(self, fails_at=None, dies=None):
            self.fails_at, self.dies = fails_at, dies

        def _proba(self, X, available=None):
            raise AssertionError("not asked")

        def logs_proba(self, logs):
            if self.fails_at is not None and self.fails_at in logs.row_id.position:
                raise ValueError("no such user")
            if self.dies is not None and not os.path.exists(self.dies):
                with open(self.dies, "w"):
                    pass
                os._exit(1)
            preferred = (np.asarray(logs.context)[:, 0] > 0).astype(int)
            return 0.7 * np.eye(logs.n_actions)[preferred] + 0.3 / logs.n_actions

    return NotebookPolicy(**given).fit(some_logs())


def table_of(logs, policy):
    """The table that the other laws ask for: columns, a model and folds by hash."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return evaluate(
            {"new": policy},
            logs,
            evaluators=["SNIPS", "DoublyRobust"],
            reward_model=in_main(type("NotebookRidge", (Ridge,), {}))(),
            cv=HashKFold(3),
        )


def check_same(found, whole):
    for key, value in whole.items():
        assert_allclose(found[key].value, value.value, rtol=1e-11)
        assert_allclose(found[key].standard_error, value.standard_error, rtol=1e-11)


def check_notebook_classes(folder):
    """Policies and models of classes that only the caller knows reach the workers."""
    logs = some_logs()
    lazy = lazy_world(logs, folder, np.random.RandomState(1), n_files=3)
    check_same(*(table_of(one, notebook_policy()) for one in (lazy, logs)))


def killer(folder):
    """Logs, the same in files, and a policy that kills its process once."""
    logs, files = some_logs(), folder / "logs"
    files.mkdir()
    lazy = lazy_world(logs, files, np.random.RandomState(1), n_files=3)
    return logs, lazy, notebook_policy(dies=str(folder / "died"))


def check_errors_are_named(folder, again=True):
    """An error of a worker keeps its type, and names file and row group."""
    logs = some_logs(60)
    lazy = lazy_world(logs, folder, np.random.RandomState(2), n_files=3)
    where = next(p.name for p, one in lazy.read() if one.row_id.position[-1] >= 41)
    policy = notebook_policy(fails_at=41)
    with pytest.raises(ValueError, match="no such user") as told:
        summarize({"new": policy}, lazy, evaluators=["IPS"])
    assert str(told.value) == f"{where}: no such user"
    if again:  # the next call works
        found = summarize({"new": notebook_policy()}, lazy, evaluators=["IPS"])
        assert found.n_rounds == 60


def check_corrupt_files_are_named(folder):
    """A row group that cannot be read is named, and nothing is counted."""
    logs = some_logs(60)
    lazy = lazy_world(logs, folder, np.random.RandomState(3), n_files=2)
    path = sorted(folder.iterdir())[-1]
    data = bytearray(path.read_bytes())
    data[4:60] = b"\0" * 56
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match=rf"{path.name}, row group \d+"):
        summarize({"new": notebook_policy()}, lazy, evaluators=["IPS"])


LAWS = (check_notebook_classes, check_errors_are_named, check_corrupt_files_are_named)
LAWS_OF_ONE_CALL = (LAWS[0], partial(check_errors_are_named, again=False), LAWS[2])
