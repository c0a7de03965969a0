// SPDX-License-Identifier: MIT
// What the fake driver writes down, and how a test steers it. The functions are looked up in the library.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

struct CUctx_st;
struct CUstream_st;

namespace fake_cuda {

struct record {
  std::array<std::atomic<int>, 2> retained{};  ///< of each device's primary context
  std::atomic<int> modules = 0;                ///< loaded and not unloaded
  std::atomic<int> events = 0;                 ///< created and not destroyed
  std::atomic<int> streams = 0;                ///< created by the library and not destroyed
  std::atomic<int> graphs = 0;                 ///< recorded or made ready, and not destroyed
  std::atomic<int> graph_launches = 0;
  std::atomic<std::size_t> filled_bytes = 0;
  std::atomic<int> refused = 0;  ///< launches on a stream of another context
  std::atomic<int> pushes = 0;   ///< of contexts
  std::atomic<int> attributes_set = 0;
  std::atomic<int> functions_loaded = 0;
  std::atomic<int> encoded = 0;                 ///< tensor maps
  std::atomic<unsigned> launch_attributes = 0;  ///< bit i: the last launch had attribute i
  std::array<unsigned, 3> cluster{};            ///< of the last launch that had one
  std::array<int, 2> launch_answers{};          ///< what the next two launches answer; 0: what they would
  int load_mode = -1;                           ///< capture mode of the thread when it last loaded a module
  int legacy_capture_error = 0;  ///< what the default streams answer when asked whether they capture
  const char* image_text = nullptr;
  std::atomic<int> event_create_answer = 0;  ///< what these calls answer; 0: they succeed
  std::atomic<int> event_record_answer = 0;
  std::atomic<int> event_query_answer = 0;
  std::atomic<int> event_records = 0;
  std::atomic<int> event_waits = 0;           ///< of the host for an event
  std::atomic<int> query_mode = -1;           ///< capture mode of the thread when it last asked for an event
  std::atomic<float> event_milliseconds = 1;  ///< between two events that follow each other
  void (*on_launch)(void** parameters) = nullptr;  ///< called at each launch, where set
};

}  // namespace fake_cuda
