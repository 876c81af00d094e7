"""Wait until a job is complete: python wait.py NAMESPACE NAME SECONDS. Says what it sees; fails if the job does."""

# ruff: noqa: INP001, T201 - `helm test` runs it as a script and shows what it prints

import json
import ssl
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVER = "https://kubernetes.default.svc"


def job(namespace: str, name: str) -> dict[str, Any]:
    """Return the job as the API server has it."""
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}
    path = f"/apis/omnilearn.dev/v1alpha1/namespaces/{namespace}/omnilearnjobs/{name}"
    trusted = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
    request = urllib.request.Request(SERVER + path, headers=headers)  # noqa: S310 - it is https
    with urllib.request.urlopen(request, timeout=10, context=trusted) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
        return found


def words(status: dict[str, Any]) -> str:
    """Return how far a job is."""
    return f"{status.get('phase') or 'not seen by the operator yet'}, step {status.get('step') or 0}"


def ending(status: dict[str, Any]) -> tuple[int, str] | None:
    """Return the exit code and the sentence of a job that has ended."""
    codes = {"Complete": 0, "Failed": 1}
    for condition in status.get("conditions", []):
        if condition["type"] in codes and condition["status"] == "True":
            return codes[condition["type"]], f"{condition['type']}: {condition.get('message', '')}"
    return None


def main(namespace: str, name: str, seconds: str) -> int:
    """Look once a second; return the exit code."""
    said, deadline = "", time.monotonic() + float(seconds)
    while time.monotonic() < deadline:
        status: dict[str, Any] = {}
        try:
            status = job(namespace, name).get("status", {})
            saying = words(status)
        except OSError as error:
            saying = f"the API server does not give it: {error}"
        if saying != said:
            print(f"{name}: {saying}", flush=True)
        said = saying
        if ended := ending(status):
            print(f"{name}: {ended[1]}")
            return ended[0]
        time.sleep(1)
    print(f"{name}: not complete after {seconds} s; look at it by: kubectl -n {namespace} describe olj {name}")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
