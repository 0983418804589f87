#include "allocation/load_errors.h"

#include <utility>

#include "allocation/bad_state.h"

namespace alignd::allocation {

Error NotRestored(const Error& error, const std::filesystem::path& path, std::string remedy) {
  Error out = error.In("could not restore state from checkpoint").In("load " + path.string());
  out.remedy = std::move(remedy);
  return out;
}

Error NotValid(const Error& error, const std::filesystem::path& path, std::string remedy) {
  Error out = error.In("load " + path.string());
  out.remedy = std::move(remedy);
  return out;
}

Error OfOtherPolicy(const Error& error, const std::string& policy, bool is_known,
                    const char* setting, const std::filesystem::path& path, const char* loss) {
  if (is_known) {
    return NotRestored(error, path,
                       std::string("set ") + setting + " to \"" + policy + "\", or remove " +
                           path.string() + "; the node needs no draining, but " + loss);
  }
  Error corrupt = NotRestored(error, path, RebuildRemedy(path));
  corrupt.code = ErrorCode::kCorrupt;
  return corrupt;
}

Error OfOtherReservations(Error error, const std::string& settings,
                          const std::filesystem::path& path) {
  error.code = ErrorCode::kInvalidArgument;
  return NotValid(error, path,
                  "set " + settings +
                      " as before, and change them with `alignctl apply`, which needs no "
                      "draining; or drain this node and remove " +
                      path.string());
}

}  // namespace alignd::allocation
