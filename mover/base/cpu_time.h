/* SPDX-License-Identifier: MIT */
/*
 * cpu_time - what processors did, as /proc counts it: of one process and its children, of the
 * kernel's threads, of softirqs, and how busy each core was. For measuring.
 *
 * What other processes do counts in the cores only. A softirq is machine-wide and counts once:
 * ksoftirqd, which runs some of them, is not counted as a thread. Any thread; reads files.
 *
 * A process may use fewer processors than there are, by its affinity and its control group. Whether
 * these had nothing left for it is told by how busy they were and how long its threads waited. A
 * thread that runs, or waits for a processor, wants one.
 */
#ifndef FM_BASE_CPU_TIME_H
#define FM_BASE_CPU_TIME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fm_err;

#define FM_CPU_CORES_MAX 1024u
#define FM_CPU_THREADS_MAX 128u /* that are told one by one; what others do is in the sums */
#define FM_CPU_TEXT_MAX	 (21u * (2 * FM_CPU_CORES_MAX + 2 * FM_CPU_THREADS_MAX + 16))

struct fm_cpu_thread {
	uint64_t id, wanted_ns;
};

struct fm_cpu_time {
	uint64_t at_ns; /* a clock of its machine */
	uint64_t process_ns, kernel_ns, softirq_ns;
	uint64_t wait_ns;	  /* its threads were ready to run, and had no processor */
	uint64_t allowed_busy_ns; /* of the processors of its affinity, whatever with */
	uint64_t affine;	  /* how many these are */
	uint64_t allowed;	  /* and how many it may use: a quota may make them fewer */
	unsigned cores;
	uint64_t busy_ns[FM_CPU_CORES_MAX], core_softirq_ns[FM_CPU_CORES_MAX];
	unsigned threads; /* of the process and its children */
	struct fm_cpu_thread thread[FM_CPU_THREADS_MAX];
};

/* Of a process and its children, 0: of nobody. proc: "/proc". -errno of a file, -EPROTO. */
int fm_cpu_time_read(const char *proc, pid_t pid, struct fm_cpu_time *out, struct fm_err *err);

/* As text, for who asks from another machine. The length; -EMSGSIZE. */
int fm_cpu_time_write(const struct fm_cpu_time *t, char *buf, size_t cap);

/* -EINVAL: it is no such text. */
int fm_cpu_time_parse(const char *text, size_t len, struct fm_cpu_time *out);

struct fm_cpu_used {
	double seconds; /* between the looks */
	double process_s, kernel_s, softirq_s;
	double busiest; /* of the core that did the most: 0 .. 1 */
	double wait_s;	/* of all threads together */
	double allowed_busy; /* of the processors of its affinity: 0 .. 1 */
	unsigned allowed;    /* processors it may use */
	/* of the time, 0 .. 1: the thread that wanted a processor most, the core with the most of
	 * softirqs */
	double thread_wanted, core_softirq;
};

/* -EINVAL: not of one machine, no time lies between them, or it is more than its cores can do. */
int fm_cpu_time_used(const struct fm_cpu_time *before, const struct fm_cpu_time *after,
		     struct fm_cpu_used *out);

#endif
