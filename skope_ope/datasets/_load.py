# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Real classification sets to practise on."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

BUNDLED = ("breast_cancer", "digits", "iris", "wine")
DATA_HOME_VARIABLE = "SKOPE_OPE_DATA"


def load_classification(
    name: str = "digits", *, data_home: Path | None = None, return_X_y: bool = False
) -> Any:
    """Load a real classification set by its name.

    "digits", "wine", "breast_cancer" and "iris" come with scikit-learn. Any other name
    is read from the file ``uci_<name>.csv.gz`` in `data_home`. The file has a header,
    numeric columns and an integer column "label". A column "class" with the names of
    the labels is optional. Read more in the :ref:`User Guide <datasets>`.

    Parameters
    ----------
    name : str, default="digits"
        Name of the set.
    data_home : path-like, default=None
        Folder of the files. `None`: the environment variable SKOPE_OPE_DATA.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or tuple of (ndarray, ndarray)
        The tuple ``(data, target)`` if `return_X_y`, otherwise these fields:

        data : ndarray of shape (n_samples, n_features)
            Features as stored, not scaled.
        target : ndarray of shape (n_samples,)
            Labels.
        target_names : ndarray of shape (n_classes,)
            Names of the labels, in their order.
        feature_names : list of str
            Names of the columns of `data`.

    Raises
    ------
    FileNotFoundError
        If the set does not exist. The message lists the sets that exist.
    ValueError
        If the file cannot be read as described. The message names the line.

    Examples
    --------
    >>> from skope_ope.datasets import load_classification
    >>> X, y = load_classification("wine", return_X_y=True)
    >>> X.shape
    (178, 13)
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {type(name).__name__}.")
    if name in BUNDLED:
        data = _load_bundled(name)
    else:
        data = _read_classification(_find_set(name.removeprefix("uci_"), data_home))
    return (data.data, data.target) if return_X_y else data


def _load_bundled(name):
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    return Bunch(
        data=data.data,
        target=data.target,
        target_names=np.asarray(data.target_names),
        feature_names=list(data.feature_names),
    )


def _find_set(name, data_home):
    """Path of the file of a set, or an error that names what there is."""
    bundled = ", ".join(BUNDLED)
    folder = data_home if data_home is not None else os.environ.get(DATA_HOME_VARIABLE)
    if not folder:
        raise FileNotFoundError(
            f"no set {name!r} comes with scikit-learn (these do: {bundled}). For "
            f"others pass data_home, or set {DATA_HOME_VARIABLE}, to a folder with "
            f"uci_{name}.csv.gz."
        )
    more = f"; with scikit-learn come {bundled}"
    return _file_of(folder, "uci_", name, ".csv.gz", more)


def _file_of(folder, start, name, end, more=""):
    path = Path(folder) / f"{start}{name}{end}"
    if not path.is_file():
        files = [p.name for p in Path(folder).glob(f"{start}*{end}")]
        found = sorted(file[len(start) : -len(end)] for file in files)
        raise FileNotFoundError(
            f"no file {path}. Sets found in {folder}: {', '.join(found) or 'none'}"
            f"{more}."
        )
    return path


def _read_classification(path):
    """Read a gzipped table of numbers with a column "label"."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    except (EOFError, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}. Copy it again.") from error
    if "label" not in header:
        raise ValueError(f'{path} lacks the column "label"; it has {header}.')
    if not rows:
        raise ValueError(f"{path} has a header and no rows.")
    names = [column for column in header if column not in ("label", "class")]
    columns = [header.index(column) for column in names]
    label = header.index("label")
    labelled = header.index("class") if "class" in header else label
    data = np.empty((len(rows), len(names)))
    target = np.empty(len(rows), dtype=np.intp)
    for i, row in enumerate(rows):
        try:
            if len(row) != len(header):
                raise ValueError(f"{len(row)} entries for {len(header)} columns")
            data[i] = [row[column] for column in columns]
            target[i] = int(row[label])
        except ValueError as error:
            raise ValueError(
                f"{path}, row {i + 1} after the header: {error}. All columns but "
                '"class" must hold numbers, "label" integers.'
            ) from error
    _, first = np.unique(target, return_index=True)
    return Bunch(
        data=data,
        target=target,
        target_names=np.array([rows[i][labelled] for i in first]),
        feature_names=names,
    )


# -- real sets of graded documents to practise ranking on ------------------------------


def load_ranking(
    name: str, *, data_home: Path | None = None, return_X_y: bool = False
) -> Any:
    """Load a set of graded documents by its name.

    It is read from the file ``ltr_<name>.npz`` in `data_home`. The file has the arrays
    ``X``, ``y`` and ``qid``. A CSR matrix has the parts ``X_data``, ``X_indices``,
    ``X_indptr``, ``X_shape`` instead of ``X``. Read more in the
    :ref:`User Guide <datasets>`.

    Parameters
    ----------
    name : str
        Name of the set.
    data_home : path-like, default=None
        Folder of the files. `None`: the environment variable SKOPE_OPE_DATA.
    return_X_y : bool, default=False
        Return ``(data, target, qid)`` instead of a Bunch.

    Returns
    -------
    Bunch or tuple of (ndarray, ndarray, ndarray)
        The tuple ``(data, target, qid)`` if `return_X_y`, otherwise these fields:

        data : ndarray or CSR matrix of shape (n_documents, n_features)
            Features of a document for its query.
        target : ndarray of shape (n_documents,)
            Grades of relevance.
        qid : ndarray of shape (n_documents,)
            Query of every document.
        feature_names : list of str
            Names of the columns of `data`.

    Raises
    ------
    FileNotFoundError
        If the set does not exist. The message lists the sets that exist.
    """
    folder = data_home if data_home is not None else os.environ.get(DATA_HOME_VARIABLE)
    if not folder:
        raise FileNotFoundError(
            f"pass data_home, or set {DATA_HOME_VARIABLE}, to a folder with "
            f"ltr_{name}.npz: no set of graded documents comes with scikit-learn."
        )
    with np.load(_file_of(folder, "ltr_", name, ".npz")) as file:
        arrays = dict(file)
    if "X" in arrays:
        X = arrays["X"]
    else:
        parts = (arrays["X_data"].astype(float), arrays["X_indices"])
        X = sparse.csr_matrix(
            (*parts, arrays["X_indptr"]), shape=tuple(arrays["X_shape"])
        )
    y, qid = arrays["y"], arrays["qid"]
    if return_X_y:
        return X, y, qid
    names = arrays.get("feature_names", np.arange(X.shape[1]))
    return Bunch(data=X, target=y, qid=qid, feature_names=[str(n) for n in names])
