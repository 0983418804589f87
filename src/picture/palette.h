// The colours of pictures. Owners: those of Okabe and Ito, which people with each kind of colour
// blindness can distinguish. A key in letters says the same, because there are more containers than
// colours. Each text has a contrast of at least 4.5 to what it stands on.
#pragma once

#include <array>
#include <string_view>

namespace alignd::picture {

struct Paint {
  std::string_view fill;
  std::string_view text;
};

inline constexpr std::string_view kInk = "#111827";
inline constexpr std::string_view kPale = "#4b5563";  // of lesser texts
inline constexpr std::string_view kWarning = "#9f1239";
inline constexpr std::string_view kWhite = "#ffffff";
inline constexpr std::string_view kLine = "#94a3b8";
inline constexpr std::string_view kStrongLine = "#475569";

inline constexpr std::array<Paint, 7> kOwnerColours = {{{"#e69f00", kInk},
                                                        {"#56b4e9", kInk},
                                                        {"#cc79a7", kInk},
                                                        {"#f0e442", kInk},
                                                        {"#0072b2", kWhite},
                                                        {"#d55e00", "#000000"},
                                                        {"#009e73", "#000000"}}};

inline constexpr Paint kReservedPaint{"#4b5563", kWhite};
inline constexpr Paint kFreePaint{"#ffffff", kInk};
inline constexpr Paint kSharedPaint{"#cbd5e1", kInk};
inline constexpr Paint kUnknownPaint{"#e2e8f0", kInk};  // the owner is not known

inline constexpr Paint kSocketPaint{"#f1f5f9", kInk};
inline constexpr Paint kNumaPaint{"#ffffff", kInk};
inline constexpr Paint kCachePaint{"#e8eef5", kInk};
inline constexpr Paint kCorePaint{"#f8fafc", kInk};
inline constexpr Paint kDevicePaint{"#faf7f0", kInk};

}  // namespace alignd::picture
