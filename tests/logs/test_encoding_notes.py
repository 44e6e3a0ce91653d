# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    ContextEncoder,
    DirectMethod,
    PropensityEstimator,
    RewardModelPolicy,
    UniformPolicy,
)
from skope_ope.logs._model_features import encoding_explained, text_columns

pd = pytest.importorskip("pandas")
pytest.importorskip("narwhals")

RNG = np.random.RandomState(0)
FRAME = pd.DataFrame(
    {
        "device": np.tile(["desktop", "phone"], 30),
        "hour": RNG.randint(24, size=60),
        "item": RNG.choice(["a", "b"], size=60),
        "click": RNG.randint(2, size=60),
        "p": 0.5,
    }
)
LOGS = BanditLogs.from_frame(
    FRAME, action="item", reward="click", propensity="p", context=["device", "hour"]
)


def choosing(model):
    """A model behind a ColumnTransformer that leaves out the texts."""
    chosen = make_column_transformer(("passthrough", ["hour"]), remainder="passthrough")
    return make_pipeline(chosen, model)


CALLS = {
    "ClassifierPolicy": lambda: ClassifierPolicy(choosing(LogisticRegression())),
    "RewardModelPolicy": lambda: RewardModelPolicy(choosing(Ridge())),
    "PropensityEstimator": lambda: PropensityEstimator(choosing(LogisticRegression())),
    "DirectMethod": lambda: DirectMethod(reward_model=choosing(Ridge())),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_texts_are_told_with_the_way_to_encode_them(call):
    with pytest.raises(ValueError, match="could not convert string") as info:
        call().fit(LOGS)
    told = [note for note in info.value.__notes__ if "'device'" in note]
    assert len(told) == 1
    assert "ContextEncoder" in told[0] and "'hour'" not in told[0]
    assert not any("Few rounds" in note for note in info.value.__notes__)


def test_what_the_note_says_works():
    model = LogisticRegression()
    encode = OneHotEncoder(handle_unknown="ignore")
    columns = make_column_transformer((encode, ["device"]), remainder="passthrough")
    for pipeline in (
        make_pipeline(columns, model),
        make_pipeline(ContextEncoder(), model),
    ):
        policy = ClassifierPolicy(pipeline).fit(LOGS)
        assert policy.predict(LOGS.context).shape == (60,)
        assert policy.classifier_.steps[1][1].__class__ is LogisticRegression


def test_a_category_that_a_fold_does_not_hold():
    frame = FRAME.assign(device=["rare", *FRAME["device"][1:]])
    logs = BanditLogs.from_frame(
        frame, action="item", reward="click", propensity="p", context=["device"]
    )
    columns = make_column_transformer((OneHotEncoder(), ["device"]))
    with pytest.raises(ValueError, match="unknown categories") as info:
        DirectMethod().fit(logs, make_pipeline(columns, Ridge())).score(UniformPolicy())
    assert any("handle_unknown='ignore'" in note for note in info.value.__notes__)


def test_columns_of_texts():
    assert text_columns(FRAME) == ["device", "item"]
    assert text_columns(FRAME.astype({"device": "category"})) == ["device", "item"]
    assert text_columns(FRAME[["hour"]]) == []
    assert text_columns(np.zeros((3, 2))) == []


def test_other_errors_are_left_as_they_are():
    for context, message in ((FRAME, "too few"), (np.zeros((2, 1)), "could not conv")):
        with pytest.raises(ValueError) as info, encoding_explained(context):
            raise ValueError(message)
        assert not hasattr(info.value, "__notes__")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_with_missing_values_are_named(library):
    library = pytest.importorskip(library)
    make = getattr(library, "DataFrame", getattr(library, "table", None))
    for missing in (None, float("nan")):
        context = make({"age": [1.0, missing, 2.0], "hour": [1.0, 2.0, 3.0]})
        told = pytest.raises(ValueError, match="contains NaN")
        with told as info, encoding_explained(context):
            raise ValueError("Input X contains NaN.")
        assert "missing values ('age'), which" in info.value.__notes__[0]
