# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import BanditLogs
from skope_ope.evaluators.core import _design
from skope_ope.evaluators.core._design import Design, design_of
from skope_ope.logs._labels import label_hash

OMEGA = np.array([1.0, 2.0, 0.0, 0.5, 1.5, 1.0])
STRATUM = np.array([0, 0, 0, 1, 1, 1])
CLUSTER = np.array([0, 1, 2, 2, 0, 0])


def full_design():
    """Six rounds in two strata and three clusters; the third round is none."""
    return Design(6, OMEGA, STRATUM, ["s", "t"], CLUSTER, np.array(["a", "b", "c"]))


def test_numbers_of_rounds_and_masses():
    found = full_design()
    assert_array_equal(found.count, [2, 3])
    assert_allclose(found.mass, [3.0, 3.0])
    assert_allclose(found.squared_mass, [5.0, 3.5])
    assert_array_equal(found.units, [2, 2])  # c has no round of weight in s
    assert_array_equal(found.cluster_sizes, [3, 1, 1])
    weights = np.bincount(CLUSTER, OMEGA)
    assert_allclose(found.effective_clusters, 36 / (weights @ weights))
    cells = {
        (s, c): (n, mass)
        for s, c, n, mass in zip(
            found.cell_stratum.tolist(),
            found.cell_cluster.tolist(),
            found.cell_count.tolist(),
            found.cell_mass.tolist(),
            strict=True,
        )
        if n
    }
    assert cells == {
        (0, 0): (1, 1.0),
        (0, 1): (1, 2.0),
        (1, 0): (2, 2.5),
        (1, 2): (1, 0.5),
    }


def test_one_stratum_of_independent_rounds():
    found = Design(4)
    assert (found.n_strata, found.clustered) == (1, False)
    assert_array_equal(found.count, [4])
    assert_allclose((found.mass, found.squared_mass), [[4], [4]])
    weighted = Design(6, OMEGA)
    assert_array_equal(weighted.count, [5])
    assert_allclose((weighted.mass, weighted.squared_mass), [[6], [8.5]])
    assert weighted.unweighted().omega is None
    assert found.unweighted() is found


def test_rounds_that_are_taken_keep_strata_and_the_clusters_that_they_have():
    found = full_design().take(np.array([0, 4]))
    assert found.strata == ["s", "t"]
    assert found.clusters.tolist() == ["a"]
    assert_array_equal(found.count, [1, 1])
    assert_allclose(found.mass, [1.0, 1.5])
    other = full_design().with_strata(np.array([0, 1, 0, 1, 0, 1]), ["u", "v"])
    assert_array_equal(other.count, [2, 3])
    assert_array_equal(other.cluster_sizes, [3, 1, 1])


@pytest.mark.parametrize(
    "group",
    [
        ["u", "v", "u", "v"],
        [("u", 1), ("v", 1), ("u", 1), ("v", 1)],
        np.array([7, 9, 7, 9]),
    ],
    ids=["strings", "tuples", "numbers"],
)
def test_groups_of_logs_are_clusters(group):
    logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], np.ones(4), [0.5] * 4)
    assert not design_of(logs).clustered
    if isinstance(group, list) and isinstance(group[0], tuple):
        labels = np.empty(4, dtype=object)
        labels[:] = group
    else:
        labels = group
    found = design_of(logs.replace(group=labels), np.array([1.0, 1, 1, 1]))
    assert_array_equal(found.cluster_sizes, [2, 2])
    assert_array_equal(found.cluster[:2], found.cluster[2:])


# -- samples ---------------------------------------------------------------------------
def samples_of(stratum, cluster, *, centre=None, used=None, clusters=True):
    n_strata, n = max(stratum) + 1, len(stratum)
    labels, cluster = np.unique(cluster, return_inverse=True)
    strata = list(range(n_strata))
    design = Design(n, None, np.array(stratum), strata, cluster, labels)
    centre = np.arange(n_strata) if centre is None else np.array(centre)
    used = np.ones(n_strata, dtype=bool) if used is None else np.array(used)
    units, freedom = design.samples(centre, used, clusters)
    return units.tolist(), freedom


@pytest.mark.parametrize("small", [0, _design.SMALL])
def test_samples_of_strata(monkeypatch, small):
    monkeypatch.setattr(_design, "SMALL", small)  # counted in either way
    stratum = [0, 0, 0, 1, 1, 2, 2]
    # nested: each stratum is a sample of its own clusters
    assert samples_of(stratum, [0, 1, 1, 2, 3, 4, 5]) == ([2, 2, 2], 3)
    # a cluster of two strata makes them one sample
    assert samples_of(stratum, [0, 1, 1, 1, 3, 4, 5]) == ([3, 3, 2], 3)
    # through the second, the first and the third are one
    assert samples_of(stratum, [0, 1, 1, 1, 3, 3, 5]) == ([4, 4, 4], 3)
    # a common mean does it, too
    centre = [0, 1, 0]
    assert samples_of(stratum, [0, 1, 1, 2, 3, 4, 5], centre=centre) == ([4, 2, 4], 4)
    # a stratum without weight links nothing and has no freedom
    used = [True, False, True]
    assert samples_of(stratum, [0, 1, 1, 1, 3, 3, 5], used=used)[1] == 2
    # rounds as units
    assert samples_of(stratum, [0] * 7, clusters=False) == ([3, 2, 2], 4)


def test_merged_frames_meet_by_labels():
    first = full_design()
    second = Design(
        3,
        None,
        np.array([0, 0, 1]),
        ["t", "w"],
        np.array([0, 1, 1]),
        np.array(["c", "d"]),
    )
    frame, [(strata, cells), (other_strata, other_cells)] = first.merged(second)
    assert frame.strata == ["s", "t", "w"]
    assert_array_equal(frame.count, [2, 5, 1])
    assert_array_equal(strata, [0, 1])
    assert_array_equal(other_strata, [1, 2])
    assert sorted(frame.cluster_sizes) == [1, 2, 2, 3]
    for design, where in ((first, cells), (second, other_cells)):
        labels = design.clusters[design.cell_cluster]
        assert_array_equal(frame.clusters[frame.cell_cluster[where]], labels)


def test_buckets_hold_whole_clusters():
    design = full_design()
    frame, where = design.bucketed(2)
    bucket = label_hash(design.clusters)[design.cell_cluster] % 2
    assert_array_equal(frame.clusters[frame.cell_cluster[where]], bucket)
    assert frame.n_buckets == 2
    assert_array_equal(
        frame.cell_count, np.bincount(where, design.cell_count, len(frame.cell_count))
    )
    assert frame.cluster_sizes.sum() == design.cluster_sizes.sum()
