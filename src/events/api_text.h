// What the text of an API server's answer says, and what log lines have of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "apiserver/api_client.h"
#include "host/printable.h"

namespace alignd::events {

// The status and the API server's text, in one line.
inline std::string Shown(const apiserver::ApiAnswer& answer) {
  constexpr size_t kShownBytes = 512;
  const std::string status = apiserver::StatusText({.status = answer.status});
  std::string text = apiserver::StatusText(answer);
  // No Status object, such as the page of a proxy.
  if (text == status && !answer.body.empty()) text += ": " + answer.body;
  if (text.size() > kShownBytes) text.resize(kShownBytes);
  return host::Printable(text);
}

inline bool Has(const apiserver::ApiAnswer& answer, std::string_view text) {
  return answer.body.find(text) != std::string::npos;
}

// The credential is not known, or its user may not write such objects at all. Other refusals with
// 403 are of one namespace or pod: a quota, a policy, a deletion, a pod that is on another node.
inline bool IsAboutTheCredential(const apiserver::ApiAnswer& answer) {
  return answer.status == 401 || (answer.status == 403 && (Has(answer, "cannot create resource") ||
                                                           Has(answer, "cannot patch resource")));
}

}  // namespace alignd::events
