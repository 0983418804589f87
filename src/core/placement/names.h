// The forms of Kubernetes names. Private to the core.
// Source: k8s.io/apimachinery pkg/util/validation/validation.go.
#pragma once

#include <string_view>

namespace alignd::placement {

// At most 63 characters of a-z, 0-9 and '-', the first and the last no '-'.
bool IsDnsLabel(std::string_view text);
// Such labels, of any length, with '.' between them; at most 253 characters.
bool IsDnsSubdomain(std::string_view text);
// A name of at most 63 letters, digits, '-', '_' and '.', the first and the last a letter or digit;
// before it, a DNS subdomain and '/' may stand.
bool IsQualifiedName(std::string_view text);
// The value of a label: empty, or such a name without a subdomain.
bool IsLabelValue(std::string_view text);

}  // namespace alignd::placement
