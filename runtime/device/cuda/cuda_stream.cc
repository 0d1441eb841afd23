#include "runtime/device/cuda/cuda_stream.h"

#include "runtime/device/cuda/cuda_status.h"

namespace trireme {
namespace {

class CudaEvent final : public Event {
 public:
  CudaEvent(cudaEvent_t event, int device) : event_(event), device_(device) {}
  ~CudaEvent() override {
    const ScopedCudaDevice current(device_);
    cudaEventDestroy(event_);
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  // A failed query counts as ready: synchronize() then returns the error.
  bool ready() const override { return cudaEventQuery(event_) != cudaErrorNotReady; }
  Status synchronize() override { return cuda_status(cudaEventSynchronize(event_), "waiting for a CUDA event"); }
  cudaEvent_t handle() const { return event_; }

 private:
  cudaEvent_t event_;
  int device_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(cudaStream_t stream, int device) : stream_(stream), device_(device) {}
  ~CudaStream() override {
    const ScopedCudaDevice current(device_);
    cudaStreamDestroy(stream_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  DeviceId device() const override { return {DeviceKind::cuda, device_}; }

  Status enqueue(std::function<void()> work) override {
    const ScopedCudaDevice current(device_);
    auto owned = std::make_unique<std::function<void()>>(std::move(work));
    TRIREME_RETURN_IF_ERROR(
        cuda_status(cudaLaunchHostFunc(stream_, run_host_work, owned.get()), "enqueuing host work"));
    static_cast<void>(owned.release());  // run_host_work deletes it.
    return Status::ok();
  }

  Status copy(void* destination, const void* source, std::size_t bytes) override {
    const ScopedCudaDevice current(device_);
    return cuda_status(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream_), "copying on a stream");
  }

  Status fill_zero(void* destination, std::size_t bytes) override {
    const ScopedCudaDevice current(device_);
    return cuda_status(cudaMemsetAsync(destination, 0, bytes, stream_), "zeroing on a stream");
  }

  Result<std::shared_ptr<Event>> record() override {
    const ScopedCudaDevice current(device_);
    cudaEvent_t raw = nullptr;
    TRIREME_RETURN_IF_ERROR(
        cuda_status(cudaEventCreateWithFlags(&raw, cudaEventDisableTiming), "creating a CUDA event"));
    auto event = std::make_shared<CudaEvent>(raw, device_);
    TRIREME_RETURN_IF_ERROR(cuda_status(cudaEventRecord(raw, stream_), "recording a CUDA event"));
    return std::shared_ptr<Event>(std::move(event));
  }

  // Events of other devices are waited for by the GPU; those of the CPU by a host function.
  Status wait(std::shared_ptr<Event> event) override {
    if (auto* own = dynamic_cast<CudaEvent*>(event.get())) {
      const ScopedCudaDevice current(device_);
      return cuda_status(cudaStreamWaitEvent(stream_, own->handle(), 0), "making a stream wait for an event");
    }
    return enqueue([event] { static_cast<void>(event->synchronize().is_ok()); });
  }

  Status synchronize() override { return cuda_status(cudaStreamSynchronize(stream_), "waiting for a CUDA stream"); }
  void* native_handle() const override { return stream_; }

 private:
  static void CUDART_CB run_host_work(void* pointer) {
    const std::unique_ptr<std::function<void()>> work(static_cast<std::function<void()>*>(pointer));
    (*work)();
  }

  cudaStream_t stream_;
  int device_;
};

}  // namespace

Result<std::unique_ptr<Stream>> make_cuda_stream(int device) {
  const ScopedCudaDevice current(device);
  cudaStream_t stream = nullptr;
  TRIREME_RETURN_IF_ERROR(
      cuda_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a CUDA stream"));
  return std::unique_ptr<Stream>(std::make_unique<CudaStream>(stream, device));
}

}  // namespace trireme
