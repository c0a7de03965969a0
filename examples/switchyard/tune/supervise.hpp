// SPDX-License-Identifier: MIT
// Keeps what kernels start together with the worker that runs them.
#pragma once

namespace tool {

/// Forks the calling process, which must have one thread. The child returns and is the worker. The parent
/// never returns: when the worker ends, on SIGTERM, or when its own parent dies, it ends all processes that
/// the worker has started, including those in other sessions, and exits with the worker's status. The parent
/// closes its descriptors.
void split_off_worker(int requests, int answers);

}  // namespace tool
