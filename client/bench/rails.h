/* SPDX-License-Identifier: MIT */
/*
 * rails - which connections there are to a peer, which of them are to be measured alone, and what
 * each rail carried, as the daemon's status says.
 *
 * All but fm_rails_read() are pure.
 */
#ifndef FM_BENCH_RAILS_H
#define FM_BENCH_RAILS_H

#include "client/bench/measure.h"
#include "client/lib/fmove.h"

struct fm_err;
struct fm_json;

#define FM_RAILS_SINGLES_MAX 48u
#define FM_RAILS_CONNS_MAX   64u /* that a transfer can be told to keep to */

/* To one peer, those that are up, in the order of fmove status. */
struct fm_rails {
	struct fm_bench_rail at[FM_BENCH_RAILS_MAX];
	unsigned count;
};

/* What is asked for on the command line; NULL and 0: it is not. */
struct fm_rails_wanted {
	const char *device;
	const char *rail; /* its number among those of the transport, from 1, or an address */
	unsigned connections;
};

int fm_rails_read(struct fmove *conn, const char *peer, struct fm_rails *out, struct fm_err *err);

/* Of a status. A peer that is not there has none. */
void fm_rails_of(const struct fm_json *status, const char *peer, struct fm_rails *out);

/* -ENOENT: no rail is that, and which there are; -EHOSTUNREACH: none of it is up. */
int fm_rails_pick(const struct fm_rails *rails, bool is_rdma, const struct fm_rails_wanted *wanted,
		  struct fm_bench_only *out, struct fm_err *err);

/*
 * What is measured alone beside all together, in out; how many. Each device, and each rail, where
 * there are several; of TCP 1, 2, 4 ... connections, as long as that is fewer than all.
 */
size_t fm_rails_singles(const struct fm_rails *rails, bool is_rdma,
			struct fm_bench_only out[static FM_RAILS_SINGLES_MAX]);

/* What each carried between two looks, into the path; those that carried nothing are left out. */
void fm_rails_growth(const struct fm_rails *before, const struct fm_rails *after,
		     struct fm_bench_path *path);

/*
 * Whether those that alone were to carry it did, all that was moved, and no other did. What a peer
 * told of its processors may have come over any. -EPROTO: by the daemon's counters it was
 * otherwise.
 */
int fm_rails_prove(const struct fm_bench_path *path, struct fm_err *err);

#endif
