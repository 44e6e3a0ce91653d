# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Real sets of graded documents to practise ranking on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from skope_ope.datasets._load import DATA_HOME_VARIABLE

if TYPE_CHECKING:
    from typing import Any


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
    path = Path(folder) / f"ltr_{name}.npz"
    if not path.is_file():
        found = sorted(p.stem[4:] for p in Path(folder).glob("ltr_*.npz"))
        raise FileNotFoundError(
            f"no file {path}. Sets found in {folder}: {', '.join(found) or 'none'}."
        )
    with np.load(path) as file:
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
