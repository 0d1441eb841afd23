#include <trireme/collectives/group.h>

#include <algorithm>
#include <functional>

#include <trireme/base/check.h>

#include "collectives/communicator_impl.h"

namespace trireme {

Group::Group() : impl_(std::make_shared<Impl>()) {}

Group::Group(std::initializer_list<Communicator*> members) : Group() {
  for (Communicator* member : members) add(*member);
}

Group::~Group() {
  (void)end();
}

void Group::add(Communicator& member) {
  Communicator::Impl& impl = *member.impl_;
  if (impl.group == impl_) return;
  TRIREME_CHECK(impl.group == nullptr, "a communicator is in one group at a time; end the other one first");
  impl.group = impl_;
  impl_->members.push_back(&impl);
  // Fails where the backend is broken, which the calls then say.
  if (impl.foreign != nullptr) (void)impl.foreign->backend().begin_group();
}

namespace {

// One caller drives all that share an engine: it must not wait for one communicator while
// another could move. Those of other engines move on their progress threads meanwhile.
void drive_all(std::vector<Core*> cores, const std::function<bool(const Core&)>& finished) {
  while (!cores.empty()) {
    const Engine* engine = cores.front()->engine().get();
    const auto others =
        std::stable_partition(cores.begin(), cores.end(), [&](Core* core) { return core->engine().get() == engine; });
    for (auto core = others; core != cores.end(); ++core) (*core)->leave_to_progress_thread();
    const std::vector<Core*> together(cores.begin(), others);
    Core::drive_together(together, [&] {
      return std::all_of(together.begin(), together.end(), [&](const Core* core) { return finished(*core); });
    });
    cores.erase(cores.begin(), others);
  }
}

}  // namespace

Status Group::end() {
  const std::vector<Communicator::Impl*> members = std::move(impl_->members);
  std::vector<Work> works = std::move(impl_->works);
  impl_->members.clear();
  impl_->works.clear();
  std::vector<Core*> cores;
  Status first;
  for (Communicator::Impl* member : members) {
    member->group.reset();
    if (member->foreign != nullptr) {
      const Status ended = member->foreign->backend().end_group();
      if (first.is_ok()) first = ended;
    } else if (member->core->size() > 1)
      cores.push_back(member->core.get());
  }
  drive_all(std::move(cores), [&](const Core& core) {
    return std::all_of(works.begin(), works.end(), [&](const Work& work) {
      return work.operation_->done() || work.operation_->core.get() != &core;
    });
  });
  for (Work& work : works) {
    const Status status = work.wait();  // Done, unless it is a message of a rank that is alone.
    if (first.is_ok()) first = status;
  }
  return first;
}

}  // namespace trireme
