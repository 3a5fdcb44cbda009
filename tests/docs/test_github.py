"""The workflows and templates in .github: they parse, and what they name exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(
    set((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"}
)
TARGETS = set(re.findall(r"(?m)^([a-z][a-z-]*):", (ROOT / "Makefile").read_text()))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md"]


def load(file: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(file.read_text())
    assert isinstance(loaded, dict)
    return loaded


def commands_of(workflow: dict[str, Any]) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def make_targets(text: str) -> set[str]:
    return set(re.findall(r"(?m)(?:^|[;&|] *|`)make (?:[A-Z]+=\S+ )*([a-z][\w-]*)", text))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_runs_only_targets_that_exist(file: Path) -> None:
    named = {target for command in commands_of(load(file)) for target in make_targets(command)}
    assert named
    assert named <= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_only_targets_that_exist(page: Path) -> None:
    named = make_targets(page.read_text())
    assert named
    assert named <= TARGETS


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_the_jobs_of_a_workflow_need_jobs_that_exist(file: Path) -> None:
    jobs = load(file)["jobs"]
    for job in jobs.values():
        needs = job.get("needs", [])
        assert {needs} <= set(jobs) if isinstance(needs, str) else set(needs) <= set(jobs)
        assert job["steps"]


def test_a_release_is_tested_on_every_python_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    matrix = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == named


def test_packages_are_signed_after_the_tests_and_published_only_by_hand() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert [jobs[name]["needs"] for name in ("test", "sign", "publish")] == ["build", "test", "sign"]
    assert "github.event_name == 'workflow_dispatch' && inputs.publish" in jobs["publish"]["if"]
    assert jobs["publish"]["environment"] == "release"
    writers = {name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    assert writers == {"sign", "publish"}


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.name)
def test_an_issue_form_has_the_fields_that_github_requires(file: Path) -> None:
    form = load(file)
    assert form["name"] and form["description"]
    identifiers = [field["id"] for field in form["body"]]
    assert len(set(identifiers)) == len(identifiers)
    for field in form["body"]:
        assert field["type"] in ("checkboxes", "dropdown", "input", "markdown", "textarea")
        assert field["attributes"]["label"]
