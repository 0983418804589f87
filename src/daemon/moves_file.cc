#include "daemon/moves_file.h"

#include <optional>
#include <string>
#include <string_view>

#include "daemon/framed_text.h"
#include "host/durable_file.h"
#include "host/file.h"

namespace alignd::daemon {
namespace {

using admission::CpuMove;

constexpr std::string_view kMovesHeader = "alignd container moves 1\n";

// nullopt: damaged.
std::optional<CpuMove> TakeMove(std::string_view& rest) {
  const std::optional<std::string> pod_uid = TakeFramed(rest);
  const std::optional<std::string> container = TakeFramed(rest);
  const std::optional<std::string> before = TakeFramed(rest);
  const std::optional<std::string> after = TakeFramed(rest);
  if (!pod_uid || !container || !before || !after) return std::nullopt;
  const Result<CpuSet> from = CpuSet::Parse(*before);
  const Result<CpuSet> to = CpuSet::Parse(*after);
  if (!from.ok() || !to.ok() || from->empty() || to->empty()) return std::nullopt;
  return CpuMove{{*pod_uid, *container}, *from, *to};
}

}  // namespace

Result<Done> MovesFile::Write(const std::vector<CpuMove>& moves) const {
  std::string text = std::string(kMovesHeader) + Framed(std::to_string(moves.size()));
  for (const CpuMove& move : moves) {
    text += Framed(move.key.pod_uid) + Framed(move.key.container) + Framed(move.before.ToString()) +
            Framed(move.after.ToString());
  }
  return host::ReplaceFile(path_, text);
}

Result<std::vector<CpuMove>> MovesFile::Read() const {
  const Result<std::string> text = host::ReadFile(path_);
  std::vector<CpuMove> moves;
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return moves;
  if (!text.ok()) return text.error();
  const Error damaged{ErrorCode::kCorrupt, path_.string() + " is damaged",
                      "it names containers that were being moved to other CPUs; compare what they "
                      "are assigned (`alignctl pods`) with what they request, delete the pods that "
                      "have more, then remove the file"};
  std::string_view rest = *text;
  if (!rest.starts_with(kMovesHeader)) return damaged;
  rest.remove_prefix(kMovesHeader.size());
  const std::optional<std::string> count = TakeFramed(rest);
  if (!count) return damaged;
  while (!rest.empty()) {
    std::optional<CpuMove> move = TakeMove(rest);
    if (!move) return damaged;
    moves.push_back(*std::move(move));
  }
  if (std::to_string(moves.size()) != *count) return damaged;
  return moves;
}

Result<Done> MovesFile::Remove() const { return host::RemoveFile(path_); }

}  // namespace alignd::daemon
