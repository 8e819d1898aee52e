/* SPDX-License-Identifier: MIT */
/*
 * measure - what a run of fmove bench found: plain data, which fmove-bench(5) describes as a
 * document.
 *
 * A path is one thing that was measured: an operation, where, at which depth. It has its repeats;
 * all else of it is computed from them (stats.h, validity.h), or counted beside them. Bytes and
 * seconds only. Any thread; a measurement is its owner's.
 */
#ifndef FM_BENCH_MEASURE_H
#define FM_BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/bench/stats.h"

#define FM_BENCH_VERSION      2 /* documents of version 1 are read, too */
#define FM_BENCH_PATHS_MAX    512u
#define FM_BENCH_REPEATS_MAX  32u
#define FM_BENCH_COUNTERS_MAX 256u
#define FM_BENCH_RAILS_MAX    32u
#define FM_BENCH_NAME_MAX     128u
#define FM_BENCH_WHERE_MAX    1024u
#define FM_BENCH_TEXT_MAX     512u

enum fm_bench_kind {
	FM_BENCH_RDMA,
	FM_BENCH_TCP,
	FM_BENCH_PUT, /* whichever transport production would take */
	FM_BENCH_DISK,
	FM_BENCH_NVME_TCP,
	FM_BENCH_KINDS
};

enum fm_bench_op {
	FM_BENCH_SEND,	  /* a put: from here to the peer */
	FM_BENCH_RECEIVE, /* a get */
	FM_BENCH_BOTH,	  /* both at once; the sum of what overlaps in time */
	FM_BENCH_READ,
	FM_BENCH_WRITE
};

/* NULL-terminated, by the enumerators. */
extern const char *const fm_bench_kind_words[];
extern const char *const fm_bench_op_words[];

/* Why the numbers of a path are not to be believed; bits. */
enum {
	FM_BENCH_TOO_SHORT = 1,
	FM_BENCH_CACHED = 2,
	FM_BENCH_NOISY = 4,
	FM_BENCH_THROTTLED = 8,
	FM_BENCH_FAILED = 16, /* there are none; `why` says why */
};

/* "too short", ... of the lowest bit; NULL: no bit is set. */
const char *fm_bench_invalid_word(unsigned bit);

/* CPU of one end over all repeats. */
struct fm_bench_cpu {
	bool is_known;
	char why[FM_BENCH_TEXT_MAX]; /* it is not */
	double process_s, kernel_s, softirq_s;
	double busiest; /* core, 0 .. 1, in the repeat where it was most */
	unsigned allowed; /* processors that the process may use; 0: not known */
	double watched_s; /* over which all of this was looked at */
	double wait_s;	  /* that its threads waited for a processor, together */
	double allowed_busy_s; /* of watched_s its processors were busy, whatever with */
	double thread_s;       /* that the thread which did so most ran or waited to run */
	double core_softirq_s; /* that one core did nothing but softirqs */
};

/* Which connections of a transport alone carried it; all zero: any did. */
struct fm_bench_only {
	char device[FM_BENCH_NAME_MAX]; /* at our end; these as fmove status has them; "": any */
	char local[FM_BENCH_NAME_MAX], remote[FM_BENCH_NAME_MAX];
	unsigned connections; /* 0: all of them */
};

/* What went over one rail meanwhile, as the daemon counted. */
struct fm_bench_rail {
	bool is_rdma;
	char device[FM_BENCH_NAME_MAX];
	char local[FM_BENCH_NAME_MAX], remote[FM_BENCH_NAME_MAX];
	unsigned connections; /* that are up; not in a document */
	uint64_t sent, received;
};

struct fm_bench_path {
	enum fm_bench_kind kind;
	enum fm_bench_op op;
	char where[FM_BENCH_WHERE_MAX]; /* a peer, a directory, a device */
	char from[FM_BENCH_WHERE_MAX];	/* of a put: the directory of its file; "": made up */
	struct fm_bench_only only;	/* of a way to a peer */
	uint64_t block_bytes;
	unsigned depth;	      /* operations at once; 0: not known */
	unsigned connections; /* at the end of it; 0: none */
	struct fm_bench_repeat repeats[FM_BENCH_REPEATS_MAX];
	unsigned repeat_count;
	struct fm_bench_rates rates;
	double hardware; /* bytes a second that the ports allow, of a way to a peer; 0: not known */
	struct fm_bench_latency latency; /* count 0: not measured */
	struct fm_bench_cpu here, there; /* there: of a peer */
	uint64_t rdma_bytes, tcp_bytes;	 /* which transport carried what */
	struct fm_bench_rail rails[FM_BENCH_RAILS_MAX]; /* and which rails, warming up included */
	unsigned rail_count;
	uint64_t asked_bytes; /* that the peer told of its processors; not in a document */
	/* by TCP from this machine meanwhile, again, again though they had come; 0: not known */
	uint64_t segments_sent, segments_again, segments_needless;
	bool is_cached, is_throttled;	 /* as seen while it was measured */
	unsigned invalid;
	char why[FM_BENCH_TEXT_MAX]; /* beside the numbers, or in their place */
};

struct fm_bench_counter {
	char object[FM_BENCH_NAME_MAX], name[FM_BENCH_NAME_MAX];
	uint64_t growth;
};

struct fm_facts;

struct fm_bench {
	char node[FM_BENCH_NAME_MAX], fmove[FM_BENCH_NAME_MAX];
	uint64_t began_ms; /* since 1970 */
	bool is_thorough;
	double wanted_s; /* of a repeat */
	struct fm_bench_path paths[FM_BENCH_PATHS_MAX];
	unsigned path_count;
	struct fm_bench_counter counters[FM_BENCH_COUNTERS_MAX];
	unsigned counter_count;
	char verdict[FM_BENCH_TEXT_MAX];
	struct fm_facts *facts; /* NULL: there are none */
};

/* NULL: no memory. It is large. */
struct fm_bench *fm_bench_new(void);
void fm_bench_free(struct fm_bench *bench); /* NULL is allowed */

/* One more path, zeroed; NULL: there is no room. */
struct fm_bench_path *fm_bench_add(struct fm_bench *bench, enum fm_bench_kind kind,
				   enum fm_bench_op op, const char *where);

bool fm_bench_is_any(const struct fm_bench_only *only);

/* "disk read /srv, 16 x 1 MiB": what a path is called in tables and sentences. */
const char *fm_bench_path_name(const struct fm_bench_path *path,
			       char out[static FM_BENCH_TEXT_MAX]);

/* CPU seconds for each GiB that was moved; negative: not known. */
double fm_bench_cpu_per_gib(const struct fm_bench_path *path, const struct fm_bench_cpu *cpu);

/* The document. Its length, or -EMSGSIZE. */
int fm_bench_write(const struct fm_bench *bench, int exit, char *buf, size_t cap);
#define FM_BENCH_BYTES_MAX (16u << 20)

/*
 * Of a document; its facts are passed over. -EINVAL with the reason, -EOPNOTSUPP: of another
 * version, -ENOMEM. What is computed from the repeats is computed anew, whatever the document says.
 */
struct fm_err;
int fm_bench_parse(const char *text, size_t len, struct fm_bench **out, struct fm_err *err);
int fm_bench_load(const char *path, struct fm_bench **out, struct fm_err *err);

#endif
