// Numbers of things in texts.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace alignd {

// "1 pod", "2 pods". `noun`: one that gets an s.
template <std::integral Number>
std::string Counted(Number number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

// The verb after Counted.
template <std::integral Number>
constexpr std::string_view IsOrAre(Number number) {
  return number == 1 ? "is" : "are";
}

}  // namespace alignd
