#include "cli/state_files.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "alignd/base/counted.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/originals_checkpoint.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/checkpoint/verify.h"
#include "allocation/boot_record.h"
#include "cli/checkpoint_command.h"
#include "control/decision_history.h"
#include "host/file.h"
#include "reconcile/bypass.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointKind;

// Of alignd's own directory.
constexpr char kRebuilt[] =
    "restart alignd: it keeps the file under another name and rebuilds its content from the "
    "running "
    "containers, none of which has to stop (--on-bad-state)";

// Of a copy, or of the kubelet's directory: a restart of alignd changes nothing there.
constexpr char kNotAlignds[] =
    "copy the file from its node again; an alignd that is started with this directory rebuilds the "
    "content from the running containers (--on-bad-state)";

// Reads one file after the other into one StateContent.
class StateReader {
 public:
  StateReader(StateContent& content, bool is_alignds)
      : content_(content), remedy_(is_alignds ? kRebuilt : kNotAlignds) {}

  // `take` reads the text, and gives the summary.
  template <typename Take>
  void Read(const std::string& name, const fs::path& path, const std::string& remedy,
            const Take& take) {
    StateFile& file = content_.files.emplace_back();
    file.name = name;
    file.path = path;
    const Result<std::string> text = host::ReadFile(path);
    if (!text.ok() && text.error().code == ErrorCode::kNotFound) return;
    const Result<std::string> taken = text.ok() ? take(*text) : Result<std::string>(text.error());
    const bool is_unreadable = !text.ok() && text.error().code == ErrorCode::kIo;
    file.state = is_unreadable ? StateFile::State::kUnreadable
                 : taken.ok()  ? StateFile::State::kOk
                               : StateFile::State::kDamaged;
    file.what = taken.ok() ? *taken : taken.error().message;
    if (!taken.ok()) {
      const std::string& own = taken.error().remedy;
      file.remedy = own.empty() || !is_unreadable ? remedy : own;
    }
  }

  // A file that alignd rebuilds at its start if it is damaged.
  template <typename Take>
  void ReadRebuilt(const std::string& name, const fs::path& path, const Take& take) {
    Read(name, path, remedy_, take);
  }

  void ReadCheckpoint(CheckpointKind kind, const fs::path& path) {
    const std::string name(checkpoint::FileNameOf(kind));
    ReadRebuilt(name, path, [&](const std::string& text) -> Result<std::string> {
      Result<std::string> summary = CheckStateFile(kind, text);
      if (summary.ok()) Take(kind, text);
      return summary;
    });
  }

  Result<std::string> TakeBindings(const std::string& text) {
    const Result<checkpoint::Bindings> bindings = checkpoint::ParseBindingCheckpoint(text);
    if (!bindings.ok()) return bindings.error();
    for (const auto& [key, resources] : *bindings) content_.containers[key].kubelet_ids = resources;
    return Counted(bindings->size(), "container") + " with kubelet-allocated devices, checksum ok";
  }

  Result<std::string> TakeOriginals(const std::string& text) {
    const Result<checkpoint::Originals> originals = checkpoint::ParseOriginalsCheckpoint(text);
    if (!originals.ok()) return originals.error();
    size_t count = 0;
    for (const auto& [uid, containers] : *originals) {
      count += containers.size();
      for (const auto& [name, cpus] : containers) {
        // alignd drops an entry without exclusive CPUs at its next start.
        const auto saved = content_.containers.find({uid, name});
        if (saved == content_.containers.end() || saved->second.cpus.empty()) continue;
        if (cpus.empty()) continue;  // it keeps no particular ones
        saved->second.original_cpus = cpus.ToString();
      }
    }
    return Counted(count, "resized container") + ", checksum ok";
  }

  Result<std::string> TakeShares(const std::string& text) {
    const Result<checkpoint::SharesCheckpoint> read = checkpoint::ParseSharesCheckpoint(text);
    if (!read.ok()) return read.error();
    const checkpoint::Shares& shares = read->shares;
    for (const auto& [key, share] : shares) {
      content_.containers[key].share =
          "NUMA node " + std::to_string(share.numa_id) + ", " + std::to_string(share.millis) + "m";
    }
    return Counted(shares.size(), "container") + " with shared CPUs of one NUMA node, checksum ok" +
           WhyUnused(*read);
  }

  Result<std::string> TakeDecisions(const std::string& text) {
    const Result<control::KeptDecisions> decisions = control::ParseDecisions(text);
    if (!decisions.ok()) return decisions.error();
    for (const auto& decision : *decisions) {
      content_.pods.try_emplace(decision->pod_uid(),
                                decision->pod_namespace() + "/" + decision->pod_name());
    }
    return Counted(decisions->size(), "decision") + " for alignctl explain, checksum ok";
  }

 private:
  // Empty: alignd uses it.
  std::string WhyUnused(const checkpoint::SharesCheckpoint& shares) const {
    if (cpu_text_.empty()) return "; not used: there is no cpu_manager_state that can be read";
    if (!shares.IsOfAnotherCpuFile(cpu_text_)) return "";
    return "; out of date: saved beside another cpu_manager_state";
  }

  // The text has passed CheckStateFile.
  void Take(CheckpointKind kind, const std::string& text) {
    if (kind == CheckpointKind::kCpu) {
      cpu_text_ = text;
      const checkpoint::CpuCheckpoint cpu = *checkpoint::ParseCpuCheckpoint(text);
      content_.default_set = cpu.state.default_set.ToString();
      for (const auto& [uid, containers] : cpu.state.assignments) {
        for (const auto& [name, cpus] : containers) {
          content_.containers[{uid, name}].cpus = cpus.ToString();
        }
      }
    } else if (kind == CheckpointKind::kMemory) {
      const checkpoint::MemoryCheckpoint memory = *checkpoint::ParseMemoryCheckpoint(text);
      for (const auto& [uid, containers] : memory.state.assignments) {
        for (const auto& [name, blocks] : containers) {
          content_.containers[{uid, name}].memory = blocks;
        }
      }
    } else {
      const checkpoint::DeviceCheckpoint devices = *checkpoint::ParseDeviceCheckpoint(text);
      for (const auto& [key, resources] : devices.allocations) {
        for (const auto& [resource, allocation] : resources) {
          content_.containers[key].devices[resource] = allocation.devices;
        }
      }
    }
  }

  StateContent& content_;
  const std::string remedy_;
  std::string cpu_text_;  // of cpu_manager_state
};

}  // namespace

bool StateContent::Has(StateFile::State state) const {
  return std::ranges::any_of(files, [state](const StateFile& file) { return file.state == state; });
}

StateContent ReadState(const fs::path& state_dir, const fs::path& device_plugin_dir,
                       bool is_alignds) {
  StateContent content;
  StateReader reader(content, is_alignds);
  reader.ReadCheckpoint(CheckpointKind::kCpu, state_dir / "cpu_manager_state");
  reader.ReadCheckpoint(CheckpointKind::kMemory, state_dir / "memory_manager_state");
  reader.ReadCheckpoint(CheckpointKind::kDevice, device_plugin_dir / "kubelet_internal_checkpoint");
  const std::string bindings(checkpoint::kBindingFileName);
  reader.ReadRebuilt(bindings, state_dir / bindings,
                     [&](const std::string& text) { return reader.TakeBindings(text); });
  const std::string originals(checkpoint::kOriginalsFileName);
  reader.ReadRebuilt(originals, state_dir / originals,
                     [&](const std::string& text) { return reader.TakeOriginals(text); });
  const std::string shares(checkpoint::kSharesFileName);
  reader.ReadRebuilt(shares, state_dir / shares,
                     [&](const std::string& text) { return reader.TakeShares(text); });
  const std::string decisions = control::DecisionHistory::kFileName;
  reader.Read(decisions, state_dir / decisions, "see the error",
              [&](const std::string& text) { return reader.TakeDecisions(text); });
  const Result<std::string> running = allocation::RunningBoot("/");
  const std::string boot(allocation::kBootFileName);
  reader.Read(boot, state_dir / boot, "see the error",
              [&](const std::string& text) -> Result<std::string> {
                const bool is_known = running.ok() && !running->empty();
                return std::string(!is_known          ? "a boot"
                                   : text == *running ? "this boot of the machine"
                                                      : "an earlier boot of the machine");
              });
  const std::string bypass = reconcile::Bypass::kFileName;
  reader.Read(bypass, state_dir / bypass, "alignctl bypass off",
              [](const std::string&) -> Result<std::string> {
                return std::string("the bypass is on: alignd relays all calls as they come");
              });
  return content;
}

}  // namespace alignd::cli
