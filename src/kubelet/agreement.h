// What must agree between the kubelet and alignd.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "kubelet/file_view.h"
#include "kubelet/setup.h"

namespace alignd::kubelet {

// How alignd is configured on this node.
struct AligndSetup {
  std::string listen;             // --listen
  std::string runtime_endpoint;   // --runtime-endpoint
  std::string config_file;        // --config; empty: none
  std::string state_dir;          // --state-dir
  std::string device_plugin_dir;  // --device-plugin-dir, or its default
  std::string compatibility;      // --kubelet-compatibility; empty: not given
  std::string pod_policies;       // --pod-policies; empty: not given
  std::string mirror;             // what turns its mirror on; empty: it is off
  bool has_unit = false;          // alignd.service is there
  // The command line of the unit, the program first, with the variables in place.
  std::vector<std::string> words;
  std::optional<KubeletConfig> config;
};

// From the unit alignd.service; without one, the defaults, and /etc/alignd/kubelet-config.yaml if
// it is there. Errors: files that cannot be read.
Result<AligndSetup> FindAligndSetup(const FileView& files);

// The same without `config`: also if alignd's configuration cannot be read.
Result<AligndSetup> FindAligndFlags(const FileView& files);

struct Disagreement {
  std::string what;
  std::string remedy;
  // With it, the kubelet must not be attached: two programs would manage the CPUs, the kubelet
  // would not start, or containers would be lost.
  bool dangerous = false;

  friend bool operator==(const Disagreement&, const Disagreement&) = default;
};

// `runtime`: the endpoint that the kubelet uses without alignd.
std::vector<Disagreement> Compare(const FileView& files, const Setup& kubelet,
                                  const AligndSetup& alignd, const std::string& runtime);

}  // namespace alignd::kubelet
