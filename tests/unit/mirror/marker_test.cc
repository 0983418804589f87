#include "mirror/marker.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace alignd::mirror {
namespace {

using Annotations = google::protobuf::Map<std::string, std::string>;

TEST(Marker, ComesBackAsItWent) {
  const Marker marker{"nvidia.com/gpu", {"GPU-1", "0000:af:00.1", "a\"b,c=d"}};
  const Annotation annotation = FormatMarker(marker);
  EXPECT_TRUE(annotation.key.starts_with("alignd.io/dev."));
  EXPECT_EQ(annotation.key.size(), kMarkerPrefix.size() + 16);
  const Result<Marker> read = ParseMarker(annotation.key, annotation.value);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(*read, marker);
}

TEST(Marker, HasAKeyForEachResource) {
  EXPECT_EQ(ResourceHash("nvidia.com/gpu"), ResourceHash("nvidia.com/gpu"));
  EXPECT_NE(ResourceHash("nvidia.com/gpu"), ResourceHash("nvidia.com/mig"));
}

TEST(Marker, RefusesWhatIsNone) {
  const std::string key = FormatMarker({"a.com/b", {"x"}}).key;
  const struct {
    const char* what;
    std::string value;
  } kCases[] = {
      {"empty", ""},
      {"no JSON", "a.com/b=x"},
      {"a list", "[\"x\"]"},
      {"no ids", R"({"resource":"a.com/b"})"},
      {"no id", R"({"resource":"a.com/b","ids":[]})"},
      {"id empty", R"({"resource":"a.com/b","ids":[""]})"},
      {"id twice", R"({"resource":"a.com/b","ids":["x","x"]})"},
      {"id a number", R"({"resource":"a.com/b","ids":[1]})"},
      {"id nested", R"({"resource":"a.com/b","ids":[["x"]]})"},
      {"other resource", R"({"resource":"a.com/c","ids":["x"]})"},
      {"resource a number", R"({"resource":1,"ids":["x"]})"},
      {"deep", "{\"ids\":" + std::string(100'000, '[')},
      {"text after it", R"({"resource":"a.com/b","ids":["x"]} x)"},
  };
  for (const auto& c : kCases) {
    const Result<Marker> read = ParseMarker(key, c.value);
    ASSERT_FALSE(read.ok()) << c.what;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument) << c.what;
    EXPECT_NE(read.error().message.find(key), std::string::npos) << c.what;
  }
}

TEST(Marker, IsTakenOutAndTheRestStays) {
  Annotations annotations;
  annotations["io.kubernetes.container.hash"] = "1";
  for (const Marker& marker : {Marker{"a.com/b", {"x", "y"}}, Marker{"a.com/c", {"z"}}}) {
    const Annotation annotation = FormatMarker(marker);
    annotations[annotation.key] = annotation.value;
  }
  const Result<allocation::KubeletAllocatedIds> ids = TakeMarkers(annotations);
  ASSERT_TRUE(ids.ok()) << ids.error().Text();
  EXPECT_EQ(*ids, (allocation::KubeletAllocatedIds{{"a.com/b", {"x", "y"}}, {"a.com/c", {"z"}}}));
  EXPECT_EQ(annotations.size(), 1U);
}

TEST(Marker, AsksForAsMany) {
  Container container{"app", ContainerKind::kApp, {}};
  ASSERT_TRUE(Apply({{"a.com/b", {"x", "y"}}}, container).ok());
  EXPECT_EQ(container.resources.limits.at("a.com/b").Value(), 2);
  EXPECT_EQ(container.resources.requests.at("a.com/b").Value(), 2);
  EXPECT_EQ(Apply({{"a.com/b", {"x"}}}, container).error().message,
            "app: limits.a.com/b is 2, but the kubelet allocated 1");
}

}  // namespace
}  // namespace alignd::mirror
