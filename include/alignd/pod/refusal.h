// Why a pod is not admitted, in the kubelet's words. A result, not an error.
#pragma once

#include <string>

namespace alignd {

// `reason` is the kubelet's one-word reason, `message` its text (pod status, CRI error).
// Source: kubelet pkg/kubelet/cm/admission/errors.go.
struct Refusal {
  std::string reason;
  std::string message;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// "Allocate failed due to <error>, which is unexpected": the kubelet's text for an error of a
// manager that is not a refusal.
inline Refusal UnexpectedAdmissionError(const std::string& error) {
  return {"UnexpectedAdmissionError", "Allocate failed due to " + error + ", which is unexpected"};
}

}  // namespace alignd
