"""Write what the Helm chart has from elsewhere: the CRD's template from crds/, the README's table from the schema.

python -m scripts.chart writes both, python -m scripts.chart --check fails if one of them is stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "omnilearn-operator"
CRD = ROOT / "crds" / "omnilearn.dev_omnilearnjobs.yaml"
TEMPLATE = CHART / "templates" / "crd.yaml"
README = CHART / "README.md"
BEGIN, END = "<!-- values: begin; `make generate` writes this table -->\n", "<!-- values: end -->\n"
HEADER = """\
{{- /* Generated from crds/ by `make generate`. Do not edit. */}}
{{- if .Values.crds.install }}
"""
METADATA = """\
  labels:
    {{- include "omnilearn.labels" . | nindent 4 }}
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""


def crd_template(crd: str) -> str:
    """Return a CRD as a template that can be left out, and be kept when the chart goes."""
    literal = crd.replace("{{", '{{ "{{" }}')
    lines = [line for line in literal.splitlines(keepends=True) if not line.startswith("#")]
    name = next(number for number, line in enumerate(lines) if line.startswith("  name: "))
    return HEADER + "".join(lines[: name + 1]) + METADATA + "".join(lines[name + 1 :]) + "{{- end }}\n"


def leaves(schema: Mapping[str, Any], values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield each value that can be set: its path, its default, what it means."""
    for name, part in schema["properties"].items():
        if "properties" in part and name in values and values[name]:
            yield from leaves(part, values[name], f"{prefix}{name}.")
        elif name in values:
            yield f"{prefix}{name}", values[name], part["description"]


def values_table(schema: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Return the table of values, in Markdown."""
    rows = (f"| `{path}` | `{json.dumps(default)}` | {text} |\n" for path, default, text in leaves(schema, values))
    return "| value | default | meaning |\n|---|---|---|\n" + "".join(rows)


def readme(text: str, table: str) -> str:
    """Return the README with its table replaced."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table + END + rest.split(END)[1]


def generated() -> dict[Path, str]:
    """Return every generated file with the text that it should have."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return {
        TEMPLATE: crd_template(CRD.read_text(encoding="utf-8")),
        README: readme(README.read_text(encoding="utf-8"), values_table(schema, values)),
    }


def main(arguments: list[str]) -> int:
    """Write the files, or say which of them are stale."""
    stale = {file: text for file, text in generated().items() if not file.exists() or file.read_text("utf-8") != text}
    if "--check" in arguments:
        for file in stale:
            print(f"{file.relative_to(ROOT)} is stale: run make generate")
        return 1 if stale else 0
    for file, text in stale.items():
        file.write_text(text, encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
