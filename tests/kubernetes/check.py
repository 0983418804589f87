#!/usr/bin/python3
"""Checks config/kubernetes and the image without a cluster.

check.py           prints results in the Test Anything Protocol; exit status 77: something is missing
check.py --write   writes config/kubernetes/alignd.yaml

The chart is rendered by render.go. Every object is checked against the API types of Debian's
python3-kubernetes: an unknown field, a value of another type or a missing required field is a failure.
"""
import copy
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KUBERNETES = os.path.join(ROOT, "config/kubernetes")
CHART = os.path.join(KUBERNETES, "chart")
HEADER = """\
# alignd's DaemonSets: the output of the chart in chart/ with its default values, without Helm.
#   kubectl apply -f namespace.yaml -f alignd.yaml
#   kubectl label node NODE alignd.io/node=install
# docs/kubernetes.md explains it. Made by: tests/kubernetes/check.py --write
"""
GO_ENVIRONMENT = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": "", "CGO_ENABLED": "0"}


def missing():
    for program in ["go", "tar", "gzip"]:
        if not shutil.which(program):
            yield f"the program {program}"
    for path in ["github.com/Masterminds/sprig", "sigs.k8s.io/yaml"]:
        if not os.path.isdir(os.path.join("/usr/share/gocode/src", path)):
            yield f"the Go library {path}"
    for module in ["jsonschema", "kubernetes", "yaml"]:
        try:
            __import__(module)
        except ImportError:
            yield f"the Python module {module}"


# --- Results.

results = []


def check(what, *problems):
    problems = [str(problem) for problem in problems if problem]
    results.append(not problems)
    print(("ok" if not problems else "not ok"), len(results), "-", what)
    for problem in problems:
        print("\n".join("#   " + line for line in problem.splitlines()))


def unequal(wanted, got):
    return None if wanted == got else f"wanted: {wanted!r}\ngot: {got!r}"


# --- Rendering.

def build_renderer(work):
    program = os.path.join(work, "render")
    cache = os.path.join(ROOT, "build/go-cache")
    os.makedirs(cache, exist_ok=True)
    subprocess.run(["go", "build", "-o", program, os.path.join(ROOT, "tests/kubernetes/render.go")],
                   check=True, env={**os.environ, **GO_ENVIRONMENT, "GOCACHE": cache})
    return program


class Chart:
    def __init__(self, work):
        self.work = work
        self.program = build_renderer(work)

    # The text, with the values that override the defaults.
    def render(self, values=None, release="alignd", namespace="alignd-system"):
        command = [self.program, CHART, release, namespace]
        if values:
            path = os.path.join(self.work, "values.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(values, file)
            command.append(path)
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True).stdout


# --- Objects against the API.

API = {"apps/v1": "V1", "discovery.k8s.io/v1": "V1", "policy/v1": "V1",
       "rbac.authorization.k8s.io/v1": "V1", "v1": "V1"}
SCALARS = {"str": str, "bool": bool, "int": int, "float": (int, float)}


# Fields that are younger than Debian's client (Kubernetes 1.22), with their types.
NEWER = {("V1SecurityContext", "appArmorProfile"): "dict(str, str)"}  # 1.30


# What is wrong with a value of a type of the API, as "path: problem".
def faults(client, kind, value, path):
    if kind == "object":  # a quantity, or a number or a percentage
        if not isinstance(value, (str, int, float, dict)) or isinstance(value, bool):
            yield f"{path}: {value!r}"
    elif kind in SCALARS:
        if not isinstance(value, SCALARS[kind]) or (kind != "bool" and isinstance(value, bool)):
            yield f"{path}: {value!r} is not of the type {kind}"
    elif kind.startswith("list["):
        if not isinstance(value, list):
            yield f"{path}: not a list"
            return
        for i, item in enumerate(value):
            yield from faults(client, kind[5:-1], item, f"{path}[{i}]")
    elif kind.startswith("dict("):
        if not isinstance(value, dict):
            yield f"{path}: not an object"
            return
        for key, item in value.items():
            yield from faults(client, kind[5:-1].split(", ", 1)[1], item, f"{path}.{key}")
    else:
        yield from model_faults(client, kind, value, path)


def model_faults(client, kind, value, path):
    model = getattr(client, kind)
    if not isinstance(value, dict):
        yield f"{path}: not an object"
        return
    names = {json_name: name for name, json_name in model.attribute_map.items()}
    for key, item in value.items():
        if (kind, key) in NEWER and key not in names:
            yield from faults(client, NEWER[kind, key], item, f"{path}.{key}")
        elif key not in names:
            yield f"{path}.{key}: unknown field"
        else:
            yield from faults(client, model.openapi_types[names[key]], item, f"{path}.{key}")
    try:  # required fields
        model(**{names[key]: item for key, item in value.items() if key in names})
    except ValueError as error:
        yield f"{path}: {error}"


def object_faults(one):
    import kubernetes.client as client
    kind = API.get(one.get("apiVersion"), "?") + one.get("kind", "?")
    if not hasattr(client, kind):
        yield f"unknown object {one.get('apiVersion')} {one.get('kind')}"
        return
    yield from model_faults(client, kind, one, one["kind"])
    if one["kind"] in ("DaemonSet", "Deployment"):
        yield from set_faults(one)


# What the API server checks besides the types.
def set_faults(one):
    labels = one["spec"]["template"]["metadata"]["labels"]
    for key, value in one["spec"]["selector"]["matchLabels"].items():
        if labels.get(key) != value:
            yield f"the selector's {key} is not a label of the pods"
    pod = one["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    mounts = {mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", [])}
    if mounts != volumes:
        yield f"volumes {volumes} and mounts {mounts} differ"


def load(text):
    import yaml

    class Loader(yaml.SafeLoader):  # a key that stands twice is an error
        def construct_mapping(self, node, deep=False):
            keys = [self.construct_object(key) for key, _ in node.value]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.YAMLError(f"line {node.start_mark.line + 1}: the key {key} stands twice")
            return super().construct_mapping(node, deep)

    return [one for one in yaml.load_all(text, Loader) if one]


def sets_of(objects):
    return {one["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]: one
            for one in objects if one["kind"] == "DaemonSet"}


# The containers of the pods, by name.
def containers_of(one):
    return {container["name"]: container for container in one["spec"]["template"]["spec"]["containers"]}


# Of the container that installs or removes alignd.
def environment_of(one):
    component = one["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]
    return {variable["name"]: variable["value"] for variable in containers_of(one)[component]["env"]}


# The object of that kind and name.
def named(objects, kind, name):
    (found,) = [one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


# --- The checks.

ATTACHED = {"kubelet": {"attach": True, "restart": True}}
EVERYTHING = {
    "image": {"repository": "registry.example:5000/node/alignd", "digest": "sha256:" + "ab" * 32,
              "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "nodes": {"label": "example.com/numa", "tolerations": [{"key": "gpu", "operator": "Exists"}]},
    "config": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,32",
               "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "16"},
               "staticPodPath": "/etc/$(HOME)/$$/pods"},
    "args": ["--mirror=preferred", "--not-devices=example.com/licence"],
    "readiness": {"ignore": ["container refused"]},
    "remove": {"detach": True, "purge": True},
    "events": {"enabled": True, "resources": {"limits": {"memory": "64Mi"}}},
    "extender": {"enabled": True, "replicas": 3, "nodeName": "control-plane-1", "address": "[::]",
                 "clusterIP": "10.96.0.73",
                 "tls": {"secret": "extender-tls", "clientCA": True},
                 "notDevices": ["example.com/licence", "example.org/dongle"], "args": ["--score=MostAllocated"]},
    "topology": {"publish": True, "rbac": True,
                 "subjects": [{"kind": "ServiceAccount", "name": "events", "namespace": "alignd-system"}]},
    "maxUnavailable": "10%",
    "priorityClassName": "",
    "resources": None,
    "appArmor": "field",
    "seLinuxType": "spc_t",
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example.com/note": "yes"},
    **ATTACHED,
}
# Values that the schema refuses, with a part of the reason.
REFUSED = [
    ({"kubelet": {"attach": "yes"}}, "is not of type 'boolean'"),
    ({"kubelet": {"attach": True, "detach": True}}, "should not be valid"),
    ({"kubelet": {"atach": True}}, "'atach' was unexpected"),
    ({"kubelt": {}}, "'kubelt' was unexpected"),
    ({"image": {"repository": "Alignd"}}, "does not match"),
    ({"image": {"tag": "a b"}}, "does not match"),
    ({"image": {"digest": "sha256:1234"}}, "does not match"),
    ({"image": {"pullPolicy": "Sometimes"}}, "is not one of"),
    ({"imagePullSecrets": ["registry"]}, "is not of type 'object'"),
    ({"nodes": {"label": "alignd.io/"}}, "does not match"),
    ({"config": {"kind": "KubeletConfiguration"}}, "should not be valid"),
    ({"config": "cpuManagerPolicy: static"}, "is not of type 'object'"),
    ({"args": ["--mirror=preferred; reboot"]}, "does not match"),
    ({"args": ["--mirror preferred"]}, "does not match"),
    ({"args": ["--keep-pod-cpu-quota %h"]}, "does not match"),
    ({"args": ["--listen=unix:///run/x.sock"]}, "should not be valid"),
    ({"args": ["--config=/etc/other.yaml"]}, "should not be valid"),
    ({"args": "--mirror=preferred"}, "is not of type 'array'"),
    ({"readiness": {"ignore": ["Kubelet,Not"]}}, "does not match"),
    ({"remove": {"purge": 1}}, "is not of type 'boolean'"),
    ({"events": {"enabled": "yes"}}, "is not of type 'boolean'"),
    ({"events": {"args": []}}, "'args' was unexpected"),
    ({"topology": {"publish": 1}}, "is not of type 'boolean'"),
    ({"extender": {"enabled": 1}}, "is not of type 'boolean'"),
    ({"extender": {"replicas": 0}}, "is less than the minimum"),
    ({"extender": {"replicas": "2"}}, "is not of type 'integer'"),
    ({"extender": {"args": ["--leader-elect=false"]}}, "should not be valid"),
    ({"extender": {"replica": 2}}, "'replica' was unexpected"),
    ({"extender": {"address": "0.0.0.0:1"}}, "does not match"),
    ({"extender": {"clusterIP": "extender.example"}}, "does not match"),
    ({"extender": {"nodeName": "A"}}, "does not match"),
    ({"extender": {"tls": {"clientCA": True}}}, "should not be valid"),
    ({"extender": {"args": ["--listen=127.0.0.1:1"]}}, "should not be valid"),
    ({"extender": {"notDevices": "example.com/licence"}}, "is not of type 'array'"),
    ({"extender": {"notDevices": ["cpu"]}}, "does not match"),
    ({"extender": {"notDevices": ["example.com/a,b.com/c"]}}, "does not match"),
    ({"extender": {"notDevices": ["kubernetes.io/batch-cpu"]}}, "should not be valid"),
    ({"extender": {"args": ["--nodes=/a"]}}, "should not be valid"),
    ({"extender": {"args": ["--keep-s 90"]}}, "does not match"),
    ({"extender": {"resources": {"cpu": 1}}}, "'cpu' was unexpected"),
    ({"topology": {"rbac": "yes"}}, "is not of type 'boolean'"),
    ({"topology": {"subjects": [{"kind": "Node", "name": "a"}]}}, "is not one of"),
    ({"maxUnavailable": 0}, "is not valid under any of the given schemas"),
    ({"maxUnavailable": "half"}, "is not valid under any of the given schemas"),
    ({"appArmor": "no"}, "is not one of"),
    ({"seLinuxType": "a:b"}, "does not match"),
    ({"podLabels": {"a": 1}}, "is not of type 'string'"),
]


def merged(base, over):
    result = copy.deepcopy(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def check_objects(chart):
    rendered = chart.render()
    with open(os.path.join(KUBERNETES, "alignd.yaml"), encoding="utf-8") as file:
        check("alignd.yaml is the chart's output with its default values (check.py --write)",
              None if file.read() == HEADER + rendered else "it differs")
    with open(os.path.join(KUBERNETES, "topology-rbac.yaml"), encoding="utf-8") as file:
        rights = load(file.read())
    with_rights = load(chart.render({"topology": {"rbac": True}}))
    check("topology-rbac.yaml has the objects that topology.rbac adds to the chart's output",
          unequal([one for one in with_rights if one not in load(rendered)], rights),
          *[fault for one in rights for fault in object_faults(one)])
    check("topology-rbac.yaml gives no right on Nodes: the Node authorizer does",
          *[f"a rule for {rule['resources']}" for one in rights for rule in one.get("rules", [])
            if rule["apiGroups"] != ["topology.node.k8s.io"]])
    with open(os.path.join(KUBERNETES, "namespace.yaml"), encoding="utf-8") as file:
        namespaces = load(file.read())
    for what, objects in [("namespace.yaml", namespaces), ("the default values", load(rendered)),
                          ("all values", load(chart.render(EVERYTHING)))]:
        check(f"{what}: every object is one of the API", None if objects else "there is no object",
              *[fault for one in objects for fault in object_faults(one)])
    wrong = copy.deepcopy(load(rendered)[0])
    wrong["spec"]["template"]["spec"]["containers"][0]["securityContext"]["privilegd"] = False
    del wrong["spec"]["selector"]
    wrong["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"] = 7
    found = []
    try:
        found = list(object_faults(wrong))
    except KeyError:
        found = list(model_faults(__import__("kubernetes.client").client, "V1DaemonSet", wrong, ""))
    check("the check itself: finds an unknown field, a missing one, and a wrong type",
          *[f"not found: {part}" for part in ["privilegd: unknown field", "selector", "7 is not of the type str"]
            if not any(part in fault for fault in found)])


def check_safety(chart):
    standard = sets_of(load(chart.render()))
    for name, one in standard.items():
        pod = one["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        security = container["securityContext"]
        check(f"alignd-{name}: changes no kubelet by default",
              unequal("", environment_of(one)["ALIGND_KUBELET"]),
              unequal("false", environment_of(one)["ALIGND_RESTART_KUBELET"]))
        check(f"alignd-{name}: runs on labelled nodes only",
              unequal(name, pod["nodeSelector"].get("alignd.io/node")))
        check(f"alignd-{name}: is not privileged, and has no credentials",
              unequal(False, security["privileged"]), unequal({"drop": ["ALL"], "add": ["SYS_CHROOT"]},
                                                              security["capabilities"]),
              unequal(False, pod["automountServiceAccountToken"]),
              *[f"{key} is set" for key in ["hostPID", "hostNetwork", "hostIPC", "serviceAccountName"]
                if key in pod])
        check(f"alignd-{name}: mounts the node's root directory read-only",
              unequal([True], [mount.get("readOnly") for mount in container["volumeMounts"]
                               if mount["mountPath"] == "/host"]))
        check(f"alignd-{name}: has no hook that runs at its end", "lifecycle" in container and "lifecycle is set")
    check("alignd-remove: deletes no state by default",
          unequal("false", environment_of(standard["remove"])["ALIGND_PURGE"]))


def check_values(chart):
    sets = sets_of(load(chart.render(ATTACHED)))
    check("kubelet.attach: attaches on nodes to install, never on nodes to remove",
          unequal("attach", environment_of(sets["install"])["ALIGND_KUBELET"]),
          unequal("true", environment_of(sets["install"])["ALIGND_RESTART_KUBELET"]),
          unequal("", environment_of(sets["remove"])["ALIGND_KUBELET"]))
    sets = sets_of(load(chart.render({"kubelet": {"detach": True}})))
    check("kubelet.detach: detaches on nodes to install",
          unequal("detach", environment_of(sets["install"])["ALIGND_KUBELET"]),
          unequal("", environment_of(sets["remove"])["ALIGND_KUBELET"]))
    objects = load(chart.render(EVERYTHING))
    sets = sets_of(objects)
    install = sets["install"]["spec"]["template"]["spec"]
    check("image.digest replaces the tag",
          unequal("registry.example:5000/node/alignd@sha256:" + "ab" * 32, install["containers"][0]["image"]))
    standard = sets_of(load(chart.render()))
    template = standard["install"]["spec"]["template"]
    key = "container.apparmor.security.beta.kubernetes.io/install"
    check("appArmor: by annotation or by field",
          unequal("unconfined", template["metadata"]["annotations"].get(key)),
          unequal(None, sets["install"]["spec"]["template"]["metadata"]["annotations"].get(key)),
          unequal({"type": "Unconfined"}, install["containers"][0]["securityContext"]["appArmorProfile"]))
    check("args, readiness.ignore, remove: reach the pods",
          unequal("--mirror=preferred --not-devices=example.com/licence",
                  environment_of(sets["install"])["ALIGND_ARGS"]),
          unequal("container refused", environment_of(sets["install"])["ALIGND_IGNORE"]),
          unequal(("detach", "true"), (environment_of(sets["remove"])["ALIGND_KUBELET"],
                                       environment_of(sets["remove"])["ALIGND_PURGE"])))
    text = environment_of(sets["install"])["ALIGND_CONFIG"]
    # As the kubelet reads the value of a variable.
    (configuration,) = load(re.sub(r"\$([$]|\([^)]*\))", lambda found: "$" if found[1] == "$" else "?", text))
    check("config: is a KubeletConfiguration in the pod's template, for an undo and for pods not yet replaced",
          unequal({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
                   **EVERYTHING["config"]}, configuration),
          unequal({"ClusterRole", "ClusterRoleBinding", "DaemonSet", "Deployment", "EndpointSlice",
                   "PodDisruptionBudget", "Role", "RoleBinding", "Service", "ServiceAccount"},
                  {one["kind"] for one in objects}))
    changed = merged(EVERYTHING, {"config": {"cpuManagerPolicy": "none"}})
    other = sets_of(load(chart.render(changed)))
    check("another config: replaces the pods that install, and no others",
          "the template is the same" if sets["install"]["spec"]["template"] == other["install"]["spec"]["template"]
          else None, unequal(sets["remove"], other["remove"]))
    check("no config: the node's file is in force",
          unequal(None, environment_of(standard["install"]).get("ALIGND_CONFIG")))
    # alignd is stopped and started twice, each start may be slow to answer; or connections are looked for.
    with open(os.path.join(ROOT, "systemd/alignd.service"), encoding="utf-8") as file:
        unit = file.read()
    seconds = [int(re.search(rf"^{name}=(\d+)$", unit, re.M)[1]) for name in ["TimeoutStopSec", "TimeoutStartSec"]]
    check("terminationGracePeriodSeconds: is above the time of a step",
          *["too short" for one in standard.values()
            if one["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] < 2 * (sum(seconds) + 30) + 60])
    check("minReadySeconds: a pod that is soon unready again stops a rolling upgrade",
          unequal(30, standard["install"]["spec"].get("minReadySeconds")))
    names = {one["metadata"]["name"] for one in load(chart.render(EVERYTHING, release="second"))}
    check("two releases: have different objects", names & {one["metadata"]["name"] for one in objects})


# The rules of a cluster role, as (resource, verbs).
def rights_of(role):
    return {(f"{group}/{resource}".strip("/"), tuple(sorted(rule["verbs"])))
            for rule in role["rules"] for group in rule["apiGroups"] for resource in rule["resources"]}


# That the account alone has the role.
def bound(objects, role, account):
    binding = named(objects, "ClusterRoleBinding", role)
    named(objects, "ServiceAccount", account)
    return (unequal((role, "ClusterRole"), (binding["roleRef"]["name"], binding["roleRef"]["kind"])),
            unequal([{"kind": "ServiceAccount", "name": account, "namespace": "alignd-system"}],
                    binding["subjects"]))


EVENTS_RIGHTS = {("events", ("create", "patch"))}
TOPOLOGY_RIGHTS = {("topology.node.k8s.io/noderesourcetopologies", ("create", "get", "update")),
                   ("nodes", ("get",))}


def check_events(chart):
    for what, values, flags, rights in [
            ("events.enabled", {"events": {"enabled": True}}, [], EVENTS_RIGHTS),
            ("topology.publish", {"topology": {"publish": True}}, ["--topology", "--no-events"], TOPOLOGY_RIGHTS),
            ("topology.wakeScheduler", {"topology": {"publish": True, "wakeScheduler": True}},
             ["--topology", "--wake-scheduler", "--no-events"],
             TOPOLOGY_RIGHTS - {("nodes", ("get",))} | {("nodes", ("get", "patch"))}),
            ("topology.koordinatorAnnotations", {"topology": {"publish": True, "koordinatorAnnotations": True}},
             ["--topology", "--koordinator-annotations", "--no-events"], TOPOLOGY_RIGHTS),
            ("topology.kaiNumaPlacement", {"topology": {"publish": True, "kaiNumaPlacement": True}},
             ["--topology", "--kai-numa-placement", "--no-events"],
             TOPOLOGY_RIGHTS | {("pods/status", ("patch",))}),
            ("both", {"events": {"enabled": True}, "topology": {"publish": True}}, ["--topology"],
             EVENTS_RIGHTS | TOPOLOGY_RIGHTS)]:
        objects = load(chart.render(values))
        sets = sets_of(objects)
        pod = sets["install"]["spec"]["template"]["spec"]
        events = containers_of(sets["install"])["events"]
        check(f"{what}: alignd-events reports its node with the service account of the pod",
              unequal(["/alignd/bin/alignd-events"], events["command"]),
              unequal(["--in-cluster", "--node-name=$(NODE_NAME)"] + flags, events["args"]),
              unequal([{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                      events["env"]),
              unequal("alignd-events", pod["serviceAccountName"]))
        check(f"{what}: the rights are what it needs, and no more",
              unequal(rights, rights_of(named(objects, "ClusterRole", "alignd-events"))),
              *bound(objects, "alignd-events", "alignd-events"))
        security = dict(events["securityContext"])
        check(f"{what}: the container has no capability, and reads one directory of the node",
              unequal({"runAsUser": 0, "privileged": False, "allowPrivilegeEscalation": False,
                       "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
                       "seccompProfile": {"type": "RuntimeDefault"}}, security),
              unequal({"alignd": "/run/alignd", "api": "/var/run/secrets/kubernetes.io/serviceaccount"},
                      {mount["name"]: mount["mountPath"] for mount in events["volumeMounts"]}),
              *[f"{mount['name']} can be written" for mount in events["volumeMounts"] if not mount.get("readOnly")])
        (socket,) = [volume for volume in pod["volumes"] if volume["name"] == "alignd"]
        check(f"{what}: the first installation does not wait for alignd's directory",
              unequal({"path": "/run/alignd", "type": "DirectoryOrCreate"}, socket["hostPath"]))
        check(f"{what}: the containers that change the node have no credential",
              unequal(False, pod["automountServiceAccountToken"]),
              "api" in {mount["name"] for mount in containers_of(sets["install"])["install"]["volumeMounts"]}
              and "the installer mounts the credential",
              unequal(["remove"], list(containers_of(sets["remove"]))),
              "serviceAccountName" in sets["remove"]["spec"]["template"]["spec"] and "alignd-remove has an account")
    with open(os.path.join(KUBERNETES, "topology-rbac.yaml"), encoding="utf-8") as file:
        (for_kubelets,) = [one for one in load(file.read()) if one["kind"] == "ClusterRole"]
    check("topology.publish: the account has the rights of topology-rbac.yaml, and reads its Node",
          unequal(TOPOLOGY_RIGHTS - {("nodes", ("get",))}, rights_of(for_kubelets)))


ELECTION = ["--leader-elect", "--leader-elect-resource-name=alignd-extender",
            "--leader-elect-resource-namespace=alignd-system", "--leader-endpoint-slice=alignd-extender-leader",
            "--leader-endpoint-address=$(POD_IP)"]


# Of several replicas.
def check_replicas(objects, one, extender, roles_beside):
    pod = one["spec"]["template"]["spec"]
    check("extender.replicas: a replica is ready to lead before another one ends",
          unequal((3, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
                  (one["spec"]["replicas"], one["spec"]["strategy"])),
          unequal([{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}], extender["env"]))
    service = named(objects, "Service", "alignd-extender-leader")["spec"]
    endpoints = named(objects, "EndpointSlice", "alignd-extender-leader")
    check("extender.replicas: the Service leads where the leader writes, and nowhere else",
          "selector" in service and "the Service has a selector",
          unequal("alignd-extender-leader", endpoints["metadata"]["labels"]["kubernetes.io/service-name"]),
          unequal(("IPv6", []), (endpoints["addressType"], endpoints["endpoints"])),
          unequal([(port["name"], port["targetPort"]) for port in service["ports"]],
                  [(port["name"], port["port"]) for port in endpoints["ports"]]))
    labels = one["spec"]["template"]["metadata"]["labels"]
    budget = named(objects, "PodDisruptionBudget", "alignd-extender")["spec"]
    (term,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    chosen = [budget["selector"]["matchLabels"], term["podAffinityTerm"]["labelSelector"]["matchLabels"]]
    check("extender.replicas: one at a time is evicted, and nodes are shared last",
          unequal(1, budget["maxUnavailable"]),
          *[unequal(labels.get(key), value) for one_of in chosen for key, value in one_of.items()])
    role = named(objects, "Role", "alignd-extender")
    binding = named(objects, "RoleBinding", "alignd-extender")
    (beside,) = roles_beside
    check("extender.replicas: the rights are its Lease and its EndpointSlice, in its namespace",
          unequal(beside["rules"], role["rules"][:2]),
          unequal([{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
                    "resourceNames": ["alignd-extender-leader"], "verbs": ["patch"]}], role["rules"][2:]),
          unequal(("Role", "alignd-extender"), (binding["roleRef"]["kind"], binding["roleRef"]["name"])),
          unequal([{"kind": "ServiceAccount", "name": "alignd-extender", "namespace": "alignd-system"}],
                  binding["subjects"]))


def check_extender(chart):
    objects = load(chart.render({"extender": {"enabled": True}}))
    one = named(objects, "Deployment", "alignd-extender")
    pod = one["spec"]["template"]["spec"]
    extender = containers_of(one)["extender"]
    check("extender.enabled: one pod, and without an election never a second one beside it",
          *[f"there is a {found['kind']}" for found in objects
            if found["kind"] in ("Role", "RoleBinding", "EndpointSlice", "PodDisruptionBudget")],
          unequal((1, {"type": "Recreate"}), (one["spec"]["replicas"], one["spec"]["strategy"])))
    check("extender.enabled: the nodes come from the API server of the cluster",
          unequal(["/alignd/bin/alignd-extender"], extender["command"]),
          unequal(["--in-cluster", "--listen=0.0.0.0:10273"], extender["args"]),
          unequal(("alignd-extender", True), (pod["serviceAccountName"], pod["automountServiceAccountToken"])))
    with open(os.path.join(ROOT, "config/scheduler/rbac.yaml"), encoding="utf-8") as file:
        beside = load(file.read())
    (role,) = [found for found in beside if found["kind"] == "ClusterRole"]
    check("extender.enabled: the rights are those of config/scheduler/rbac.yaml, under another name",
          unequal(role["rules"], named(objects, "ClusterRole", "alignd-extender-account")["rules"]),
          *bound(objects, "alignd-extender-account", "alignd-extender"),
          {found["metadata"]["name"] for found in beside} &
          {found["metadata"]["name"] for found in objects if found["kind"].startswith("ClusterRole")})
    service = named(objects, "Service", "alignd-extender")["spec"]
    labels = one["spec"]["template"]["metadata"]["labels"]
    (port,) = service["ports"]
    check("extender.enabled: the Service leads to its pods, also while they cannot decide",
          unequal(service["selector"], {key: labels.get(key) for key in service["selector"]}),
          unequal((10273, "extender", True), (port["port"], port["targetPort"], service["publishNotReadyAddresses"])),
          unequal([{"name": "extender", "containerPort": 10273}], extender["ports"]))
    check("extender.enabled: is no root, has no capability, and mounts nothing of the node",
          unequal({"runAsNonRoot": True, "runAsUser": 65534, "runAsGroup": 65534, "fsGroup": 65534,
                   "seccompProfile": {"type": "RuntimeDefault"}}, pod["securityContext"]),
          unequal({"privileged": False, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                   "capabilities": {"drop": ["ALL"]}}, extender["securityContext"]),
          *[f"{key} is set" for key in ["volumes", "hostNetwork", "hostPID", "hostIPC", "nodeName"] if key in pod])
    check("extender: is ready when it can decide, and is not restarted",
          unequal({"path": "/readyz", "port": "extender", "scheme": "HTTP"}, extender["readinessProbe"]["httpGet"]),
          "livenessProbe" in extender and "livenessProbe is set")

    objects = load(chart.render({"extender": {"enabled": True, "tls": {"secret": "pair"}}}))
    extender = containers_of(named(objects, "Deployment", "alignd-extender"))["extender"]
    check("extender.tls.secret: HTTPS, also for the kubelet's probe",
          unequal(["--tls-cert=/tls/tls.crt", "--tls-key=/tls/tls.key"], extender["args"][2:]),
          unequal("HTTPS", extender["readinessProbe"]["httpGet"]["scheme"]))
    objects = load(chart.render(EVERYTHING))
    one = named(objects, "Deployment", "alignd-extender")
    extender = containers_of(one)["extender"]
    check_replicas(objects, one, extender, [found for found in beside if found["kind"] == "Role"])
    check("extender: all values reach the pod and the Service",
          unequal(["--in-cluster", "--listen=[::]:10273", "--tls-cert=/tls/tls.crt", "--tls-key=/tls/tls.key",
                   "--tls-client-ca=/tls/ca.crt", *ELECTION, "--not-devices=example.com/licence,example.org/dongle",
                   "--score=MostAllocated"], extender["args"]),
          unequal({"port": "extender"}, extender["readinessProbe"].get("tcpSocket")),
          unequal("control-plane-1", one["spec"]["template"]["spec"]["nodeName"]),
          unequal("10.96.0.73", named(objects, "Service", "alignd-extender-leader")["spec"]["clusterIP"]),
          unequal("extender-tls", one["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"]))


def check_schema():
    import jsonschema
    import yaml
    with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as file:
        standard = yaml.safe_load(file)
    with open(os.path.join(CHART, "values.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)

    def reasons(values):
        return [error.message for error in validator.iter_errors(merged(standard, values))]

    for what, values in [("the default values", {}), ("all values", EVERYTHING)]:
        check(f"values.schema.json: permits {what}", *reasons(values))
    # helm upgrade --reuse-values takes them as they were, without the new defaults.
    before = {**standard, "topology": {key: value for key, value in standard["topology"].items()
                                       if key in ("publish", "rbac", "subjects")},
              "extender": {key: value for key, value in standard["extender"].items() if key != "notDevices"}}
    check("values.schema.json: permits the values of a release from before",
          *[error.message for error in validator.iter_errors(before)])
    for values, reason in REFUSED:
        found = reasons(values)
        check(f"values.schema.json: refuses {json.dumps(values)}",
              None if any(reason in one for one in found) else f"wanted: {reason}\ngot: {found}")
    check("values.schema.json: describes every value",
          unequal(set(), set(standard) - set(schema["properties"])),
          *[unequal(set(value), set(schema["properties"][key]["properties"]))
            for key, value in standard.items()
            if isinstance(value, dict) and "properties" in schema["properties"][key] and key != "resources"])
    return standard


# A value as the table of docs/kubernetes.md has it.
def shown(value):
    return json.dumps(value).strip('"') if isinstance(value, str) else json.dumps(value)


def leaves(values, path=""):
    for key, value in values.items():
        if key == "resources":
            yield path + key, "{}` CPU, `{}` to `{}` memory".format(
                value["requests"]["cpu"], value["requests"]["memory"], value["limits"]["memory"])
        elif isinstance(value, dict) and value:
            yield from leaves(value, path + key + ".")
        else:
            yield path + key, value


def check_documentation(standard):
    with open(os.path.join(ROOT, "docs/kubernetes.md"), encoding="utf-8") as file:
        text = file.read()
    section = text.split("\n## Values\n")[1].split("\n## ")[0]
    rows = {row[0]: row[1].strip().strip("`") for row in re.findall(r"^\| `([^`]+)` \|([^|]*)\|", section, re.M)}
    wanted = {path: shown(value) for path, value in leaves(standard)}
    wanted["readiness.ignore"] = rows.get("readiness.ignore")  # a list, below the table
    check("docs/kubernetes.md: its table has the values and their defaults", unequal(wanted, rows))
    listed = re.findall(r"^\* `([^`]+)`$", section, re.M)
    check("docs/kubernetes.md: lists the ignored problems", unequal(standard["readiness"]["ignore"], listed))
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"project\(alignd VERSION ([0-9.]+)", file.read())[1]
    with open(os.path.join(CHART, "Chart.yaml"), encoding="utf-8") as file:
        about = load(file.read())[0]
    check("the chart has the project's version", unequal((version, version), (about["version"], about["appVersion"])))
    known = open(os.path.join(ROOT, "docs/conditions.md"), encoding="utf-8").read()
    known += open(os.path.join(ROOT, "docs/configuration.md"), encoding="utf-8").read()
    check("readiness.ignore: has problems that alignd reports",
          *[f"unknown: {one}" for one in standard["readiness"]["ignore"]
            if f"### {one}" not in known and f"`{one}`" not in known])


# --- The image, of programs that need not run.

def make_image(work, name):
    source = os.path.join(work, name, "from")
    for path in ["bin/alignd", "bin/alignctl", "bin/alignd-events", "bin/alignd-extender",
                 "systemd/alignd.service", "systemd/alignd.socket", "config/kubelet-config.yaml"]:
        os.makedirs(os.path.dirname(os.path.join(source, path)), exist_ok=True)
        with open(os.path.join(source, path), "w", encoding="utf-8") as file:
            file.write(path)
    out = os.path.join(work, name + ".tar")
    subprocess.run([os.path.join(ROOT, "scripts/image.sh"), source, out, "localhost/alignd:test"], check=True,
                   cwd=os.path.join(work, name))
    return out


def check_image(work):
    import hashlib
    first, second = make_image(work, "first"), make_image(work, "second")
    texts = [open(path, "rb").read() for path in (first, second)]
    check("the image: two builds give the same bytes", None if texts[0] == texts[1] else "they differ")
    with tarfile.open(first) as archive:
        blobs = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    check("the image: each blob has the name of its digest",
          *[f"{path}: {hashlib.sha256(text).hexdigest()}" for path, text in blobs.items()
            if path.startswith("blobs/") and path != "blobs/sha256/" + hashlib.sha256(text).hexdigest()])

    def blob(descriptor):
        text = blobs["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(text) == descriptor["size"], descriptor
        return text

    check("the image: is an OCI image layout",
          unequal({"imageLayoutVersion": "1.0.0"}, json.loads(blobs["oci-layout"])))
    index = json.loads(blobs["index.json"])
    manifest = json.loads(blob(index["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    import gzip
    import io
    layer = gzip.decompress(blob(manifest["layers"][0]))
    check("the image: index, manifest, configuration and layer agree",
          unequal("localhost/alignd:test", index["manifests"][0]["annotations"]["io.containerd.image.name"]),
          unequal(["sha256:" + hashlib.sha256(layer).hexdigest()], config["rootfs"]["diff_ids"]),
          unequal(["/bin/alignd-node"], config["config"]["Entrypoint"]))
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        names = set(files.getnames())
        owners = {(member.uid, member.gid) for member in files}
    check("the image: has the installer, a shell, and what it installs",
          *[f"missing: {name}" for name in ["bin/alignd-node", "bin/alignctl", "bin/busybox", "bin/sh",
                                            "alignd/bin/alignd", "alignd/bin/alignd-events",
                                            "alignd/bin/alignd-extender", "alignd/systemd/alignd.socket", "alignd/id",
                                            "alignd/check-pod.yaml", "host"] if "./" + name not in names],
          unequal({(0, 0)}, owners))
    if shutil.which("skopeo"):
        found = subprocess.run(["skopeo", "inspect", "--raw", "oci-archive:" + first], capture_output=True, text=True)
        check("the image: skopeo reads it", found.stderr, unequal(manifest, json.loads(found.stdout or "{}")))
    else:
        print("# skopeo is not installed: the image was not read by it")
    for script in glob.glob(os.path.join(ROOT, "packaging/image/*")):
        parsed = subprocess.run(["busybox", "sh", "-n", script], capture_output=True, text=True)
        check(f"{os.path.basename(script)}: busybox parses it", parsed.stderr)
    said = subprocess.run(["busybox", "sh", os.path.join(ROOT, "packaging/image/alignd-node"), "instal"],
                          capture_output=True, text=True)
    check("alignd-node: refuses an unknown command", unequal(2, said.returncode),
          None if "alignd-node install" in said.stderr else said.stderr)


# The installer on a node that is a directory, with the shell and the tools of the image.
def check_node(work):
    tools = os.path.join(work, "tools")
    os.mkdir(tools)
    for applet in subprocess.run(["busybox", "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.split():
        os.symlink(shutil.which("busybox"), os.path.join(tools, applet))
    ran = subprocess.run([os.path.join(tools, "sh"), os.path.join(ROOT, "tests/kubernetes/node_test.sh"),
                          os.path.join(ROOT, "packaging/image/alignd-node")],
                         stdout=subprocess.PIPE, text=True, env={"PATH": tools}, check=False)
    for line, details in re.findall(r"^((?:not )?ok .*)\n((?:#.*\n)*)", ran.stdout, re.M):
        state, what = re.match(r"(ok|not ok) \d+ - (.*)", line).groups()
        check(f"alignd-node: {what}", None if state == "ok" else details or "see the result of node_test.sh")
    check("alignd-node: its test ran to its end", None if re.search(r"^1\.\.\d+$", ran.stdout, re.M) else ran.stdout[-500:])


def main():
    lacks = list(missing())
    if lacks:
        print("1..0 # SKIP missing:", ", ".join(lacks))
        return 77
    with tempfile.TemporaryDirectory() as work:
        chart = Chart(work)
        if sys.argv[1:] == ["--write"]:
            with open(os.path.join(KUBERNETES, "alignd.yaml"), "w", encoding="utf-8") as file:
                file.write(HEADER + chart.render())
            return 0
        check_objects(chart)
        check_safety(chart)
        check_values(chart)
        check_events(chart)
        check_extender(chart)
        check_documentation(check_schema())
        check_image(work)
        check_node(work)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


sys.exit(main())
