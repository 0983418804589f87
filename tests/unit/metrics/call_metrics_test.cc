#include "metrics/call_metrics.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "runtime/v1/cri.pb.h"

namespace alignd::metrics {
namespace {

std::string TextOfCalls(const CallMetrics& calls) {
  Families families;
  calls.Collect(families);
  return prometheus::TextSerializer().Serialize(families.all());
}

TEST(CallMetrics, MethodsAreSortedAndHaveThoseOfTheProtocol) {
  EXPECT_TRUE(std::is_sorted(kMethods.begin(), kMethods.end() - 1));
  const google::protobuf::FileDescriptor& file = *runtime::v1::VersionRequest::descriptor()->file();
  ASSERT_GT(file.service_count(), 0);
  for (int i = 0; i < file.service_count(); ++i) {
    for (int j = 0; j < file.service(i)->method_count(); ++j) {
      const std::string& method = file.service(i)->method(j)->name();
      EXPECT_EQ(kMethods[MethodOf("/" + file.service(i)->full_name() + "/" + method)], method);
    }
  }
  EXPECT_EQ(kMethods[MethodOf("/runtime.v1alpha2.RuntimeService/Version")], "Version");
}

TEST(CallMetrics, OtherPathsAreOneMethod) {
  for (const std::string path :
       {"", "/", "Version", "/runtime.v1.RuntimeService", "/runtime.v1.RuntimeService/",
        "/runtime.v1.RuntimeService/version", "/runtime.v1.RuntimeService/other",
        "/grpc.health.v1.Health/Check", "/a.RuntimeService/Version", "/runtime.v1.Other/Version"}) {
    EXPECT_EQ(kMethods[MethodOf(path)], "other") << path;
  }
}

TEST(CallMetrics, CountsByMethodAndCode) {
  CallMetrics calls;
  for (int i = 0; i < 4; ++i) calls.Begun();
  calls.Ended({.method = "/runtime.v1.RuntimeService/CreateContainer",
               .code = grpc::StatusCode::OK,
               .added = std::chrono::microseconds(150)});
  calls.Ended({.method = "/runtime.v1.RuntimeService/CreateContainer",
               .code = grpc::StatusCode::UNAVAILABLE,
               .added = std::nullopt});
  calls.Ended({.method = "/made.up/" + std::string(1000, 'x'),
               .code = static_cast<grpc::StatusCode>(31),  // none of gRPC
               .added = std::nullopt});
  EXPECT_EQ(
      TextOfCalls(calls),
      R"(# HELP alignd_call_added_seconds What alignd adds to an intercepted call: from the whole request to the decision, by method. It includes waits for plugins and the disk.
# TYPE alignd_call_added_seconds histogram
alignd_call_added_seconds_count{method="CreateContainer"} 1
alignd_call_added_seconds_sum{method="CreateContainer"} 0.00015
alignd_call_added_seconds_bucket{method="CreateContainer",le="5e-05"} 0
alignd_call_added_seconds_bucket{method="CreateContainer",le="0.0002"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="0.0008"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="0.0032"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="0.0128"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="0.0512"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="0.2048"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="0.8192"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="3"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="10"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="30"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="120"} 1
alignd_call_added_seconds_bucket{method="CreateContainer",le="+Inf"} 1
# HELP alignd_calls_total Calls that have ended, by method and gRPC code.
# TYPE alignd_calls_total counter
alignd_calls_total{code="OK",method="CreateContainer"} 1
alignd_calls_total{code="UNAVAILABLE",method="CreateContainer"} 1
alignd_calls_total{code="UNKNOWN",method="other"} 1
# HELP alignd_calls_in_progress Calls that have begun and not ended.
# TYPE alignd_calls_in_progress gauge
alignd_calls_in_progress 1
)");
}

}  // namespace
}  // namespace alignd::metrics
