// Which top-level fields a configuration may have.
#pragma once

#include <string_view>

namespace alignd {

// Whether KubeletConfiguration v1beta1 has a field of that name, or alignd adds it.
// Source: k8s.io/kubelet/config/v1beta1/types.go, KubeletConfiguration.
bool IsConfigField(std::string_view name);

// The field with the most similar name; empty if none is similar.
std::string_view NearestConfigField(std::string_view name);

}  // namespace alignd
