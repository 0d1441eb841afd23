// Words for people on standard output and standard error. What a stream does not take (its
// reader is gone, its disk is full) is lost and remembered, never an exception or an abort:
// an exit code must not depend on whether somebody still reads.
// Thread safety: any thread.
#pragma once

#include <functional>
#include <string_view>

#include <trireme/base/status.h>

namespace trireme {

void print_out(std::string_view text);    // Buffered, as stdout is.
void print_error(std::string_view text);  // At once.
// Hands on what is buffered. Errors: resource_exhausted or what else kept any part of
// standard output since the start of the process from being written.
Status flush_output();
// For the end of main(): `code`, or 1 instead of 0 when standard output was lost, which it says.
int code_after_output(int code);
// The body of main(): what `body` returns, after code_after_output(); 1 and a sentence where
// memory or threads ran out in this thread, instead of an abort.
int run_main(std::string_view program, const std::function<int()>& body);

}  // namespace trireme
