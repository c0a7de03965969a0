// Who makes bindings, and who uses them: the seam between the catalog and dispatchers.
#pragma once

#include <memory>

#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/serving/operator_state.hpp>

namespace switchyard {
inline namespace v0 {

/// Who uses bindings and takes new ones when the disk has changed.
class binding_user {
 public:
  binding_user() = default;
  binding_user(const binding_user&) = delete;
  binding_user& operator=(const binding_user&) = delete;
  virtual ~binding_user() = default;

  /// Called by the source, one call at a time, with a binding that replaces the one in use. Everything that
  /// replacing costs is paid here, by the calling thread: loading what served calls need, and freeing. False
  /// where kernels cannot be loaded and calls that are served now would not be: nothing was replaced then,
  /// and `fresh` is left to the caller.
  [[nodiscard]] virtual bool adopt(std::unique_ptr<binding>&& fresh) = 0;

  /// The binding in use, which stays while the source does not call adopt(); null: none.
  [[nodiscard]] virtual const binding* in_use() const noexcept = 0;

  /// Frees replaced bindings that no call uses any more. Called by the source, one call at a time.
  virtual void free_replaced() = 0;
};

/// Where bindings come from. A catalog is one.
class binding_source {
 public:
  binding_source() = default;
  binding_source(const binding_source&) = delete;
  binding_source& operator=(const binding_source&) = delete;
  virtual ~binding_source() = default;

  /// Binds an operator to a device and from then on gives the user a new binding whenever the disk changes.
  /// The source outlives the user.
  virtual void attach(const operator_description& op, const device& target, binding_user& user) = 0;
  virtual void detach(binding_user& user) noexcept = 0;

  /// What finds a stream's device, for users that serve every device. Throws driver_error.
  [[nodiscard]] virtual std::shared_ptr<stream_router> streams() {
    throw driver_error{error_code::unsupported_device,
                       "these files serve one device: give the dispatcher that device"};
  }
};

class catalog;

namespace detail {

/// A catalog as a source, for files that have not read its header, which costs JSON: catalog.hpp instantiates
/// this.
template <class Catalog>
[[nodiscard]] binding_source& source_of(Catalog& from);
extern template binding_source& source_of<catalog>(catalog& from);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
