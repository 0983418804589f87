// What log lines have of an answer of the API server.
#pragma once

#include <cstddef>
#include <string>

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

}  // namespace alignd::events
