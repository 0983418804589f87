// Collects what the API server would refuse about an object, in its words. Private to the core.
// Source: k8s.io/apimachinery pkg/util/validation/field/errors.go.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_view.h"
#include "core/placement/fields.h"

namespace alignd::placement {

// The texts, with "; " between them.
std::string Joined(const std::vector<std::string>& texts);

class Faults {
 public:
  // `is_accepted`: the API server, perhaps a newer one, has accepted the object.
  explicit Faults(bool is_accepted = false) : is_accepted_(is_accepted) {}

  bool is_accepted() const { return is_accepted_; }
  void Invalid(std::string_view path, std::string_view value, std::string_view why) {
    Add(path, "Invalid value: \"" + std::string(value) + "\": " + std::string(why));
  }
  void Required(std::string_view path, std::string_view what = {}) {
    Add(path, "Required value" + (what.empty() ? std::string() : ": " + std::string(what)));
  }
  void Duplicate(std::string_view path, std::string_view value) {
    Add(path, "Duplicate value: \"" + std::string(value) + "\"");
  }
  void NotFound(std::string_view path, std::string_view value) {
    Add(path, "Not found: \"" + std::string(value) + "\"");
  }
  void Forbidden(std::string_view path, std::string_view why) {
    Add(path, "Forbidden: " + std::string(why));
  }
  void Unsupported(std::string_view path, std::string_view value, std::string_view supported) {
    Add(path, "Unsupported value: \"" + std::string(value) +
                  "\": supported values: " + std::string(supported));
  }
  // The text names its path.
  void Add(const Error& error) { AddText(error.message); }
  void Add(std::string_view path, std::string_view what) {
    AddText(path.empty() ? std::string(what) : std::string(path) + ": " + std::string(what));
  }

  bool empty() const { return texts_.empty(); }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  // Once: a field of the wrong type is found by each reader of it.
  void AddText(std::string text);

  bool is_accepted_;
  std::vector<std::string> texts_;  // in the order of the fields
  std::set<std::string> known_;     // the same
};

// The member of that name, if it is an object, a list or a string; wrong types are faults. Absent
// and null members are nullopt.
std::optional<json::View> ObjectIn(const json::View& view, std::string_view key, Faults& faults);
std::vector<json::View> ListIn(const json::View& view, std::string_view key, Faults& faults);
std::optional<std::string> StringIn(const json::View& view, std::string_view key, Faults& faults);

// Members that are not among the names are faults, with the nearest name.
// Source: the API server's strict field validation, which kubectl requests.
void CheckAllFields(const json::View& object, FieldNames names, Faults& faults);

// The same, unless the object is accepted. For all but resources: what a new field of these
// means decides where the pod fits.
void CheckFields(const json::View& object, FieldNames names, Faults& faults);

// The values of the map must be strings.
void CheckStringMap(const json::View& object, std::string_view key, Faults& faults);

// The same, and the keys and values those of labels, unless the object is accepted.
// Source: apimachinery pkg/apis/meta/v1/validation, ValidateLabels.
void CheckLabels(const json::View& object, std::string_view key, Faults& faults);

}  // namespace alignd::placement
