{{- /* The container of alignd-events, beside the installer. */ -}}
{{- define "alignd.events" -}}
- name: events
  image: {{ include "alignd.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/alignd/bin/alignd-events]
  args:
    - --in-cluster
    - --node-name=$(NODE_NAME)
    {{- if .Values.topology.publish }}
    - --topology
    {{- if .Values.topology.wakeScheduler }}
    - --wake-scheduler
    {{- end }}
    {{- if .Values.topology.koordinatorAnnotations }}
    - --koordinator-annotations
    {{- end }}
    {{- if .Values.topology.kaiNumaPlacement }}
    - --kai-numa-placement
    {{- end }}
    {{- if not .Values.events.enabled }}
    - --no-events
    {{- end }}
    {{- end }}
  env:
    - name: NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
  {{- with .Values.events.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    # The control socket belongs to root.
    runAsUser: 0
    privileged: false
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
    seccompProfile:
      type: RuntimeDefault
    {{- with .Values.seLinuxType }}
    seLinuxOptions:
      type: {{ . }}
    {{- end }}
  volumeMounts:
    # The directory, not the socket: alignd makes the socket anew at each start. Connecting needs no write
    # access to the mount.
    - name: alignd
      mountPath: /run/alignd
      readOnly: true
    - name: api
      mountPath: /var/run/secrets/kubernetes.io/serviceaccount
      readOnly: true
{{- end }}
