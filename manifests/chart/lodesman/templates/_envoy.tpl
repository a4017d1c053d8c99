{{- /* An Envoy's container; "cluster" names the template of where its picker is. */}}
{{- define "lodesman.envoy" -}}
name: envoy
image: {{ .root.Values.envoy.image }}
args:
- --config-path
- /etc/envoy/envoy.yaml
- --disable-hot-restart
- --config-yaml
- |
  static_resources:
    clusters:
    - name: lodesman
      connect_timeout: 1s
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config:
            # Streams on a picker that hangs end.
            http2_protocol_options: {connection_keepalive: {interval: 3s, timeout: 2s}}
      common_lb_config: {healthy_panic_threshold: {value: 0}}
      circuit_breakers:
        thresholds: [{max_connections: 65536, max_pending_requests: 65536, max_requests: 65536}]
      {{- include .cluster .root | nindent 6 }}
ports:
- {name: http, containerPort: 8080}
readinessProbe:
  tcpSocket: {port: http}
  periodSeconds: 2
resources:
  {{- toYaml .root.Values.envoy.resources | nindent 2 }}
securityContext:
  runAsUser: 101
  {{- include "lodesman.restricted" . | nindent 2 }}
volumeMounts:
- {name: envoy, mountPath: /etc/envoy, readOnly: true}
{{- end }}

{{- /* In its own pod, which is asked for a life sign only: a draining Lodesman still serves its own Envoy. */}}
{{- define "lodesman.picker.own" -}}
type: STATIC
{{ include "lodesman.picker.at" (dict "service" "liveness" "host" "127.0.0.1") }}
{{- end }}

{{- define "lodesman.picker.replicas" -}}
type: STRICT_DNS
dns_refresh_rate: 1s
{{ include "lodesman.picker.at" (dict "service" "envoy.service.ext_proc.v3.ExternalProcessor" "host" (printf "%s-replicas" .Release.Name)) }}
{{- end }}

{{- define "lodesman.picker.at" -}}
health_checks:
- timeout: 1s
  interval: 1s
  no_traffic_interval: 1s
  unhealthy_threshold: 1
  healthy_threshold: 1
  grpc_health_check: {service_name: {{ .service }}}
load_assignment:
  cluster_name: lodesman
  endpoints:
  - lb_endpoints:
    - endpoint: {address: {socket_address: {address: {{ .host }}, port_value: 9002}}}
{{- end }}
