// SPDX-License-Identifier: MIT
// Measures the data that the study of selection rests on: the time of every admissible variant, for the
// shapes of a plan, on this machine's device.
//
//   measure ROOT PLAN OUTPUT SECONDS [PASSES]
//
// PLAN is what plan.py or models.py writes: shapes are the values of a study's axes, or objects that name
// their axes. ROOT may have tables: each line also tells what is chosen for the shape, with and without their
// rows. OUTPUT gets a JSON line a shape and pass. The study that has had the least time is next, so that each
// has its share when the time is up. Later passes measure again what the first found near its best, and all
// of what is short: there a processor held up for microseconds makes a variant look hopeless. They may take
// what the first leaves of 30 % of the time, or of 1 - `first_pass` of it where the plan says so.
//
// Unlike the tuner's, times are of the device alone: calls wait in the stream behind a fill, so that a short
// kernel is not hidden behind its launch. Tensors are rotated past the L2 cache. All candidates of a shape
// are sampled in turns, so that a drift of the clock is none of any one's.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/catalog.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/device.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/problem/parse_value.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/serving/module_store.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/tune/measuring/forwarding_driver.hpp>
#include <switchyard/tune/workloads/activation.hpp>
#include <switchyard/tune/workloads/attention_backward.hpp>
#include <switchyard/tune/workloads/attention_decode.hpp>
#include <switchyard/tune/workloads/attention_dropout_mask.hpp>
#include <switchyard/tune/workloads/attention_forward.hpp>
#include <switchyard/tune/workloads/embedding.hpp>
#include <switchyard/tune/workloads/matmul_quantized.hpp>
#include <switchyard/tune/workloads/norm.hpp>
#include <switchyard/tune/workloads/rotary.hpp>
#include <switchyard/tune/workloads/rotary_cache.hpp>
#include <switchyard/tune/workloads/softmax.hpp>

namespace sy = switchyard;
using nlohmann::json;

namespace {

void require(sy::device_driver& driver, sy::status result) {
  if (result != 0) throw sy::driver_error{sy::error_code::driver_failed, driver.describe(result)};
}

/// Hands out parts of one block of device memory that is full of random numbers, and spares large uploads.
class arena final : public sy::tune::forwarding_driver {
 public:
  static constexpr std::size_t pattern_bytes = std::size_t{32} << 20U;

  arena(std::shared_ptr<sy::device_driver> of, std::size_t bytes)
      : forwarding_driver{std::move(of)}, bytes_{bytes} {
    pattern_ = static_cast<std::byte*>(driver().allocate(pattern_bytes, {}));
    begin_ = static_cast<std::byte*>(driver().allocate(bytes_, {}));
    if (pattern_ == nullptr || begin_ == nullptr)
      throw sy::driver_error{sy::error_code::out_of_memory, "no memory for the tensors"};
    const auto random = sy::tune::random_elements(sy::dtype::bf16, pattern_bytes / 2, 1);
    require(driver(), driver().copy(pattern_, random.data(), pattern_bytes, {}));
    used_ = bytes_;
    reset();
  }
  ~arena() override {
    driver().release(begin_, {});
    driver().release(pattern_, {});
  }

  /// Takes everything back, and makes it random again.
  void reset() {
    for (std::size_t at = 0; at < used_; at += pattern_bytes) {
      require(driver(), driver().copy(begin_ + at, pattern_, std::min(pattern_bytes, used_ - at), {}));
    }
    require(driver(), driver().synchronize({}));
    used_ = 0;
  }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool contains(const void* address) const noexcept {
    return address >= begin_ && address < begin_ + bytes_;
  }
  /// Repeats what is used now `copies` times, one after the other.
  void repeat(std::size_t copies) {
    const std::size_t one = used_;
    for (std::size_t i = 1; i < copies; ++i) {
      require(driver(), driver().copy(begin_ + i * one, begin_, one, {}));
    }
    used_ = one * copies;
  }

  [[nodiscard]] void* allocate(std::size_t bytes, sy::stream /*on*/) noexcept override {
    const std::size_t rounded = (bytes + 1023) / 1024 * 1024;
    if (rounded > bytes_ - used_) return nullptr;
    void* const out = begin_ + used_;
    used_ += rounded;
    return out;
  }
  void release(void* /*address*/, sy::stream /*on*/) noexcept override {}
  [[nodiscard]] sy::status copy(void* to, const void* from, std::size_t bytes,
                                sy::stream stream) noexcept override {
    return bytes > (std::size_t{1} << 20U) ? 0 : driver().copy(to, from, bytes, stream);
  }
  [[nodiscard]] sy::status fill(void* to, std::uint8_t byte, std::size_t bytes,
                                sy::stream stream) noexcept override {
    return bytes > (std::size_t{1} << 20U) ? 0 : driver().fill(to, byte, bytes, stream);
  }

 private:
  std::size_t bytes_;
  std::byte* pattern_ = nullptr;
  std::byte* begin_ = nullptr;
  std::size_t used_ = 0;
};

/// What all studies share.
struct bench {
  sy::catalog& catalog;
  sy::device device;
  std::shared_ptr<arena> memory;
  void* delay = nullptr;  ///< memory whose fill holds the stream up
  std::size_t delay_bytes = 0;
  sy::workspace scratch;  ///< as an engine gives it, so that no call waits for memory
  sy::event_handle from{};
  sy::event_handle to{};
  std::ofstream out;
};

/// One variant, bound for good.
template <sy::operator_type Operator>
class bound_variant final : public sy::state_source {
 public:
  bound_variant(const sy::catalog::contents& files, std::string id, std::shared_ptr<sy::module_store> modules,
                const sy::device& device)
      : files_{files}, id_{std::move(id)}, modules_{std::move(modules)}, run_{*this, device} {}

  void attach(const sy::operator_description& op, const sy::device& device, sy::state_user& user) override {
    std::vector<std::string> ignored;
    (void)user.adopt(std::make_unique<sy::operator_state>(
        std::make_shared<const sy::fixed_selectors>(
            sy::build_selector({&op, device.properties(), files_.manifests, {}, {}, id_}, ignored)),
        modules_, std::make_shared<sy::log>(), nullptr, std::size_t{16}));
  }
  void detach(sy::state_user& /*user*/) noexcept override {}

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  void operator()(const typename Operator::arguments& call, sy::workspace memory) { run_({}, call, memory); }

  double last_share = 2;  ///< its time over the best, at the last shape it was measured at
  bool loaded = false;
  bool failed = false;

 private:
  const sy::catalog::contents& files_;
  std::string id_;
  std::shared_ptr<sy::module_store> modules_;
  sy::dispatcher<Operator> run_;
};

[[nodiscard]] bool nothing_held_out(const json& plan) {
  const json& held_out = plan.at("held_out");
  return std::none_of(held_out.begin(), held_out.end(), [](const json& each) { return each == 1; });
}

class study {
 public:
  virtual ~study() = default;
  [[nodiscard]] virtual std::size_t shapes() const = 0;
  /// Measures a shape and writes its line.
  virtual void measure(std::size_t shape, std::size_t pass) = 0;
};

template <sy::operator_type Operator>
class study_of final : public study {
 public:
  study_of(bench& all, const json& plan)
      : all_{all}, plan_{plan}, for_tables_{nothing_held_out(plan)}, files_{all.catalog.files(op())} {
    std::vector<std::string> ignored;
    rules_ = sy::build_selector({&op(), all.device.properties(), files_.manifests, {}, {}, {}}, ignored);
    with_tables_ = sy::build_selector(
        {&op(), all.device.properties(), files_.manifests, files_.overlays, files_.tables, {}}, ignored);
    modules_ = std::make_shared<sy::module_store>(all.device.driver());
  }

  [[nodiscard]] std::size_t shapes() const override { return plan_.at("shapes").size(); }

  void measure(std::size_t shape, std::size_t pass) override {
    const json& at = plan_.at("shapes").at(shape);
    json line{{"study", plan_.at("name")}, {"pass", pass}, {"shape", shape}};
    try {
      prepare(at);
      if (pass == 0) line["chosen"] = {describe_choice(*with_tables_), describe_choice(*rules_)};
      sample_all(pass, shape, line);
      line["alignment"] = alignment_;
      if (pass == 0) line["problem"] = sy::format_problem(op(), problem_);
    } catch (const sy::error& problem) {
      line["failed"] = problem.what();
    }
    all_.out << line.dump() << "\n" << std::flush;
  }

 private:
  struct contender {
    std::size_t variant = 0;
    double quick = 0;
    std::vector<double> samples;
    [[nodiscard]] double median() const {
      std::vector<double> sorted = samples;
      std::sort(sorted.begin(), sorted.end());
      return sorted.empty() ? quick : sorted[sorted.size() / 2];
    }
  };

  [[nodiscard]] static const sy::operator_description& op() { return sy::describe<Operator>(); }

  [[nodiscard]] json describe_choice(const sy::selector& rules) const {
    const sy::explanation why = sy::explain(rules, problem_, rules.select(problem_));
    return {{"variant", why.variant}, {"reason", sy::format_reason(why)}};
  }

  /// The calls of a shape, rotated.
  void prepare(const json& at) {
    all_.memory->reset();
    sy::tune::request want;
    const auto set = [&want](const std::string& name, const json& value) {
      if (!value.is_string()) {
        want.set(name, value.is_boolean() ? std::int64_t{value.get<bool>()} : value.get<std::int64_t>());
      } else {
        const std::uint32_t axis = sy::find_axis(op(), name);
        if (axis == op().axes.size())
          throw sy::call_error{sy::error_code::invalid_argument, "no axis '" + name + "'"};
        want.set(name, sy::parse_value(op().axes[axis], value.get<std::string>()).value());
      }
    };
    for (const auto& [name, value] : plan_.at("type").items()) set(name, value);
    if (at.is_object()) {
      for (const auto& [name, value] : at.items()) set(name, value);
    } else {
      for (std::size_t i = 0; i < at.size(); ++i) set(plan_.at("axes").at(i).get<std::string>(), at.at(i));
    }
    auto call = sy::tune::workload<Operator>::make(all_.memory, want, 1);
    const double wanted =
        2.5 * static_cast<double>(all_.device.properties().attribute("l2_bytes")) / std::max(call.bytes, 1.0);
    const std::size_t one = all_.memory->used();
    const auto room = all_.memory->bytes() / std::max<std::size_t>(one, 1);
    const std::size_t copies = std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(wanted)), 1,
                                                       std::min<std::size_t>(16, room));
    all_.memory->repeat(copies);
    calls_.assign(copies, call.arguments);
    for (std::size_t i = 1; i < copies; ++i) {
      for (const sy::field_description& field : op().fields) {
        if (field.kind != sy::value_kind::pointer) continue;
        auto* const place = reinterpret_cast<std::byte*>(&calls_[i]) + field.offset;
        std::byte* address = nullptr;
        __builtin_memcpy(&address, place, sizeof address);
        if (!all_.memory->contains(address)) continue;
        address += i * one;
        __builtin_memcpy(place, &address, sizeof address);
      }
    }
    problem_ = sy::make_problem<Operator>(calls_[0]);
    const std::uint32_t axis = sy::find_axis(op(), "alignment");
    alignment_ = axis < op().axes.size() ? problem_[axis] : 0;
  }

  /// The variant's own operator state, made when it is met first.
  [[nodiscard]] std::size_t variant_of(const std::string& id) {
    const auto [found, is_new] = index_.try_emplace(id, variants_.size());
    if (is_new) {
      variants_.push_back(std::make_unique<bound_variant<Operator>>(files_, id, modules_, all_.device));
    }
    return found->second;
  }

  [[nodiscard]] std::vector<contender> contenders(std::size_t pass, std::size_t shape) {
    std::vector<contender> out;
    if (pass > 0) {
      for (const std::size_t each : near_[shape]) out.push_back({each, 0, {}});
      return out;
    }
    for (std::uint32_t i = 0; i < rules_->candidates.size(); ++i) {
      if (!rules_->admissible(i, problem_, {})) continue;
      const std::size_t variant = variant_of(rules_->candidates[i].variant->id);
      const bool again = std::any_of(out.begin(), out.end(),
                                     [variant](const contender& each) { return each.variant == variant; });
      if (!again && !variants_[variant]->failed) out.push_back({variant, 0, {}});
    }
    first_ = out.empty() ? 0 : out.front().variant;
    // Those that were good at the last shape first, so that hopeless ones are known early.
    std::stable_sort(out.begin(), out.end(), [this](const contender& a, const contender& b) {
      return variants_[a.variant]->last_share < variants_[b.variant]->last_share;
    });
    return out;
  }

  /// Microseconds a call, of `count` calls that wait behind a fill.
  [[nodiscard]] double sample(std::size_t variant, std::size_t count, double expected) {
    sy::device_driver& driver = *all_.device.driver();
    auto& call = *variants_[variant];
    // A launch takes the processor up to 3 us, and a call may be several: what the device would wait for them
    // passes behind the fill, which takes about 1 us for 3 MB.
    const double behind = expected < 12 ? 30 + 9 * static_cast<double>(count) : 0;
    const std::size_t bytes = std::min(all_.delay_bytes, static_cast<std::size_t>(behind * 3e6));
    if (bytes > 0) require(driver, driver.fill(all_.delay, 0, bytes, {}));
    require(driver, driver.record(all_.from, {}));
    for (std::size_t i = 0; i < count; ++i) call(calls_[next_++ % calls_.size()], all_.scratch);
    require(driver, driver.record(all_.to, {}));
    double microseconds = 0;
    require(driver, driver.elapsed(all_.from, all_.to, microseconds));
    return microseconds / static_cast<double>(count);
  }

  void sample_all(std::size_t pass, std::size_t shape, json& line) {
    std::vector<contender> all = contenders(pass, shape);
    double best = 0;
    for (contender& each : all) {
      try {
        if (for_tables_ && best > 300 && variants_[each.variant]->last_share > 4) continue;
        if (!variants_[each.variant]->loaded) static_cast<void>(sample(each.variant, 1, 0));
        variants_[each.variant]->loaded = true;
        double first = sample(each.variant, 1, 0);
        const auto is_hopeless = [&] { return best > 0 && first > (best > 100 ? 2.5 : 20) * best; };
        if (is_hopeless()) first = std::min(first, sample(each.variant, 1, 0));  // or it was interrupted
        if (is_hopeless()) {
          each.quick = first;
          continue;
        }
        // Of two, so that a hiccup costs no variant its place. What takes milliseconds has none that matter.
        each.quick = first > long_us
                         ? first
                         : std::min(sample(each.variant, 3, first), sample(each.variant, 3, first));
        if (best == 0 || each.quick < best) best = each.quick;
      } catch (const sy::error& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        each.quick = 0;
        variants_[each.variant]->failed = !variants_[each.variant]->loaded;  // others fail at one shape alone
      }
    }
    std::erase_if(all, [](const contender& each) { return each.quick == 0; });
    std::stable_sort(all.begin(), all.end(),
                     [](const contender& a, const contender& b) { return a.quick < b.quick; });
    // Short kernels vary more from sample to sample.
    const std::size_t rounds = best < 6 ? 15 : best < 2000 ? 9 : best < long_us ? 5 : 3;
    for (std::size_t round = 0; round < rounds; ++round) {
      double leader = 0;
      for (const contender& each : all) {
        if (leader == 0 || each.median() < leader) leader = each.median();
      }
      const double factor = round == 0 ? 1.7 : round < 3 ? 1.3 : round < 5 ? 1.12 : 1.06;
      for (contender& each : all) {
        if (each.median() > leader * factor) continue;
        const auto count =
            static_cast<std::size_t>(std::clamp(200 / each.quick, each.quick > long_us ? 1.0 : 2.0, 50.0));
        each.samples.push_back(sample(each.variant, count, each.quick));
      }
    }
    double leader = 0;
    for (const contender& each : all) {
      if (leader == 0 || each.median() < leader) leader = each.median();
    }
    json& out = line["times"] = json::object();
    std::vector<std::size_t> near;
    for (const contender& each : all) {
      const double share = each.median() / leader;
      variants_[each.variant]->last_share = share;
      if (share < 1.3 || leader < 4) near.push_back(each.variant);
      const double rounded = std::round(each.median() * 1000) / 1000;
      out[variants_[each.variant]->id()] = rounded;
      if (each.variant == first_ && pass == 0) line["first"] = {variants_[each.variant]->id(), rounded};
    }
    if (pass == 0) near_[shape] = std::move(near);
  }

  static constexpr double long_us = 3000;  ///< from here on, fewer samples of a call say enough

  bench& all_;
  const json& plan_;
  const bool for_tables_;  ///< nothing is held out: what is hopeless at long shapes need not be known
  sy::catalog::contents files_;
  std::shared_ptr<const sy::selector> rules_;  ///< of the manifests alone
  std::shared_ptr<const sy::selector> with_tables_;
  std::shared_ptr<sy::module_store> modules_;
  std::vector<std::unique_ptr<bound_variant<Operator>>> variants_;
  std::map<std::string, std::size_t> index_;
  std::map<std::size_t, std::vector<std::size_t>> near_;
  std::vector<typename Operator::arguments> calls_;
  sy::problem_of<Operator> problem_{};
  std::int64_t alignment_ = 0;
  std::size_t first_ = 0;  ///< of the admissible variants, in the manifest's order
  std::size_t next_ = 0;
};

template <class... Operators>
[[nodiscard]] std::unique_ptr<study> make_study(bench& all, const json& plan) {
  std::unique_ptr<study> out;
  const std::string name = plan.at("operator");
  const auto attempt = [&]<class Operator>() {
    if (Operator::name == name) out = std::make_unique<study_of<Operator>>(all, plan);
  };
  (attempt.template operator()<Operators>(), ...);
  if (out == nullptr) std::fprintf(stderr, "no workload for operator %s\n", name.c_str());
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: measure ROOT PLAN OUTPUT SECONDS [PASSES]\n");
    return 64;
  }
  const std::vector<std::string> words{argv, argv + argc};
  const double seconds = std::stod(words[4]);
  const std::size_t passes = argc > 5 ? std::stoul(words[5]) : 1;
  const json plan = json::parse(std::ifstream{words[2]});
  const double first_share = plan.value("first_pass", 0.7);

  sy::catalog_options options;
  options.roots = {words[1]};
  options.default_roots = false;
  sy::catalog catalog{std::move(options)};
  const sy::device device = sy::device::current();
  const bool is_host = device.properties().backend == "host";
  const std::size_t arena_bytes =
      is_host ? std::size_t{1} << 30U
              : static_cast<std::size_t>(device.properties().attribute("memory_bytes")) / 3 * 2;
  bench all{catalog,
            device,
            std::make_shared<arena>(device.driver(), arena_bytes),
            nullptr,
            is_host ? 0 : std::size_t{1} << 30U,
            {},
            device.driver()->create_event(),
            device.driver()->create_event(),
            std::ofstream{words[3]}};
  if (!is_host) all.delay = device.driver()->allocate(all.delay_bytes, {});
  const std::size_t scratch_bytes = std::size_t{is_host ? 512U : 8192U} << 20U;
  all.scratch = {device.driver()->allocate(scratch_bytes, {}), scratch_bytes};
  namespace ops = sy::operators;
  std::vector<std::unique_ptr<study>> studies;
  std::vector<std::string> names;
  for (const json& each : plan.at("studies")) {
    auto made = make_study<ops::rotary, ops::gated_activation, ops::gated_activation_backward, ops::rms_norm,
                           ops::rms_norm_backward, ops::layer_norm, ops::layer_norm_backward, ops::softmax,
                           ops::softmax_backward, ops::attention_forward, ops::attention_backward,
                           ops::attention_decode, ops::attention_dropout_mask, ops::embedding,
                           ops::rotary_cache, ops::matmul_quantized>(all, each);
    if (made == nullptr) continue;
    studies.push_back(std::move(made));
    names.push_back(each.at("name").get<std::string>());
  }
  const json properties{{"name", device.properties().name},
                        {"backend", device.properties().backend},
                        {"arch", device.properties().arch},
                        {"multiprocessors", device.properties().attribute("multiprocessors")},
                        {"memory_bandwidth", device.properties().attribute("memory_bandwidth")}};
  all.out << json{{"device", properties}}.dump() << "\n";
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<double> spent(studies.size());
  std::size_t measured = 0;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    std::vector<std::size_t> next(studies.size());
    std::vector<double> share(studies.size());
    const double until = pass + 1 < passes ? first_share * seconds : seconds;
    while (elapsed() < until) {
      // The study that has had the least time, of those with shapes left.
      std::size_t turn = studies.size();
      for (std::size_t i = 0; i < studies.size(); ++i) {
        if (next[i] < studies[i]->shapes() && (turn == studies.size() || share[i] < share[turn])) turn = i;
      }
      if (turn == studies.size()) break;
      const double start = elapsed();
      studies[turn]->measure(next[turn]++, pass);
      ++measured;
      share[turn] += elapsed() - start;
    }
    for (std::size_t i = 0; i < studies.size(); ++i) spent[i] += share[i];
  }
  for (std::size_t i = 0; i < studies.size(); ++i) {
    std::printf("%6.1f s %s\n", spent[i], names[i].c_str());
  }
  std::printf("%zu shapes in %.1f s on %s\n", measured, elapsed(), device.properties().name.c_str());
  return 0;
}
