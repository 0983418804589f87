// What `alignctl kubelet status` says of the kubelet of a node.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "kubelet/agreement.h"
#include "kubelet/attachment.h"
#include "kubelet/file_view.h"
#include "kubelet/plan.h"
#include "kubelet/setup.h"

namespace alignd::cli {

// All that is known of the kubelet and of alignd on a node.
struct KubeletNode {
  kubelet::FileView files;
  kubelet::Setup kubelet;
  kubelet::AligndSetup alignd;
  std::optional<kubelet::Record> record;
  std::vector<kubelet::Disagreement> problems;

  bool Attached() const { return kubelet::IsSameEndpoint(kubelet.endpoint, alignd.listen); }
  // The endpoint of the kubelet without alignd; empty: not known.
  std::string Runtime() const;
  bool RestartNeeded() const { return kubelet::RestartNeeded(files, kubelet); }
  // "attached", "not-attached" and so on: see docs/configuration.md.
  std::string State() const;
};

// `root`: root directory of the node. `unit`: of the kubelet. A configuration with which alignd
// does not start is one of the problems. Errors: other files that cannot be read.
Result<KubeletNode> LookAtKubelet(const std::string& root, const std::string& unit);

void PrintProblems(const std::vector<kubelet::Disagreement>& problems, std::ostream& out);

void PrintKubelet(const KubeletNode& node, std::ostream& out);

std::string KubeletJson(const KubeletNode& node);

// The planned changes, as differences in the unified format. `note`: what else there is to say.
std::string ChangesJson(const std::vector<kubelet::Change>& changes,
                        const std::vector<kubelet::Disagreement>& problems,
                        const std::string& note);

}  // namespace alignd::cli
