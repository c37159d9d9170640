// A device of another type than the CPU whose memory and kernels are the CPU's (PyTorch's
// PrivateUse1). Every operation goes through `run_on_cpu`: each tensor on the device becomes a CPU
// tensor on the same memory, the CPU's kernel runs, and what comes out is on the device again.
// Tensors of two devices in one operation are an error, as on CUDA.

#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_copy_from.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pybind11/pybind11.h>
#include <torch/library.h>

#include <unordered_map>
#include <unordered_set>

namespace {

using at::Tensor;
using c10::IValue;

constexpr auto TYPE = c10::DeviceType::PrivateUse1;
const c10::Device DEVICE(TYPE, 0);

bool forbid_float64 = false;
PyObject* on_wait = nullptr;  // a function of one text, or none

// What makes the host wait until the device has done all its work: told to Python.
void wait(const std::string& name) {
  if (on_wait == nullptr) return;
  pybind11::gil_scoped_acquire lock;
  if (on_wait != nullptr) pybind11::reinterpret_borrow<pybind11::object>(on_wait)(name);
}

void check_type(c10::ScalarType type) {
  TORCH_CHECK_TYPE(!forbid_float64 || type != at::kDouble,
                   "Cannot convert a tensor to float64: the device doesn't support it");
}

// memory

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto memory = c10::GetCPUAllocator()->allocate(bytes);
    auto free = memory.get_deleter();
    void *data = memory.get(), *context = memory.release_context();
    return {data, context, free, DEVICE};
  }
  c10::DeleterFnPtr raw_deleter() const override { return c10::GetCPUAllocator()->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

Allocator allocator;
REGISTER_ALLOCATOR(TYPE, &allocator);

c10::Storage make_storage(size_t bytes, c10::DataPtr data, c10::Allocator* from) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), from, /*resizable=*/true);
}

// The memory of a CPU storage as the device's; it lives as long as that does.
c10::DataPtr owning(const c10::Storage& storage) {
  auto free = [](void* owner) { delete static_cast<c10::Storage*>(owner); };
  return {const_cast<void*>(storage.data()), new c10::Storage(storage), free, DEVICE};
}

Tensor like(const Tensor& other, Tensor made) {
  made.unsafeGetTensorImpl()->set_sizes_and_strides(
      other.sizes(), other.strides(), other.storage_offset());
  return made;
}

// A tensor with another storage and otherwise the same.
Tensor on_storage(const Tensor& other, c10::Storage storage, c10::DispatchKey key) {
  return like(other, at::detail::make_tensor<c10::TensorImpl>(
                         std::move(storage), c10::DispatchKeySet(key), other.dtype()));
}

// One operation: tensors on the device and the CPU tensors that stand for them.
struct Call {
  std::vector<std::pair<Tensor, Tensor>> pairs;  // on the device, on the CPU
  std::unordered_map<const c10::StorageImpl*, c10::Storage> to_cpu, to_device;

  Tensor cpu(const Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != TYPE) return tensor;
    const auto& storage = tensor.storage();
    auto& alias = to_cpu[storage.unsafeGetStorageImpl()];
    if (!alias) {
      c10::DataPtr memory(const_cast<void*>(storage.data()), c10::kCPU);
      alias = make_storage(storage.nbytes(), std::move(memory), c10::GetCPUAllocator());
      to_device[alias.unsafeGetStorageImpl()] = storage;
    }
    pairs.emplace_back(tensor, on_storage(tensor, alias, c10::DispatchKey::CPU));
    return pairs.back().second;
  }

  // What an operation has written into, resized, or set to another storage.
  void write_back() {
    for (auto& [alias, storage] : to_device) {
      if (alias->data() == storage.data()) continue;
      const auto* device = storage.unsafeGetStorageImpl();
      storage.set_data_ptr_noswap(owning(to_cpu[device]));
      storage.set_nbytes(alias->nbytes());
    }
    for (auto& [tensor, stand_in] : pairs) {
      auto* impl = tensor.unsafeGetTensorImpl();
      auto storage = device_storage(stand_in);
      if (storage.unsafeGetStorageImpl() != tensor.storage().unsafeGetStorageImpl())
        impl->set_storage_keep_dtype(storage);
      bool same = tensor.sizes() == stand_in.sizes() && tensor.strides() == stand_in.strides();
      if (!same || tensor.storage_offset() != stand_in.storage_offset())
        impl->set_sizes_and_strides(
            stand_in.sizes(), stand_in.strides(), stand_in.storage_offset());
    }
  }

  c10::Storage device_storage(const Tensor& result) {
    const auto& storage = result.storage();
    auto& found = to_device[storage.unsafeGetStorageImpl()];
    if (!found) {
      found = make_storage(storage.nbytes(), owning(storage), &allocator);
      to_cpu[found.unsafeGetStorageImpl()] = storage;
    }
    return found;
  }

  // A result: an argument itself, a view of one, or a new tensor.
  Tensor device(const Tensor& result) {
    if (!result.defined() || result.device().type() == TYPE) return result;
    for (auto& [tensor, stand_in] : pairs)
      if (stand_in.is_same(result)) return tensor;
    check_type(result.scalar_type());
    auto storage = device_storage(result);
    for (auto& [tensor, stand_in] : pairs)
      if (stand_in.is_alias_of(result))  // its keys say whether it was made in inference mode
        return like(result, at::detail::make_tensor<c10::TensorImpl>(
                                c10::TensorImpl::VIEW, std::move(storage), tensor.key_set(),
                                result.dtype()));
    return on_storage(result, std::move(storage), c10::DispatchKey::PrivateUse1);
  }
};

// operations

// Those whose result has a shape, or is a number, that depends on values: the host has to wait.
const std::unordered_set<std::string> WAITING = {
    "aten::_local_scalar_dense", "aten::nonzero",  "aten::masked_select", "aten::equal",
    "aten::_unique2",            "aten::bincount", "aten::unique_dim",
    "aten::unique_consecutive",  "aten::histc",    "aten::repeat_interleave"};

// CUDA takes a number on the CPU beside its own tensors, and nothing larger.
void check_devices(const std::string& name, const std::vector<Tensor>& tensors) {
  for (const auto& tensor : tensors)
    TORCH_CHECK(!tensor.defined() || tensor.device().type() == TYPE || tensor.dim() == 0,
                "Expected all tensors to be on the same device, but found at least two devices, ",
                DEVICE, " and ", tensor.device(), "! (in ", name, ")");
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& name = op.schema().name();
  auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  auto first = stack->size() - arguments.size();
  std::vector<Tensor> tensors;
  bool masked = false;  // a mask as an index becomes the numbers of its places first
  for (const IValue& value : arguments) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    else if (value.isTensorList())
      for (const Tensor& tensor : value.toTensorList()) tensors.push_back(tensor);
    else if (value.isOptionalTensorList())
      for (std::optional<Tensor> tensor : value.toOptionalTensorList()) {
        tensors.push_back(tensor.value_or(Tensor()));
        masked |= tensor && tensor->defined() && tensor->scalar_type() == at::kBool;
      }
  }
  check_devices(name, tensors);
  if (masked || WAITING.count(name)) wait(name);

  Call call;
  for (size_t place = first; place < stack->size(); ++place) {
    IValue& value = (*stack)[place];
    if (value.isTensor()) value = call.cpu(value.toTensor());
    else if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorList()) list.push_back(call.cpu(tensor));
      value = list;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (std::optional<Tensor> tensor : value.toOptionalTensorList())
        list.push_back(tensor ? std::optional(call.cpu(*tensor)) : std::nullopt);
      value = list;
    } else if (value.isDevice() && value.toDevice().type() == TYPE) value = c10::Device(c10::kCPU);
  }
  {
    at::AutoDispatchBelowADInplaceOrView below;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  call.write_back();
  for (size_t place = stack->size() - op.schema().returns().size(); place < stack->size();
       ++place) {
    IValue& value = (*stack)[place];
    if (value.isTensor()) value = call.device(value.toTensor());
    else if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorList()) list.push_back(call.device(tensor));
      value = list;
    }
  }
}

// What has to be told apart: new memory, and copies from one device to another.

Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> type,
             std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>,
             std::optional<c10::MemoryFormat> format) {
  check_type(c10::dtype_or_default(type));
  return at::detail::empty_generic(size, &allocator,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(type), format);
}

Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                     std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                     std::optional<c10::Device>, std::optional<bool>) {
  check_type(c10::dtype_or_default(type));
  return at::detail::empty_strided_generic(size, stride, &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(type));
}

// As CUDA: from the device always waits, to the device unless it is asked not to.
Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  if (to.device().type() != TYPE) wait("copy to the CPU");
  else if (from.device().type() != TYPE && !non_blocking) wait("copy from the CPU");
  Call call;
  at::AutoDispatchBelowADInplaceOrView below;
  call.cpu(to).copy_(call.cpu(from));
  return to;
}

Tensor& set_storage(Tensor& tensor, c10::Storage storage, int64_t offset, c10::IntArrayRef size,
                    c10::IntArrayRef stride) {
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_sizes_and_strides(size, stride, offset);
  return tensor;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("set_.source_Storage_storage_offset", set_storage);
}

// autocast: the products of a Transformer in the lower precision, sums of many numbers in float32

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(scaled_dot_product_attention, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(layer_norm, fp32)
  KERNEL_PRIVATEUSEONE(softmax, int, fp32)
  KERNEL_PRIVATEUSEONE(log_softmax, int, fp32)
}

// what PyTorch asks a device for

struct Guard final : c10::impl::NoOpDeviceGuardImpl<TYPE> {
  c10::Device exchangeDevice(c10::Device) const override { return DEVICE; }
  c10::Device getDevice() const override { return DEVICE; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, DEVICE); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  m.def("forbid_float64", [](bool forbidden) { forbid_float64 = forbidden; });
  m.def("on_wait", [](const pybind11::object& told) {
    Py_XDECREF(on_wait);
    on_wait = told.is_none() ? nullptr : pybind11::object(told).release().ptr();
  });
}
