#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/config/config_problem.h"
#include "core/base/nearest_name.h"

namespace alignd {

std::string SuggestName(std::string_view name, const std::vector<std::string_view>& candidates,
                        std::string otherwise) {
  const std::string nearest(NearestName(name, candidates));
  return nearest.empty() ? std::move(otherwise) : "did you mean " + nearest + "?";
}

}  // namespace alignd
