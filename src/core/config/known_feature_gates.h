// The feature gates of kubelets that change nothing that alignd does.
#pragma once

#include <string_view>
#include <vector>

namespace alignd {

// In alphabetical order, without those that alignd follows. A gate that is missing here is a
// warning, no error: newer kubelets have more.
const std::vector<std::string_view>& OtherFeatureGates();

}  // namespace alignd
