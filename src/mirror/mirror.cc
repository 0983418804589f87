#include "mirror/mirror.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "host/durable_file.h"
#include "mirror/announcement.h"
#include "mirror/marker.h"

namespace alignd::mirror {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSocketPrefix = "alignd-";

constexpr int kChecksPerPatience = 5;  // how often it is checked whether the kubelet takes an offer
constexpr int kMaxPause = 10;          // times the patience

Error IoError(const std::string& what, const fs::path& path, const std::error_code& code) {
  return {ErrorCode::kIo, what + " " + path.string() + ": " + code.message(),
          "check the path of --kubelet-plugins-registry and its permissions"};
}

Result<Done> PrepareRegistry(const fs::path& registry) {
  if (Result<Done> made = host::MakeDirectory(registry); !made.ok()) return made;
  std::error_code code;
  std::vector<fs::path> ours;
  for (fs::directory_iterator entry(registry, code), end; !code && entry != end;
       entry.increment(code)) {
    std::error_code gone;
    const bool is_socket = fs::is_socket(entry->symlink_status(gone));
    if (is_socket && entry->path().filename().native().starts_with(kSocketPrefix)) {
      ours.push_back(entry->path());
    }
  }
  if (code) return IoError("list", registry, code);
  for (const fs::path& socket : ours) {
    fs::remove(socket, code);
    if (code) return IoError("remove", socket, code);
  }
  return Done{};
}

// At most as many as were asked for, the ones to include first.
std::set<std::string> Cut(const Choice& choice, const std::set<std::string>& preferred) {
  std::set<std::string> ids = choice.must_include;
  for (const std::string& id : preferred) {
    if (ids.size() >= choice.size) break;
    ids.insert(id);
  }
  return ids;
}

}  // namespace

OfferResource ServePlugins(std::shared_ptr<host::EventLoop> loop) {
  return [loop = std::move(loop)](
             const std::string& resource, const fs::path& socket, Preference preference,
             const Announcement& announced) -> Result<std::unique_ptr<Offered>> {
    Result<std::unique_ptr<MirrorPlugin>> plugin =
        MirrorPlugin::Start(loop, resource, socket, std::move(preference), announced);
    if (!plugin.ok()) return plugin.error();
    return std::unique_ptr<Offered>(*std::move(plugin));
  };
}

Result<std::unique_ptr<Mirror>> Mirror::Start(MirrorSettings settings, const admission::Node& node,
                                              allocation::AllocationManager& allocation,
                                              BindingTable& bindings, TaskQueue& background,
                                              AskPlugin ask_plugin, OfferResource offer) {
  settings.registry = fs::absolute(settings.registry);
  if (Result<Done> prepared = PrepareRegistry(settings.registry); !prepared.ok()) {
    return prepared.error();
  }
  spdlog::info("the device plugins' resources are offered to the kubelet in {}",
               settings.registry.string());
  std::unique_ptr<Mirror> mirror(new Mirror(std::move(settings), node, allocation, bindings,
                                            background, std::move(ask_plugin), std::move(offer)));
  mirror->Refresh();
  mirror->PostAt(Clock::now(), &Mirror::OfferAgain);
  return mirror;
}

Mirror::Mirror(MirrorSettings settings, const admission::Node& node,
               allocation::AllocationManager& allocation, BindingTable& bindings,
               TaskQueue& background, AskPlugin ask_plugin, OfferResource offer)
    : settings_(std::move(settings)),
      node_(node),
      allocation_(allocation),
      bindings_(bindings),
      ask_plugin_(std::move(ask_plugin)),
      offer_(std::move(offer)),
      background_(background) {
  const MutexLock lock(handle_->mutex);
  handle_->mirror = this;
}

Mirror::~Mirror() {
  const MutexLock lock(handle_->mutex);
  handle_->mirror = nullptr;
}

void Mirror::PostAt(Clock::time_point time, void (Mirror::*work)()) {
  background_.PostAt(time, [handle = handle_, work] {
    const MutexLock lock(handle->mutex);
    if (handle->mirror != nullptr) (handle->mirror->*work)();
  });
}

fs::path Mirror::SocketOf(const std::string& resource, int attempt) const {
  const std::string which = attempt == 0 ? "" : "-" + std::to_string(attempt);
  return settings_.registry /
         (std::string(kSocketPrefix) + ResourceHash(resource) + which + ".sock");
}

void Mirror::Refresh() {
  const MutexLock lock(mutex_);
  if (std::exchange(stale_, true)) return;
  PostAt(Clock::now(), &Mirror::Follow);
}

void Mirror::Follow() {
  {
    const MutexLock lock(mutex_);
    stale_ = false;  // later changes need another run
  }
  const std::shared_ptr<const checkpoint::Bindings> bindings = bindings_.snapshot();
  const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
  const auto& resources = snapshot->state.devices.resources;
  std::erase_if(mirrored_, [&](const auto& entry) { return !resources.contains(entry.first); });
  for (const auto& [resource, inventory] : resources) {
    const std::optional<Announcement> announced =
        AnnouncementOf(snapshot->state, *bindings, resource);
    if (!announced) continue;
    if (const auto known = mirrored_.find(resource); known != mirrored_.end()) {
      known->second.offered->Announce(*announced);
    } else {
      Offer(resource, *announced, 0, settings_.patience);
    }
  }
}

void Mirror::Offer(const std::string& resource, const Announcement& announced, int attempt,
                   std::chrono::milliseconds pause) {
  Preference preference;
  if (settings_.modes.Of(resource) != BindingMode::kDeferred) {
    preference = [this, resource](const Choice& choice, const auto& done) {
      Prefer(resource, choice, done);
    };
  }
  auto plugin = offer_(resource, SocketOf(resource, attempt), std::move(preference), announced);
  if (plugin.ok()) {
    failed_.erase(resource);
    mirrored_[resource] = {*std::move(plugin), attempt, pause, Clock::now() + pause};
  } else if (failed_.insert(resource).second) {
    spdlog::error("{}: cannot be offered to the kubelet: {}", resource, plugin.error().Text());
  }
}

void Mirror::OfferAgain() {
  std::vector<std::string> ignored;
  for (auto& [resource, mirrored] : mirrored_) {
    if (mirrored.offered->IsFollowed()) {
      mirrored.pause = settings_.patience;
      mirrored.again = Clock::now() + mirrored.pause;
    } else if (Clock::now() >= mirrored.again) {
      ignored.push_back(resource);
    }
  }
  for (const std::string& resource : ignored) {
    const auto announced =
        AnnouncementOf(allocation_.snapshot()->state, *bindings_.snapshot(), resource);
    auto old = mirrored_.extract(resource);
    Mirrored& before = old.mapped();
    if (!announced) continue;  // removed; Follow is posted
    if (before.pause == settings_.patience) {
      spdlog::info("{}: the kubelet does not register it; the offer is repeated", resource);
    }
    const int attempt = before.attempt + 1;
    const auto pause = std::min(before.pause * 2, settings_.patience * kMaxPause);
    before.offered.reset();  // its socket goes first
    Offer(resource, *announced, attempt, pause);
  }
  if (!failed_.empty()) Follow();
  PostAt(Clock::now() + settings_.patience / kChecksPerPatience, &Mirror::OfferAgain);
}

std::optional<Announcement> Mirror::AnnouncementOf(const admission::NodeState& state,
                                                   const checkpoint::Bindings& bindings,
                                                   const std::string& resource) const {
  const auto known = state.devices.resources.find(resource);
  if (known == state.devices.resources.end()) return std::nullopt;
  if (known->second.registered) return mirror::Announce(state, bindings, resource);
  const auto before = settings_.kubelet_allocated_before.find(resource);
  if (before == settings_.kubelet_allocated_before.end()) return std::nullopt;
  return AnnounceBefore(before->second);
}

void Mirror::Prefer(const std::string& resource, const Choice& choice,
                    const std::function<void(std::set<std::string>)>& done) const {
  const std::shared_ptr<const checkpoint::Bindings> bindings = bindings_.snapshot();
  const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
  const Announcement announced = Announce(snapshot->state, *bindings, resource);
  const std::set<std::string> fitting =
      PreferredIds(node_, snapshot->state, resource, announced, choice);
  const auto inventory = snapshot->state.devices.resources.find(resource);
  const bool plugin_prefers =
      inventory != snapshot->state.devices.resources.end() && inventory->second.prefers_allocation;
  if (!plugin_prefers || fitting.size() <= choice.size) return done(Cut(choice, fitting));

  // The plugin knows its devices, not the kubelet's ids.
  std::map<std::string, std::string> id_of;  // by device
  devicemanager::PreferenceQuery query;
  query.resource = resource;
  query.size = static_cast<int>(choice.size);
  for (const std::string& id : fitting) {
    const auto device = announced.find(id);
    if (device == announced.end() || device->second.device.empty()) continue;
    id_of[device->second.device] = id;
    query.available.push_back(device->second.device);
    if (choice.must_include.contains(id)) query.must_include.push_back(device->second.device);
  }
  std::ranges::sort(query.available);
  std::ranges::sort(query.must_include);
  ask_plugin_(query, [choice, fitting, id_of, done](const auto& preferred) {
    if (!preferred) return done(Cut(choice, fitting));
    Choice so_far = choice;
    for (const std::string& device : *preferred) {
      const auto id = id_of.find(device);
      if (id != id_of.end() && so_far.must_include.size() < choice.size) {
        so_far.must_include.insert(id->second);
      }
    }
    done(Cut(so_far, fitting));
  });
}

}  // namespace alignd::mirror
