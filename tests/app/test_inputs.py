"""Nonsense that a person hands a verb comes back as one sentence that names the place, with the documented exit code."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner

from app.cli import VERBS, main
from app.inputs import json_line
from app.verbs.run import _claimed

FILES = {
    "binary.yaml": b"\xb6\x00\x01",
    "tabs.yaml": b"kind: A\n\tspec: 1\n",
    "twice.yaml": b"kind: A\nkind: B\n",
    "cut.json": b'{"a": 1,\n',
    "loop.yaml": b"kind: AdmissionReview\na: &a [*a]\n",
    "bomb.yaml": b"a: &a [1]\n" + b"".join(b"%c: &%c [%b]\n" % (n + 1, n + 1, b", ".join([b"*%c" % n] * 10)) for n in range(97, 105)),
    "odd.yaml": b"apiVersion: worker.gpustack.ai/v1\nkind: ModelDeployment\nmetadata: 7\nspec: {roles: {a: b}}\n",
    "kinds.yaml": b"apiVersion: worker.gpustack.ai/v1\nkind: [ModelDeployment]\nmetadata: {name: [a], labels: 7}\n",
    "tag.yaml": b"kind: !!python/object:os.system {}\n",
    "empty.yaml": b"",
    "deep.yaml": b"a: " + b"[" * 20000,
    "two.yaml": b"kueue: absent\n---\nact: status\n",
}
SAID = {
    "a file that is not there": ("crds --check -f none.yaml", 2, "none.yaml: No such file or directory"),
    "a folder as a review": ("review -f .", 2, ".: Is a directory"),
    "bytes that are no text, as objects": ("crds --check -f binary.yaml", 2, "binary.yaml: byte 0 is no UTF-8"),
    "bytes that are no text, as manifests": ("lint binary.yaml", 2, "binary.yaml: byte 0 is no UTF-8"),
    "bytes that are no text, as a dump": ("status -f binary.yaml", 2, "binary.yaml: byte 0 is no UTF-8"),
    "a tab in the indentation of objects": ("crds --check -f tabs.yaml", 2, "tabs.yaml:2: found character"),
    "a tab in the indentation of a review": ("review -f tabs.yaml", 2, "tabs.yaml: line 2: found a tab character"),
    "a tab in the indentation of a dump": ("status -f tabs.yaml", 2, "tabs.yaml: line 2: found a tab character"),
    "a key that occurs twice": ("crds --check -f twice.yaml", 2, 'twice.yaml:2: found duplicate key "kind"'),
    "a key that occurs twice in a dump": ("status -f twice.yaml", 2, 'twice.yaml: line 2: duplicate key "kind"'),
    "a key that occurs twice in a dump to explain": ("explain -f twice.yaml", 2, 'twice.yaml: line 2: duplicate key "kind"'),
    "a key that occurs twice in a review": ("review -f twice.yaml", 2, 'twice.yaml: line 2: duplicate key "kind"'),
    "a key that occurs twice in a scenario": ("run --scenario twice.yaml", 2, 'twice.yaml: line 2: duplicate key "kind"'),
    "a key that occurs twice in settings": ("config --config twice.yaml", 2, 'settings file twice.yaml: line 2: duplicate key "kind"'),
    "settings nested beyond every stack": (
        "config --config deep.yaml",
        2,
        "settings file deep.yaml: line 1: exceeded maximum nesting depth",
    ),
    "two documents of settings": ("config --config two.yaml", 2, "settings file two.yaml holds 2 documents"),
    "JSON that ends too early": ("crds --check -f cut.json", 2, "cut.json:2: "),
    "an alias that contains itself": ("review -f loop.yaml", 2, "loop.yaml: nested too deeply"),
    "aliases that stand for millions, in manifests": ("lint bomb.yaml", 1, "bomb.yaml:1: error: YAML002 : its aliases stand for"),
    "aliases that stand for millions, in a dump": ("status -f bomb.yaml", 2, "bomb.yaml: its aliases stand for"),
    "settings that contain themselves": ("config --config loop.yaml", 2, "loop.yaml: nested too deeply: an alias that contains itself"),
    "metadata that is no object": ("lint odd.yaml", 1, "odd.yaml:4: error: MD000 spec.roles: "),
    "a kind that is no text": ("crds --check -f kinds.yaml", 1, "no definition here has this kind"),
    "a tag that would run code": ("review -f tag.yaml", 2, "tag.yaml: line 1: could not determine a constructor"),
    "no review in the file": ("review -f empty.yaml", 2, "empty.yaml: one AdmissionReview is wanted, none found"),
    "no manifest in the file": ("lint empty.yaml", 0, "Warning: empty.yaml: no Kubernetes object"),
    "no object of ours in the file": ("crds --check -f empty.yaml", 0, "Warning: empty.yaml: no object of"),
    "an option that goes with another": ("crds --jsonl", 2, "--jsonl and -f go with --check"),
    "settings that are no YAML": ("config --config tabs.yaml", 2, "settings file tabs.yaml: line 2: found a tab character"),
    "a kubeconfig without anything": ("dump --kubeconfig empty.yaml", 1, "kubeconfig empty.yaml: it is no mapping with clusters"),
    "a kubeconfig that is no YAML": ("dump --kubeconfig tabs.yaml", 1, "kubeconfig tabs.yaml: while scanning"),
    "a scenario that is no YAML": ("run --scenario tabs.yaml", 2, "tabs.yaml: line 2: found a tab character"),
    "a namespace that cannot be": ("install --dry-run --namespace Bad_Name", 2, "'Bad_Name' is no name of a namespace"),
    "an engine that nobody knows": ("args --engine llama", 2, "'llama' is not one of vLLM, SGLang"),
}


@pytest.mark.parametrize(("call", "code", "said"), SAID.values(), ids=SAID)
def test_nonsense_is_answered_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, said: str) -> None:
    """The exit code is the documented one, and the last line says which place and why."""
    for name, raw in FILES.items():
        (tmp_path / name).write_bytes(raw)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, call.split(), catch_exceptions=False)
    assert (result.exit_code, said in result.output.splitlines()[-1]) == (code, True), result.output


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_has_examples_and_exit_codes(verb: str) -> None:
    """A verb is used from its help alone."""
    said = CliRunner().invoke(main, [verb, "--help"]).output
    assert "Examples:" in said
    assert "Exit codes" in said


@pytest.mark.parametrize("raw", [b"[]", b"null", b"{", b"\xff{}", b'{"a": NaN}', b'{"a": {"b": 1, "b": 1}}', b"[" * 100_000])
def test_a_line_that_is_no_object(raw: bytes) -> None:
    """The fault is said in words, not as the name of an exception."""
    with pytest.raises(ValueError, match="the line"):
        json_line(raw)


def test_a_run_keeps_off_a_folder_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other run wrote is neither overwritten nor cleared away."""
    folder = tmp_path / ".run"
    folder.mkdir()
    (folder / "kubeconfig").write_text("of the other run")
    call = ["run", "--once", "--scenario", "none"]
    monkeypatch.chdir(tmp_path)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        named = CliRunner().invoke(main, [*call, "--keep-state", ".run"])
        beside = subprocess.run([sys.executable, "-m", "app.cli", *call], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (named.exit_code, "another run uses .run" in named.output) == (2, True)
    assert (beside.returncode, ".run/2/kubeconfig" in beside.stderr) == (0, True), beside.stderr
    assert sorted(file.name for file in folder.iterdir()) == ["kubeconfig", "lock"]
    assert (folder / "kubeconfig").read_text() == "of the other run"


def test_a_lock_that_an_ending_run_took_away_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It clears its folder between our opening of the file and our hold on it: what is held then, the next run would not see."""
    folder, hold = tmp_path / ".run", fcntl.flock
    ends = [lambda: shutil.rmtree(folder), lambda: (folder / "lock").rename(folder / "old")]

    def flock(file: IO[str], how: int) -> None:
        if ends:
            ends.pop()()
            if ends:
                (folder / "lock").touch()  # and another run has begun
        hold(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    found, lock = _claimed(folder)
    with lock, (found / "lock").open("w") as other:
        assert ends == []
        with pytest.raises(BlockingIOError):
            hold(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("speed", ["nan", "inf", "-inf", "0", "-1", "1e-9", "soon"])
def test_a_speed_that_no_time_can_be_divided_by_is_refused(speed: str) -> None:
    """The flag is named, and nothing was started."""
    result = CliRunner().invoke(main, ["run", f"--speed={speed}", "--scenario", "none"])
    assert result.exit_code == 2
    assert "--speed" in result.output


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """What stands in its way is a file."""
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["run", "--scenario", "none", "--keep-state", str(tmp_path / "file" / "below")])
    assert result.exit_code == 2
    assert "below: Not a directory; name another folder with --keep-state" in result.output
