// Group: calls on one or several communicators that are started together and advance
// together, as users of ncclGroupStart and ncclGroupEnd expect.
//
// While a group is open, the blocking calls of its communicators only start and return:
// ok when they were accepted, invalid_argument when not. end() drives all of them at once
// until they are done. So no order of the calls deadlocks: sends before receives, several
// communicators in another order on each rank, messages to oneself. (The collectives of
// one communicator still need the same order on all ranks.)
//
// Between a call and end() its buffers belong to the runtime. A communicator is in one
// group at a time. split and shrink are no calls of a group.
// Thread safety: a group belongs to the thread that made it, and so do its communicators
// until end(); they stay alive until then.
#pragma once

#include <initializer_list>
#include <memory>

#include <trireme/base/status.h>

namespace trireme {

class Communicator;

class Group {
 public:
  Group();
  // The same as add() of each.
  explicit Group(std::initializer_list<Communicator*> members);
  explicit Group(Communicator& member) : Group({&member}) {}
  // Ends the group if end() was not called; what went wrong then is in the
  // communicators' status().
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // From now on calls on `member` belong to this group. REQUIRES: it is in no other one.
  void add(Communicator& member);
  // Completes all calls. Returns the first error, in order of the calls; the group is
  // empty and its communicators are as before.
  Status end();

 private:
  friend class Communicator;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace trireme
