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

// What the API server says of a text that is none of these.
inline constexpr std::string_view kDnsSubdomain =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character, with at most 253 characters";
inline constexpr std::string_view kQualifiedName =
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character, with at most 63 characters and an optional DNS subdomain "
    "prefix and '/'";
inline constexpr std::string_view kLabelValue =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character, with at most 63 characters";

}  // namespace alignd::placement
