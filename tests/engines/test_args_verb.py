"""`mdctl args` and `mdctl options` as a person and a program use them."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from app.verbs.args import command as args
from app.verbs.argspage import page
from app.verbs.options import command as options

ROOT = Path(__file__).parents[2]


def run(*words: str, stdin: str | None = None) -> tuple[int, str]:
    """Exit status and output of `mdctl args`."""
    result = CliRunner().invoke(args, list(words), input=stdin)
    return result.exit_code, result.output


def listed(*words: str) -> str:
    """The output of `mdctl options`."""
    result = CliRunner().invoke(options, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def test_the_page_shows_what_the_command_says_today() -> None:
    """`make docs` writes it again."""
    assert (ROOT / "docs" / "args.md").read_text("utf-8") == page()


def test_a_persons_view_names_spelling_value_fate_and_reason() -> None:
    """One line an argument, then the facts, then the findings."""
    status, text = run("--version", "0.29.0", "--", "--te", "2", "--foo", "-ep")
    assert status == 0
    assert "is --tensor-parallel-size, = 2" in text
    assert "no option of this release" in text
    assert "tensorParallel 2 (#0)" in text
    assert "EA002" in text


def test_an_unreadable_line_exits_with_one() -> None:
    """So that a script notices."""
    status, text = run("--", "--data-parallel", "2")
    assert status == 1
    assert "unreadable: --data-parallel is ambiguous" in text


@pytest.mark.parametrize(("form", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_document_carries_facts_places_and_fates(form: str, load: object) -> None:
    """The line mode's result, and what stands behind it."""
    status, text = run("-o", form, "--engine", "SGLANG", "--version", "0.5.18", "--", "--tp", "2")
    assert status == 0
    found = load(text)  # type: ignore[operator]
    assert found["parallelism"]["declared"] == {"tensorParallel": 2}
    assert found["parallelism"]["provenance"]["tensorParallel"] == [{"position": 0, "spelling": "--tp", "value": "2"}]
    assert found["reading"]["table"] == "0.5.18"
    assert [argument["fate"] for argument in found["reading"]["arguments"]] == ["option", "value"]


def test_the_environment_and_the_port_are_the_roles() -> None:
    """`--env` may be given again, the port is where the gates look."""
    _, text = run("-o", "json", "--env", "N=4", "-e", "VLLM_DP_SIZE=$(N)", "--port", "9000", "--", "-tp", "$(N)")
    found = json.loads(text)
    assert found["parallelism"]["declared"] == {"tensorParallel": 4, "dataParallel": 4}
    assert found["gates"]["port"] == 9000


def test_bytes_that_are_no_text_do_not_break_the_document() -> None:
    """A terminal may hand them over; no Pod can carry them."""
    status, text = run("-o", "json", "--", "--host", "\udcff")
    assert status == 0
    assert json.loads(text)["listener"]["host"] == "\ufffd"


def test_a_take_over_command_is_not_read_for_degrees() -> None:
    """Nor does it exit with one: nothing is wrong with it."""
    status, text = run("-o", "json", "--take-over", "--", "serve", "-tp", "2", "--ssl-certfile", "/c")
    found = json.loads(text)
    assert status == 0
    assert found["parallelism"]["source"]["unreadableReason"] == "Unmanaged"
    assert found["tls"]["enabled"]


def test_a_comparison_says_what_an_upgrade_changes() -> None:
    """And says so when nothing does."""
    _, text = run("--compare", "0.29.0,0.33.0", "--", "--disable-expert-parallel")
    assert "unknown" in text
    assert "expertParallel false" in text
    assert "nothing changes" in run("--compare", "0.29.0, 0.33.0", "--", "-tp", "2")[1]
    _, document = run("--compare", "0.29.0,0.33.0", "-o", "json", "--", "--disable-expert-parallel")
    assert set(json.loads(document)) == {"from", "to", "changes"}


BAD = {
    "an engine nobody knows": ("--engine", "llama"),
    "a variable without a value": ("--env", "A"),
    "one release to compare": ("--compare", "0.29.0"),
    "a port beyond 16 bits": ("--port", "70000"),
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD.keys())
def test_a_wrong_call_is_a_usage_error(words: tuple[str, ...]) -> None:
    """Status 2, as click does it."""
    assert run(*words)[0] == 2


def test_lines_are_answered_in_order_and_a_bad_one_in_its_place() -> None:
    """One document in, one out; empty lines are none."""
    deep = '{"engine":"vLLM","argv":[],"x":' + "[" * 5000 + "]" * 5000 + "}"
    lines = ['{"engine":"vLLM","argv":["-tp","2"]}', "", "{", deep, '{"engine":"sglang","argv":["--tp","4"]}']
    status, text = run("--jsonl", stdin="\n".join(lines))
    assert status == 0
    first, second, third, fourth = (json.loads(line) for line in text.splitlines())
    assert first["parallelism"]["declared"] == {"tensorParallel": 2}
    assert set(second) == {"error"}
    assert third == {"error": "the line is nested too deeply"}
    assert fourth["parallelism"]["declared"] == {"tensorParallel": 4}


def test_a_variable_without_a_value_is_empty_and_one_from_elsewhere_is_open() -> None:
    """The schema: a value is empty where absent. A Pod's `valueFrom` is known to the cluster alone."""
    argv = '"engine":"vLLM","argv":["-tp","2","--ssl-certfile","$(CERT)"]'
    lines = [f'{{{argv},"env":[{{"name":"CERT"}}]}}', f'{{{argv},"env":[{{"name":"CERT","valueFrom":{{"secretKeyRef":{{}}}}}}]}}']
    empty, elsewhere = (json.loads(line) for line in run("--jsonl", stdin="\n".join(lines))[1].splitlines())
    assert not empty["tls"]["enabled"]
    assert elsewhere["tls"]["enabled"]
    assert [found["id"] for found in elsewhere["findings"]] == ["EA011"]


def test_a_member_that_is_null_is_absent() -> None:
    """Kubernetes writes both."""
    bare = run("--jsonl", stdin='{"engine":"vLLM"}')
    assert bare == run("--jsonl", stdin='{"engine":"vLLM","argv":null,"version":null,"env":null,"command":null,"ports":null}')
    assert json.loads(bare[1])["parallelism"]["source"]["complete"]


def test_a_result_line_has_exactly_the_members_of_the_contract() -> None:
    """D8."""
    found = json.loads(run("--jsonl", stdin='{"engine":"vLLM","argv":["--foo"]}')[1])
    assert set(found) == {"parallelism", "listener", "tls", "gates", "findings"}
    assert set(found["parallelism"]) == {"declared", "modes", "loadBalance", "source"}
    assert set(found["parallelism"]["source"]) == {"kind", "complete"}
    assert set(found["listener"]) == {"host", "port", "hostDeclared", "portDeclared"}
    assert set(found["tls"]) == {"enabled", "clientCert"}
    assert set(found["gates"]) == {"gated", "scheme", "port", "fills", "withheldBy"}
    assert set(found["findings"][0]) == {"id", "severity", "message"}


def test_options_are_found_by_spelling_and_destination() -> None:
    """Underscores and dashes are one."""
    text = listed("--engine", "vllm", "--version", "0.29.0", "--grep", "tensor_parallel")
    assert "--tensor-parallel-size -tp" in text
    assert "1 of 293 options of vLLM 0.29.0" in text
    assert "off: --no-enable-expert-parallel" in listed("--grep", "enable-expert-parallel")


def test_options_as_documents_and_releases() -> None:
    """For programs."""
    found = json.loads(listed("--engine", "SGLang", "--grep", "ssl", "-o", "json"))
    assert found["table"] == "0.5.23"
    assert all("ssl" in option["dest"] for option in found["options"])
    assert yaml.safe_load(listed("--engine", "SGLang", "--grep", "ssl", "-o", "yaml")) == found
    assert listed("--engine", "sglang", "--releases").split() == ["0.5.13.post1", "0.5.18", "0.5.23"]


def test_options_of_an_unknown_engine_are_a_usage_error() -> None:
    """Status 2."""
    assert CliRunner().invoke(options, ["--engine", "llama"]).exit_code == 2
