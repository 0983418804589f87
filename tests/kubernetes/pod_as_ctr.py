#!/usr/bin/python3
"""The pod of a DaemonSet as arguments of `ctr run`, one a line.

pod_as_ctr.py MANIFEST.yaml DAEMONSET

So the packages' test runs the image with the mounts and rights of the manifest. What this program does
not know is an error: the test would run something else than the manifest.
"""
import sys

import yaml

# What ctr gives a container; the manifest drops all of it.
CTR_CAPABILITIES = """CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP
NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE""".split()
NO_MEANING_HERE = {
    "nodeSelector", "tolerations", "priorityClassName", "automountServiceAccountToken",
    "enableServiceLinks", "terminationGracePeriodSeconds",
}


def known(what, mapping, names):
    unknown = set(mapping) - set(names)
    if unknown:
        sys.exit(f"pod_as_ctr: {what}: unknown: {', '.join(sorted(unknown))}")
    return mapping


def equal(what, value, wanted):
    if value != wanted:
        sys.exit(f"pod_as_ctr: {what}: {value!r} instead of {wanted!r}")


def mount_arguments(pod, container):
    paths = {}
    for volume in pod["volumes"]:
        known("volume", volume, ["name", "hostPath", "emptyDir"])
        paths[volume["name"]] = volume["hostPath"]["path"] if "hostPath" in volume else None
    for mount in container["volumeMounts"]:
        known("mount", mount, ["name", "mountPath", "readOnly", "mountPropagation"])
        if paths[mount["name"]] is None:
            yield f"--mount=type=tmpfs,src=tmpfs,dst={mount['mountPath']},options=size=1m"
            continue
        equal("mountPropagation", mount["mountPropagation"], "HostToContainer")
        options = "rbind:rslave:" + ("ro" if mount.get("readOnly") else "rw")
        yield f"--mount=type=bind,src={paths[mount['name']]},dst={mount['mountPath']},options={options}"


def security_arguments(security):
    known("securityContext", security, ["runAsUser", "privileged", "allowPrivilegeEscalation",
                                        "readOnlyRootFilesystem", "capabilities", "seccompProfile"])
    equal("runAsUser", security["runAsUser"], 0)  # the image's user
    equal("privileged", security["privileged"], False)
    equal("allowPrivilegeEscalation", security["allowPrivilegeEscalation"], False)  # as ctr does
    equal("readOnlyRootFilesystem", security["readOnlyRootFilesystem"], True)
    equal("seccompProfile", security["seccompProfile"], {"type": "RuntimeDefault"})
    equal("capabilities.drop", security["capabilities"]["drop"], ["ALL"])
    yield "--read-only"
    yield "--seccomp"
    kept = security["capabilities"]["add"]
    for name in CTR_CAPABILITIES:
        if name not in kept:
            yield f"--cap-drop=CAP_{name}"
    for name in kept:
        if name not in CTR_CAPABILITIES:
            yield f"--cap-add=CAP_{name}"


def main(manifest, name):
    with open(manifest, encoding="utf-8") as file:
        sets = {one["metadata"]["name"]: one for one in yaml.safe_load_all(file) if one}
    template = sets[name]["spec"]["template"]
    pod = template["spec"]
    # ctr uses no AppArmor profile without --apparmor-profile.
    equal("annotations", template["metadata"]["annotations"],
          {f"container.apparmor.security.beta.kubernetes.io/{pod['containers'][0]['name']}": "unconfined"})
    known("pod", pod, NO_MEANING_HERE | {"containers", "volumes"})
    (container,) = pod["containers"]
    known("container", container, ["name", "image", "imagePullPolicy", "args", "env",
                                   "readinessProbe", "resources", "securityContext", "volumeMounts"])
    equal("memory", container["resources"]["limits"], {"memory": "256Mi"})
    print(f"--memory-limit={256 << 20}")
    for variable in container["env"]:
        print(f"--env={variable['name']}={variable['value']}")
    for argument in security_arguments(container["securityContext"]):
        print(argument)
    for argument in mount_arguments(pod, container):
        print(argument)


main(*sys.argv[1:])
