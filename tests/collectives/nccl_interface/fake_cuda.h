// A stand-in for the CUDA runtime, as a test of a CUDA program brings along: streams are
// threads that work later, and device memory is memory that the host may not touch.
//
// fake_cuda.cc exports the C functions cudaMalloc, cudaMemcpyAsync, ... that NCCL's
// interface looks for among the program's symbols; here is what tests need besides.
// Thread safety: all functions.
#pragma once

#include <cstddef>
#include <functional>

namespace trireme::test {

// A stream whose work starts `delay_ms` after it is enqueued.
void* make_fake_stream(int delay_ms);
void destroy_fake_stream(void* stream);
// Runs on the stream, as a kernel would.
void enqueue_fake_kernel(void* stream, std::function<void()> kernel);
// Where a kernel finds what device memory holds.
std::byte* fake_kernel_view(void* device_pointer);
void* fake_device_malloc(std::size_t bytes);
void fake_device_free(void* device_pointer);
void fake_synchronize(void* stream);
// While true, streams say that they are being captured.
void set_fake_capture(bool capturing);

}  // namespace trireme::test
