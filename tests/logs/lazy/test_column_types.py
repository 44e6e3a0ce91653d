# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope.logs.lazy._column_types import common_type

pa = pytest.importorskip("pyarrow")


def test_integers_that_a_missing_value_made_doubles():
    found = [("a", pa.int64()), ("b", pa.float64())]
    with pytest.raises(TypeError, match=r"in a \(pandas writes integers with a miss"):
        common_type("user", "label", found)
    with pytest.raises(TypeError, match=r"int64 in a: a label"):
        common_type("user", "label", [found[0], ("b", pa.string())])
