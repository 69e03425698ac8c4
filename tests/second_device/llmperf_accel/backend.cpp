// A second device type for tests, `accel`: PyTorch's PrivateUse1 over the host's memory, with two devices.
//
// Kernels are the CPU's. What differs from a CPU is what accelerators do: tensors of two devices never meet in one
// operation, events and copies to pinned memory arrive later than they are asked for, and memory is counted.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto TYPE = c10::DeviceType::PrivateUse1;
constexpr int DEVICES = 2;
constexpr size_t SEGMENT = 2 << 20;
auto lag = std::chrono::milliseconds(3);  // from asking the device for something to its arrival

struct Arrival {
  Clock::time_point due;
  std::function<void()> copy;
};

struct Device {
  size_t allocated = 0, peak = 0, reserved = 0, peak_reserved = 0;
  Clock::time_point busy_until = Clock::now();
  std::deque<Arrival> arrivals;
  int64_t waits = 0, pageable_copies = 0, late_copies = 0, events = 0;
};

std::recursive_mutex mutex;
Device devices[DEVICES];
std::unordered_map<void*, std::pair<size_t, int>> blocks;
std::unordered_map<void*, size_t> pinned;
thread_local int current = 0;
thread_local bool falling_back = false;

using Lock = std::lock_guard<std::recursive_mutex>;

// Do what is due on a device.
void arrive(Device& device, Clock::time_point now) {
  Lock lock(mutex);
  while (!device.arrivals.empty() && device.arrivals.front().due <= now) {
    device.arrivals.front().copy();
    device.arrivals.pop_front();
  }
}

void wait_until(Device& device, Clock::time_point due) {
  std::this_thread::sleep_until(due);
  arrive(device, Clock::now());
}

void synchronize(int index) {
  wait_until(devices[index], std::max(devices[index].busy_until, Clock::now()));
}

void host_waits(int index) {
  if (falling_back) return;  // the stand-in's own copies
  devices[index].waits++;
  synchronize(index);
}

// ---- memory ----

void release(void* pointer) {
  Lock lock(mutex);
  auto block = blocks.find(pointer);
  if (block == blocks.end()) return;
  devices[block->second.second].allocated -= block->second.first;
  blocks.erase(block);
  std::free(pointer);
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = nullptr;
    if (bytes > 0) {
      Lock lock(mutex);
      size_t whole = (bytes + 511) / 512 * 512;
      TORCH_CHECK(posix_memalign(&pointer, 512, whole) == 0, "accel: out of memory");
      Device& device = devices[current];
      device.allocated += whole;
      device.peak = std::max(device.peak, device.allocated);
      device.reserved = std::max(device.reserved, (device.allocated + SEGMENT - 1) / SEGMENT * SEGMENT);
      device.peak_reserved = std::max(device.peak_reserved, device.reserved);
      blocks[pointer] = {whole, current};
    }
    return {pointer, pointer, &release, c10::Device(TYPE, static_cast<c10::DeviceIndex>(current))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, size_t bytes) const override { std::memcpy(target, source, bytes); }
};
DeviceAllocator allocator;

void unpin(void* pointer) {
  Lock lock(mutex);
  pinned.erase(pointer);
  std::free(pointer);
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = nullptr;
    if (bytes > 0) {
      Lock lock(mutex);
      TORCH_CHECK(posix_memalign(&pointer, 512, bytes) == 0, "accel: out of pinned memory");
      pinned[pointer] = bytes;
    }
    return {pointer, pointer, &unpin, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
  void copy_data(void* target, const void* source, size_t bytes) const override { std::memcpy(target, source, bytes); }
};
PinnedAllocator pinned_allocator;

bool is_pinned(const void* data) {
  Lock lock(mutex);
  auto at = static_cast<const char*>(data);
  for (auto& [begin, bytes] : pinned)
    if (at >= begin && at < static_cast<char*>(begin) + bytes) return true;
  return false;
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return DEVICES; }
  void setCurrentDevice(c10::DeviceIndex device) const override { current = device; }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    auto before = static_cast<c10::DeviceIndex>(current);
    current = device;
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto* impl = storage.unsafeGetStorageImpl();
    c10::DataPtr grown = allocator.allocate(bytes);
    if (impl->data()) std::memcpy(grown.get(), impl->data(), std::min(bytes, storage.nbytes()));
    impl->set_data_ptr_noswap(std::move(grown));
    impl->set_nbytes(bytes);
  }
};

// ---- streams and events ----

struct Mark {
  Clock::time_point at;
  int device;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return TYPE; }
  c10::Device exchangeDevice(c10::Device device) const override {
    auto before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {TYPE, static_cast<c10::DeviceIndex>(current)}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < DEVICES, "accel: no device ", device);
    if (device.index() >= 0) current = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) current = device.index();
  }
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getDefaultStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getStream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return DEVICES; }
  bool queryStream(const c10::Stream& stream) const override {
    return devices[stream.device_index()].busy_until <= Clock::now();
  }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(stream.device_index()); }
  void synchronizeDevice(const c10::DeviceIndex device) const override { synchronize(device); }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    Device& device = devices[stream.device_index()];
    device.events++;
    device.busy_until = Clock::now() + lag;
    delete static_cast<Mark*>(*event);
    *event = new Mark{device.busy_until, stream.device_index()};
  }
  void block(void*, const c10::Stream&) const override {}  // one stream: in order anyway
  bool queryEvent(void* event) const override {
    auto* mark = static_cast<Mark*>(event);
    if (mark == nullptr) return true;
    auto now = Clock::now();
    arrive(devices[mark->device], now);
    return mark->at <= now;
  }
  void synchronizeEvent(void* event) const override {
    if (auto* mark = static_cast<Mark*>(event)) wait_until(devices[mark->device], mark->at);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Mark*>(event); }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    auto between = static_cast<Mark*>(second)->at - static_cast<Mark*>(first)->at;
    return std::chrono::duration<double, std::milli>(between).count();
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// ---- operations ----

at::Tensor on_host(const at::Tensor& tensor) {  // the same memory as a CPU tensor
  if (tensor.device().type() != TYPE) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  bool from = source.device().type() == TYPE, to = target.device().type() == TYPE;
  if (from && !to) {
    Device& device = devices[source.device().index()];
    if (non_blocking && is_pinned(target.data_ptr()) && target.is_contiguous()) {
      Lock lock(mutex);
      std::memset(target.data_ptr(), 0xff, target.nbytes());  // NaN, until it has arrived
      auto value = on_host(source).clone();  // later operations on the device come after this copy
      device.late_copies++;
      device.busy_until = Clock::now() + lag;
      device.arrivals.push_back({device.busy_until, [target, value]() { target.copy_(value); }});
      return target;
    }
    host_waits(source.device().index());
  }
  if (to && !from && !falling_back && !is_pinned(source.data_ptr()) && source.dim() > 0)
    devices[target.device().index()].pageable_copies++;
  on_host(target).copy_(on_host(source));
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  target.resize_(source.sizes());
  return copy_from(source, target, false);
}

at::Scalar local_scalar(const at::Tensor& tensor) {
  host_waits(tensor.device().index());
  return on_host(tensor).item();
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size,
                        c10::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, source, offset, size, stride);
}

void record_stream(at::Tensor&, at::Stream) {}  // one stream: in order anyway

// Every tensor of more than one element must be on the same device.
void check(const c10::OperatorHandle& op, const at::Tensor& tensor, std::optional<c10::Device>& place) {
  if (!tensor.defined() || (tensor.device().is_cpu() && tensor.dim() == 0)) return;
  TORCH_CHECK(!place || *place == tensor.device(), op.schema().operator_name(),
              ": expected all tensors on one device, found ", *place, " and ", tensor.device());
  place = tensor.device();
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  std::optional<c10::Device> place;
  for (const auto& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (value.isTensor()) check(op, value.toTensor(), place);
    else if (value.isTensorList()) for (const at::Tensor& tensor : value.toTensorList()) check(op, tensor, place);
    else if (value.isOptionalTensorList())
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList())
        if (tensor) check(op, *tensor, place);
  }
  bool before = falling_back;
  falling_back = true;
  try {
    at::native::cpu_fallback(op, stack, true);
  } catch (...) {
    falling_back = before;
    throw;
  }
  falling_back = before;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("resize_", at::native::resize_);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("record_stream", record_stream);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  using namespace at::autocast;
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(scaled_dot_product_attention, lower_precision_fp)
}

// ---- collectives: gloo's, on the same memory, over when the call returns ----

using Tensors = std::vector<at::Tensor>;

struct Done final : c10d::Work {
  explicit Done(const Tensors& tensors) {
    std::vector<c10::Device> places;
    for (auto& tensor : tensors)
      if (std::find(places.begin(), places.end(), tensor.device()) == places.end()) places.push_back(tensor.device());
    future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors(), places);
    future->markCompleted(c10::IValue(tensors));
  }
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future; }
  c10::intrusive_ptr<c10::ivalue::Future> future;
};

struct Collectives final : c10d::Backend {
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  c10::intrusive_ptr<c10d::Backend> gloo;
  explicit Collectives(c10::intrusive_ptr<c10d::Backend> inner)
      : c10d::Backend(inner->getRank(), inner->getSize()), gloo(std::move(inner)) {}
  const std::string getBackendName() const override { return "accelcl"; }

  static Tensors on_host_all(const Tensors& tensors) {
    Tensors all;
    for (auto& tensor : tensors) {
      TORCH_CHECK(tensor.device().type() == TYPE, "accelcl: expected tensors on accel, found ", tensor.device());
      all.push_back(on_host(tensor));
    }
    return all;
  }
  static WorkPtr done(WorkPtr work, const Tensors& tensors) {
    work->wait();
    return c10::make_intrusive<Done>(tensors);
  }
  // gloo has no mean: a sum, divided
  static bool sums(c10d::ReduceOp& operation) {
    bool mean = operation == c10d::ReduceOp::AVG;
    if (mean) operation = c10d::ReduceOp::SUM;
    return mean;
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    auto host = on_host_all(tensors);
    auto own = options;
    bool mean = sums(own.reduceOp);
    gloo->allreduce(host, own)->wait();
    if (mean) for (auto& tensor : host) tensor.div_(getSize());
    return c10::make_intrusive<Done>(tensors);
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    auto host = on_host_all(tensors);
    return done(gloo->broadcast(host, options), tensors);
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    std::vector<Tensors> host;
    for (auto& list : outputs) host.push_back(on_host_all(list));
    auto from = on_host_all(inputs);
    return done(gloo->allgather(host, from, options), outputs[0]);
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    auto to = on_host(output), from = on_host(input);
    return done(gloo->_allgather_base(to, from, options), {output});
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    auto to = on_host(output), from = on_host(input);
    auto own = options;
    bool mean = sums(own.reduceOp);
    gloo->_reduce_scatter_base(to, from, own)->wait();
    if (mean) to.div_(getSize());
    return c10::make_intrusive<Done>(Tensors{output});
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override { return done(gloo->barrier(options), {}); }
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  c10::SetAllocator(TYPE, &allocator);
  module.def("current_device", []() { return current; });
  module.def("set_device", [](int index) {
    TORCH_CHECK(index >= 0 && index < DEVICES, "accel: no device ", index);
    current = index;
  });
  module.def("device_count", []() { return DEVICES; });
  module.def("synchronize", [](int index) {
    pybind11::gil_scoped_release without_gil;
    synchronize(index);
  });
  module.def("memory", [](int index) {
    Lock lock(mutex);
    Device& device = devices[index];
    return std::make_tuple(device.allocated, device.peak, device.reserved, device.peak_reserved);
  });
  module.def("reset_peak", [](int index) {
    Lock lock(mutex);
    devices[index].peak = devices[index].allocated;
    devices[index].peak_reserved = devices[index].reserved;
  });
  module.def("empty_cache", []() {
    Lock lock(mutex);
    for (Device& device : devices) device.reserved = (device.allocated + SEGMENT - 1) / SEGMENT * SEGMENT;
  });
  module.def("arrive_after", [](int milliseconds) { lag = std::chrono::milliseconds(milliseconds); });
  module.def("counts", [](int index) {
    Device& device = devices[index];
    return std::map<std::string, int64_t>{{"waits", device.waits}, {"pageable_copies", device.pageable_copies},
                                          {"late_copies", device.late_copies}, {"events", device.events}};
  });
  module.def("collectives", [](const c10::intrusive_ptr<c10d::Backend>& gloo) -> c10::intrusive_ptr<c10d::Backend> {
    return c10::make_intrusive<Collectives>(gloo);
  });
}
