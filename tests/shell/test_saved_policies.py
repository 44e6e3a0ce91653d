# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Files of saved policies: which need trust, and that nothing in others runs."""

import json
import os
import pickle
import sys
import zipfile
from io import BytesIO

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from skope_ope import (
    IPS,
    ActionRewardModel,
    ClassifierPolicy,
    ConstantPolicy,
    ContextEncoder,
    FunctionPolicy,
    IPSPolicy,
    LinUCB,
    RewardModelPolicy,
)
from skope_ope._shell._policies import load_policy
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.evaluators import ReorderingPolicy
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.policies import (
    AdaptiveFunctionPolicy,
    BatchPolicy,
    EmpiricalSlatePolicy,
    SegmentedPolicy,
)
from tests import test_common
from tests._learned_share import learned_share
from tests.shell.conftest import CONTEXT, main
from tests.test_persistence import logs_for


@pytest.fixture(scope="module")
def policy():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    return ClassifierPolicy(LogisticRegression(), epsilon=0.2).fit(X, list("aabb"))


class Touch:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("dump", [joblib.dump, lambda p, f: f.write(pickle.dumps(p))])
def test_pickles_are_loaded_on_trust_only(policy, tmp_path, dump):
    path = tmp_path / "policy.pkl"
    with open(path, "wb") as file:
        dump(policy, file)
    with pytest.raises(PermissionError, match="loading a pickle runs the code in it"):
        load_policy(path)
    found = load_policy(path, trust=True).predict_proba([[0.5]])
    np.testing.assert_array_equal(found, policy.predict_proba([[0.5]]))
    mark = tmp_path / "mark"  # and nothing runs before
    path.write_bytes(pickle.dumps(Touch(mark)))
    with pytest.raises(PermissionError):
        load_policy(path)
    assert not mark.exists()
    load_policy(path, trust=True)
    assert mark.exists()


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("kind", [ClassifierPolicy, IPSPolicy])
def test_what_policies_have_learned_from_comes_along(kind, tmp_path):
    io = pytest.importorskip("skops.io")
    path = tmp_path / "policy.skops"
    logs = make_bandit_logs(100, random_state=0)
    io.dump(kind(DummyClassifier()).fit(logs[:75]), path)
    policy = load_policy(path)
    for other in (logs, make_bandit_logs(100, random_state=0)):
        assert learned_share(policy, other) == 0.75


def test_unknown_types_in_skops_files_need_trust(tmp_path):
    io = pytest.importorskip("skops.io")
    path = tmp_path / "policy.skops"
    io.dump(FunctionPolicy(os.getcwd), path)
    with pytest.raises(PermissionError, match=r"not known to be safe: .*getcwd.*--tru"):
        load_policy(path)
    assert isinstance(load_policy(path, trust=True), FunctionPolicy)


def test_files_that_are_no_policy(policy, tmp_path):
    path = tmp_path / "policy.pkl"
    for content in (b"", b"not a pickle", b"\x80\x04\x95", pickle.dumps(policy)[:-20]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"policy\.pkl cannot be unpickled"):
            load_policy(path, trust=True)
    pytest.importorskip("skops")
    path = tmp_path / "policy.skops"
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"policy\.skops cannot be read by skops"):
        load_policy(path)


def test_missing_files_and_packages(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"policy\.pkl: no such file"):
        load_policy(tmp_path / "policy.pkl")
    with pytest.raises(FileNotFoundError, match="is a folder"):
        load_policy(tmp_path)
    path = tmp_path / "policy.skops"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(ImportError, match="needs skops: pip install skops"):
        load_policy(path)


FUNCTIONS = (FunctionPolicy, AdaptiveFunctionPolicy)
SAVED = [*test_common.POLICIES, *test_common.ADAPTIVE_POLICIES, ReorderingPolicy()]
SAVED += [*test_common.BATCH_POLICIES, *test_common.LEARNED_POLICIES]
SAVED += [*test_common.SLATE_POLICIES, *test_common.SLATE_LEARNERS]
SAVED = [one for one in SAVED if "Tree" not in repr(one)]


def named(logs):
    """Return the logs with a frame as context, of all kinds for single rounds."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.asarray(logs.context)).rename(columns="x{}".format)
    if isinstance(logs, SlateLogs):
        names = ("n_candidates", "item_features", "slot_reward", "logging_policy")
        given = {name: getattr(logs, name) for name in names}
        return SlateLogs(frame, logs.slate, logs.reward, **given)
    rows = np.arange(len(logs))
    frame["x0"] = np.where(rows % 7, frame["x0"], np.nan)
    frame["city"] = np.array(["ulm", "bonn"])[rows % 2]
    frame["day"] = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(rows, "D")
    return BanditLogs(frame, logs.action, logs.reward, logs.propensity)


def saved(policy, path):
    io = pytest.importorskip("skops.io")
    io.dump(policy, path)
    return path


@pytest.mark.frames
@pytest.mark.filterwarnings("ignore:.*was fitted behind a ContextEncoder")
@pytest.mark.parametrize("make", [lambda logs: logs, named], ids=["array", "frame"])
@pytest.mark.parametrize("policy", SAVED, ids=test_common.without_addresses)
def test_every_policy_needs_no_trust(policy, make, tmp_path):
    path, one, trust = tmp_path / "policy.SKOPS", policy, type(policy) in FUNCTIONS
    if make is named and "StandardScaler" in repr(policy):  # a user's pipeline encodes
        steps = ContextEncoder(sparse_output=False), *policy.classifier
        policy = ClassifierPolicy(make_pipeline(*steps))
    of_segments = type(policy) is SegmentedPolicy and make is named
    if not (trust or of_segments):
        one = clone(policy).fit(make(logs_for(policy)))  # no frame can be stored
    saved(one, path)
    if trust:
        with pytest.raises(PermissionError, match=f"safe: .*{type(policy).__name__}"):
            load_policy(path)
    back = load_policy(path, trust=trust)
    assert type(back) is type(one)
    assert repr(back) == repr(one)


@pytest.mark.frames
def test_a_policy_of_a_frame_is_evaluated_without_trust(clicks, record, tmp_path):
    frame = pytest.importorskip("pandas").read_csv(clicks[0])
    names = [f"x{j}" for j in range(5)]
    policy = ClassifierPolicy(epsilon=0.2).fit(frame[names], frame["item"])
    path = saved(policy, tmp_path / "p.skops")
    found = record("--policy", path, *CONTEXT, "--evaluators", "IPS")
    pi = policy.predict_proba(frame[names])
    chosen = pi[np.arange(600), np.searchsorted(policy.classes_, frame["item"])]
    expected = np.mean(chosen / frame["p"] * frame["click"])
    assert found["values"][0]["value"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.frames
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LearnedRoundsWarning")
@pytest.mark.parametrize(
    "policy",
    [ConstantPolicy("b"), RewardModelPolicy(make_pipeline(ContextEncoder(), Ridge()))],
)
def test_a_policy_sees_columns_of_texts(policy, tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    rows = np.arange(300)
    columns = {"age": rows % 50, "city": np.array(["ulm", "bonn"])[rows % 2]}
    columns |= {"item": np.array(["a", "b", "c"])[rows % 3], "p": 1 / 3}
    frame = pandas.DataFrame(columns).assign(click=(rows % 7 == 0) * 1.0)
    names = {"action": "item", "reward": "click", "propensity": "p"}
    logs = BanditLogs.from_frame(frame, **names, context=["age", "city"])
    policy = policy.fit(logs)
    frame.to_csv(tmp_path / "log.csv", index=False)
    words = "--action item --reward click --propensity p --context age,city --json"
    words = [*words.split(), "--evaluators", "IPS", "--policy"]
    saved_policy = str(saved(policy, tmp_path / "p.skops"))
    code = main(["evaluate", str(tmp_path / "log.csv"), *words, saved_policy])
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    value = IPS().fit(logs).evaluate(policy).value
    assert found["values"][0]["value"] == pytest.approx(value, rel=1e-9)


def test_learners_and_slates_of_rows_need_no_trust(tmp_path):
    policy = LinUCB().fit(make_bandit_logs(50, random_state=0)).frozen()
    assert type(load_policy(saved(policy, tmp_path / "p.skops"))) is type(policy)
    logs = make_slate_logs(50, random_state=0)
    policy = EmpiricalSlatePolicy.seen_in(logs, by=np.arange(50) % 3)
    back = load_policy(saved(policy, tmp_path / "p.skops"))
    expected = policy.slate_proba(logs, logs.slate)
    np.testing.assert_array_equal(back.slate_proba(logs, logs.slate), expected)


OWN = "skope_ope.policies._fit_free_policies", "UniformPolicy"
LOADER = load_policy.__module__, "_load_pickle"


def node(loader, module="builtins", name="str", **state):
    return {"__loader__": loader, "__module__": module, "__class__": name, **state}


def plain(value):
    return node("JsonNode", content=json.dumps(value))


def some(*nodes, kind="list"):
    return node(f"{kind.title()}Node", name=kind, content=list(nodes))


def entries(**values):
    types = some(*(node("TypeNode") for _ in values))
    return node("DictNode", name="dict", key_types=types, content=values)


def made(module, name, **attributes):
    return node("ObjectNode", module, name, content=entries(**attributes))


def load_again(path, loader="ConstructorFromReduceNode"):
    """What calls the loader of pickles with the file itself, and with trust."""
    arguments = some(plain(str(path)), plain(True), kind="tuple")
    return node(loader, *LOADER, content=arguments, attrs=arguments)


def part(loader, *whose, **state):
    """What stands as a parameter in an own class."""
    inside = node(loader, *whose, **state)
    return made("skope_ope.policies._mixture_policy", "MixturePolicy", policies=inside)


def of_keys(path):
    types = some(node("TypeNode", *LOADER))
    return node("DictNode", name="dict", key_types=types, content={str(path): plain(1)})


def a_partial(path):
    arguments = some(plain(str(path)), plain(True), kind="tuple")
    content = {"func": node("FunctionNode", *LOADER), "args": arguments}
    content |= {"kwds": entries(), "namespace": plain(None)}
    return node("PartialNode", "functools", "partial", content=content)


def of_an_old_protocol(path):
    content = {"module_path": OWN[0], "function": OWN[1], "__loader__": "ObjectNode"}
    return part("FunctionNode", content=content) | {"protocol": 0}


def a_cache(path):
    return made("sklearn.pipeline", "Pipeline", memory=plain(str(path.parent)))


def a_cache_in_a_list(path):
    pair = some(plain("memory"), plain(str(path.parent)), kind="tuple")
    return node("ObjectNode", *OWN, content=some(pair))


def a_method(path):
    return node("MethodNode", *OWN, content={"obj": made(*OWN), "func": "fit"})


def an_operator(path):
    arguments = some(plain("fit"))
    return node("OperatorFuncNode", "operator", "methodcaller", attrs=arguments)


def a_call_of_a_class(path):
    return node("ConstructorFromReduceNode", *OWN, content=some(kind="tuple"))


def a_class_that_is_not_public(path):
    return made("skope_ope._parallel", "Carried", data=plain(""))


ATTACKS = {one.__name__: one for one in (load_again, of_keys, a_method, a_partial)}
ATTACKS |= {one.__name__: one for one in (an_operator, a_call_of_a_class, a_cache)}
ATTACKS |= {one.__name__: one for one in (of_an_old_protocol, a_cache_in_a_list)}
ATTACKS |= {
    "a part": lambda path: made(*OWN, n=load_again(path)),
    "a list of a class": lambda path: node("ListNode", *OWN, content=[]),
    "a class": lambda path: part("TypeNode", *OWN),
    "a class as a function": lambda path: part("FunctionNode", *OWN),
    "dots in a name": lambda path: made("skope_ope.policies", ".".join(OWN)[19:]),
    "a module": lambda path: made("skope_ope", "policies"),
    "a class that is not public": a_class_that_is_not_public,
}


def written(path, schema, *, before=b""):
    """Write a zip file that holds a schema of skops, behind something else."""
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("schema.json", json.dumps({"protocol": 1, **schema}))
    path.write_bytes(before + packed.getvalue())
    return path


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("suffix", [".skops", ".SKOPS"])
def test_nothing_of_a_hostile_file_runs(attack, suffix, tmp_path, refused):
    """The file is a pickle, too, whose code would leave a mark."""
    pytest.importorskip("skops")
    path, mark = tmp_path / f"policy{suffix}", tmp_path / "mark"
    written(path, ATTACKS[attack](path), before=pickle.dumps(Touch(mark)))
    assert path.name in refused("--policy", path, *CONTEXT)
    refusal = PermissionError, ValueError
    with pytest.raises(refusal, match=r"not known to be|cannot be"):
        load_policy(path)
    assert not mark.exists()


def test_known_parts_alone_are_loaded(tmp_path):
    """What the hostile files are made of is read by skops where it is harmless."""
    pytest.importorskip("skops")
    path = written(tmp_path / "p.skops", part("ListNode", name="list", content=[]))
    assert load_policy(path).policies == []


@pytest.mark.parametrize("model", ["pipeline", "reward model"])
def test_caches_of_pickles_need_trust(model, tmp_path):
    logs, cache = make_bandit_logs(60, random_state=0), str(tmp_path / "cache")
    if model == "pipeline":
        steps = make_pipeline(LogisticRegression(), memory=cache)
        policy = ClassifierPolicy(steps)
    else:
        learner = RewardModelPolicy(ActionRewardModel(Ridge(), memory=cache))
        policy = BatchPolicy(learner, logs, every=20)
    path = saved(policy, tmp_path / "p.skops")
    with pytest.raises(PermissionError, match=r"a folder of pickles.* Pass --trust"):
        load_policy(path)
    assert type(load_policy(path, trust=True)) is type(policy)


UNTRUSTED = {"FunctionPolicy": FunctionPolicy(np.exp)}
UNTRUSTED["Tree"] = ClassifierPolicy(DecisionTreeClassifier())
UNTRUSTED["TreePredictor"] = ClassifierPolicy(HistGradientBoostingClassifier())


@pytest.mark.parametrize("what", UNTRUSTED)
def test_what_the_guide_names_needs_trust(what, tmp_path):
    policy = clone(UNTRUSTED[what]).fit(make_bandit_logs(60, random_state=0))
    path = saved(policy, tmp_path / "p.skops")
    with pytest.raises(PermissionError, match=rf"safe: .*{what}\. Pass --trust"):
        load_policy(path)
    assert type(load_policy(path, trust=True)) is type(policy)


def test_files_that_unpack_to_too_much_are_not_unpacked(tmp_path, monkeypatch):
    path = saved(ClassifierPolicy().set_params(epsilon=0.5), tmp_path / "p.skops")
    monkeypatch.setattr("skope_ope.logs._text_files.MOST_UNPACKED", 100)
    told = r"p\.skops .*[\d,]+ bytes, and at most 100 are"
    with pytest.raises(ValueError, match=told):
        load_policy(path)
