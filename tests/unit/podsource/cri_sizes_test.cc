#include "podsource/cri_sizes.h"

#include <gtest/gtest.h>

#include <optional>

namespace alignd::podsource {
namespace {

TEST(QosOfCgroupParent, ReadsTheFormsOfBothCgroupDriversOnly) {
  struct Case {
    const char* parent;
    std::optional<QosClass> qos;
  };
  const Case cases[] = {
      {"/kubepods/pod5a75262b", QosClass::kGuaranteed},
      {"/kubepods/burstable/pod5a75262b", QosClass::kBurstable},
      {"/kubepods/besteffort/pod5a75262b", QosClass::kBestEffort},
      {"/system/kubepods/burstable/pod5a75262b", QosClass::kBurstable},
      {"kubepods/pod5a75262b", QosClass::kGuaranteed},
      {"kubepods-pod5a75262b_1.slice", QosClass::kGuaranteed},
      {"kubepods-burstable-pod5a75262b_1.slice", QosClass::kBurstable},
      {"kubepods-besteffort-pod5a75262b_1.slice", QosClass::kBestEffort},
      {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice",
       QosClass::kBurstable},
      {"system-kubepods-burstable-pod1.slice", QosClass::kBurstable},
      {"system-kubepods-pod1.slice", QosClass::kGuaranteed},
      {"/kubepods/system/pod5a75262b", QosClass::kGuaranteed},
      {"/kubepods/system/burstable/pod5a75262b", QosClass::kBurstable},
      {"/kubepods/system/besteffort/pod5a75262b", QosClass::kBestEffort},
      {"/trial/kubepods/system/besteffort/pod5a75262b", QosClass::kBestEffort},
      {"kubepods-system-pod5a75262b_1.slice", QosClass::kGuaranteed},
      {"kubepods-system-burstable-pod5a75262b_1.slice", QosClass::kBurstable},
      {"kubepods-system-besteffort-pod5a75262b_1.slice", QosClass::kBestEffort},
      {"trial-kubepods-system-burstable-pod1.slice", QosClass::kBurstable},
      {"/kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/"
       "kubepods-system-burstable-pod1.slice",
       QosClass::kBurstable},
      {"", std::nullopt},
      {"/", std::nullopt},
      {"/pod1", std::nullopt},
      {"/kubepods", std::nullopt},
      {"/kubepods/burstable", std::nullopt},
      {"/notkubepods/pod1", std::nullopt},
      {"/notkubepods/burstable/pod1", std::nullopt},
      {"/kubepods/other/pod1", std::nullopt},
      {"/kubepods/system/other/pod1", std::nullopt},
      {"/kubepods/system/system/pod1", std::nullopt},
      {"/kubepods/system", std::nullopt},
      {"kubepods-system-system-pod1.slice", std::nullopt},
      {"kubepods-system-burstable.slice", std::nullopt},
      {"notkubepods-pod1.slice", std::nullopt},
      {"kubepods-burstable.slice", std::nullopt},
      {"user.slice", std::nullopt},
      {"/docker/0123", std::nullopt},
  };
  for (const Case& c : cases) EXPECT_EQ(QosOfCgroupParent(c.parent), c.qos) << c.parent;
}

}  // namespace
}  // namespace alignd::podsource
