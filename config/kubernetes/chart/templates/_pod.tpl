{{- /* The parts that both DaemonSets have. */ -}}
{{- define "alignd.labels" -}}
app.kubernetes.io/name: alignd
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "alignd.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{- define "alignd.config" -}}
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
{{ toYaml .Values.config }}
{{- end }}

{{- /* Whether alignd-events runs beside the installer; empty: it does not. */ -}}
{{- define "alignd.reports" -}}
{{ if or .Values.events.enabled .Values.topology.publish }}true{{ end }}
{{- end }}

{{- /* Called with dict "root" (the chart's values), "do" (install or remove), "probe". */ -}}
{{- define "alignd.daemonset" -}}
{{- $values := .root.Values -}}
{{- $reports := and (eq .do "install") (include "alignd.reports" .root) -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .root.Release.Name }}-{{ .do }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "alignd.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .do }}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: alignd
      app.kubernetes.io/instance: {{ .root.Release.Name }}
      app.kubernetes.io/component: {{ .do }}
  {{- if eq .do "install" }}
  # A pod that is unready again so soon stops a rolling upgrade.
  minReadySeconds: 30
  {{- end }}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: {{ $values.maxUnavailable }}
  template:
    metadata:
      labels:
        {{- include "alignd.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .do }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or (eq $values.appArmor "annotation") $values.podAnnotations }}
      annotations:
        {{- if eq $values.appArmor "annotation" }}
        # Where AppArmor checks D-Bus, the profile of the runtime would deny it.
        container.apparmor.security.beta.kubernetes.io/{{ .do }}: unconfined
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      nodeSelector:
        kubernetes.io/os: linux
        kubernetes.io/arch: amd64
        {{ $values.nodes.label }}: {{ .do }}
      {{- with $values.nodes.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if $reports }}
      # The credential is in the container `events` alone.
      serviceAccountName: {{ .root.Release.Name }}-events
      {{- else }}
      # The pod needs no access to the API.
      {{- end }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      # A step on the node that has begun is completed. It restarts alignd at most twice (15 s to stop, 30 s
      # to start, 30 s to answer), or watches its connections for 60 s.
      terminationGracePeriodSeconds: 300
      containers:
        - name: {{ .do }}
          image: {{ include "alignd.image" .root | quote }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args: [{{ .do }}]
          env:
            - name: ALIGND_KUBELET
              {{- if eq .do "remove" }}
              value: {{ ternary "detach" "" $values.remove.detach | quote }}
              {{- else }}
              value: {{ ternary "attach" (ternary "detach" "" $values.kubelet.detach) $values.kubelet.attach | quote }}
              {{- end }}
            - name: ALIGND_RESTART_KUBELET
              value: {{ $values.kubelet.restart | quote }}
            {{- if eq .do "install" }}
            - name: ALIGND_ARGS
              value: {{ join " " $values.args | quote }}
            - name: ALIGND_IGNORE
              value: {{ join "," $values.readiness.ignore | quote }}
            {{- if $values.config }}
            # Not in a ConfigMap: a roll back must restore it, and pods that are not replaced yet must not
            # read it. $$ is one $.
            - name: ALIGND_CONFIG
              value: |-
                {{- include "alignd.config" .root | replace "$" "$$" | nindent 16 }}
            {{- end }}
            {{- else }}
            - name: ALIGND_PURGE
              value: {{ $values.remove.purge | quote }}
            {{- end }}
          readinessProbe:
            exec:
              command: [/bin/alignd-node, {{ .probe }}]
            initialDelaySeconds: 2
            periodSeconds: 10
            timeoutSeconds: 10
            failureThreshold: 2
          {{- with $values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            runAsUser: 0
            privileged: false
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
              # Programs of the node run in its root directory.
              add: [SYS_CHROOT]
            seccompProfile:
              type: RuntimeDefault
            {{- if eq $values.appArmor "field" }}
            # Where AppArmor checks D-Bus, the profile of the runtime would deny it.
            appArmorProfile:
              type: Unconfined
            {{- end }}
            {{- with $values.seLinuxType }}
            seLinuxOptions:
              type: {{ . }}
            {{- end }}
          volumeMounts:
            # The node's files can be read. Only the three directories below are written. What the node
            # unmounts is unmounted here, too: otherwise the pod would keep volumes of others in use.
            - name: node
              mountPath: /host
              readOnly: true
              mountPropagation: HostToContainer
            - name: etc
              mountPath: /host/etc
              mountPropagation: HostToContainer
            - name: opt
              mountPath: /host/opt
              mountPropagation: HostToContainer
            - name: var-lib
              mountPath: /host/var/lib
              mountPropagation: HostToContainer
            - name: run
              mountPath: /run
        {{- if $reports }}
        {{- include "alignd.events" .root | nindent 8 }}
        {{- end }}
      volumes:
        - name: node
          hostPath:
            path: /
            type: Directory
        - name: etc
          hostPath:
            path: /etc
            type: Directory
        - name: opt
          hostPath:
            path: /opt
            type: DirectoryOrCreate
        - name: var-lib
          hostPath:
            path: /var/lib
            type: Directory
        - name: run
          emptyDir:
            medium: Memory
            sizeLimit: 1Mi
        {{- if $reports }}
        # Before the first installation, alignd has not made it yet.
        - name: alignd
          hostPath:
            path: /run/alignd
            type: DirectoryOrCreate
        - name: api
          projected:
            defaultMode: 0400
            sources:
              - serviceAccountToken:
                  path: token
                  expirationSeconds: 3607
              - configMap:
                  name: kube-root-ca.crt
                  items:
                    - key: ca.crt
                      path: ca.crt
        {{- end }}
{{- end }}
