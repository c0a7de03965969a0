// SPDX-License-Identifier: MIT
// Keeps what kernels start together with the worker that runs them.
#pragma once

namespace tool {

/// Splits the calling process, which has one thread, in two. The child returns and is the worker. The parent
/// stays behind and never returns: when the worker has ended, or SIGTERM asks for it, it ends all that the
/// worker has started, sessions of their own included, and then ends as the worker did. It ends them too when
/// its own parent dies. The descriptors are the worker's alone.
void split_off_worker(int requests, int answers);

}  // namespace tool
