"""Which tests show each of the handed behaviour cases: one row a case, every test found by its name where the row says it is.

A case is about something that happens, so a line in and a line out cannot show it. The rows name where it is shown: `file::test`. Two of
the tests run a table of cases by their ids; that the id is a row of theirs is looked up too.
"""

import ast
import json
from functools import lru_cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CASES = {entry["id"]: entry for entry in map(json.loads, (Path(__file__).parent / "cases" / "behaviour.jsonl").read_text().splitlines())}

END_TO_END = "controller/test_behaviour.py::test_case"
PURE = "controller/status/test_status_behaviour.py::test_behaviour"

SHOWN: dict[str, tuple[str, ...]] = {
    "bh.status-write.second-identical-pass-writes-nothing": (
        END_TO_END,
        PURE,
        "controller/test_runtime.py::test_a_second_identical_pass_writes_nothing",
    ),
    "bh.serving.oversized-body": (END_TO_END,),
    "bh.serving.body-is-not-json": (END_TO_END,),
    "bh.serving.workers-list-missing": (END_TO_END,),
    "bh.serving.boolean-missing-in-selection": (END_TO_END,),
    "bh.serving.membership-changed-during-collection": (END_TO_END,),
    "bh.retirement.sglang-decode-member-refused": (END_TO_END, PURE),
    "bh.retirement.shared-workload-survives": (END_TO_END, PURE),
    "bh.retirement.sole-workload-is-deleted": (
        END_TO_END,
        PURE,
        "cluster/test_killed_controllers.py::test_one_retirement_outlives_a_kill_at_each_of_its_writes",
    ),
    "bh.retirement-retry.a-consumed-directive-s-annotation-is-cleared-after-the-token-was-persist-v2": (
        END_TO_END,
        PURE,
        "cluster/test_retirement_paths.py::test_a_budget_that_runs_out_retains_everything_over_a_restart",
    ),
    "bh.scaler-fence.escape-hatch-while-the-scaler-read-is-refused": (
        "webhooks/test_wire.py::test_a_failed_read_never_opens_the_hatch",
        "cluster/test_fence_life.py::test_a_failing_read_of_the_scaler_opens_nothing",
    ),
    "bh.status-write.failed-pod-list-writes-no-status": (
        END_TO_END,
        "controller/test_reliance.py::test_a_failed_list_writes_no_status",
        "cluster/test_lives.py::test_a_refused_list_writes_no_status_and_the_check_says_so",
    ),
    "bh.status-write.kueue-absent-although-the-kind-is-served": (
        END_TO_END,
        PURE,
        "controller/test_reliance.py::test_kueue_absent_reads_no_workload",
    ),
    "bh.status-write.same-input-same-bytes": (END_TO_END, PURE),
    "bh.retirement.the-field-is-cleared-with-an-explicit-null": (END_TO_END, PURE),
    "bh.scaler-fence.the-status-subresource-is-not-intercepted": (
        "cluster/test_status_writes.py::test_a_status_write_calls_no_webhook",
        "cluster/test_fence_life.py::test_status_is_not_the_fences_affair",
    ),
    "bh.pod-gates.a-pod-of-a-deployment-that-cannot-be-read-is-refused-not-passed-ungated-v4": (
        "webhooks/test_wire.py::test_a_failed_read_of_the_pods_deployment_is_500",
        "cluster/test_status_writes.py::test_a_pod_of_a_deployment_that_cannot_be_read_is_refused",
    ),
    "bh.eligibility-hold.the-retention-is-proved-by-an-uncached-read": (END_TO_END, PURE),
    "bh.condition-elasticresize.an-unanswered-scale-call-is-never-resent-and-consumes-no-attempt": (
        "controller/test_elastic_calls.py::test_an_unanswered_scale_call_is_never_sent_again_and_costs_no_attempt",
    ),
}


@lru_cache
def source(file: str) -> ast.Module:
    """The parsed file."""
    return ast.parse((TESTS / file).read_text())


def names_of(file: str) -> set[str]:
    """Names of the test functions of a file."""
    return {
        node.name
        for node in ast.walk(source(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def strings_of(file: str) -> set[str]:
    """Every string that stands in a file."""
    return {node.value for node in ast.walk(source(file)) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_case_has_a_row_and_every_row_a_case() -> None:
    """Nineteen cases were handed over; none is lost and none is made up."""
    assert set(SHOWN) == set(CASES)
    assert len(CASES) == 19


@pytest.mark.parametrize("identity", sorted(SHOWN))
def test_the_named_tests_exist(identity: str) -> None:
    """Each row names a test at least, and each of them is there under that name."""
    assert SHOWN[identity]
    for name in SHOWN[identity]:
        file, _, test = name.partition("::")
        assert test in names_of(file), name
        if name in (END_TO_END, PURE):
            assert identity in strings_of(file), f"{file} has no run of {identity}"
