// Why a pod is not admitted, in the kubelet's words. A result, not an error.
#pragma once

#include <string>

namespace alignd {

// `reason` is the kubelet's one-word reason, `message` its text (pod status, CRI error).
// Source: kubelet pkg/kubelet/cm/admission/errors.go.
struct Refusal {
  std::string reason;
  std::string message;
  // Two parts of the message, for where the container is named already: what does not hold, and
  // what to do. Empty for most reasons.
  std::string fault{};
  std::string remedy{};

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// "Allocate failed due to <error>, which is unexpected": the kubelet's text for an error of a
// manager that is not a refusal.
inline Refusal UnexpectedAdmissionError(const std::string& error) {
  return {"UnexpectedAdmissionError", "Allocate failed due to " + error + ", which is unexpected"};
}

// A pod with pod-level resources whose containers of their own leave nothing for its shared ones.
// `text` is the whole message.
inline Refusal EmptyPodSharedPoolError(const std::string& text) {
  return {"EmptyPodSharedPoolError", text};
}

}  // namespace alignd
