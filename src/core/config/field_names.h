// Which top-level fields a configuration may have.
#pragma once

#include <string_view>

namespace alignd {

// Whether KubeletConfiguration v1beta1 has a field of that name, or we do.
// Source: k8s.io/kubelet/config/v1beta1/types.go, KubeletConfiguration.
bool IsConfigField(std::string_view name);

// The field whose name is most like `name`; empty if none is at all like it.
std::string_view NearestConfigField(std::string_view name);

}  // namespace alignd
