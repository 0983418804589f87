#include "mirror/binding_table.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "allocation/bad_state.h"
#include "allocation/state_limits.h"

namespace alignd::mirror {

using checkpoint::Bindings;

namespace {

void Merge(const Bindings& bindings, Bindings& into) {
  for (const auto& [key, resources] : bindings) {
    for (const auto& [resource, binding] : resources) into[key][resource] = binding;
  }
}

// Whether the container is assigned the resource, and none of its ids is bound to a device that it
// does not have: a restored copy of the file can be of another time than the state.
bool IsOfAssignment(const devicemanager::DeviceAllocation* allocation,
                    const checkpoint::Binding& binding) {
  if (allocation == nullptr) return false;
  const std::set<std::string> devices = allocation->Ids();
  return std::ranges::all_of(binding,
                             [&](const auto& pair) { return devices.contains(pair.second); });
}

template <typename IsMeant>
void RemoveUnassigned(const admission::NodeState& state, Bindings& bindings,
                      const IsMeant& is_meant) {
  for (auto& [key, resources] : bindings) {
    if (!is_meant(key)) continue;
    std::erase_if(resources, [&, &owner = key](const auto& entry) {
      return !IsOfAssignment(state.devices.Find(owner, entry.first), entry.second);
    });
  }
  std::erase_if(bindings, [](const auto& entry) { return entry.second.empty(); });
}

Error NotLoaded(const Error& why, const std::filesystem::path& file) {
  Error error = why.In("load " + file.string());
  error.code = ErrorCode::kCorrupt;  // also if it is too long
  error.remedy = allocation::RebuildRemedy(file);
  return error;
}

Result<Done> RequireSpace(const Bindings& bindings, size_t max_bytes) {
  if (allocation::MaxBindingFileBytes(bindings) <= max_bytes) return Done{};
  const size_t bytes = checkpoint::FormatBindingCheckpoint(bindings).size();
  if (bytes <= max_bytes) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "the bindings of all containers would have " + std::to_string(bytes) +
                   " bytes, more than the " + std::to_string(max_bytes) +
                   " that device_bindings may have",
               "give the devices shorter ids, or run fewer containers with devices"};
}

// A file that Load does not read, or reads as something else, would end the next start or lose
// bindings.
Result<Done> RequireReadBack(const std::string& text, const Bindings& bindings, size_t max_bytes) {
  if (text.size() > max_bytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "the file would be " + std::to_string(text.size()) + " bytes, more than the " +
                     std::to_string(max_bytes) + " that alignd reads",
                 "repair the disk on which alignd could not write, then restart alignd: it "
                 "removes the bindings of released pods"};
  }
  const Result<Bindings> read = checkpoint::ParseBindingCheckpoint(text);
  if (read.ok() && *read == bindings) return Done{};
  return allocation::NotReadBack(read.ok() ? Result<Done>(Done{}) : read.error());
}

}  // namespace

Result<std::unique_ptr<BindingTable>> BindingTable::Load(std::filesystem::path file,
                                                         host::FileCalls& calls,
                                                         size_t max_file_bytes) {
  if (Result<Done> clean = host::RemoveTemporary(file, calls); !clean.ok()) return clean.error();
  std::optional<std::string> on_disk;
  Bindings bindings;
  Result<std::string> text = host::ReadFile(file, max_file_bytes);
  if (text.ok()) {
    Result<Bindings> parsed = checkpoint::ParseBindingCheckpoint(*text);
    if (!parsed.ok()) return NotLoaded(parsed.error(), file);
    bindings = *std::move(parsed);
    on_disk = *std::move(text);
  } else if (text.error().code == ErrorCode::kInvalidArgument) {  // it is too long
    return NotLoaded(text.error(), file);
  } else if (text.error().code != ErrorCode::kNotFound) {
    return text.error();
  }
  return std::unique_ptr<BindingTable>(new BindingTable(std::move(file), calls, max_file_bytes,
                                                        std::move(bindings), std::move(on_disk)));
}

std::unique_ptr<BindingTable> BindingTable::Absent(std::filesystem::path file,
                                                   host::FileCalls& calls, size_t max_file_bytes) {
  return std::unique_ptr<BindingTable>(
      new BindingTable(std::move(file), calls, max_file_bytes, {}, std::nullopt));
}

BindingTable::BindingTable(std::filesystem::path file, host::FileCalls& calls,
                           size_t max_file_bytes, Bindings bindings,
                           std::optional<std::string> text)
    : file_(std::move(file)),
      calls_(calls),
      max_file_bytes_(max_file_bytes),
      text_(std::move(text)),
      kept_(bindings),
      is_absent_(!text_),
      bindings_(std::make_shared<const Bindings>(std::move(bindings))) {}

std::shared_ptr<const Bindings> BindingTable::snapshot() const {
  const MutexLock lock(mutex_);
  return bindings_;
}

Result<Done> BindingTable::Set(const Bindings& bindings) {
  if (bindings.empty()) return Done{};
  Bindings next = *snapshot();
  Merge(bindings, next);
  if (next == *snapshot()) return Done{};
  Result<Done> sound = RequireReadBack(checkpoint::FormatBindingCheckpoint(bindings), bindings,
                                       max_file_bytes_);  // the new ones
  if (sound.ok()) sound = RequireSpace(next, max_file_bytes_ / 2);
  if (!sound.ok()) return sound.error().In(file_.string());
  Publish(std::move(next));
  return Done{};
}

void BindingTable::Forget(const std::set<std::string>& pod_uids) {
  Bindings next = *snapshot();
  const size_t forgotten = std::erase_if(
      next, [&](const auto& entry) { return pod_uids.contains(entry.first.pod_uid); });
  if (forgotten > 0) Publish(std::move(next));
}

void BindingTable::DropUnassigned(const admission::NodeState& state, const std::string& pod_uid) {
  Bindings next = *snapshot();
  RemoveUnassigned(state, next, [&](const ContainerKey& key) { return key.pod_uid == pod_uid; });
  if (next != *snapshot()) Publish(std::move(next));
}

Result<Done> BindingTable::RetainAssigned(const admission::NodeState& state) {
  Bindings next = *snapshot();
  RemoveUnassigned(state, next, [](const ContainerKey&) { return true; });
  if (next == *snapshot()) return Done{};
  Result<Done> saved = Save(next);
  Publish(std::move(next));
  return saved;
}

Result<Done> BindingTable::SaveNew(const Bindings& now) {
  Bindings both = kept_;
  Merge(now, both);
  if (text_ && both == kept_) return Done{};
  Result<Done> written = Write(both);
  // After a failure the state files are not written, and refer to no more than before.
  if (written.ok()) kept_ = std::move(both);
  return written;
}

Result<Done> BindingTable::Save(const Bindings& now) {
  if (text_ && now == kept_) return Done{};
  Result<Done> written = Write(now);
  if (written.ok() || !text_) kept_ = now;
  return written;
}

Result<Done> BindingTable::Write(const Bindings& bindings) {
  if (is_absent_ && bindings.empty()) return Done{};
  const std::string text = checkpoint::FormatBindingCheckpoint(bindings);
  if (text_ == text) return Done{};
  if (Result<Done> sound = RequireReadBack(text, bindings, max_file_bytes_); !sound.ok()) {
    return sound.error().In("write " + file_.string());
  }
  // After a failure the content of the file is unknown, so that the next save writes in any case.
  text_.reset();
  is_absent_ = false;
  is_uncertain_ = true;
  if (Result<Done> written = host::ReplaceFile(file_, text, calls_); !written.ok()) return written;
  text_ = text;
  is_uncertain_ = false;
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
