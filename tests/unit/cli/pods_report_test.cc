// The pods with devices that DRA has allocated, as text and as JSON.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "cli/report_json.h"
#include "cli/report_text.h"
#include "report_fixture.h"

namespace alignd::cli {
namespace {

v1::ListPodsResponse Pods() {
  return Parse<v1::ListPodsResponse>(R"pb(
    pods {
      pod_uid: "u1"
      pod_namespace: "default"
      pod_name: "web"
      source: "Pods API"
      containers {
        pod_uid: "u1"
        pod: "default/web"
        container: "app"
        exclusive_cpus: "2-3"
        cpu_nodes: 1
        devices {
          resource: "example.com/nic"
          devices { id: "nic0" numa: 1 }
        }
        claimed_devices { claim: "default/gpus" driver: "d.com" pool: "n" name: "gpu0" numa: 1 }
        claimed_devices {
          claim: "default/gpus"
          driver: "d.com"
          pool: "n"
          name: "gpu1"
          note: "no specification"
        }
      }
      containers { pod_uid: "u1" container: "side" }
      claimed_devices {
        claim: "default/net"
        driver: "dra.net"
        pool: "n"
        name: "eth0"
        note: "without a CDI name"
      }
    }
  )pb");
}

std::string Text(const v1::ListPodsResponse& pods) {
  std::ostringstream out;
  PrintPods(pods, /*wide=*/false, out);
  return out.str();
}

TEST(PodsReport, ShowsClaimedDevicesWithTheirNodes) {
  const std::string text = Text(Pods());
  EXPECT_NE(text.find("example.com/nic nic0 (NUMA 1), d.com/n/gpu0 (NUMA 1), "
                      "d.com/n/gpu1 (NUMA unknown) [no specification]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("default/web has claimed devices of which the container is not known: "
                      "dra.net/n/eth0 (NUMA unknown) [without a CDI name]\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("claimed devices are not shown"), std::string::npos) << text;
}

TEST(PodsReport, SaysWhyClaimedDevicesAreMissing) {
  v1::ListPodsResponse pods = Pods();
  pods.set_claims_error("the file is damaged");
  EXPECT_NE(Text(pods).find("claimed devices are not shown: the file is damaged\n"),
            std::string::npos)
      << Text(pods);
  EXPECT_NE(PodsJson(pods).find(R"("claims_error":"the file is damaged")"), std::string::npos);
}

TEST(PodsReport, JsonHasClaimedDevicesOfContainersAndPods) {
  const std::string json = PodsJson(Pods());
  EXPECT_NE(json.find(R"("claimed_devices":[{"claim":"default/gpus","driver":"d.com","pool":"n",)"
                      R"("name":"gpu0","numa":[1],"note":""},)"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("claimed_devices":[{"claim":"default/net","driver":"dra.net","pool":"n",)"
                      R"("name":"eth0","numa":[],"note":"without a CDI name"}])"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("container":"side","exclusive_cpus":"","memory_nodes":[],"devices":{},)"
                      R"("cpus":"","cpu_nodes":[],"claimed_devices":[]})"),
            std::string::npos)
      << json;
}

}  // namespace
}  // namespace alignd::cli
