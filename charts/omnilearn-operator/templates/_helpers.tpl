{{/* What the names of all objects begin with: the release's name, without a suffix that would stand there twice. */}}
{{- define "omnilearn.base" -}}
{{- default .Release.Name .Values.fullnameOverride | trimSuffix "-operator" | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "omnilearn.operator" -}}
{{ include "omnilearn.base" . }}-operator
{{- end }}

{{- define "omnilearn.coordinator" -}}
{{ include "omnilearn.base" . }}-coordinator
{{- end }}

{{- define "omnilearn.metrics" -}}
{{ include "omnilearn.base" . }}-metrics
{{- end }}

{{- define "omnilearn.test" -}}
{{ include "omnilearn.base" . }}-test
{{- end }}

{{/* The Lease by which one operator leads; also the value of the leader's label. */}}
{{- define "omnilearn.lease" -}}
{{ include "omnilearn.operator" . }}
{{- end }}

{{- define "omnilearn.leaseSeconds" -}}
{{ default (ternary 10 60 (gt (int .Values.replicas) 1)) (int .Values.lease.seconds) }}
{{- end }}

{{/* Names of cluster-wide objects tell installations in different namespaces apart. */}}
{{- define "omnilearn.clusterWide" -}}
{{ .Release.Namespace }}:{{ include "omnilearn.operator" . }}
{{- end }}

{{- define "omnilearn.selector" -}}
app.kubernetes.io/name: omnilearn-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "omnilearn.labels" -}}
{{ include "omnilearn.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "omnilearn.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "omnilearn.operator" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.create is false: say which account to use by serviceAccount.name" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{/* The Secret with the coordinator's certificate. */}}
{{- define "omnilearn.certificate" -}}
{{- if eq .Values.certificate.mode "given" -}}
{{ required "certificate.mode is given: say which Secret holds tls.crt, tls.key and ca.crt by certificate.secretName" .Values.certificate.secretName }}
{{- else -}}
{{ default (printf "%s-certificate" (include "omnilearn.base" .)) .Values.certificate.secretName }}
{{- end -}}
{{- end }}

{{- define "omnilearn.image" -}}
{{ .image.repository }}:{{ default .context.Chart.AppVersion .image.tag }}
{{- end }}

{{/* What the operator does in the namespaces that it watches: nothing more than its code asks for. */}}
{{- define "omnilearn.rules" -}}
- apiGroups: [omnilearn.dev]
  resources: [omnilearnjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [omnilearn.dev]
  resources: [omnilearnjobs/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create, patch]
{{- range .Values.gangSchedulers }}
- apiGroups: [{{ get (dict "native" "scheduling.k8s.io" "volcano" "scheduling.volcano.sh" "coscheduling" "scheduling.x-k8s.io") . }}]
  resources: [podgroups]
  verbs: [get, create, patch]
{{- end }}
{{- end }}

{{- define "omnilearn.subjects" -}}
- kind: ServiceAccount
  name: {{ include "omnilearn.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* What every container here may do: nothing. */}}
{{- define "omnilearn.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Labels of what `helm test` makes: no Service may select it. */}}
{{- define "omnilearn.testLabels" -}}
app.kubernetes.io/name: omnilearn-operator-test
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The test job runs where the operator looks for jobs. */}}
{{- define "omnilearn.testNamespace" -}}
{{ default .Release.Namespace (first .Values.watchNamespaces) }}
{{- end }}
