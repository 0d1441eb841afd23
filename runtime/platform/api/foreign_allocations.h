// ForeignAllocations: while one lives, the leak checker of an address-sanitized program
// leaves out what its thread allocates. Only for calls into libraries that are known to
// lose memory of their own: it must enclose nothing that allocates ours.
// Thread safety: of the thread that made it.
#pragma once

// Present when the program is built with the address sanitizer.
extern "C" {
__attribute__((weak)) void __lsan_disable();
__attribute__((weak)) void __lsan_enable();
}

namespace trireme {

class ForeignAllocations {
 public:
  ForeignAllocations() {
    if (__lsan_disable != nullptr) __lsan_disable();
  }
  ~ForeignAllocations() {
    if (__lsan_enable != nullptr) __lsan_enable();
  }
  ForeignAllocations(const ForeignAllocations&) = delete;
  ForeignAllocations& operator=(const ForeignAllocations&) = delete;
};

}  // namespace trireme
