"""The handed acceptance cases of admission, put to the offline form as `mdctl review --jsonl` does."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from webhooks.offline import answer
from webhooks.settings import AdmissionSettings

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases" / "admission.jsonl").read_text("utf-8").splitlines() if line.strip()]
STEP = re.compile(r'\.?([A-Za-z0-9_$-]+)|\[(\d+)\]|\["([^"]+)"\]|\[([A-Za-z0-9_]+)=([^\]]*)\]')

# Cases that a page with more authority contradicts, with the sentence that wins (docs/decisions.md says more).
OVERRULED = {
    "ad.parallelism-parse.degree-abbreviation-with": "D5: a token on which the argparse families differ never refuses, it warns",
}


def look(value: Any, path: str) -> Any:
    """The value at a dotted path, None where there is none."""
    for name, index, quoted, key, wanted in STEP.findall(path):
        if name or quoted:
            value = value.get(name or quoted) if isinstance(value, dict) else None
        elif index:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
        else:
            value = next((item for item in value or [] if str(item.get(key)) == wanted), None)
    return value


def matches(want: Any, got: Any) -> bool:
    """Whether a patched value is the wanted one; numbers and texts of one writing are equal."""
    if isinstance(want, dict) and set(want) == {"oneOf"}:
        return any(matches(one, got) for one in want["oneOf"])
    if isinstance(want, str | int) and isinstance(got, str | int) and not isinstance(want, bool):
        return str(want) == str(got)
    return bool(want == got)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
async def test_case(case: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """The verdict, its fields, its words, its audit annotations and the patched object are what the case says."""
    if case["id"] in OVERRULED:
        request.applymarker(pytest.mark.xfail(strict=True, reason=OVERRULED[case["id"]]))
    given, expect = case["input"], case["expect"]
    response = await answer(given["review"], given["objects"], AdmissionSettings.from_flat(given["settings"]))
    status = response.get("status") or {}
    causes = (status.get("details") or {}).get("causes") or []
    said = "\n".join([status.get("message", ""), *(cause["message"] for cause in causes)])

    assert response["uid"] == given["review"]["request"]["uid"]
    assert response["allowed"] is expect["allowed"], said
    if not expect["allowed"]:
        assert said.strip()
        assert expect["code"] is None or status["code"] == expect["code"]
    assert set(expect["fields"]) <= {cause["field"] for cause in causes}
    assert [text for text in expect.get("mentions", []) if text.lower() not in said.lower()] == []
    assert [text for text in expect.get("matches", []) if not re.search(text, said)] == []
    audit = json.dumps(response.get("auditAnnotations"))
    assert [text for text in expect.get("audit", []) if text.lower() not in audit.lower()] == []
    assert len(response.get("warnings", [])) <= 8
    assert all(len(warning) <= 256 for warning in response.get("warnings", []))
    shown = response.get("patchedObject") or given["review"]["request"].get("object")
    assert {path: look(shown, path) for path, want in expect.get("patched", {}).items() if not matches(want, look(shown, path))} == {}


async def test_token_that_the_argparse_families_read_differently_warns() -> None:
    """What is said instead of a refusal where the decisions page overrules a case."""
    case = next(case for case in CASES if case["id"] in OVERRULED)
    response = await answer(case["input"]["review"], case["input"]["objects"], AdmissionSettings())
    assert response["allowed"]
    assert any("-t=2" in warning for warning in response["warnings"])
