#include "runtime/transport/verbs/verbs_meeting.h"

#include <algorithm>

#include <fmt/core.h>

#include <trireme/telemetry/log.h>
#include <trireme/topology/roce_gid.h>

namespace trireme {
namespace {

constexpr std::uint64_t kFirstPauseMs = 20;
constexpr std::uint64_t kLongestPauseMs = 1'000;
constexpr std::uint64_t kGiveUpMs = 60'000;

}  // namespace

VerbsMeeting::VerbsMeeting(std::shared_ptr<World> world, std::shared_ptr<Reactor> reactor,
                           std::shared_ptr<PeerWatch> peers, std::string own_token)
    : world_(std::move(world)), reactor_(std::move(reactor)), peers_(std::move(peers)), token_(std::move(own_token)) {}

ChannelKey VerbsMeeting::next_key(int peer, std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  return {peer, context, opened_[{peer, context}]++};
}

bool VerbsMeeting::opened(const ChannelKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = opened_.find({key.peer, key.context});
  return found != opened_.end() && key.ordinal < found->second;
}

void VerbsMeeting::introduce(int peer, VerbsContact contact) {
  auto shared = std::make_shared<const VerbsContact>(std::move(contact));
  const std::lock_guard lock(mutex_);
  contacts_[peer] = std::move(shared);
}

std::shared_ptr<const VerbsContact> VerbsMeeting::contact(int peer) {
  const std::lock_guard lock(mutex_);
  const auto found = contacts_.find(peer);
  return found == contacts_.end() ? nullptr : found->second;
}

void VerbsMeeting::add(const ChannelKey& key, std::shared_ptr<VerbsLink> link) {
  reactor_->run_soon([self = shared_from_this(), key, link = std::move(link)] { self->begin(key, link); });
}

void VerbsMeeting::begin(const ChannelKey& key, std::shared_ptr<VerbsLink> link) {
  forget_the_joined();
  Meeting& meeting = meetings_[key];
  meeting.link = std::move(link);
  if (world_->rank() < key.peer) {
    meeting.give_up_at = Deadline::after_ms(kGiveUpMs);
    return send_hello(key);
  }
  if (const auto early = early_.find(key); early != early_.end()) {
    const VerbsHello hello = std::move(early->second);
    early_.erase(early);
    answer(key, meeting, hello);
  }
}

void VerbsMeeting::forget_the_joined() {
  if (meetings_.size() < sweep_at_) return;
  std::erase_if(meetings_,
                [](const auto& entry) { return entry.second.link == nullptr && entry.second.joined.expired(); });
  sweep_at_ = std::max<std::size_t>(64, 2 * meetings_.size());
}

std::string VerbsMeeting::encode_own(const ChannelKey& key, const VerbsLink* link, bool answers) {
  VerbsHello hello;
  hello.answer = answers;
  hello.channel = ChannelHello::from(*world_, key);
  if (link != nullptr) link->describe(hello);
  return hello.encode(contact(key.peer)->token);
}

void VerbsMeeting::send(const ChannelKey& key, std::uint64_t attempt, const std::string& datagram) {
  const auto to = contact(key.peer);
  const VerbsPostRoute& route = to->routes[attempt % to->routes.size()];
  route.mailbox->send(route.own_gid, route.peer, route.peer_gid, to->mailbox_key, datagram);
}

void VerbsMeeting::send_hello(const ChannelKey& key) {
  const auto found = meetings_.find(key);
  if (found == meetings_.end() || found->second.link == nullptr) return;
  Meeting& meeting = found->second;
  Status broken = peers_->status(key.peer);
  if (broken.is_ok() && meeting.give_up_at.expired()) broken = silence(key.peer);
  if (!broken.is_ok()) {
    meeting.link->fail(std::move(broken));
    meetings_.erase(found);
    return;
  }
  send(key, meeting.attempt, encode_own(key, meeting.link.get(), false));
  const std::uint64_t pause_ms =
      std::min(kLongestPauseMs, kFirstPauseMs << std::min<std::uint64_t>(meeting.attempt, 8));
  ++meeting.attempt;
  reactor_->run_at(Deadline::after_ms(pause_ms), [self = shared_from_this(), key] { self->send_hello(key); });
}

Status VerbsMeeting::silence(int peer) {
  const auto to = contact(peer);
  std::string paths;
  for (const VerbsPostRoute& route : to->routes) {
    paths += fmt::format("{}{} to {} of {}", paths.empty() ? "" : ", ", gid_to_string(route.own_gid.bytes),
                         gid_to_string(route.peer_gid.bytes), route.peer.name());
  }
  Status status = unavailable(fmt::format(
      "{} does not answer over RDMA ({}) within {} s: check that its port is active (rdma link, ibstat), that the two "
      "networks are joined and, with RoCE, that UDP port 4791 passes; TRIREME_VERBS_DEVICES chooses other devices, "
      "TRIREME_TRANSPORT=tcp does without",
      to->peer, paths, kGiveUpMs / 1000));
  log_line(LogLevel::error, "transport", status.to_string());
  return status;
}

void VerbsMeeting::deliver(std::string_view datagram) {
  const Result<VerbsHello> hello = VerbsHello::decode(token_, datagram);
  Status status = hello.status();
  if (status.is_ok()) status = hello->channel.check_against(*world_);
  if (!status.is_ok()) {
    log_line(LogLevel::info, "transport", status.with_context("verbs transport: dropped a datagram").to_string());
  } else if (hello->answer) {
    take_answer(*hello);
  } else {
    take_hello(*hello);
  }
}

void VerbsMeeting::take_hello(const VerbsHello& hello) {
  const ChannelKey key = hello.channel.key();
  if (key.peer > world_->rank() || contact(key.peer) == nullptr) return;  // The lower rank speaks first.
  if (const auto found = meetings_.find(key); found != meetings_.end()) return answer(key, found->second, hello);
  // Opened but not here: it is about to be added, or it is long gone.
  if (opened(key)) return;
  early_.insert_or_assign(key, hello);
  send(key, 0, encode_own(key, nullptr, true));
}

void VerbsMeeting::answer(const ChannelKey& key, Meeting& meeting, const VerbsHello& hello) {
  if (meeting.answer.empty()) {
    meeting.answer = encode_own(key, meeting.link.get(), true);
    join(meeting, hello);
  }
  send(key, meeting.attempt++, meeting.answer);
}

void VerbsMeeting::join(Meeting& meeting, const VerbsHello& peer) {
  const std::shared_ptr<VerbsLink> link = std::exchange(meeting.link, nullptr);
  meeting.joined = link;
  if (Status status = link->connect(peer); !status.is_ok()) {
    log_line(LogLevel::error, "transport", status.to_string());
  }
}

void VerbsMeeting::take_answer(const VerbsHello& answer) {
  const auto found = meetings_.find(answer.channel.key());
  if (found == meetings_.end() || found->second.link == nullptr) return;  // Said before.
  Meeting& meeting = found->second;
  if (answer.heard()) {
    meeting.give_up_at = Deadline::after_ms(kGiveUpMs);
  } else if (!answer.refusal.empty()) {
    meeting.link->fail(
        unavailable(contact(answer.channel.key().peer)->peer + " refuses the RDMA channel: " + answer.refusal));
    meetings_.erase(found);
  } else {
    join(meeting, answer);
  }
}

}  // namespace trireme
