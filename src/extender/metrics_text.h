// The text of /metrics. Source: Prometheus, text-based exposition format 0.0.4.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace alignd::extender {

// A value.
class MetricsText {
 public:
  // The samples after it are of this family.
  void Family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    Append({"# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n"});
  }
  // `labels`: kind="pods",... ; empty: none.
  void Sample(std::string_view value, std::string_view labels = {}) {
    if (labels.empty()) {
      Append({name_, " ", value, "\n"});
    } else {
      Append({name_, "{", labels, "} ", value, "\n"});
    }
  }
  const std::string& text() const { return text_; }

 private:
  void Append(std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) text_.append(part);
  }

  std::string text_;
  std::string name_;
};

}  // namespace alignd::extender
