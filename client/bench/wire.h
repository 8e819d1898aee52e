/* SPDX-License-Identifier: MIT */
/*
 * wire - transfers with a peer, through the daemons and the API that fmove put and get use.
 *
 * What is sent is made up there or read from a file, and forgotten by the peer's store for
 * measuring, which its configuration must have for us. A transport that was asked for and did not
 * carry every byte is an error, never a number.
 */
#ifndef FM_BENCH_WIRE_H
#define FM_BENCH_WIRE_H

#include "client/bench/measure.h"
#include "client/lib/fmove.h"
#include "config/config.h"

struct fm_err;

#define FM_WIRE_SMALL 4096u /* bytes of a put whose latency is measured */

struct fm_wire_opts {
	struct fmove *conn;
	const char *peer;
	enum fm_bench_kind kind; /* FM_BENCH_PUT: `transport`, else that which the kind names */
	enum fmove_transport transport;
	/* of what is made up: which connections alone carry it; NULL: any */
	const struct fmove_only *only;
	int fd; /* > 0: what is sent is this file, of file_bytes; else it is made up */
	uint64_t file_bytes;
	uint64_t *sizes; /* two: bytes of a transfer that takes about so long, to and from; 0: not
			    found out yet */
	double seconds;	 /* of a repeat */
	unsigned repeats;
	void (*step)(void *ctx, const struct fm_bench_path *path, unsigned repeat);
	void *ctx;
};

/*
 * Whether a transfer was what was asked for: its counters are believed, and nothing else.
 * -EPROTONOSUPPORT: another transport carried some of it; -EPROTO: it was not so many bytes.
 */
int fm_wire_check(const struct fmove_result *result, enum fmove_transport wanted, uint64_t bytes,
		  struct fm_err *err);

/*
 * After so long a transfer of made-up data is given up: its peer hangs. seconds: of a repeat. A
 * file has a length of its own, so its time says nothing.
 */
uint64_t fm_wire_limit_ms(double seconds);

/* -EACCES with the line that allows it: the peer has no store for measuring, or not for us. */
int fm_wire_may(struct fmove *conn, const char *peer, struct fm_err *err);

/* All repeats of one operation. What came before an error stays in the path. */
int fm_wire_measure(const struct fm_wire_opts *opts, struct fm_bench_path *path,
		    struct fm_err *err);

/* Puts of FM_WIRE_SMALL bytes, one after the other: their latency. */
int fm_wire_latency(const struct fm_wire_opts *opts, struct fm_bench_path *path,
		    struct fm_err *err);

#endif
