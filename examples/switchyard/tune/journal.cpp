// SPDX-License-Identifier: MIT
#include "tune/journal.hpp"

#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/problem/former_names.hpp>

#include "operators.hpp"

namespace sy = switchyard;
using nlohmann::json;

namespace tool {

namespace {

constexpr const char* schema = "switchyard.tuning/1";

[[nodiscard]] std::string bad_key(const std::string& variant, const std::string& blob,
                                  const std::vector<sy::axis_value>& type) {
  return variant + "\n" + blob + type_key(type);
}

[[noreturn]] void fail(const std::string& path, const char* problem) {
  throw sy::file_error{sy::error_code::unreadable_file,
                       path + ": " + problem + ": " + std::generic_category().message(errno)};
}

}  // namespace

journal::journal(std::string path, const sy::operator_description& op, std::string device,
                 std::string settings)
    : path_{std::move(path)},
      op_{op},
      operator_name_{op.name},
      device_{std::move(device)},
      settings_{std::move(settings)} {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (file_ < 0 && errno == ELOOP) {
    throw sy::file_error{sy::error_code::unreadable_file,
                         path_ +
                             ": is a symbolic link, and the tuner's notes are not written through one; "
                             "remove it, or name another table"};
  }
  if (file_ < 0) fail(path_, "the tuner's notes cannot be opened");
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const bool taken = errno == EWOULDBLOCK;
    const int error = errno;
    ::close(file_);
    errno = error;
    if (!taken) fail(path_, "the tuner's notes cannot be locked");
    throw sy::file_error{
        sy::error_code::unreadable_file,
        path_ + ": another process is tuning this table; wait for it, or name another table"};
  }
  read();
}

journal::~journal() {
  ::close(file_);
}

json journal::header() const {
  return {{"schema", schema}, {"operator", operator_name_}, {"device", device_}, {"settings", settings_}};
}

void journal::read() {
  const std::string text = sy::read_file(path_, sy::max_json_bytes);
  bool others = false;  // the lines that follow are of other settings, another device
  std::size_t whole = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // a line that was being written when the process was killed
    const json line = json::parse(std::string_view{text}.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    whole = begin;
    if (!line.is_object()) continue;
    try {
      if (line.contains("schema")) {
        if (line.at("operator") != operator_name_) {
          throw sy::file_error{sy::error_code::unknown_operator, path_ + ": these notes are of operator '" +
                                                                     line.at("operator").get<std::string>() +
                                                                     "', not of '" + operator_name_ +
                                                                     "'; name another table"};
        }
        others = line != header();
        if (others) times_.clear(), done_.clear();
      } else if (!others || line.contains("bad") || line.contains("forget_bad")) {
        take(line);
      }
    } catch (const json::exception&) {  // of a newer version, or damaged: not used
    }
  }
  if (whole < text.size() && ::ftruncate(file_, static_cast<off_t>(whole)) != 0)
    fail(path_, "the tuner's notes cannot be truncated");
  for (const auto& [problem, times] : times_) resumed_ += times.size();
  if (whole == 0 || others) append(header());
}

void journal::take(const json& line) {
  const auto problem_of = [&](const char* key) {
    return sy::with_current_names(op_, line.at(key).get<std::string>());
  };
  if (line.contains("bad")) {
    bad_variant bad{line.at("bad").get<std::string>(),
                    line.at("blob").get<std::string>(),
                    {},
                    line.at("reason").get<std::string>(),
                    problem_of("problem")};
    for (const json& axis : line.at("type"))
      bad.type.push_back({axis.at(0).get<std::uint32_t>(), axis.at(1).get<std::int64_t>()});
    bad_.insert_or_assign(bad_key(bad.variant, bad.blob, bad.type), std::move(bad));
  } else if (line.contains("forget_bad")) {
    bad_.clear();
  } else if (line.contains("finished")) {
    times_.clear();
    done_.clear();
  } else if (line.contains("drop")) {
    times_.erase(problem_of("drop"));
  } else if (line.contains("done")) {
    done_[problem_of("done")] = line.value("blobs", blobs_by_variant{});
  } else if (line.contains("us")) {
    journal_time timed;
    timed.time.microseconds = line.at("us").get<double>();
    timed.time.low = line.at("low").get<double>();
    timed.time.high = line.at("high").get<double>();
    timed.time.spread = line.at("spread").get<double>();
    timed.time.samples = line.at("samples").get<std::size_t>();
    timed.final = line.at("final").get<bool>();
    times_[problem_of("problem")]
          [line.at("variant").get<std::string>() + "\n" + line.at("blob").get<std::string>()] = timed;
  }
}

void journal::append(const json& line) {
  const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  // One write: a process that is killed leaves a whole line or, on a full disk, a part that read() cuts off.
  if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail(path_, "the tuner's notes cannot be written");
}

std::optional<journal_time> journal::time_of(const std::string& problem, const std::string& variant,
                                             const std::string& blob) const {
  const std::scoped_lock lock{mutex_};
  const auto of = times_.find(problem);
  if (of == times_.end()) return std::nullopt;
  const auto found = of->second.find(variant + "\n" + blob);
  if (found == of->second.end()) return std::nullopt;
  return found->second;
}

void journal::add_time(const std::string& problem, const std::string& variant, const std::string& blob,
                       const journal_time& measured, const json& also) {
  json line{{"problem", problem},
            {"variant", variant},
            {"blob", blob},
            {"us", measured.time.microseconds},
            {"low", measured.time.low},
            {"high", measured.time.high},
            {"spread", measured.time.spread},
            {"samples", measured.time.samples},
            {"final", measured.final}};
  line.update(also);
  const std::scoped_lock lock{mutex_};
  append(line);
  times_[problem][variant + "\n" + blob] = measured;
}

void journal::drop(const std::string& problem) {
  const std::scoped_lock lock{mutex_};
  append({{"drop", problem}});
  times_.erase(problem);
}

std::vector<bad_variant> journal::bad() const {
  const std::scoped_lock lock{mutex_};
  std::vector<bad_variant> out;
  for (const auto& [key, bad] : bad_) out.push_back(bad);
  return out;
}

std::optional<bad_variant> journal::find_bad(const std::string& variant, const std::string& blob,
                                             const std::vector<sy::axis_value>& type) const {
  const std::scoped_lock lock{mutex_};
  const auto found = bad_.find(bad_key(variant, blob, type));
  if (found == bad_.end()) return std::nullopt;
  return found->second;
}

void journal::add_bad(const bad_variant& bad) {
  json type = json::array();
  for (const sy::axis_value& axis : bad.type) type.push_back({axis.axis, axis.value});
  const std::scoped_lock lock{mutex_};
  append({{"bad", bad.variant},
          {"blob", bad.blob},
          {"type", type},
          {"reason", bad.reason},
          {"problem", bad.problem}});
  bad_.insert_or_assign(bad_key(bad.variant, bad.blob, bad.type), bad);
}

void journal::forget_bad() {
  const std::scoped_lock lock{mutex_};
  if (bad_.empty()) return;
  append({{"forget_bad", true}});
  bad_.clear();
}

bool journal::done(const std::string& problem) const {
  const std::scoped_lock lock{mutex_};
  return done_.contains(problem);
}

blobs_by_variant journal::done_with(const std::string& problem) const {
  const std::scoped_lock lock{mutex_};
  const auto found = done_.find(problem);
  return found == done_.end() ? blobs_by_variant{} : found->second;
}

void journal::add_done(const std::string& problem, const blobs_by_variant& blobs, const json& also) {
  json line{{"done", problem}, {"blobs", blobs}};
  line.update(also);
  const std::scoped_lock lock{mutex_};
  append(line);
  done_[problem] = blobs;
}

void journal::finish() {
  const std::scoped_lock lock{mutex_};
  append({{"finished", true}});
  times_.clear();
  done_.clear();
}

}  // namespace tool
