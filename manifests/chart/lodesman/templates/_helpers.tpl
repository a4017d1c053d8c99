{{- define "lodesman.pool" -}}
{{ .Values.pool.name | default .Release.Name }}
{{- end }}

{{- /* What a schema cannot say, or not clearly. */}}
{{- define "lodesman.checked" -}}
{{- $pool := .Values.pool }}
{{- $standalone := include "lodesman.standalone" . }}
{{- $selects := or $standalone $pool.create (eq .Values.gateway.kind "envoy-gateway") }}
{{- if and $selects (not $pool.selector) }}
{{- fail "pool.selector is empty: give the labels of the model servers' pods, such as --set pool.selector.app=vllm" }}
{{- end }}
{{- if not (or $pool.create $pool.name $standalone) }}
{{- fail "pool.name is empty: with pool.create=false give the name of the InferencePool that is there" }}
{{- end }}
{{- if and $standalone .Values.gateway.metadataNamespace }}
{{- fail "gateway.metadataNamespace is given: the Envoy of standalone takes lodesman, leave it empty" }}
{{- end }}
{{- if and (eq .Values.gateway.kind "envoy-gateway") (gt (len $pool.targetPorts) 1) }}
{{- fail "pool.targetPorts has several ports: a route of Envoy Gateway leads to one; make a release for each, or use standalone" }}
{{- end }}
{{- end }}

{{- define "lodesman.metadataNamespace" -}}
{{ .Values.gateway.metadataNamespace | default (ternary "envoy.lb" "lodesman" (eq .Values.gateway.kind "istio")) }}
{{- end }}

{{- define "lodesman.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "lodesman.selector" -}}
app.kubernetes.io/name: lodesman
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lodesman.envoySelector" -}}
app.kubernetes.io/name: envoy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lodesman.labels" -}}
{{ include "lodesman.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "lodesman.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Each revision of a Deployment on its own, so that a rollout spreads too. */}}
{{- define "lodesman.spread" -}}
- topologyKey: kubernetes.io/hostname
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- . | nindent 6 }}
{{- end }}

{{- define "lodesman.standalone" -}}
{{- if eq .Values.gateway.kind "standalone" }}yes{{ end }}
{{- end }}

{{- /* What to serve: endpoints by labels, or a pool. */}}
{{- define "lodesman.source" -}}
{{- if include "lodesman.standalone" . }}
{{- $labels := list }}
{{- range $key, $value := .Values.pool.selector }}{{ $labels = append $labels (printf "%s=%s" $key $value) }}{{ end }}
- --endpoint-selector={{ join "," $labels }}
- --endpoint-target-ports={{ join "," .Values.pool.targetPorts }}
{{- else }}
- --pool-name={{ include "lodesman.pool" . }}
{{- if ne .Values.pool.group "inference.networking.k8s.io" }}
- --pool-group={{ .Values.pool.group }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The name that Lodesman gives its lease; without a pool the Deployment stands for it. */}}
{{- define "lodesman.lease" -}}
epp-{{ .Release.Namespace }}-{{ if include "lodesman.standalone" . }}{{ .Release.Name }}{{ else }}{{ include "lodesman.pool" . }}{{ end }}.llm-d.ai
{{- end }}
