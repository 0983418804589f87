#include "cli/kubelet_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

namespace alignd::cli {
namespace {

using kubelet::Change;
using kubelet::Disagreement;

// With a line for each member: packaging/image/alignd-node reads these with sed.
std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::ordered_json ProblemsJson(const std::vector<Disagreement>& problems) {
  nlohmann::ordered_json list = nlohmann::json::array();
  for (const Disagreement& problem : problems) {
    list.push_back(
        {{"what", problem.what}, {"remedy", problem.remedy}, {"dangerous", problem.dangerous}});
  }
  return list;
}

}  // namespace

std::string KubeletNode::Runtime() const {
  if (record && kubelet::IsSameEndpoint(kubelet.endpoint, record->endpoint)) {
    return record->runtime;
  }
  return Attached() ? "" : kubelet.endpoint;
}

std::string KubeletNode::State() const {
  if (record && !record->complete) return "interrupted";
  if (kubelet.distribution) return "by-hand";
  if (!kubelet.unit) return "no-kubelet";
  return Attached() ? "attached" : "not-attached";
}

Result<KubeletNode> LookAtKubelet(const std::string& root, const std::string& unit) {
  KubeletNode node{kubelet::FileView(root), {}, {}, {}, {}};
  Result<kubelet::Setup> setup = kubelet::FindSetup(node.files, unit);
  if (!setup.ok()) return setup.error();
  node.kubelet = *std::move(setup);
  Result<kubelet::AligndSetup> alignd = kubelet::FindAligndSetup(node.files);
  std::vector<Disagreement> problems;
  if (!alignd.ok()) {
    // Which endpoint the kubelet has matters most while alignd cannot start.
    const Error& error = alignd.error();
    problems.push_back({"alignd does not start with its configuration: " + error.message,
                        error.remedy, /*dangerous=*/true});
    alignd = kubelet::FindAligndFlags(node.files);
    if (!alignd.ok()) return alignd.error().In("alignd.service");
  }
  node.alignd = *std::move(alignd);
  Result<std::optional<kubelet::Record>> record = kubelet::ReadRecord(node.files);
  if (!record.ok()) return record.error();
  node.record = *std::move(record);
  if (node.kubelet.unit && !node.kubelet.distribution) {
    node.problems = Compare(node.files, node.kubelet, node.alignd, node.Runtime());
  }
  node.problems.insert(node.problems.begin(), problems.begin(), problems.end());
  return node;
}

void PrintProblems(const std::vector<Disagreement>& problems, std::ostream& out) {
  if (problems.empty()) return;
  out << "problems:\n";
  for (const Disagreement& problem : problems) {
    out << "  " << problem.what << "\n    What to do: " << problem.remedy << '\n';
  }
}

void PrintKubelet(const KubeletNode& node, std::ostream& out) {
  const kubelet::Setup& setup = node.kubelet;
  const std::string state = node.State();
  out << "state: " << state << '\n';
  if (state == "interrupted") {
    out << "  What to do: run `alignctl kubelet attach` or `alignctl kubelet detach` again\n";
  }
  // A dangerous problem has a remedy of its own, without which `attach` refuses.
  const bool may_attach = std::ranges::none_of(node.problems, &Disagreement::dangerous);
  if (state == "not-attached" && may_attach) {
    out << "  What to do: run `alignctl kubelet attach`\n";
  }
  if (setup.distribution) {
    out << "distribution: " << setup.distribution->name << '\n'
        << "  What to do: " << setup.distribution->by_hand << '\n';
    PrintProblems(node.problems, out);
    return;
  }
  if (!setup.unit) {
    out << "  there is no unit " << setup.unit_name << " on this node (--unit)\n";
    PrintProblems(node.problems, out);
    return;
  }
  out << "endpoint: " << setup.endpoint << " (" << DescribeSource(setup) << ")\n"
      << "unit: " << setup.unit_name << '\n';
  for (const std::string& file : setup.unit->files) out << "  " << file << '\n';
  if (!setup.config_file.empty()) out << "configuration: " << setup.config_file << '\n';
  if (setup.process) {
    out << "process: " << setup.process->pid
        << (node.RestartNeeded() ? ", which still uses the earlier settings: restart the kubelet\n"
                                 : "\n");
  }
  if (node.record) {
    out << "changed by alignctl:\n";
    for (const Change& change : node.record->changes) out << "  " << change.path << '\n';
  }
  PrintProblems(node.problems, out);
}

std::string KubeletJson(const KubeletNode& node) {
  const kubelet::Setup& setup = node.kubelet;
  nlohmann::ordered_json status = {{"state", node.State()}};
  if (setup.distribution) {
    status["distribution"] = {{"name", setup.distribution->name},
                              {"by_hand", setup.distribution->by_hand}};
  }
  if (setup.unit) {
    status["unit"] = {{"name", setup.unit_name}, {"files", setup.unit->files}};
    status["config_file"] = setup.config_file;
    status["endpoint"] = setup.endpoint;
    status["source"] = DescribeSource(setup);
  }
  if (setup.process) {
    status["process"] = {{"pid", setup.process->pid}, {"restart_needed", node.RestartNeeded()}};
  }
  status["changed"] = nlohmann::json::array();
  if (node.record) {
    for (const Change& change : node.record->changes) status["changed"].push_back(change.path);
  }
  status["problems"] = ProblemsJson(node.problems);
  return Dump(status);
}

std::string ChangesJson(const std::vector<Change>& changes,
                        const std::vector<Disagreement>& problems, const std::string& note) {
  nlohmann::ordered_json shown = {{"changes", nlohmann::json::array()}};
  for (const Change& change : changes) {
    shown["changes"].push_back({{"file", change.path}, {"diff", Diff(change)}});
  }
  shown["problems"] = ProblemsJson(problems);
  if (!note.empty()) shown["note"] = note;
  return Dump(shown);
}

}  // namespace alignd::cli
