#include "deviceplugin/checks.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace alignd::deviceplugin {
namespace {

TEST(ExtendedResourceName, IsWhatTheKubeletTakes) {
  const struct {
    const char* what;
    std::string name;
    bool good;
  } kCases[] = {
      {"usual", "nvidia.com/gpu", true},
      {"one-label domain", "vendor/thing", true},
      {"name with all signs", "vendor.com/A_b-c.9", true},
      {"longest name part", "vendor.com/" + std::string(63, 'a'), true},
      {"too long name part", "vendor.com/" + std::string(64, 'a'), false},
      {"longest domain", std::string(244, 'a') + "/x", true},
      {"domain too long with the quota prefix", std::string(245, 'a') + "/x", false},
      {"native without domain", "cpu", false},
      {"of kubernetes.io", "kubernetes.io/gpu", false},
      {"of a domain that ends like kubernetes.io", "my.kubernetes.io/gpu", false},
      {"quota prefix", "requests.nvidia.com/gpu", false},
      {"two slashes", "a/b/c", false},
      {"no domain", "/gpu", false},
      {"no name", "nvidia.com/", false},
      {"upper case domain", "Nvidia.com/gpu", false},
      {"domain with underscore", "nvi_dia.com/gpu", false},
      {"domain with empty label", "nvidia..com/gpu", false},
      {"domain ends with a dash", "nvidia-/gpu", false},
      {"name starts with a dot", "nvidia.com/.gpu", false},
      {"name with space", "nvidia.com/g pu", false},
      {"empty", "", false},
  };
  for (const auto& c : kCases) EXPECT_EQ(IsExtendedResourceName(c.name), c.good) << c.what;
}

TEST(PluginInfo, IsCheckedWithTheKubeletsRules) {
  const std::string kInvalid = "RegisterPlugin error -- plugin validation failed with err: ";
  const struct {
    const char* what;
    std::string type, name, endpoint;
    std::vector<std::string> versions;
    std::string message;  // empty: accepted
  } kCases[] = {
      {"usual", "DevicePlugin", "a.com/b", "/p/own.sock", {"v1beta1"}, ""},
      {"several versions", "DevicePlugin", "a.com/b", "/p/own.sock", {"v1", "v1beta1"}, ""},
      {"no endpoint: where it was found", "DevicePlugin", "a.com/b", "", {"v1beta1"}, ""},
      {"storage",
       "CSIPlugin",
       "a.com/b",
       "/p/own.sock",
       {"v1beta1"},
       "RegisterPlugin error -- no handler registered for plugin type: \"CSIPlugin\" at socket "
       "/p/found.sock"},
      {"no type",
       "",
       "a.com/b",
       "/p/own.sock",
       {"v1beta1"},
       "RegisterPlugin error -- no handler registered for plugin type: \"\" at socket "
       "/p/found.sock"},
      {"other version",
       "DevicePlugin",
       "a.com/b",
       "/p/own.sock",
       {"v1", "v2"},
       kInvalid + "manager version, v1beta1, is not among plugin supported versions "
                  "[\"v1\" \"v2\"]"},
      {"no version",
       "DevicePlugin",
       "a.com/b",
       "/p/own.sock",
       {},
       kInvalid + "manager version, v1beta1, is not among plugin supported versions []"},
      {"bad name",
       "DevicePlugin",
       "cpu",
       "/p/own.sock",
       {"v1beta1"},
       kInvalid + "invalid name of device plugin socket: the ResourceName \"cpu\" is invalid"},
      {"relative endpoint",
       "DevicePlugin",
       "a.com/b",
       "own.sock",
       {"v1beta1"},
       kInvalid + "the endpoint \"own.sock\" is not an absolute path"},
  };
  for (const auto& c : kCases) {
    pluginregistration::PluginInfo info;
    info.set_type(c.type);
    info.set_name(c.name);
    info.set_endpoint(c.endpoint);
    for (const std::string& version : c.versions) info.add_supported_versions(version);
    const Result<Offer> offer = CheckPluginInfo(info, "/p/found.sock");
    ASSERT_EQ(offer.ok(), c.message.empty()) << c.what;
    if (!offer.ok()) {
      EXPECT_EQ(offer.error().message, c.message) << c.what;
      continue;
    }
    EXPECT_EQ(*offer, (Offer{c.name, c.endpoint.empty() ? "/p/found.sock" : c.endpoint}));
  }
}

TEST(Registration, RefusesWithTheKubeletsTexts) {
  const struct {
    const char* what;
    std::string version, name, endpoint;
    std::string message;  // empty: accepted
  } kCases[] = {
      {"usual", "v1beta1", "a.com/b", "b.sock", ""},
      {"hidden file", "v1beta1", "a.com/b", ".b", ""},
      {"old version", "v1alpha1", "a.com/b", "b.sock",
       "requested API version \"v1alpha1\" is not supported by kubelet. Supported version is "
       "[\"v1beta1\"]"},
      {"version before name", "", "cpu", "b.sock",
       "requested API version \"\" is not supported by kubelet. Supported version is "
       "[\"v1beta1\"]"},
      {"bad name", "v1beta1", "cpu", "b.sock", "the ResourceName \"cpu\" is invalid"},
      {"name that would spoil the log", "v1beta1", "a\n\"b", "b.sock",
       "the ResourceName \"a\\x0a\\\"b\" is invalid"},
      {"no endpoint", "v1beta1", "a.com/b", "",
       "the endpoint \"\" is not a file name in the plugin directory"},
      {"escape", "v1beta1", "a.com/b", "../x.sock",
       "the endpoint \"../x.sock\" is not a file name in the plugin directory"},
      {"absolute", "v1beta1", "a.com/b", "/run/x.sock",
       "the endpoint \"/run/x.sock\" is not a file name in the plugin directory"},
      {"the directory above", "v1beta1", "a.com/b", "..",
       "the endpoint \"..\" is not a file name in the plugin directory"},
      {"hidden end", "v1beta1", "a.com/b", std::string("x\0y", 3),
       "the endpoint \"x\\x00y\" is not a file name in the plugin directory"},
  };
  for (const auto& c : kCases) {
    v1beta1::RegisterRequest request;
    request.set_version(c.version);
    request.set_resource_name(c.name);
    request.set_endpoint(c.endpoint);
    const Result<Done> checked = CheckRegistration(request);
    EXPECT_EQ(checked.ok() ? "" : checked.error().message, c.message) << c.what;
  }
}

void Add(v1beta1::ListAndWatchResponse& list, const std::string& id, const std::string& health,
         const std::vector<int64_t>& numa = {}) {
  v1beta1::Device& device = *list.add_devices();
  device.set_id(id);
  device.set_health(health);
  for (const int64_t node : numa) device.mutable_topology()->add_nodes()->set_id(node);
}

TEST(DeviceLists, AreTakenAsTheyAre) {
  v1beta1::ListAndWatchResponse list;
  Add(list, "b", "Unhealthy", {1});
  Add(list, "a", "Healthy", {0, 250});
  Add(list, "c", "Healthy");
  const Result<DeviceList> checked = CheckDevices(list);
  ASSERT_TRUE(checked.ok()) << checked.error().message;
  const DeviceList expected{
      .devices = {{"a", {true, {0, 250}}}, {"b", {false, {1}}}, {"c", {true, {}}}},
      .complaints = {}};
  EXPECT_EQ(*checked, expected);
}

TEST(DeviceLists, AreMendedWithComplaints) {
  v1beta1::ListAndWatchResponse list;
  Add(list, "", "Healthy");
  Add(list, "twice", "Unhealthy", {0});
  Add(list, "twice", "Healthy", {1});
  Add(list, "odd", "healthy");
  Add(list, "nowhere", "Healthy", {-1});
  const Result<DeviceList> checked = CheckDevices(list);
  ASSERT_TRUE(checked.ok()) << checked.error().message;
  const DeviceList expected{
      .devices = {{"nowhere", {true, {-1}}}, {"odd", {false, {}}}, {"twice", {false, {1}}}},
      .complaints = {"1 device without id, which is ignored",
                     "the same id more than once, the last one is used: \"twice\"",
                     "health neither Healthy nor Unhealthy, treated as unhealthy: \"odd\"",
                     "a negative NUMA node, these devices cannot be aligned: \"nowhere\""}};
  EXPECT_EQ(*checked, expected);
}

TEST(DeviceLists, ComplaintsAboutManyNameAFew) {
  v1beta1::ListAndWatchResponse list;
  for (const char* id : {"a", "b", "c", "d", "e"}) Add(list, id, "broken");
  const Result<DeviceList> checked = CheckDevices(list);
  ASSERT_TRUE(checked.ok()) << checked.error().message;
  EXPECT_EQ(checked->complaints,
            std::vector<std::string>{"health neither Healthy nor Unhealthy, treated as unhealthy: "
                                     "\"a\", \"b\", \"c\" and 2 more"});
}

TEST(DeviceLists, EndlessOnesAreRefused) {
  v1beta1::ListAndWatchResponse list;
  for (int i = 0; i <= kMaxDevices; ++i) list.add_devices();
  const Result<DeviceList> checked = CheckDevices(list);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().message, "a list of 100001 devices, more than 100000");
}

TEST(DeviceLists, DevicesThatWouldFillTheStateAreIgnored) {
  v1beta1::ListAndWatchResponse list;
  Add(list, "a", "Healthy");
  Add(list, std::string(1024, 'x'), "Healthy");
  Add(list, std::string(1025, 'y'), "Healthy");
  Add(list, std::string(1 << 20, 'z'), "Healthy");
  Add(list, "everywhere", "Healthy", std::vector<int64_t>(1025, 1));
  const Result<DeviceList> checked = CheckDevices(list);
  ASSERT_TRUE(checked.ok()) << checked.error().message;
  EXPECT_EQ(checked->devices.size(), 2u);
  EXPECT_TRUE(checked->devices.contains("a"));
  EXPECT_EQ(checked->complaints,
            (std::vector<std::string>{
                "2 devices with an id of more than 1024 bytes, which are ignored; the longest has "
                "1048576",
                "more than 1024 NUMA nodes, these devices are ignored: \"everywhere\""}));
}

TEST(DeviceLists, OnesThatNoKubeletReadsAreRefused) {
  v1beta1::ListAndWatchResponse list;
  list.add_devices()->set_id(std::string(kMaxListBytes - 16, 'x'));
  EXPECT_TRUE(CheckDevices(list).ok());
  list.add_devices()->set_id("another with an id that is long enough");
  const Result<DeviceList> checked = CheckDevices(list);
  ASSERT_FALSE(checked.ok());
  EXPECT_NE(checked.error().message.find("more than the 4194304 that a kubelet reads"),
            std::string::npos);
}

TEST(AllocateResponses, FirstContainerIsUsed) {
  v1beta1::AllocateResponse response;
  std::string complaint;
  EXPECT_FALSE(CheckAllocateResponse(response, complaint).ok());

  auto& envs = *response.add_container_responses()->mutable_envs();
  for (const char* name : {"C", "A", "B"}) envs[name] = "x";
  const Result<std::string> bytes = CheckAllocateResponse(response, complaint);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  EXPECT_EQ(complaint, "");
  // Keys in order: the same answer is stored as the same bytes.
  EXPECT_EQ(*bytes, "\n\6\n\1A\22\1x\n\6\n\1B\22\1x\n\6\n\1C\22\1x");

  response.add_container_responses();
  const Result<std::string> first = CheckAllocateResponse(response, complaint);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(*first, *bytes);
  EXPECT_EQ(complaint, "2 answers for one container, the first one is used");
}

TEST(AllocateResponses, OnesThatWouldFillTheStateAreRefused) {
  v1beta1::AllocateResponse response;
  (*response.add_container_responses()->mutable_envs())["X"] = std::string(13 << 20, 'x');
  std::string complaint;
  const Result<std::string> bytes = CheckAllocateResponse(response, complaint);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().message,
            "an answer of 13631501 bytes to Allocate, more than the 1048576 that alignd keeps");
  EXPECT_NE(bytes.error().remedy, "");
}

TEST(Registration, LongTextsAreRefusedAndNotRepeated) {
  const std::string text(10 << 20, 'x');
  v1beta1::RegisterRequest fine;
  fine.set_version("v1beta1");
  fine.set_resource_name("example.com/gpu");
  fine.set_endpoint("gpu.sock");
  ASSERT_TRUE(CheckRegistration(fine).ok());
  using Request = v1beta1::RegisterRequest;
  const std::vector<std::function<void(Request&)>> faults = {
      [&](Request& request) { request.set_version(text); },
      [&](Request& request) { request.set_resource_name(text); },
      [&](Request& request) { request.set_endpoint(text); }};
  for (const auto& make_faulty : faults) {
    Request request = fine;
    make_faulty(request);
    const Result<Done> checked = CheckRegistration(request);
    ASSERT_FALSE(checked.ok());
    EXPECT_NE(checked.error().message.find("of 10485760 bytes, more than the "), std::string::npos);
    EXPECT_LT(checked.error().Text().size(), 200u);
  }
  pluginregistration::PluginInfo info;
  info.set_type("DevicePlugin");
  info.set_name("example.com/gpu");
  info.add_supported_versions("v1beta1");
  ASSERT_TRUE(CheckPluginInfo(info, "/x.sock").ok());
  info.add_supported_versions(text);
  const Result<Offer> offer = CheckPluginInfo(info, "/x.sock");
  ASSERT_FALSE(offer.ok());
  EXPECT_LT(offer.error().Text().size(), 200u);
}

TEST(Preferences, KeepWhatIsAvailable) {
  const struct {
    const char* what;
    int size;
    std::vector<std::string> answered, kept;
    std::string complaint;
  } kCases[] = {
      {"right", 2, {"c", "a"}, {"a", "c"}, ""},
      {"nothing", 1, {}, {}, "0 ids in place of the requested 1"},
      {"too few", 2, {"b"}, {"b"}, "1 id in place of the requested 2"},
      {"one twice", 2, {"b", "b"}, {"b"}, "1 id in place of the requested 2"},
      {"too many", 1, {"a", "b"}, {"a", "b"}, "2 ids in place of the requested 1"},
      {"not available", 2, {"a", "x"}, {"a"}, "ids that were not available: \"x\""},
  };
  for (const auto& c : kCases) {
    v1beta1::PreferredAllocationResponse response;
    auto& container = *response.add_container_responses();
    for (const std::string& id : c.answered) container.add_deviceids(id);
    std::string complaint;
    EXPECT_EQ(CheckPreferred({.resource = "a.com/b",
                              .available = {"a", "b", "c"},
                              .must_include = {},
                              .size = c.size},
                             response, complaint),
              c.kept)
        << c.what;
    EXPECT_EQ(complaint, c.complaint) << c.what;
  }
}

TEST(Preferences, WithoutContainerAreNone) {
  std::string complaint;
  EXPECT_TRUE(CheckPreferred({}, {}, complaint).empty());
  EXPECT_EQ(complaint, "no answer for a container");
}

}  // namespace
}  // namespace alignd::deviceplugin
