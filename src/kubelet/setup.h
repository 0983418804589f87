// How the kubelet of a node is started and configured.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "kubelet/file_view.h"
#include "kubelet/unit.h"

namespace alignd::kubelet {

inline constexpr char kEndpointFlag[] = "--container-runtime-endpoint";
inline constexpr char kEndpointField[] = "containerRuntimeEndpoint";
inline constexpr char kDefaultEndpoint[] = "unix:///run/containerd/containerd.sock";
// kubeadm from 1.36 on merges it into the kubelet's configuration at every upgrade.
inline constexpr char kInstanceConfig[] = "/var/lib/kubelet/instance-config.yaml";
// kubeadm writes it again at every upgrade.
inline constexpr char kKubeadmFlags[] = "/var/lib/kubelet/kubeadm-flags.env";

// A distribution that starts the kubelet in a way of its own.
struct Distribution {
  std::string name;
  std::string by_hand;  // what to do instead of `alignctl kubelet attach`
};

// A value.
struct Setup {
  enum class Source { kDefault, kFlag, kConfigFile };

  std::string unit_name;
  std::optional<Unit> unit;
  std::vector<std::string> words;  // of the command line
  std::optional<Distribution> distribution;

  std::string config_file;                         // --config; empty: none
  std::string config_dir;                          // --config-dir; empty: none
  std::string config_json;                         // all of them together
  std::map<std::string, std::string> field_files;  // by field, the file that decides it

  std::string endpoint = kDefaultEndpoint;
  Source source = Source::kDefault;
  std::string file;      // that decides the endpoint; empty: none does
  std::string variable;  // in that file, for a flag; empty: ExecStart=

  struct Process {
    int pid = 0;
    std::string endpoint;  // nothing but a flag is known of a process; empty: it has none
    std::optional<std::chrono::milliseconds> started;  // after 1970; nullopt: not known
  };
  std::optional<Process> process;  // that runs now
};

// Errors: files that cannot be read, configuration that is no YAML. A node without a kubelet is not
// an error. Flags win over configuration files, later ones over earlier ones.
// Source: kubelet cmd/kubelet/app/server.go (newKubeletConfigFlagPrecedence, --config-dir).
Result<Setup> FindSetup(const FileView& files, const std::string& unit_name);

// Whether the process that runs can use another endpoint than the files say: its flag differs, or
// the file that decides was changed after its start.
bool RestartNeeded(const FileView& files, const Setup& setup);

// "the flag --container-runtime-endpoint in KUBELET_EXTRA_ARGS of /etc/default/kubelet".
std::string DescribeSource(const Setup& setup);

// "--cpu-manager-policy in KUBELET_EXTRA_ARGS of /etc/default/kubelet": where the last `flag` of
// the command line stands. The command line has it.
std::string DescribeFlag(const Setup& setup, const std::string& flag);

// Whether two endpoints name the same socket: with or without unix://, below /run or /var/run.
bool IsSameEndpoint(const std::string& a, const std::string& b);

}  // namespace alignd::kubelet
