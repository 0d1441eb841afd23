#include <trireme/parallel/gradient_buckets.h>

#include <algorithm>

#include <trireme/base/check.h>

namespace trireme {

std::vector<GradientBuckets::Bucket> GradientBuckets::plan(const ParameterLayout& layout, std::size_t bucket_bytes) {
  std::vector<Bucket> buckets;
  std::size_t end = layout.flat_elements();
  int last = layout.count() - 1;
  for (int id = layout.count() - 1; id >= 0; --id) {
    const std::size_t begin = layout.offset(id);
    if (id > 0 && (end - begin) * sizeof(float) < bucket_bytes) continue;
    buckets.push_back({id, last, begin, end});
    end = begin;
    last = id - 1;
  }
  return buckets;
}

GradientBuckets::GradientBuckets(const ParameterLayout& layout, float* flat, Communicator* communicator,
                                 std::size_t bucket_bytes)
    : layout_(layout), flat_(flat), communicator_(communicator), buckets_(plan(layout, bucket_bytes)) {
  bucket_of_.resize(static_cast<std::size_t>(layout.count()));
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    int users = 0;
    for (int id = buckets_[bucket].first_parameter; id <= buckets_[bucket].last_parameter; ++id) {
      bucket_of_[static_cast<std::size_t>(id)] = static_cast<int>(bucket);
      users += layout.spec(id).users;
    }
    users_.push_back(users);
  }
  missing_.resize(buckets_.size());
  works_.resize(buckets_.size());
  next_ = buckets_.size();
}

GradientBuckets::~GradientBuckets() {
  for (Work& work : works_) static_cast<void>(work.wait());
}

void GradientBuckets::begin_step(int microbatches) {
  TRIREME_CHECK(next_ == buckets_.size(), "a step began before the gradients of the last one were reduced");
  std::fill_n(flat_, layout_.flat_elements(), 0.0f);
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) missing_[bucket] = users_[bucket] * microbatches;
  next_ = 0;
}

void GradientBuckets::complete(int parameter) {
  int& missing = missing_[static_cast<std::size_t>(bucket_of_[static_cast<std::size_t>(parameter)])];
  TRIREME_CHECK(missing > 0, "a parameter has more users than it declared");
  --missing;
  launch_ready();
}

void GradientBuckets::launch_ready() {
  while (next_ < buckets_.size() && missing_[next_] == 0) {
    const Bucket& bucket = buckets_[next_];
    float* data = flat_ + bucket.begin;
    if (communicator_ != nullptr) {
      works_[next_] =
          communicator_->all_reduce_async(data, data, bucket.end - bucket.begin, DataType::f32, ReduceOp::sum);
    }
    ++next_;
  }
  if (communicator_ != nullptr) communicator_->poll();
}

Status GradientBuckets::finish(double& loss_sum) {
  launch_ready();
  TRIREME_CHECK(next_ == buckets_.size(), "a parameter has fewer users than it declared");
  if (communicator_ == nullptr) return Status::ok();
  Work loss = communicator_->all_reduce_async(&loss_sum, &loss_sum, 1, DataType::f64, ReduceOp::sum);
  Status status;
  for (Work& work : works_) {
    const Status one = work.wait();
    if (status.is_ok()) status = one;
    work = Work();
  }
  const Status last = loss.wait();
  return status.is_ok() ? last : status;
}

void GradientBuckets::abandon(const Status& reason) {
  if (communicator_ != nullptr) communicator_->abort(reason.to_string());
  next_ = buckets_.size();
}

}  // namespace trireme
