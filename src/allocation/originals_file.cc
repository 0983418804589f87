#include "allocation/originals_file.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "allocation/bad_state.h"
#include "allocation/state_limits.h"
#include "host/file.h"

namespace alignd::allocation {
namespace {

using checkpoint::Originals;

Error OriginalsNotLoaded(const Error& why, const std::filesystem::path& file) {
  Error error = why.In("load " + file.string());
  error.code = ErrorCode::kCorrupt;  // also if it is too long
  error.remedy = RebuildRemedy(file);
  return error;
}

// Takes the entries that fit the assignments. Returns whether all do.
bool TakeFitting(const Originals& loaded, const std::filesystem::path& file,
                 cpumanager::CpuState& state) {
  bool all = true;
  for (const auto& [pod_uid, containers] : loaded) {
    for (const auto& [container, cpus] : containers) {
      const CpuSet* const assigned = state.Find({pod_uid, container});
      const bool fits = assigned == nullptr ? cpus.empty() : assigned->Contains(cpus);
      if (fits) {
        state.originals[pod_uid][container] = cpus;
        continue;
      }
      all = false;
      spdlog::warn(
          "{}: the entry of pod {} container {} (CPUs {}) is dropped: the container {}",
          file.string(), pod_uid, container, cpus.ToString(),
          assigned == nullptr ? "has no exclusive CPUs" : "has CPUs " + assigned->ToString());
    }
  }
  return all;
}

Result<Done> RequireSameText(const std::string& text, const Originals& originals) {
  if (text.size() > kMaxStateBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "the file would be " + std::to_string(text.size()) + " bytes, more than the " +
                     std::to_string(kMaxStateBytes) + " that alignd reads after a restart",
                 "run fewer containers whose exclusive CPUs are resized"};
  }
  const Result<Originals> read = checkpoint::ParseOriginalsCheckpoint(text);
  if (read.ok() && *read == originals) return Done{};
  return NotReadBack(read.ok() ? Result<Done>(Done{}) : read.error());
}

}  // namespace

Result<Done> OriginalsFile::Load(cpumanager::CpuState& state) {
  if (Result<Done> clean = host::RemoveTemporary(file_, calls_); !clean.ok()) return clean;
  Forget();
  Result<std::string> text = host::ReadFile(file_);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return Done{};
  if (!text.ok() && text.error().code == ErrorCode::kInvalidArgument) {  // it is too long
    return OriginalsNotLoaded(text.error(), file_);
  }
  if (!text.ok()) return text.error();
  Result<Originals> loaded = checkpoint::ParseOriginalsCheckpoint(*text);
  if (!loaded.ok()) return OriginalsNotLoaded(loaded.error(), file_);
  text_ = *std::move(text);
  kept_ = *std::move(loaded);
  return TakeFitting(kept_, file_, state) ? Result<Done>(Done{}) : Save(state.originals);
}

void OriginalsFile::Forget() {
  text_.reset();
  kept_ = {};
  is_uncertain_ = false;
}

Originals OriginalsFile::WithKept(const Originals& now) const {
  Originals both = kept_;
  for (const auto& [pod_uid, containers] : now) {
    for (const auto& [container, cpus] : containers) both[pod_uid][container] = cpus;
  }
  return both;
}

Result<Done> OriginalsFile::RequireReadBack(const Originals& now) const {
  for (const Originals& originals : {WithKept(now), now}) {
    if (originals.empty() || (text_ && originals == kept_)) continue;
    const Result<Done> sound =
        RequireSameText(checkpoint::FormatOriginalsCheckpoint(originals), originals);
    if (!sound.ok()) return sound.error().In("write " + file_.string());
  }
  return Done{};
}

Result<Done> OriginalsFile::SaveNew(const Originals& now) {
  Originals both = WithKept(now);
  Result<Done> written = Write(both);
  // After a failure the CPU file is not written, and refers to no more than before.
  if (written.ok()) kept_ = std::move(both);
  return written;
}

Result<Done> OriginalsFile::Save(const Originals& now) {
  Result<Done> written = Write(now);
  // After a failure the file has the entries of before or of now, which is not known; the CPU file
  // needs those of now.
  if (written.ok() || is_uncertain_) kept_ = now;
  return written;
}

Result<Done> OriginalsFile::Write(const Originals& originals) {
  if (!text_ && !is_uncertain_ && originals.empty()) return Done{};  // there was never an entry
  if (text_ && originals == kept_) return Done{};
  const std::string text = checkpoint::FormatOriginalsCheckpoint(originals);
  if (text_ == text) return Done{};
  if (Result<Done> sound = RequireSameText(text, originals); !sound.ok()) {
    return sound.error().In("write " + file_.string());
  }
  // After a failure the content of the file is unknown, so that the next save writes in any case.
  text_.reset();
  is_uncertain_ = true;
  if (Result<Done> written = host::ReplaceFile(file_, text, calls_); !written.ok()) return written;
  text_ = text;
  is_uncertain_ = false;
  return Done{};
}

}  // namespace alignd::allocation
