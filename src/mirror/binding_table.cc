#include "mirror/binding_table.h"

#include <utility>

#include "host/file.h"

namespace alignd::mirror {

using checkpoint::Bindings;

Result<std::unique_ptr<BindingTable>> BindingTable::Load(std::filesystem::path file,
                                                         host::FileCalls& calls) {
  if (Result<Done> clean = host::RemoveTemporary(file, calls); !clean.ok()) return clean.error();
  std::optional<std::string> on_disk;
  Bindings bindings;
  Result<std::string> text = host::ReadFile(file);
  if (text.ok()) {
    Result<Bindings> parsed = checkpoint::ParseBindingCheckpoint(*text);
    if (!parsed.ok()) {
      Error error = parsed.error().In("load " + file.string());
      error.remedy = "remove " + file.string() +
                     "; containers keep their devices, but until a container is created again the "
                     "kubelet may see the health of another device";
      return error;
    }
    bindings = *std::move(parsed);
    on_disk = *std::move(text);
  } else if (text.error().code != ErrorCode::kNotFound) {
    return text.error();
  }
  return std::unique_ptr<BindingTable>(
      new BindingTable(std::move(file), calls, std::move(bindings), std::move(on_disk)));
}

BindingTable::BindingTable(std::filesystem::path file, host::FileCalls& calls, Bindings bindings,
                           std::optional<std::string> text)
    : file_(std::move(file)),
      calls_(calls),
      text_(std::move(text)),
      bindings_(std::make_shared<const Bindings>(std::move(bindings))) {}

std::shared_ptr<const Bindings> BindingTable::snapshot() const {
  const MutexLock lock(mutex_);
  return bindings_;
}

Result<Done> BindingTable::Set(const Bindings& bindings) {
  if (bindings.empty()) return Done{};
  Bindings next = *snapshot();
  for (const auto& [key, resources] : bindings) {
    for (const auto& [resource, binding] : resources) next[key][resource] = binding;
  }
  if (text_ && next == *snapshot()) return Done{};
  if (Result<Done> saved = Save(next); !saved.ok()) return saved;
  Publish(std::move(next));
  return Done{};
}

Result<Done> BindingTable::Forget(const std::set<std::string>& pod_uids) {
  Bindings next = *snapshot();
  const size_t forgotten = std::erase_if(
      next, [&](const auto& entry) { return pod_uids.contains(entry.first.pod_uid); });
  if (forgotten == 0) return Done{};
  Result<Done> saved = Save(next);
  Publish(std::move(next));
  return saved;
}

Result<Done> BindingTable::RetainAssigned(const admission::NodeState& state) {
  Bindings next = *snapshot();
  for (auto& [key, resources] : next) {
    std::erase_if(resources, [&, &owner = key](const auto& entry) {
      return state.devices.Find(owner, entry.first) == nullptr;
    });
  }
  std::erase_if(next, [](const auto& entry) { return entry.second.empty(); });
  if (next == *snapshot()) return Done{};
  Result<Done> saved = Save(next);
  Publish(std::move(next));
  return saved;
}

Result<Done> BindingTable::Save(const Bindings& bindings) {
  const std::string text = checkpoint::FormatBindingCheckpoint(bindings);
  if (text_ == text) return Done{};
  // After a failure the content of the file is unknown, so that the next save writes in any case.
  text_.reset();
  if (Result<Done> written = host::ReplaceFile(file_, text, calls_); !written.ok()) return written;
  text_ = text;
  return Done{};
}

void BindingTable::Publish(Bindings bindings) {
  auto next = std::make_shared<const Bindings>(std::move(bindings));
  {
    const MutexLock lock(mutex_);
    bindings_ = std::move(next);
  }
  for (const auto& observer : observers_) observer();
}

}  // namespace alignd::mirror
