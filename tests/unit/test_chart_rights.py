"""What the chart lets whom do."""

from __future__ import annotations

import pytest

from rendered_chart import (
    ALL_OPTIONAL,
    CERT_MANAGER,
    NAMESPACE,
    Object,
    installed,
    needs_helm,
    of_helm_test,
    of_kind,
    only,
    pod_of,
    rendered,
    variables,
)

pytestmark = needs_helm
# Each right that the operator's code uses, and no other: group, resource, verbs.
RIGHTS = {
    ("omnilearn.dev", "omnilearnjobs", "delete get list watch"),
    ("omnilearn.dev", "omnilearnjobs/status", "patch"),
    ("", "pods", "create delete get list patch watch"),
    ("", "services", "create get patch"),
    ("networking.k8s.io", "networkpolicies", "create get patch"),
    ("", "events", "create list patch"),
}


def rights(rules: list[Object]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, " ".join(sorted(rule["verbs"])))
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_no_right_has_a_wildcard() -> None:
    for settings in ((), ("watchNamespaces={a,b}",), ALL_OPTIONAL):
        roles = of_kind(rendered(*settings), "Role", "ClusterRole")
        assert roles
        assert not [role for role in roles if "*" in str(role["rules"])]


def test_the_operator_may_do_what_it_does_and_nothing_else() -> None:
    roles = of_kind(installed("userRoles.create=false"), "ClusterRole")
    tokens = {("authentication.k8s.io", "tokenreviews", "create")}
    assert rights([rule for role in roles for rule in role["rules"]]) == RIGHTS | tokens


def test_the_operator_may_make_groups_of_the_gang_schedulers_that_are_named() -> None:
    roles = of_kind(installed("userRoles.create=false", "gangSchedulers={volcano,native}"), "ClusterRole")
    granted = rights([rule for role in roles for rule in role["rules"]])
    groups = {("scheduling.volcano.sh", "podgroups"), ("scheduling.k8s.io", "podgroups")}
    assert {right for right in granted if right[1] == "podgroups"} == {(*group, "create get patch") for group in groups}


def test_within_namespaces_all_rights_but_token_reviews_end_there() -> None:
    objects = installed("watchNamespaces={blue,green}")
    (tokens,) = of_kind(objects, "ClusterRole")
    assert rights(tokens["rules"]) == {("authentication.k8s.io", "tokenreviews", "create")}
    roles = [role for role in of_kind(objects, "Role") if role["metadata"]["namespace"] != NAMESPACE]
    assert [role["metadata"]["namespace"] for role in roles] == ["blue", "green"]
    assert all(rights(role["rules"]) == RIGHTS for role in roles)
    assert variables(objects)["OMNILEARN_NAMESPACES"] == "blue,green"


@pytest.mark.parametrize("settings", [(), ("watchNamespaces={blue}",)])
def test_the_operator_may_lead_by_one_lease_and_label_pods_of_its_own_namespace(settings: tuple[str, ...]) -> None:
    objects = installed(*settings)
    role = only(objects, "Role", "-leadership")
    assert role["metadata"]["namespace"] == NAMESPACE
    named = [(rule.get("resourceNames"), rule["resources"], rule["verbs"]) for rule in role["rules"]]
    assert named == [
        ([variables(objects)["OMNILEARN_LEASE"]], ["leases"], ["get", "patch"]),
        (None, ["leases"], ["create"]),
        (None, ["pods"], ["list", "patch"]),
    ]


@pytest.mark.parametrize(
    ("settings", "verbs"), [((), ["get", "patch"]), (CERT_MANAGER, ["get"])], ids=["its own", "somebody else's"]
)
def test_no_secret_is_read_but_the_certificate(settings: tuple[str, ...], verbs: list[str]) -> None:
    objects = rendered(*settings)
    rules = [rule for role in of_kind(objects, "Role", "ClusterRole") for rule in role["rules"]]
    (secrets,) = [rule for rule in rules if "secrets" in rule["resources"]]
    assert secrets["resourceNames"] == [variables(objects)["OMNILEARN_CERTIFICATE_SECRET"]]
    assert secrets["verbs"] == verbs


def test_every_role_of_the_operator_is_bound_to_its_account() -> None:
    for settings in ((), ("watchNamespaces={a}",)):
        objects = installed("userRoles.create=false", *settings)
        roles = {each["metadata"]["name"] for each in of_kind(objects, "Role", "ClusterRole")}
        bindings = of_kind(objects, "RoleBinding", "ClusterRoleBinding")
        assert {each["roleRef"]["name"] for each in bindings} == roles
        account = only(objects, "ServiceAccount")["metadata"]["name"]
        subjects = [(each["name"], each["namespace"]) for binding in bindings for each in binding["subjects"]]
        assert set(subjects) == {(account, NAMESPACE)}
        assert pod_of(objects)["spec"]["serviceAccountName"] == account


def test_helm_test_may_read_its_job_and_nothing_else() -> None:
    tests = of_helm_test(rendered("watchNamespaces={blue}"))
    (rule,) = only(tests, "Role")["rules"]
    job = only(tests, "OmniLearnJob")["metadata"]
    assert (rule["resources"], rule["verbs"], rule["resourceNames"]) == (["omnilearnjobs"], ["get"], [job["name"]])
    assert only(tests, "Role")["metadata"]["namespace"] == only(tests, "RoleBinding")["metadata"]["namespace"] == "blue"
    assert only(tests, "Pod")["spec"]["serviceAccountName"] == only(tests, "ServiceAccount")["metadata"]["name"]


def test_helm_test_makes_its_job_before_it_waits_for_it() -> None:
    tests = of_helm_test(rendered())
    hooks = {each["kind"]: each["metadata"]["annotations"] for each in tests if "annotations" in each["metadata"]}
    assert {kind: hook["helm.sh/hook-weight"] for kind, hook in hooks.items()} == {"OmniLearnJob": "1", "Pod": "2"}


def test_the_logs_of_helm_test_can_be_had() -> None:
    """`helm test --logs` asks for a pod by the name of every hook, after those that may go have gone."""
    tests = of_helm_test(rendered())
    job, pod = (only(tests, kind)["metadata"] for kind in ("OmniLearnJob", "Pod"))
    assert job["name"] == pod["name"]
    assert pod["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation"
