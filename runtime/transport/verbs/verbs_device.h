// An opened RDMA device, shared by all channels of a rank that use one of its ports: its
// protection domain, the descriptor through which completions wake us, and its news
// (ports that go down or come back, a device that fails).
//
// Each channel has completion queues of its own; a queue that was armed and gets an entry
// calls its owner on the service thread.
// Thread safety: all methods.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/transport/api/reactor.h"
#include "runtime/transport/verbs/verbs_library.h"
#include "runtime/transport/verbs/verbs_wire.h"

namespace trireme {

// Who owns a completion queue. Both methods run on the service thread.
class VerbsListener {
 public:
  virtual ~VerbsListener() = default;
  virtual void on_completion() = 0;
  // The device, or one of its ports that this listener may use (0: all), is lost; `why`
  // names it and says what to do.
  virtual void on_device_lost(const std::string& device, int port, const Status& why) = 0;
};

class VerbsDevice : public std::enable_shared_from_this<VerbsDevice> {
 public:
  // Opens `device` and watches its descriptors. Errors: unavailable or permission_denied.
  static Result<std::shared_ptr<VerbsDevice>> open(const VerbsLibrary& verbs, ibv_device* device,
                                                   std::shared_ptr<Reactor> reactor);
  ~VerbsDevice();

  const std::string& name() const { return name_; }
  const VerbsLibrary& verbs() const { return verbs_; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  int port_count() const { return port_count_; }
  // What port `port` is like now; nullopt when it is not active.
  std::optional<VerbsPortInfo> describe_port(std::uint8_t port) const;

  // A queue of `entries` whose events go to `listener` while that exists.
  Result<ibv_cq*> create_queue(int entries, std::weak_ptr<VerbsListener> listener);
  void destroy_queue(ibv_cq* queue);
  // Registers memory for local and remote writes. Errors: resource_exhausted saying what
  // `ulimit -l` is and has to be; what the device says.
  Result<ibv_mr*> register_memory(void* memory, std::size_t bytes);
  void stop();  // No handler runs afterwards, once those under way are done.

 private:
  VerbsDevice(const VerbsLibrary& verbs, std::shared_ptr<Reactor> reactor, std::string name)
      : verbs_(verbs), reactor_(std::move(reactor)), name_(std::move(name)) {}
  Status start(ibv_device* device);
  void on_completions(Reactor::Token token);
  void on_news(Reactor::Token token);
  void on_event(const ibv_async_event& event);
  void on_port_down(int port);
  void tell_all(int port, const Status& why);

  const VerbsLibrary& verbs_;
  std::shared_ptr<Reactor> reactor_;
  std::string name_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  int port_count_ = 1;
  Reactor::Token completions_token_ = 0;
  Reactor::Token news_token_ = 0;

  std::mutex mutex_;
  std::map<ibv_cq*, std::weak_ptr<VerbsListener>> listeners_;
  std::map<int, std::uint64_t> down_since_;  // Ports, and when their fall was heard of.
};

// "`ulimit -l` is 8192 KiB and this needs 12288 KiB more: ..." for a registration that failed.
Status registration_error(int error, std::size_t bytes, const std::string& device);

}  // namespace trireme
