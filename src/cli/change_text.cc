#include "cli/change_text.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/message_text.h"
#include "cli/output.h"

namespace alignd::cli {
namespace {

namespace v1 = control::v1;
using ChangeObject = nlohmann::ordered_json;

std::string PoolText(const std::string& cpus) {
  return cpus.empty() ? "not set by alignd" : "CPUs " + cpus;
}

void PrintPair(const std::string& before, const std::string& after, std::ostream& out) {
  out << Coloured{Colour::kRed, "- " + before} << '\n'
      << Coloured{Colour::kGreen, "+ " + after} << '\n';
}

std::string SubjectOf(const v1::ContainerChange& container) {
  return (container.pod().empty() ? "pod " + container.pod_uid() : container.pod()) + " " +
         container.container() + ": ";
}

void PrintContainer(const v1::ContainerChange& container, std::ostream& out) {
  const std::string subject = SubjectOf(container);
  const std::string cpus = container.cpus_before().empty() ? "" : "CPUs " + container.cpus_before();
  if (container.fate() == "moves") {
    PrintPair(subject + cpus, subject + "CPUs " + container.cpus_after(), out);
    out << "    moves: " << container.why() << '\n';
  } else if (container.fate() == "refused") {
    out << Coloured{Colour::kRed, "! " + subject + "cannot be satisfied: " + container.why()}
        << '\n';
  } else {
    out << "  " << subject << "stays" << (cpus.empty() ? std::string() : " on " + cpus)
        << (container.memory_nodes().empty()
                ? std::string()
                : ", memory of NUMA nodes " + Joined(container.memory_nodes()))
        << '\n';
  }
}

}  // namespace

void PrintChange(const v1::ChangeResponse& report, std::ostream& out) {
  v1::ChangeResponse change = report;
  MakePrintable(change);
  int moves = 0;
  int refused = 0;
  out << "settings:\n";
  for (const v1::ChangedSetting& setting : change.settings()) {
    PrintPair(setting.name() + ": " + setting.before(), setting.name() + ": " + setting.after(),
              out);
  }
  if (change.settings().empty()) out << "  none changes\n";
  out << "shared pool:\n";
  if (change.shared_before() == change.shared_after()) {
    out << "  " << PoolText(change.shared_after()) << '\n';
  } else {
    PrintPair(PoolText(change.shared_before()), PoolText(change.shared_after()), out);
  }
  out << "containers with exclusive CPUs, memory or devices:\n";
  for (const v1::ContainerChange& container : change.containers()) {
    PrintContainer(container, out);
    moves += container.fate() == "moves" ? 1 : 0;
    refused += container.fate() == "refused" ? 1 : 0;
  }
  if (change.containers().empty()) out << "  none\n";
  for (const std::string& note : change.notes()) out << "note: " << note << '\n';
  for (const std::string& fault : change.faults()) {
    out << Coloured{Colour::kRed, "! " + fault} << '\n';
  }
  const int stay = change.containers_size() - moves - refused;
  out << "result: " << (change.admitted() ? "can be applied" : "cannot be applied") << "; " << moves
      << " to move, " << stay << " to stay, " << refused << " cannot be satisfied\n";
}

std::string ChangeJson(const v1::ChangeResponse& change) {
  ChangeObject settings = ChangeObject::array();
  for (const v1::ChangedSetting& setting : change.settings()) {
    settings.push_back(
        {{"name", setting.name()}, {"before", setting.before()}, {"after", setting.after()}});
  }
  ChangeObject containers = ChangeObject::array();
  for (const v1::ContainerChange& container : change.containers()) {
    containers.push_back({{"pod_uid", container.pod_uid()},
                          {"pod", container.pod()},
                          {"container", container.container()},
                          {"fate", container.fate()},
                          {"cpus_before", container.cpus_before()},
                          {"cpus_after", container.cpus_after()},
                          {"memory_nodes", std::vector<int>(container.memory_nodes().begin(),
                                                            container.memory_nodes().end())},
                          {"why", container.why()}});
  }
  const auto list = [](const auto& texts) {
    return std::vector<std::string>(texts.begin(), texts.end());
  };
  const ChangeObject json = {{"admitted", change.admitted()},
                             {"faults", list(change.faults())},
                             {"notes", list(change.notes())},
                             {"settings", settings},
                             {"shared_before", change.shared_before()},
                             {"shared_after", change.shared_after()},
                             {"containers", containers}};
  return json.dump(-1, ' ', false, ChangeObject::error_handler_t::replace);
}

}  // namespace alignd::cli
