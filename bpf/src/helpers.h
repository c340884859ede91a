/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What a program needs besides kernel types: helper numbers, section and map spelling, CO-RE questions.
 * Helper numbers: enum bpf_func_id, include/uapi/linux/bpf.h. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* The compiler must not move memory accesses across; x86 keeps the order of stores. */
#define barrier() asm volatile("" ::: "memory")

/* What the compiler knows of x, it forgets. */
#define forget(x) asm volatile("" : "+r"(x))

/* Members of an anonymous struct in section .maps carry type and sizes as BTF. */
#define MAP_UINT(name, value) int(*name)[value]
#define MAP_TYPE(name, type) typeof(type) *name

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27, /* 5.8 */
};
#define BPF_F_RDONLY_PROG (1U << 7)
#define BPF_F_MMAPABLE (1U << 10) /* 5.5 */
#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_RB_NO_WAKEUP 1 /* 5.8 */

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static void *(*const bpf_get_current_task)(void) = (void *)35;
static long (*const bpf_probe_read_user)(void *dst, u32 size, const void *src) = (void *)112;	    /* 5.5 */
static long (*const bpf_probe_read_kernel)(void *dst, u32 size, const void *src) = (void *)113;	    /* 5.5 */
static long (*const bpf_probe_read_kernel_str)(void *dst, u32 size, const void *src) = (void *)115; /* 5.5 */
static long (*const bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130; /* 5.8 */

/* Asked of the running kernel; the names below are resolved by name, their values here do not matter. */
enum bpf_func_id {
	BPF_FUNC_get_current_task_btf = 158, /* 5.11 */
	BPF_FUNC_task_pt_regs = 175,	     /* 5.15 */
	BPF_FUNC_skc_to_unix_sock = 178,     /* 5.16 */
};

/* CO-RE: the loader replaces these by what the running kernel's BTF says. */
#define core_field_exists(field) __builtin_preserve_field_info(field, 2)
#define core_field_offset(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define core_type_id(type) __builtin_btf_type_id(*(type *)0, 1)
#define core_type_size(type) __builtin_preserve_type_info(*(type *)0, 1)
#define core_enum_exists(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 0)
