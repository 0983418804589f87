// Answers of alignd that the tests of its reports print.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "alignd/control/v1/control.pb.h"

namespace alignd::cli {

namespace v1 = control::v1;

// The message in protobuf's text format.
template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

inline v1::GetStatusResponse Status() {
  return Parse<v1::GetStatusResponse>(R"pb(
    version: "1.2.3"
    node: "worker"
    time_unix_ms: 1700000100000
    started_unix_ms: 1700000000000
    generation: 7
    policies {
      cpu_manager: "static"
      memory_manager: "Static"
      topology_manager: "restricted"
      topology_scope: "container"
      compatibility: "1.36"
      cpu_manager_options { key: "full-pcpus-only" value: "true" }
    }
    default_set: "0-1,4-5"
    reserved_cpus: "0"
    numa {
      id: 0
      free_cpus: "1"
      cpus: 4
      exclusive_cpus: "2-3"
      reserved_cpus: "0"
      all_cpus: "0-3"
      memory {
        key: "memory"
        value { free: 1073741824 total: 2147483648 }
      }
      memory {
        key: "hugepages-2Mi"
        value { free: 0 total: 0 }
      }
      devices {
        key: "example.com/gpu"
        value { free: 0 total: 1 }
      }
    }
    numa { id: 8 }
    devices {
      name: "example.com/gpu"
      registered: true
      healthy { total: 2 }
      unhealthy: 1
    }
    devices { name: "example.com/nic" registered: true }
    containers {
      pod_uid: "u1"
      pod: "default/web"
      container: "app"
      exclusive_cpus: "2-3"
      memory_nodes: [ 0, 1 ]
      devices {
        resource: "example.com/gpu"
        devices { id: "gpu0" numa: 0 }
        devices { id: "gpu1" }
      }
    }
    containers {
      pod_uid: "u2"
      container: "sidecar"
      devices {
        resource: "example.com/gpu"
        devices {
          id: "gpu2"
          numa: [ 0, 1 ]
        }
      }
    })pb");
}

inline v1::ContainerDecision Explanation(const std::string& container) {
  v1::ContainerDecision explanation = Parse<v1::ContainerDecision>(R"pb(
    hints {
      resource: "cpu"
      hints { numa: 0 preferred: true }
      hints { numa: 1 preferred: true }
      hints { numa: [ 0, 1 ] }
    }
    hints { resource: "example.com/gpu" no_opinion: true }
    hints { resource: "example.com/nic" }
    hints {
      resource: "memory"
      hints { numa: 0 preferred: true }
      left_out: 3
    }
    merged { numa: 0 preferred: true }
    candidates {
      hint { numa: 0 preferred: true }
      verdict: "best"
    }
    candidates {
      hint { numa: 1 preferred: true }
      verdict: "as good, but {0} is lower"
    }
    candidates_left_out: 2
    notes: "a note")pb");
  explanation.set_container(container);
  return explanation;
}

inline v1::PodDecision Refused() {
  v1::PodDecision decision = Parse<v1::PodDecision>(R"pb(
    time_unix_ms: 1700000000123
    times: 3
    pod_uid: "u1"
    pod_namespace: "default"
    pod_name: "web"
    source: "annotation"
    asked: "app: 9 exclusive CPUs"
    outcome: "refused"
    reason: "TopologyAffinityError"
    message: "no locality"
    available: "NUMA node 0: 1 of 4 CPUs (3)")pb");
  *decision.add_containers() = Explanation("app");
  *decision.add_containers() = Explanation("log");
  return decision;
}

inline v1::ExplainResponse Explained(const v1::PodDecision& decision) {
  v1::ExplainResponse explained;
  *explained.add_decisions() = decision;
  return explained;
}

}  // namespace alignd::cli
