# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C at any moment of the program: one line, and 130."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = "import sys\nfrom skope_ope.__main__ import main\nsys.exit(main())\n"
# What sends the signal: a module while it is imported, or a policy that is loaded.
SENDS = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
MOMENTS = {"first imports": "numpy", "late imports": "joblib", "while it runs": None}


class Sends:
    def __reduce__(self):
        return signal.raise_signal, (signal.SIGINT,)


@pytest.mark.skipif(os.name == "nt", reason="signals of Windows differ")
@pytest.mark.parametrize("way", ["script", "module"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_one_line_and_130(tmp_path, way, moment):
    if MOMENTS[moment] is not None:
        (tmp_path / f"{MOMENTS[moment]}.py").write_text(SENDS)
    (tmp_path / "policy.pkl").write_bytes(pickle.dumps(Sends()))
    (tmp_path / "skope-ope").write_text(SCRIPT)
    (tmp_path / "log.csv").write_text("a,r,p,x\n" + "u,1,.5,0\nv,0,.5,1\n" * 20)
    start = [tmp_path / "skope-ope"] if way == "script" else ["-m", "skope_ope"]
    roles = ["--action", "a", "--reward", "r", "--propensity", "p", "--context", "x"]
    policy = ["--policy", "policy.pkl", "--trust"]
    done = subprocess.run(
        [sys.executable, *start, "evaluate", "log.csv", *roles, *policy],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stderr) == (130, "skope-ope: interrupted\n")
    assert not done.stdout


def test_other_programs_keep_their_ctrl_c():
    code = "import signal; before = signal.getsignal(signal.SIGINT)\nimport skope_ope\n"
    code += "assert signal.getsignal(signal.SIGINT) is before"
    about = {"env": os.environ | {"PYTHONPATH": str(ROOT)}, "check": True}
    subprocess.run([sys.executable, "-c", code, "-m", "skope_ope"], **about)
