// SPDX-License-Identifier: MIT
#include "tune/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include <switchyard/base/text.hpp>
#include <switchyard/device.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/error.hpp>

namespace sy = switchyard;
using nlohmann::json;

namespace tool {

namespace {

constexpr std::size_t longest_answer = std::size_t{16} << 20U;
constexpr std::size_t kept_output = 4096;

[[noreturn]] void fail(const char* problem) {
  throw sy::driver_error{sy::error_code::driver_failed, std::string{"the measuring process: "} + problem +
                                                            ": " + std::generic_category().message(errno)};
}

[[nodiscard]] std::string seconds_text(std::chrono::duration<double> time) {
  return sy::text::number(time.count()) + " s";
}

/// The numbers of CUDA and HIP devices that a child process finds.
struct device_counts {
  int cuda = 0;
  int hip = 0;
};

[[nodiscard]] device_counts count_devices() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    device_counts found;
    try {
      found.cuda = sy::cuda::count();
    } catch (const sy::error&) {  // none
    }
    try {
      found.hip = sy::hip::count();
    } catch (const sy::error&) {  // none
    }
    const ssize_t written = ::write(ends[1], &found, sizeof found);
    std::_Exit(written == static_cast<ssize_t>(sizeof found) ? 0 : 1);
  }
  ::close(ends[1]);
  device_counts out;
  const ssize_t got = ::read(ends[0], &out, sizeof out);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return got == static_cast<ssize_t>(sizeof out) ? out : device_counts{};
}

}  // namespace

device_place parse_device_place(const std::string& text) {
  const std::size_t colon = text.find(':');
  device_place out{text.substr(0, colon), 0};
  const bool known = out.backend == "cuda" || out.backend == "hip" || out.backend == "host";
  const char* const end = text.data() + text.size();
  if (known && colon != std::string::npos) {
    const auto [stop, problem] = std::from_chars(text.data() + colon + 1, end, out.ordinal);
    if (problem == std::errc{} && stop == end) return out;
  }
  throw usage_error{"--device: expected cuda:0, hip:0 or host:0, got '" + text + "'"};
}

sy::device open_device(const device_place& place) {
  if (place.backend == "cuda") return sy::device{sy::cuda::open(place.ordinal)};
  if (place.backend == "hip") return sy::device{sy::hip::open(place.ordinal)};
  return sy::device::host();
}

std::vector<device_place> require_devices(const std::string& wanted) {
  // "host,host" is for tests: several processes on one CPU disturb each other's times.
  if (wanted.starts_with("host")) {
    std::vector<device_place> out;
    std::string rest = "," + wanted;
    while (rest.starts_with(",host")) {
      out.push_back({"host", 0});
      rest.erase(0, 5);
    }
    if (rest.empty()) return out;
  }
  const device_counts found = count_devices();
  const std::string backend = found.cuda > 0 ? "cuda" : found.hip > 0 ? "hip" : "host";
  const int count = found.cuda > 0 ? found.cuda : found.hip > 0 ? found.hip : 1;
  std::vector<device_place> out;
  if (wanted.empty()) return {{backend, 0}};
  if (wanted == "all") {
    for (int i = 0; i < count; ++i) out.push_back({backend, i});
    return out;
  }
  for (std::size_t begin = 0; begin <= wanted.size();) {
    const std::size_t end = std::min(wanted.find(',', begin), wanted.size());
    const std::string word = wanted.substr(begin, end - begin);
    begin = end + 1;
    int ordinal = -1;
    const auto [stop, problem] = std::from_chars(word.data(), word.data() + word.size(), ordinal);
    if (problem != std::errc{} || stop != word.data() + word.size() || ordinal < 0) {
      throw usage_error{"--devices: expected 'all', 'host' or numbers such as 0,1, got '" + wanted + "'"};
    }
    if (ordinal >= count) {
      throw usage_error{"--devices: there is no device " + word + "; this machine has " +
                        std::to_string(count) + " of backend " + backend + ", from 0"};
    }
    if (std::any_of(out.begin(), out.end(), [&](const auto& place) { return place.ordinal == ordinal; })) {
      throw usage_error{"--devices: device " + word + " is named twice"};
    }
    out.push_back({backend, ordinal});
  }
  return out;
}

worker_process::worker_process(const session& session, std::string operator_name, device_place place,
                               const std::atomic<bool>& interrupted)
    : place_{std::move(place)}, interrupted_{interrupted} {
  command_ = {"/proc/self/exe"};
  for (const std::string& root : session.roots) command_.insert(command_.end(), {"--root", root});
  for (const std::string& table : session.tables) command_.insert(command_.end(), {"--tables", table});
  command_.insert(command_.end(),
                  {worker_command, "--operator", std::move(operator_name), "--device", place_.text()});
}

void worker_process::start(std::chrono::duration<double> limit) {
  if (running()) return;
  std::array<int, 2> requests{};
  std::array<int, 2> answers{};
  std::array<int, 2> output{};
  for (auto* const ends : {&requests, &answers, &output}) {
    if (::pipe2(ends->data(), O_CLOEXEC) != 0) fail("pipe");
  }
  std::vector<std::string> words = command_;
  // Descriptor numbers above those that a program opens by itself.
  constexpr int first_free = 100;
  words.insert(words.end(),
               {"--requests", std::to_string(first_free), "--answers", std::to_string(first_free + 1)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    // A group of its own: the terminal's Ctrl-C reaches only the tuner.
    ::setpgid(0, 0);
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (::dup2(requests[0], first_free) < 0 || ::dup2(answers[1], first_free + 1) < 0 ||
        ::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(output[1], STDOUT_FILENO) < 0 ||
        ::dup2(output[1], STDERR_FILENO) < 0) {
      ::_exit(126);
    }
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(requests[0]);
  ::close(answers[1]);
  ::close(output[1]);
  pid_ = child;
  requests_ = requests[1];
  answers_ = answers[0];
  output_ = output[0];
  ::fcntl(output_, F_SETFL, O_NONBLOCK);
  pending_.clear();
  said_.clear();
  try {
    const json hello = wait(limit);
    const json& device = hello.at("device");
    device_ = {};
    device_.backend = device.at("backend").get<std::string>();
    device_.arch = device.at("arch").get<std::string>();
    device_.name = device.at("name").get<std::string>();
    for (const auto& [name, value] : device.items()) {
      if (value.is_number_integer()) device_.set(name, value.get<std::int64_t>());
    }
  } catch (const worker_lost& problem) {
    if (problem.why() == worker_lost::kind::interrupted) throw;
    throw sy::driver_error{sy::error_code::driver_failed, "the measuring process on " + place_.text() +
                                                              " could not be started: " + problem.what()};
  } catch (const json::exception& problem) {
    kill();
    throw sy::driver_error{sy::error_code::driver_failed,
                           std::string{"the measuring process sent an invalid greeting: "} + problem.what()};
  }
}

void worker_process::kill() noexcept {
  if (pid_ > 0) {
    // The worker first ends what its kernels started. That takes long if a driver frees much memory, which
    // the next process needs.
    ::kill(pid_, SIGTERM);
    const auto end = clock::now() + std::chrono::seconds{60};
    bool gone = false;
    while (!gone && clock::now() < end) {
      gone = ::waitpid(pid_, nullptr, WNOHANG) == pid_;
      if (!gone) ::usleep(500);
    }
    if (!gone) {
      ::kill(-pid_, SIGKILL);
      ::kill(pid_, SIGKILL);  // where it had no group yet
      while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
  for (int* const end : {&requests_, &answers_, &output_}) {
    if (*end >= 0) ::close(*end);
    *end = -1;
  }
  pid_ = -1;
}

json worker_process::ask(const json& request, std::chrono::duration<double> limit) {
  const std::string line = request.dump() + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(requests_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) lose(worker_lost::kind::crash, how_it_ended());
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return wait(limit);
}

json worker_process::wait(std::chrono::duration<double> limit) {
  const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(limit);
  for (;;) {
    if (const std::size_t newline = pending_.find('\n'); newline != std::string::npos) {
      const std::string line = pending_.substr(0, newline);
      pending_.erase(0, newline + 1);
      json answer = json::parse(line, nullptr, false);
      if (!answer.is_object() || !pending_.empty()) {
        lose(worker_lost::kind::garbage,
             "it wrote an invalid answer: '" + sy::text::shortened(line, 80) + "'");
      }
      return answer;
    }
    if (pending_.size() > longest_answer) lose(worker_lost::kind::garbage, "it wrote an incomplete answer");
    if (interrupted_.load(std::memory_order_relaxed)) lose(worker_lost::kind::interrupted, "interrupted");
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now()).count();
    if (left <= 0)
      lose(worker_lost::kind::hang, "no answer within " + seconds_text(limit) + "; it was killed");
    std::array<pollfd, 2> waiting{{{answers_, POLLIN, 0}, {output_, POLLIN, 0}}};
    const int ready =
        ::poll(waiting.data(), waiting.size(), static_cast<int>(std::min<long long>(left, 100)));
    if (ready < 0) continue;
    if (waiting[1].revents != 0) read_output();
    if (waiting[0].revents == 0) {
      // A process that it started may have outlived it and keep the pipe open.
      siginfo_t ended{};
      if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          ended.si_pid == pid_)
        lose(worker_lost::kind::crash, how_it_ended());
      continue;
    }
    char buffer[65536];  // NOLINT(modernize-avoid-c-arrays): for read
    const ssize_t got = ::read(answers_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) lose(worker_lost::kind::crash, how_it_ended());
    pending_.append(buffer, static_cast<std::size_t>(got));
  }
}

void worker_process::lose(worker_lost::kind why, const std::string& text) {
  std::string words = last_words();
  kill();
  throw worker_lost{why, words.empty() ? text : text + "; it said: " + words};
}

std::string worker_process::how_it_ended() noexcept {
  int status = 0;
  pid_t ended = 0;
  // Its end of the pipe closes before it can be waited for, on a busy machine by seconds; a process that only
  // closed the pipe stays. It ends what it has started before it ends itself.
  for (int i = 0; i < 1000 && ended == 0; ++i) {
    ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == 0) ::usleep(5000);
  }
  if (ended != pid_) return "it closed its pipe";
  // Its number is free now and must not be killed again; its group may still hold processes.
  ::kill(-pid_, SIGKILL);
  pid_ = -1;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const char* const name = ::sigabbrev_np(signal);
    return "it died of signal " + std::to_string(signal) +
           (name != nullptr ? std::string{" (SIG"} + name + ")" : std::string{});
  }
  return "it exited with status " + std::to_string(WEXITSTATUS(status));
}

/// Reads what the process has printed, and keeps the end of it.
void worker_process::read_output() {
  char buffer[65536];  // NOLINT(modernize-avoid-c-arrays): for read
  const ssize_t got = output_ < 0 ? -1 : ::read(output_, buffer, sizeof buffer);
  if (got > 0) {
    said_.append(buffer, static_cast<std::size_t>(got));
    if (said_.size() > kept_output) said_.erase(0, said_.size() - kept_output);
  } else if (got == 0 && output_ >= 0) {  // closed: poll would tell of it forever
    ::close(output_);
    output_ = -1;
  }
}

std::string worker_process::last_words() {
  read_output();
  std::string text = said_.size() > 400 ? said_.substr(said_.size() - 400) : said_;
  // An unfinished line may be no more than a few letters, so the line before it is kept as well.
  const bool unfinished = !text.empty() && text.back() != '\n';
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t newline = text.rfind('\n');
  if (unfinished && newline != std::string::npos && newline > 0) {
    const std::size_t before = text.rfind('\n', newline - 1);
    text.replace(newline, 1, " / ");
    newline = before;
  }
  if (newline != std::string::npos) text.erase(0, newline + 1);
  return sy::text::shortened(text, 200);
}

std::exception_ptr run_workers(const std::vector<std::unique_ptr<worker_process>>& workers,
                               const std::function<void(std::size_t)>& work) {
  std::vector<std::exception_ptr> failures(workers.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
      workers[i]->kill();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto failed =
      std::find_if(failures.begin(), failures.end(), [](const auto& it) { return it != nullptr; });
  return failed == failures.end() ? nullptr : *failed;
}

}  // namespace tool
