#include "collectives/nccl_interface/group.h"

#include <algorithm>
#include <thread>
#include <vector>

#include <trireme/collectives/group.h>

namespace trireme::nccl {
namespace {

// What runs together.
struct Batch {
  std::vector<Setup> setups;
  std::vector<std::unique_ptr<Operation>> operations;

  // Every communicator in it, once.
  std::vector<std::shared_ptr<Comm>> comms(bool made_too) const {
    std::vector<std::shared_ptr<Comm>> all;
    const auto add = [&](const std::shared_ptr<Comm>& comm) {
      if (comm != nullptr && std::find(all.begin(), all.end(), comm) == all.end()) all.push_back(comm);
    };
    for (const Setup& setup : setups) {
      add(setup.parent);
      if (made_too) add(setup.comm);
    }
    for (const auto& operation : operations) add(operation->comm());
    return all;
  }
};

// Of the calling thread, as the C interface has it.
struct OpenGroup {
  int depth = 0;
  Outcome refusal;
  Batch batch;
};
thread_local OpenGroup open_group;

void keep_first(Outcome& first, const Outcome& next) {
  if (first.is_ok() && !next.is_ok()) first = next;
}

Outcome make_one(const Setup& setup) {
  Result<std::shared_ptr<Communicator>> made = setup.make();
  const Outcome outcome = made.status();
  if (setup.comm != nullptr) setup.comm->become(std::move(made));
  return outcome;
}

Outcome make_all(const std::vector<Setup>& setups) {
  if (setups.size() == 1) return make_one(setups.front());
  std::vector<Outcome> outcomes(setups.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < setups.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i] = make_one(setups[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  Outcome first;
  for (const Outcome& outcome : outcomes) keep_first(first, outcome);
  return first;
}

Outcome run_operations(const std::vector<std::unique_ptr<Operation>>& operations) {
  for (const auto& operation : operations) {
    const Outcome staged = operation->stage();
    if (!staged.is_ok()) return staged;
  }
  Outcome first;
  if (operations.size() == 1) {
    first = operations.front()->start();
  } else {
    Group group;
    for (const auto& operation : operations) group.add(*operation->communicator());
    for (const auto& operation : operations) keep_first(first, operation->start());
    keep_first(first, group.end());
  }
  if (!first.is_ok()) return first;
  for (const auto& operation : operations) keep_first(first, operation->unstage());
  return first;
}

Outcome run_entered(const Batch& batch) {
  Outcome first;
  if (!batch.setups.empty()) first = make_all(batch.setups);
  if (!first.is_ok() || batch.operations.empty()) return first;
  return run_operations(batch.operations);
}

// Each communicator is used by one thread at a time.
Outcome run(const Batch& batch) {
  const std::vector<std::shared_ptr<Comm>> comms = batch.comms(false);
  std::size_t entered = 0;
  while (entered < comms.size() && comms[entered]->enter()) ++entered;
  Outcome outcome = entered == comms.size()
                        ? run_entered(batch)
                        : bad_usage("another thread is inside a call on the same communicator: one at a time");
  while (entered > 0) comms[--entered]->leave();
  return outcome;
}

Outcome run_or_leave_to_background(Batch batch) {
  const std::vector<std::shared_ptr<Comm>> involved = batch.comms(true);
  const bool blocking =
      std::all_of(involved.begin(), involved.end(), [](const auto& comm) { return comm->settings().blocking; });
  if (blocking) return run(batch);
  for (const auto& comm : involved) comm->begin_background();
  // It ends by its deadline, or by ncclCommAbort; what it uses, it owns.
  std::thread([work = std::make_shared<Batch>(std::move(batch)), involved]() mutable {
    const Outcome outcome = run(*work);
    work.reset();
    for (const auto& comm : involved) comm->end_background(outcome);
  }).detach();
  return in_progress();
}

}  // namespace

void group_start() {
  ++open_group.depth;
}

Outcome group_end() {
  if (open_group.depth == 0) return bad_usage("ncclGroupEnd without ncclGroupStart");
  if (--open_group.depth > 0) return open_group.refusal;
  OpenGroup ended = std::move(open_group);
  open_group = {};
  if (!ended.refusal.is_ok()) {
    for (const Setup& setup : ended.batch.setups) {
      if (setup.comm != nullptr) setup.comm->become(aborted("another call of its group was refused"));
    }
    return ended.refusal;
  }
  if (ended.batch.setups.empty() && ended.batch.operations.empty()) return {};
  return run_or_leave_to_background(std::move(ended.batch));
}

Outcome group_discard() {
  if (open_group.depth == 0) return bad_usage("ncclGroupSimulateEnd without ncclGroupStart");
  open_group.refusal = bad_usage("the group was ended by ncclGroupSimulateEnd");
  (void)group_end();
  return {};
}

Outcome submit(std::unique_ptr<Operation> operation) {
  if (open_group.depth > 0) {
    open_group.batch.operations.push_back(std::move(operation));
    return {};
  }
  Batch batch;
  batch.operations.push_back(std::move(operation));
  return run_or_leave_to_background(std::move(batch));
}

Outcome submit(Setup setup) {
  if (open_group.depth > 0) {
    open_group.batch.setups.push_back(std::move(setup));
    return {};
  }
  Batch batch;
  batch.setups.push_back(std::move(setup));
  return run_or_leave_to_background(std::move(batch));
}

Outcome refuse(Outcome outcome) {
  if (open_group.depth > 0) keep_first(open_group.refusal, outcome);
  return outcome;
}

}  // namespace trireme::nccl
