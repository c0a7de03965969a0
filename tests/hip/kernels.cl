// SPDX-License-Identifier: MIT
// Kernels whose code object the tests read. No device library is needed: clang -x cl -target amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib.

struct mixed_value {
  int first;
  double second;
  char third;
};

__kernel void scale(__global float *y, __global const float *x, float a, int n) {
  const int i = (int)(__builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() +
                      __builtin_amdgcn_workitem_id_x());
  if (i < n) y[i] = a * x[i];
}

__kernel void mixed(char tag, struct mixed_value value, long number, __global double *out) {
  out[0] = tag + value.first + value.second + value.third + number;
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void shared_sum(__global int *out) {
  __local int words[1024];
  for (int i = (int)__builtin_amdgcn_workitem_id_x(); i < 1024; i += 128) words[1023 - i] = i;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  int sum = 0;
  for (int i = (int)__builtin_amdgcn_workitem_id_x(); i < 1024; i += 128) sum += words[i];
  out[__builtin_amdgcn_workitem_id_x()] = sum;
}
