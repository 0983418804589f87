// What the manual pages say beside the flags.
#pragma once

#include "cli/reference.h"

namespace alignd::cli {

inline ManualText AlignctlManual() {
  return {.name = "alignctl",
          .section = 1,
          .what = "inspects a node, and alignd on it",
          .exit_status =
              "0: done, yes or healthy. 1: not done, no or degraded. 2: alignd does not "
              "answer, or the command line is wrong.",
          .files = {"/run/alignd/control.sock", "/var/lib/alignd/"},
          .see_also = {"alignd(8)", "alignd-config(5)"}};
}

inline ManualText AligndManual() {
  return {.name = "alignd",
          .section = 8,
          .what = "aligns containers with NUMA nodes, between the kubelet and its runtime",
          .exit_status =
              "0: stopped by a signal. 1: it cannot start; the log has the cause. 2: the "
              "command line is wrong.",
          .files = {"/run/alignd/alignd.sock", "/run/alignd/control.sock",
                    "/run/alignd/pod-resources.sock", "/var/lib/alignd/cpu_manager_state",
                    "/var/lib/alignd/memory_manager_state",
                    "/var/lib/alignd/device-plugins/kubelet_internal_checkpoint"},
          .see_also = {"alignctl(1)", "alignd-config(5)", "alignd-events(8)"}};
}

inline ManualText AligndEventsManual() {
  return {.name = "alignd-events",
          .section = 8,
          .what = "reports what alignd does with pods to the cluster, as Events",
          .exit_status = "2: the command line is wrong. Otherwise it runs until a signal ends it.",
          .files = {"/run/alignd/control.sock", "/etc/kubernetes/kubelet.conf"},
          .see_also = {"alignd(8)", "alignctl(1)"}};
}

inline ManualText AligndExtenderManual() {
  return {.name = "alignd-extender",
          .section = 8,
          .what = "lets pods through to nodes on which the kubelet will admit them",
          .exit_status =
              "0: stopped by a signal. 1: it cannot serve; the log has the cause. 2: the command "
              "line is wrong.",
          .files = {"/etc/kubernetes/scheduler.conf"},
          .see_also = {"alignctl(1)", "alignd-events(8)"}};
}

}  // namespace alignd::cli
