"""What Helm makes of the chart; test_chart_rights.py has who may do what."""

from __future__ import annotations

import pytest
import yaml
from scripts.chart import CHART, CRD

from omnilearn_core.api import names
from omnilearn_core.api.validate import problems_of
from rendered_chart import (
    ALL_OPTIONAL,
    CERT_MANAGER,
    NAMESPACE,
    helm,
    installed,
    needs_helm,
    of_kind,
    only,
    pod_of,
    rendered,
    rendering,
    variables,
)

pytestmark = needs_helm
OPTIONAL = ("PodDisruptionBudget", "ServiceMonitor", "PrometheusRule", "ConfigMap")


@pytest.mark.parametrize(
    "settings", [(), ALL_OPTIONAL, CERT_MANAGER, ("watchNamespaces={a,b}",), ("replicas=2",)], ids=str
)
def test_helm_finds_nothing_to_complain_about(settings: tuple[str, ...]) -> None:
    done = helm("lint", "--strict", str(CHART), *(word for each in settings for word in ("--set", each)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "setting",
    ["replica=2", "replicas=0", "lease.seconds=3", "lease.duration=9", "image.tags=x", "resources.limit=1",
     "certificate.certManager.issuer=x", "metrics.enabled=true", "tolerations[0].keys=x",
     "podSecurityContext.runAsUser=0", "certificate.mode=none"],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused(setting: str) -> None:
    _, complaint = rendering(setting)
    assert "values don't meet the specifications of the schema" in complaint
    assert setting.partition("=")[0].split(".")[-1].partition("[")[0] in complaint


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (("certificate.mode=given",), "say which Secret holds tls.crt, tls.key and ca.crt by certificate.secretName"),
        (("certificate.mode=certManager",), "say which issuer by certificate.certManager.issuerRef.name"),
        (("serviceAccount.create=false",), "say which account to use by serviceAccount.name"),
    ],
)
def test_what_is_missing_is_asked_for_in_a_sentence(settings: tuple[str, ...], sentence: str) -> None:
    assert sentence in rendering(*settings)[1]


@pytest.mark.parametrize("kind", ["Deployment", "Pod", "OmniLearnJob"])
def test_pods_meet_the_restricted_standard_with_a_read_only_root(kind: str) -> None:
    (found,) = of_kind(rendered(), kind)
    specs = {
        "Deployment": lambda spec: [spec["template"]["spec"]],
        "Pod": lambda spec: [spec],
        "OmniLearnJob": lambda spec: [group["template"]["spec"] for group in spec["workers"]],
    }
    for spec in specs[kind](found["spec"]):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]


def test_ports_are_those_that_the_code_has() -> None:
    container = pod_of(installed())["spec"]["containers"][0]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {
        "coordinator": names.COORDINATOR_PORT, "metrics": names.METRICS_PORT, "health": names.HEALTH_PORT,
    }  # fmt: skip
    told = variables(installed())
    assert {name: told[f"OMNILEARN_{name.upper()}_PORT"] for name in ports} == {k: str(v) for k, v in ports.items()}
    services = of_kind(installed(), "Service")
    assert {each["spec"]["ports"][0]["port"] for each in services} == {names.COORDINATOR_PORT, names.METRICS_PORT}
    assert told["OMNILEARN_COORDINATOR_SERVICE"] in {each["metadata"]["name"] for each in services}


def test_services_and_policies_mean_the_operator_and_not_the_pod_of_helm_test() -> None:
    objects = rendered(*ALL_OPTIONAL)
    labels = pod_of(objects)["metadata"]["labels"]
    tests = only(objects, "Pod")["metadata"]["labels"]
    labels[names.LEADER_LABEL] = variables(objects)["OMNILEARN_LEASE"]  # as one that leads has it
    selectors = [each["spec"]["selector"] for each in of_kind(objects, "Service")]
    selectors += [only(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]]
    selectors += [only(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"]]
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert not [selector for selector in selectors if selector.items() <= tests.items()]


def test_a_label_of_the_user_s_does_not_take_the_operator_from_its_service() -> None:
    labels = pod_of(installed("podLabels.team=blue"))["metadata"]["labels"]
    assert (labels["team"], labels["app.kubernetes.io/name"]) == ("blue", "omnilearn-operator")


def test_only_workers_reach_the_coordinator() -> None:
    workers, metrics = only(installed(), "NetworkPolicy")["spec"]["ingress"]
    (peer,) = workers["from"]
    assert workers["ports"] == [{"port": "coordinator"}]
    assert peer["podSelector"]["matchLabels"] == {names.MANAGED_LABEL: "true"}
    assert metrics == {"ports": [{"port": "metrics"}]}


def test_an_upgrade_leaves_the_certificate_that_the_operator_has_made() -> None:
    secret = only(installed(), "Secret")
    assert not {"data", "stringData"} & set(secret)
    assert secret["metadata"]["name"] == variables(installed())["OMNILEARN_CERTIFICATE_SECRET"]


def test_cert_manager_is_asked_for_the_coordinator_s_names() -> None:
    objects = installed(*CERT_MANAGER)
    spec = only(objects, "Certificate")["spec"]
    service = f"{variables(objects)['OMNILEARN_COORDINATOR_SERVICE']}.{NAMESPACE}"
    assert spec["dnsNames"] == [f"{service}.svc", f"{service}.svc.cluster.local", service]
    assert spec["secretName"] == variables(objects)["OMNILEARN_CERTIFICATE_SECRET"]
    assert variables(objects)["OMNILEARN_CERTIFICATE_MODE"] == "given"
    assert not of_kind(objects, "Secret")


def test_the_crd_is_the_generated_one_and_outlives_the_chart() -> None:
    crd = only(installed(), "CustomResourceDefinition")
    assert crd["spec"] == yaml.safe_load(CRD.read_text())["spec"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_crd_goes_with_the_chart_if_asked_and_can_be_left_out() -> None:
    assert "annotations" not in only(installed("crds.keep=false"), "CustomResourceDefinition")["metadata"]
    assert not of_kind(installed("crds.install=false"), "CustomResourceDefinition")


def test_what_is_optional_is_there_only_when_asked_for() -> None:
    assert not of_kind(installed(), *OPTIONAL)
    assert {each["kind"] for each in of_kind(installed(*ALL_OPTIONAL), *OPTIONAL)} == set(OPTIONAL)


def test_two_installations_share_no_cluster_wide_object() -> None:
    kinds = ("ClusterRole", "ClusterRoleBinding")
    one, other = ({each["metadata"]["name"] for each in of_kind(installed(release=r), *kinds)} for r in ("one", "two"))
    assert one
    assert not one & other


@pytest.mark.parametrize("release", ["omnilearn", "omnilearn-operator"])
def test_names_do_not_say_operator_twice(release: str) -> None:
    assert only(installed(release=release), "Deployment")["metadata"]["name"] == "omnilearn-operator"


def test_helm_test_runs_a_valid_job_of_two_workers_where_the_operator_looks() -> None:
    job = only(rendered("watchNamespaces={blue}"), "OmniLearnJob")
    assert [str(problem) for problem in problems_of(job)] == []
    assert sum(group["replicas"] for group in job["spec"]["workers"]) == job["spec"]["membership"]["minWorkers"] == 2
    assert job["metadata"]["namespace"] == "blue"


def test_an_old_cluster_is_refused() -> None:
    done = helm("template", "omnilearn", str(CHART), "--kube-version", "1.28.0")
    assert "kubeVersion: >=1.29.0-0" in done.stderr
