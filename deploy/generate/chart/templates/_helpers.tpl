{{- define "minikafka.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "minikafka.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "minikafka.domain" -}}
{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- /* ID@HOST:PORT of every controller: pod 0 is controller 3001. */}}
{{- define "minikafka.voters" -}}
{{- $root := . }}
{{- $voters := list }}
{{- range $i := until (int .Values.controllers.replicas) }}
{{- $host := printf "%s-controller-%d.%s-controller.%s" $root.Release.Name $i $root.Release.Name (include "minikafka.domain" $root) }}
{{- $voters = append $voters (printf "%d@%s:9093" (add 3001 $i) $host) }}
{{- end }}
{{- join "," $voters }}
{{- end }}

{{- /* Keys that all daemons share. */}}
{{- define "minikafka.settings" -}}
{{- $copies := min 3 (int .Values.brokers.replicas) -}}
{{- $inSync := min 2 $copies -}}
controller.quorum.voters={{ include "minikafka.voters" . }}
metrics.listener=0.0.0.0:9404
log.dirs=/var/lib/minikafka/data
control.psk.file=/run/minikafka/control.key
default.replication.factor={{ $copies }}
min.insync.replicas={{ $inSync }}
offsets.topic.replication.factor={{ $copies }}
transaction.state.log.replication.factor={{ $copies }}
transaction.state.log.min.isr={{ $inSync }}
{{- end }}

{{- define "minikafka.controlKey" -}}
{{ .Values.controlKey.existingSecret | default (printf "%s-control-key" .Release.Name) }}
{{- end }}

{{- define "minikafka.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "minikafka.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}

{{- /* A pod is ready once its daemon is in service, and never restarted for not being so. */}}
{{- define "minikafka.probes" -}}
startupProbe:
  httpGet:
    path: /health/live
    port: metrics
  periodSeconds: 2
  # Recovery of the logs after a crash may take long.
  failureThreshold: 1800
livenessProbe:
  httpGet:
    path: /health/live
    port: metrics
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /health/ready
    port: metrics
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}
