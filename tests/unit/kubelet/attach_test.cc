// `alignctl kubelet attach` and `detach` on nodes of many kinds.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kubelet/attachment.h"
#include "kubelet/plan.h"
#include "kubelet_node.h"

namespace alignd::kubelet {
namespace {

class KubeletAttach : public KubeletNodeTest {};

TEST_F(KubeletAttach, KubeadmWithAFlagGetsALaterFlag) {
  WriteKubeadmWithFlag();
  ExpectAttachAndDetach(
      "--container-runtime-endpoint in KUBELET_EXTRA_ARGS of "
      "/etc/default/kubelet)");
}

TEST_F(KubeletAttach, ADryRunIsAlsoForPrograms) {
  WriteKubeadmWithFlag();
  const testing::Printed planned = Kubelet("attach", {"--dry-run", "-o", "json"});
  ASSERT_EQ(planned.status, 0) << planned.err;
  const auto json = nlohmann::json::parse(planned.out);
  ASSERT_EQ(json["changes"].size(), 2u) << planned.out;  // the first one is the drop-in
  EXPECT_EQ(json["changes"][1]["file"], "/etc/default/kubelet");
  EXPECT_TRUE(Has(json["changes"][1]["diff"], "+KUBELET_EXTRA_ARGS=")) << planned.out;
  EXPECT_TRUE(json["problems"].is_array());
  EXPECT_EQ(Read("/etc/default/kubelet"), "KUBELET_EXTRA_ARGS=\n");
  const testing::Printed none = Kubelet("detach", {"--dry-run", "-o", "yaml"});
  EXPECT_EQ(none.status, 0) << none.err;
  EXPECT_TRUE(Has(none.out, "changes: []\n")) << none.out;
  EXPECT_TRUE(Has(none.out, "note: \"The kubelet was not attached by alignctl")) << none.out;
  const testing::Printed wrong = Kubelet("attach", {"-o", "json"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(Has(wrong.err, "--dry-run")) << wrong.err;
}

TEST_F(KubeletAttach, OtherExtraArgumentsStay) {
  WriteKubeadmWithFlag();
  Write("/etc/default/kubelet",
        "# of the administrator\nKUBELET_EXTRA_ARGS=\"--node-ip=10.0.0.7 --v=4\"  \nOTHER=1\n");
  ASSERT_EQ(Kubelet("attach").status, 0);
  EXPECT_EQ(Read("/etc/default/kubelet"),
            "# of the administrator\nKUBELET_EXTRA_ARGS=\"--node-ip=10.0.0.7 --v=4 "
            "--container-runtime-endpoint=unix:///run/alignd/alignd.sock\"\nOTHER=1\n");
}

TEST_F(KubeletAttach, TheFileOfRpmPackagesIsMade) {
  WriteKubeadmWithFlag();
  std::filesystem::remove(tree_.root() / "etc/default/kubelet");
  WriteKubeadmUnit("/etc/sysconfig/kubelet");
  ExpectAttachAndDetach(
      "--container-runtime-endpoint in KUBELET_EXTRA_ARGS of "
      "/etc/sysconfig/kubelet)");
}

TEST_F(KubeletAttach, KubeadmWithAFieldGetsItInBothFiles) {
  WriteKubeadmWithField();
  ASSERT_EQ(Kubelet("attach").status, 0);
  for (const char* file :
       {"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml"}) {
    EXPECT_TRUE(Has(Read(file), "\ncontainerRuntimeEndpoint: " + std::string(kOurs) + "\nkind:"))
        << Read(file);
  }
  EXPECT_EQ(Read("/etc/default/kubelet"), "KUBELET_EXTRA_ARGS=\n");
  ASSERT_EQ(Kubelet("detach").status, 0);
  ExpectAttachAndDetach("containerRuntimeEndpoint in /var/lib/kubelet/config.yaml)");
}

// A flag beats the field: a change of the field alone would have no effect.
TEST_F(KubeletAttach, AFlagThatBeatsTheFieldIsChanged) {
  WriteKubeadmWithField();
  Write("/etc/default/kubelet",
        "KUBELET_EXTRA_ARGS=--container-runtime-endpoint " + std::string(kContainerd) + "\n");
  ExpectAttachAndDetach(
      "--container-runtime-endpoint in KUBELET_EXTRA_ARGS of "
      "/etc/default/kubelet)");
  ASSERT_EQ(Kubelet("attach").status, 0);
  EXPECT_TRUE(Has(Read("/var/lib/kubelet/config.yaml"), kContainerd));
}

// As alignd's earlier drop-in did: kubeadm's environment file overrides it.
TEST_F(KubeletAttach, EnvironmentThatAFileOverridesHasNoEffect) {
  WriteKubeadmWithFlag();
  Write("/etc/systemd/system/kubelet.service.d/10-alignd.conf",
        "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--container-runtime-endpoint=" +
            std::string(kOurs) + "\"\n");
  const testing::Printed status = Kubelet("status");
  EXPECT_TRUE(Has(status.out,
                  "state: not-attached\n  What to do: run `alignctl kubelet attach`\nendpoint: " +
                      std::string(kContainerd)))
      << status.out;
  ExpectAttachAndDetach(
      "--container-runtime-endpoint in KUBELET_EXTRA_ARGS of "
      "/etc/default/kubelet)");
  std::filesystem::remove(tree_.root() / "etc/default/kubelet");
  EXPECT_TRUE(Has(Kubelet("status").out, "state: attached")) << Kubelet("status").out;
  const testing::Printed detached = Kubelet("detach");
  EXPECT_EQ(detached.status, 1);
  EXPECT_TRUE(Has(detached.err,
                  "attached by hand: --container-runtime-endpoint in "
                  "KUBELET_EXTRA_ARGS of /etc/systemd/system/kubelet.service.d/"
                  "10-alignd.conf"))
      << detached.err;
}

TEST_F(KubeletAttach, APlainUnitWithAFlagGetsADropIn) {
  Write("/etc/systemd/system/kubelet.service",
        "[Service]\nExecStart=/usr/local/bin/kubelet \\\n  --config=/etc/kubelet.yaml \\\n"
        "# a comment in between\n  --container-runtime-endpoint=unix:///run/containerd/"
        "containerd.sock \\\n  --v=2\n");
  Write("/etc/kubelet.yaml", "kind: KubeletConfiguration\n");
  ExpectAttachAndDetach(
      "--container-runtime-endpoint in ExecStart= of "
      "/etc/systemd/system/kubelet.service.d/99-alignd.conf)");
  ASSERT_EQ(Kubelet("attach").status, 0);
  EXPECT_TRUE(Has(Read("/etc/systemd/system/kubelet.service.d/99-alignd.conf"),
                  "ExecStart=\nExecStart=/usr/local/bin/kubelet"));
  EXPECT_TRUE(Has(Read("/etc/systemd/system/kubelet.service.d/99-alignd.conf"), "--v=2\n"));
}

TEST_F(KubeletAttach, APlainUnitWithAConfigurationFileGetsTheField) {
  Write("/etc/systemd/system/kubelet.service",
        "[Service]\nExecStart=/usr/local/bin/kubelet --config /etc/kubelet.yaml\n");
  Write("/etc/kubelet.yaml", "# ours\nkind: KubeletConfiguration # no end of line");
  ExpectAttachAndDetach("containerRuntimeEndpoint in /etc/kubelet.yaml)");
}

TEST_F(KubeletAttach, AUnitWithoutConfigurationGetsTheFlag) {
  Write("/lib/systemd/system/kubelet.service",
        "[Service]\nExecStart=-/usr/bin/kubelet --hostname-override=a\n");
  ExpectAttachAndDetach("--container-runtime-endpoint in ExecStart= of ");
}

TEST_F(KubeletAttach, AVariableOfAnotherNameIsChangedWhereItIsSet) {
  Write("/etc/systemd/system/kubelet.service",
        "[Service]\nEnvironmentFile=-/etc/kubernetes/kubelet.env\n"
        "ExecStart=/usr/local/bin/kubelet $KUBELET_ARGS\n");
  Write(
      "/etc/kubernetes/kubelet.env",
      "KUBELET_ARGS=\"--container-runtime-endpoint=/run/containerd/containerd.sock \\\n--v=2\"\n");
  ExpectAttachAndDetach(
      "--container-runtime-endpoint in KUBELET_ARGS of "
      "/etc/kubernetes/kubelet.env)");
  Write("/etc/systemd/system/kubelet.service",
        "[Service]\nEnvironment='A=--container-runtime-endpoint=/run/containerd/containerd.sock'\n"
        "ExecStart=/usr/local/bin/kubelet $A --v=2\n");
  ExpectAttachAndDetach(
      "--container-runtime-endpoint in A of "
      "/etc/systemd/system/kubelet.service.d/99-alignd.conf)");
}

TEST_F(KubeletAttach, TheDecidingFileOfAConfigurationDirectoryIsChanged) {
  Write("/etc/systemd/system/kubelet.service",
        "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/k/a.yaml --config-dir=/etc/k/d\n");
  Write("/etc/k/a.yaml", "containerRuntimeEndpoint: unix:///run/other.sock\n");
  Write("/etc/k/d/10-a.conf", "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n");
  Write("/etc/k/d/20-b.conf", "cpuManagerPolicy: none\n");
  Write("/etc/k/d/30-c.yaml", "containerRuntimeEndpoint: unix:///not/read.sock\n");
  ExpectAttachAndDetach("containerRuntimeEndpoint in /etc/k/d/10-a.conf)");
}

// As filepath.WalkDir: a-sub/ comes before a.conf, and its files, too.
TEST_F(KubeletAttach, AConfigurationDirectoryIsReadWithItsSubdirectories) {
  Write("/etc/systemd/system/kubelet.service",
        "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/k/a.yaml --config-dir=/etc/k/d\n");
  Write("/etc/k/a.yaml", "kind: KubeletConfiguration\n");
  Write("/etc/k/d/a.conf", "containerRuntimeEndpoint: unix:///run/a.sock\n");
  Write("/etc/k/d/a-sub/x/y.conf", "containerRuntimeEndpoint: unix:///run/y.sock\n");
  Write("/etc/k/other/z.conf", "containerRuntimeEndpoint: unix:///run/z.sock\n");
  tree_.Write(testing::FakeEntry::Link("etc/k/d/z-link", "/etc/k/other"));
  EXPECT_TRUE(Has(Kubelet("status").out,
                  "endpoint: unix:///run/a.sock (containerRuntimeEndpoint in /etc/k/d/a.conf)"))
      << Kubelet("status").out;
  Write("/etc/k/d/b/c.conf", "containerRuntimeEndpoint: unix:///run/c.sock\n");
  EXPECT_TRUE(Has(Kubelet("status").out, "unix:///run/c.sock")) << Kubelet("status").out;
  for (const char* const nothing : {"\"\"", "null"}) {
    Write("/etc/k/d/b/d.conf", "containerRuntimeEndpoint: " + std::string(nothing) + "\n");
    EXPECT_TRUE(Has(Kubelet("status").out, "endpoint: " + std::string(kDefaultEndpoint) +
                                               " (containerRuntimeEndpoint in /etc/k/d/b/d.conf)"))
        << Kubelet("status").out;
    ExpectAttachAndDetach("containerRuntimeEndpoint in /etc/k/d/b/d.conf)");
  }
}

TEST_F(KubeletAttach, JsonConfigurationIsChanged) {
  Write("/etc/systemd/system/kubelet.service",
        "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/k.json\n");
  Write("/etc/k.json", "{\"kind\":\"KubeletConfiguration\",\"maxPods\":58}");
  ExpectAttachAndDetach("containerRuntimeEndpoint in /etc/k.json)");
}

TEST_F(KubeletAttach, OtherChangesOfAFileStayWhenDetached) {
  WriteKubeadmWithField();
  ASSERT_EQ(Kubelet("attach").status, 0);
  // kubeadm upgrade writes the configuration again.
  Write("/var/lib/kubelet/config.yaml", "containerRuntimeEndpoint: " + std::string(kOurs) +
                                            "\nkind: KubeletConfiguration\n"
                                            "maxPods: 200\n");
  ASSERT_EQ(Kubelet("detach").status, 0);
  EXPECT_EQ(Read("/var/lib/kubelet/config.yaml"),
            "containerRuntimeEndpoint: " + std::string(kContainerd) +
                "\nkind: KubeletConfiguration\nmaxPods: 200\n");
  WriteKubeadmWithFlag();
  ASSERT_EQ(Kubelet("attach").status, 0);
  Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=\"--v=5 --container-runtime-endpoint=" +
                                    std::string(kOurs) + " --node-ip=::1\"\n");
  ASSERT_EQ(Kubelet("detach").status, 0);
  EXPECT_EQ(Read("/etc/default/kubelet"), "KUBELET_EXTRA_ARGS=\"--v=5 --node-ip=::1\"\n");
}

TEST_F(KubeletAttach, ALaterAssignmentStaysWhenDetached) {
  WriteKubeadmWithFlag();
  Write("/etc/default/kubelet", "OTHER=1\n");
  ASSERT_EQ(Kubelet("attach").status, 0);
  const std::string with = Read("/etc/default/kubelet");
  Write("/etc/default/kubelet", with + "KUBELET_EXTRA_ARGS=--v=4\n");
  ASSERT_EQ(Kubelet("detach").status, 0);
  EXPECT_EQ(Read("/etc/default/kubelet"), "OTHER=1\nKUBELET_EXTRA_ARGS=--v=4\n");
  // Both lines have the flag.
  Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--v=2\n");
  ASSERT_EQ(Kubelet("attach").status, 0);
  Write("/etc/default/kubelet", Read("/etc/default/kubelet") +
                                    "KUBELET_EXTRA_ARGS=\"--container-runtime-endpoint=" +
                                    std::string(kOurs) + " --v=4\"\n");
  ASSERT_EQ(Kubelet("detach").status, 0);
  EXPECT_EQ(Read("/etc/default/kubelet"), "KUBELET_EXTRA_ARGS=--v=2\nKUBELET_EXTRA_ARGS=--v=4\n");
}

// The administrator has given the kubelet another runtime since.
TEST_F(KubeletAttach, TheRuntimeOfNowIsComparedAndRecorded) {
  WriteKubeadmWithField();
  ASSERT_EQ(Kubelet("attach").status, 0);
  WriteKubeadmUnit();
  Write("/var/lib/kubelet/config.yaml",
        "containerRuntimeEndpoint: unix:///run/crio/crio.sock\nkind: KubeletConfiguration\n");
  const testing::Printed refused = Kubelet("attach");
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(Has(refused.err, "uses the runtime at unix:///run/crio/crio.sock")) << refused.err;
  Write("/usr/lib/systemd/system/alignd.service",
        "[Service]\nExecStart=/usr/bin/alignd --runtime-endpoint unix:///run/crio/crio.sock\n");
  const testing::Printed attached = Kubelet("attach");
  ASSERT_EQ(attached.status, 0) << attached.err;
  const FileView files(tree_.root());
  EXPECT_EQ((*ReadRecord(files))->runtime, "unix:///run/crio/crio.sock");
  // Another socket of alignd: the runtime is still that of the record.
  Write("/usr/lib/systemd/system/alignd.service",
        "[Service]\nExecStart=/usr/bin/alignd --runtime-endpoint unix:///run/crio/crio.sock "
        "--listen unix:///run/other.sock\n");
  ASSERT_EQ(Kubelet("attach").status, 0) << Kubelet("attach").err;
  EXPECT_EQ((*ReadRecord(files))->runtime, "unix:///run/crio/crio.sock");
}

// alignd has another socket now, and the administrator has edited the file meanwhile.
TEST_F(KubeletAttach, AnotherSocketOfAligndIsNotTheEndpointOfBefore) {
  const auto listen_elsewhere = [this] {
    Write("/usr/lib/systemd/system/alignd.service",
          "[Service]\nExecStart=/usr/bin/alignd --listen unix:///run/other.sock\n");
  };
  WriteKubeadmWithField();
  ASSERT_EQ(Kubelet("attach").status, 0);
  Write("/var/lib/kubelet/config.yaml", Read("/var/lib/kubelet/config.yaml") + "maxPods: 200\n");
  listen_elsewhere();
  ASSERT_EQ(Kubelet("attach").status, 0) << Kubelet("attach").err;
  EXPECT_TRUE(Has(Read("/var/lib/kubelet/config.yaml"), "unix:///run/other.sock"));
  ASSERT_EQ(Kubelet("detach").status, 0);
  const std::string field = Read("/var/lib/kubelet/config.yaml");
  EXPECT_TRUE(Has(field, "containerRuntimeEndpoint: " + std::string(kContainerd))) << field;
  EXPECT_TRUE(Has(field, "maxPods: 200")) << field;

  std::filesystem::remove(tree_.root() / "usr/lib/systemd/system/alignd.service");
  WriteKubeadmWithFlag();
  Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--v=2\n");
  ASSERT_EQ(Kubelet("attach").status, 0);
  Write("/etc/default/kubelet", Read("/etc/default/kubelet") + "OTHER=1\n");
  listen_elsewhere();
  ASSERT_EQ(Kubelet("attach").status, 0);
  EXPECT_TRUE(Has(Read("/etc/default/kubelet"), "unix:///run/other.sock"));
  ASSERT_EQ(Kubelet("detach").status, 0);
  EXPECT_EQ(Read("/etc/default/kubelet"), "KUBELET_EXTRA_ARGS=--v=2\nOTHER=1\n");
}

TEST_F(KubeletAttach, AnUpgradeThatTookTheEndpointAwayIsAttachedAgain) {
  WriteKubeadmWithField();
  ASSERT_EQ(Kubelet("attach").status, 0);
  WriteKubeadmWithField();
  EXPECT_TRUE(Has(Kubelet("status").out, "state: not-attached"));
  ASSERT_EQ(Kubelet("attach").status, 0);
  EXPECT_TRUE(Has(Kubelet("status").out, "state: attached"));
  ASSERT_EQ(Kubelet("detach").status, 0);
  EXPECT_TRUE(Has(Read("/var/lib/kubelet/config.yaml"), kContainerd));
  EXPECT_FALSE(std::filesystem::exists(tree_.root() /
                                       "etc/systemd/system/kubelet.service.d/99-alignd.conf"));
}

TEST_F(KubeletAttach, ADropInThatWasChangedByHandIsNotRemoved) {
  WriteKubeadmWithFlag();
  ASSERT_EQ(Kubelet("attach").status, 0);
  Write("/etc/systemd/system/kubelet.service.d/99-alignd.conf", "[Unit]\n# mine\n");
  const Files before = All();
  const testing::Printed detached = Kubelet("detach");
  EXPECT_EQ(detached.status, 1);
  EXPECT_TRUE(Has(detached.err, "99-alignd.conf was changed")) << detached.err;
  EXPECT_EQ(All(), before);
}

TEST_F(KubeletAttach, LinksAreFollowedAndModesStay) {
  WriteKubeadmWithFlag();
  namespace fs = std::filesystem;
  fs::remove(tree_.root() / "etc/default/kubelet");
  Write("/srv/kubelet.env", "KUBELET_EXTRA_ARGS=\n");
  fs::permissions(tree_.root() / "srv/kubelet.env", fs::perms(0640));
  tree_.Write(testing::FakeEntry::Link("etc/default/kubelet", "/srv/kubelet.env"));
  ASSERT_EQ(Kubelet("attach").status, 0);
  EXPECT_TRUE(fs::is_symlink(tree_.root() / "etc/default/kubelet"));
  EXPECT_TRUE(Has(Read("/srv/kubelet.env"), kOurs));
  EXPECT_EQ(fs::status(tree_.root() / "srv/kubelet.env").permissions(), fs::perms(0640));
}

TEST_F(KubeletAttach, DryRunChangesNothing) {
  WriteKubeadmWithFlag();
  const Files before = All();
  const testing::Printed shown = Kubelet("attach", {"--dry-run"});
  EXPECT_EQ(shown.status, 0);
  EXPECT_TRUE(Has(shown.out,
                  "-KUBELET_EXTRA_ARGS=\n+KUBELET_EXTRA_ARGS=--container-runtime-"
                  "endpoint=unix:///run/alignd/alignd.sock\n"))
      << shown.out;
  EXPECT_EQ(All(), before);
}

// Fails at the n-th call that changes something.
class FailingCalls final : public host::FileCalls {
 public:
  explicit FailingCalls(int works) : works_(works) {}
  int Rename(const char* from, const char* to) override {
    if (works_-- == 0) {
      errno = ENOSPC;
      return -1;
    }
    return host::FileCalls::Rename(from, to);
  }
  bool failed() const { return works_ < 0; }

 private:
  int works_;
};

TEST_F(KubeletAttach, AWriteThatFailsLeavesNothingHalfDone) {
  WriteKubeadmWithField();
  const Files before = All();
  const FileView files(tree_.root());
  int failures = 0;
  for (int works = 0;; ++works) {
    const Result<kubelet::Setup> setup = FindSetup(files, "kubelet.service");
    ASSERT_TRUE(setup.ok());
    const auto changes = PlanAttach(files, *setup, kOurs);
    ASSERT_TRUE(changes.ok()) << changes.error().Text();
    ASSERT_EQ(changes->size(), 3U);
    FailingCalls calls(works);
    const Result<Done> attached =
        Attach(files, std::nullopt,
               {.complete = true, .endpoint = kOurs, .runtime = "", .changes = *changes}, calls);
    if (!calls.failed()) {
      EXPECT_TRUE(attached.ok());
      break;
    }
    ++failures;
    ASSERT_FALSE(attached.ok());
    EXPECT_EQ(Has(attached.error().message, "the files are changed"),
              ReadRecord(files)->has_value());
    if (!ReadRecord(files)->has_value()) {
      EXPECT_EQ(All(), before) << works;
      continue;
    }
    // Only the last write of the record has failed: the files are complete, and can be detached.
    EXPECT_TRUE(Has(Kubelet("status").out, "state: interrupted"));
    ASSERT_EQ(Kubelet("detach").status, 0);
    EXPECT_EQ(All(), before) << works;
  }
  EXPECT_GE(failures, 7);  // two copies, the record twice, three files
}

TEST_F(KubeletAttach, AnInterruptedChangeIsUndoneFirst) {
  WriteKubeadmWithField();
  const Files before = All();
  ASSERT_EQ(Kubelet("attach").status, 0);
  const std::string path = "/var/lib/alignd/kubelet/attachment.json";
  nlohmann::json record = nlohmann::json::parse(Read(path));
  record["complete"] = false;
  Write(path, record.dump());
  Write("/var/lib/kubelet/instance-config.yaml",
        before.at("/var/lib/kubelet/instance-config.yaml"));
  EXPECT_EQ(Kubelet("status").status, 1);
  const testing::Printed attached = Kubelet("attach");
  EXPECT_EQ(attached.status, 0) << attached.err;
  EXPECT_TRUE(Has(attached.out, "An earlier change was interrupted. It is undone first:\n--- "))
      << attached.out;
  EXPECT_TRUE(Has(attached.out, "The interrupted change was undone.\n")) << attached.out;
  EXPECT_TRUE(Has(Read("/var/lib/kubelet/instance-config.yaml"), kOurs));
  ASSERT_EQ(Kubelet("detach").status, 0);
  EXPECT_EQ(All(), before);
}

TEST_F(KubeletAttach, AnInterruptedChangeIsNotUndoneUnasked) {
  WriteKubeadmWithField();
  ASSERT_EQ(Kubelet("attach").status, 0);
  const std::string path = "/var/lib/alignd/kubelet/attachment.json";
  nlohmann::json record = nlohmann::json::parse(Read(path));
  record["complete"] = false;
  Write(path, record.dump());
  const Files before = All();
  const testing::Printed shown = Kubelet("attach", {"--dry-run"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_TRUE(Has(shown.out, "-containerRuntimeEndpoint: " + std::string(kOurs))) << shown.out;
  EXPECT_EQ(All(), before);
  if (isatty(STDIN_FILENO) != 0) GTEST_SKIP() << "the question would wait for an answer";
  const testing::Printed refused = testing::RunAlignctl(
      {cli::AddKubeletCommand}, {"kubelet", "attach", "--root", tree_.root().string()});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(Has(refused.out, "-containerRuntimeEndpoint: " + std::string(kOurs))) << refused.out;
  EXPECT_TRUE(Has(refused.err, "nothing was changed")) << refused.err;
  EXPECT_EQ(All(), before);
  EXPECT_EQ(Read(path), record.dump());
}

TEST_F(KubeletAttach, OtherDistributionsAreNamedAndLeftAlone) {
  for (const auto& [file, name] : std::vector<std::pair<std::string, std::string>>{
           {"/etc/systemd/system/k3s-agent.service", "K3s"},
           {"/usr/local/lib/systemd/system/rke2-agent.service", "RKE2"},
           {"/var/snap/microk8s/current/args/kubelet", "MicroK8s"},
           {"/etc/systemd/system/k0sworker.service", "k0s"},
           {"/etc/talos-version", "Talos"},
           {"/usr/lib/systemd/system/microshift.service", "MicroShift"},
           {"/etc/machine-config-daemon/currentconfig", "OpenShift"}}) {
    Write(file, "[Service]\nExecStart=/usr/local/bin/x\n");
    const testing::Printed status = Kubelet("status");
    EXPECT_EQ(status.status, 1) << name;
    EXPECT_TRUE(Has(status.out, "state: by-hand\ndistribution: " + name + "\n  What to do: "))
        << status.out;
    const testing::Printed attached = Kubelet("attach");
    EXPECT_EQ(attached.status, 1) << name;
    EXPECT_TRUE(Has(attached.err, "this node runs " + name)) << attached.err;
    EXPECT_EQ(Kubelet("detach").status, 0) << name;
    std::filesystem::remove(tree_.root() / file.substr(1));
    std::filesystem::remove_all(tree_.root() / "etc/machine-config-daemon");
  }
  Write("/etc/systemd/system/kubelet.service",
        "[Service]\nExecStart=/bin/sh -c 'exec kubelet --config=$CONFIG'\n");
  EXPECT_EQ(Kubelet("attach").status, 1);
  EXPECT_TRUE(Has(Kubelet("attach").err, "a unit that starts `/bin/sh`")) << Kubelet("attach").err;
  std::filesystem::remove(tree_.root() / "etc/systemd/system/kubelet.service");
  EXPECT_TRUE(Has(Kubelet("attach").err, "there is no unit kubelet.service"));
  EXPECT_EQ(Kubelet("detach").status, 0);
}

TEST_F(KubeletAttach, AProcessWithAnotherEndpointNeedsARestart) {
  using namespace std::string_literals;
  WriteKubeadmWithFlag();
  ASSERT_EQ(Kubelet("attach").status, 0);
  Write("/proc/77/cmdline", "/usr/bin/other\0"s);
  Write("/proc/812/cmdline",
        "/usr/bin/kubelet\0--config=/x\0--container-runtime-endpoint="s + kContainerd + "\0"s);
  testing::Printed status = Kubelet("status");
  EXPECT_EQ(status.status, 1);
  EXPECT_TRUE(Has(status.out, "process: 812, which still uses the earlier settings")) << status.out;
  Write("/proc/812/cmdline", "/usr/bin/kubelet\0--container-runtime-endpoint\0"s + kOurs + "\0"s);
  status = Kubelet("status", {"-o", "json"});
  EXPECT_EQ(status.status, 0);
  const auto json = nlohmann::json::parse(status.out);
  EXPECT_EQ(json["state"], "attached");
  EXPECT_EQ(json["process"]["restart_needed"], false);
  EXPECT_EQ(json["changed"].size(), 2U);
}

// Nothing but the time says that it has read the file before the change.
TEST_F(KubeletAttach, AProcessThatIsOlderThanTheDecidingFileNeedsARestart) {
  using namespace std::string_literals;
  WriteKubeadmWithField();
  ASSERT_EQ(Kubelet("attach").status, 0);
  const int64_t now = time(nullptr);
  Write("/proc/812/cmdline", "/usr/bin/kubelet\0--config=/var/lib/kubelet/config.yaml\0"s);
  EXPECT_EQ(Kubelet("status").status, 0);  // without a time, nothing is known
  const auto started = [&](int64_t seconds) {
    Write("/proc/stat", "cpu 1 2\nbtime " + std::to_string(now - 1000) + "\nprocesses 9\n");
    Write("/proc/812/stat", "812 (a ) b) S 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 9 0 " +
                                std::to_string((1000 + seconds) * sysconf(_SC_CLK_TCK)) +
                                " 99 98\n");
  };
  started(-30);
  const testing::Printed status = Kubelet("status");
  EXPECT_EQ(status.status, 1);
  EXPECT_TRUE(Has(status.out, "state: attached\n")) << status.out;
  EXPECT_TRUE(Has(status.out, "process: 812, which still uses the earlier settings")) << status.out;
  const testing::Printed again = Kubelet("attach");
  EXPECT_EQ(again.status, 0);
  EXPECT_TRUE(Has(again.out, "Now run: systemctl daemon-reload && systemctl restart kubelet"))
      << again.out;
  started(30);
  EXPECT_EQ(Kubelet("status").status, 0) << Kubelet("status").out;
  EXPECT_FALSE(Has(Kubelet("attach").out, "Now run"));
}

}  // namespace
}  // namespace alignd::kubelet
