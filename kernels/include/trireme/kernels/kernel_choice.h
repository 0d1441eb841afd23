// Which implementations the kernels of this process run: `fast` (vector units, oneDNN)
// or `reference` (plain loops, one thread; what the fast ones are tested against).
//
// The environment variable TRIREME_KERNELS=fast|reference picks; the default is fast,
// and reference in a build with TRIREME_SANITIZE=thread (oneDNN's OpenMP runtime is
// invisible to the thread sanitizer). The choice is made once, at the first kernel.
// Thread safety: safe.
#pragma once

#include <string>
#include <string_view>

#include <trireme/base/status.h>

namespace trireme::kernels {

enum class KernelChoice { fast, reference };
std::string_view to_string(KernelChoice choice);

// Errors: invalid_argument when TRIREME_KERNELS holds another word. Kernels then run
// the build's default; a program should ask here first and report.
Result<KernelChoice> kernel_choice();

// One line for logs: "fast (avx2, oneDNN 2.6.3)".
std::string describe_kernels();

}  // namespace trireme::kernels
