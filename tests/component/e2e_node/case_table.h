// The tables of tests/e2e_node: what Kubernetes' own node tests ask for, as data.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"

namespace alignd::node_suites {

using Json = nlohmann::ordered_json;

// What becomes of an upstream case.
enum class Verdict {
  kRun,          // the steps hold
  kCannotApply,  // what it tests is not alignd's; `reason` says why
  kWeakness,     // it asserts a weakness of the kubelet; the steps state what alignd does instead
};

// One row. An upstream case that runs several times (once per topology policy) has a row for each.
struct Case {
  std::string id;     // the name of the test
  std::string suite;  // one of kSuites
  std::string file;   // upstream, in test/e2e_node
  int number = 0;     // the place of the case in that file, from 1
  std::string about;  // what it asks for, in our words
  Verdict verdict = Verdict::kRun;
  std::string reason;      // of every verdict but kRun
  std::string difference;  // of kWeakness: the first cell of a row of docs/differences.md
  std::string machine;     // a name of machines.json
  Json config;             // KubeletConfiguration, without apiVersion and kind
  Json flags;              // of alignd, by name without dashes
  bool ci = false;         // also runs on a real runtime in every run of CI
  std::vector<Json> steps;
};

inline std::ostream& operator<<(std::ostream& out, const Case& row) { return out << row.id; }

// In the order of docs/conformance.md.
inline constexpr std::string_view kSuites[] = {"CPU manager", "Memory manager", "Topology manager",
                                               "Devices",     "Pod resources",  "Pods API",
                                               "CRI proxy",   "Metrics",        "Huge pages"};

// Reads one row. Errors: kInvalidArgument that names the row and the fault: not JSON, a member that
// is missing, unknown or of another type, a verb or a matcher that does not exist, a reason where
// there is none to give or none where one is needed.
Result<Case> ParseCase(std::string_view line);

// All rows of the *.jsonl files in the directory, in the order of the file names. Errors: as
// ParseCase, with the file and the line; kNotFound without a file; two rows with one id.
Result<std::vector<Case>> ReadCases(const std::filesystem::path& directory);

// machines.json, by name. Errors: kInvalidArgument.
Result<std::map<std::string, Machine>> ReadMachines(const std::filesystem::path& file);

// The verb of a step that ParseCase has accepted.
std::string VerbOf(const Json& step);

// Why the row can only run with a simulated runtime; empty if it can run with a real one.
std::string NeedsSimulation(const Case& row);

// A pod of a step, which ParseCase has accepted. Throws std::runtime_error for an amount that is no
// quantity.
Pod PodOfTable(const Json& json);

// config as KubeletConfiguration's JSON.
std::string ConfigText(const Case& row);

// Where the tables are.
std::filesystem::path TableDirectory();

}  // namespace alignd::node_suites
