/* SPDX-License-Identifier: MIT */
/*
 * tcp_watch - how many TCP segments this machine sent, and how many of them again, as the kernel
 * counts them for the network namespace of this process. What others send counts, too.
 *
 * A segment that is sent again is not always one that was lost: it was needless if the other end
 * says that it has it twice (DSACK), as one does that is late because its processors are full.
 */
#ifndef FM_BENCH_TCP_WATCH_H
#define FM_BENCH_TCP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct fm_bench_path;

struct fm_tcp_watch {
	bool is_known;
	uint64_t sent, again, needless;
};

/* Of texts like /proc/net/snmp and /proc/net/netstat. false: one does not say. */
bool fm_tcp_watch_parse(const char *snmp, const char *netstat, struct fm_tcp_watch *out);

void fm_tcp_watch_begin(struct fm_tcp_watch *watch);
/* Added to what the path has already; what cannot be read adds nothing. */
void fm_tcp_watch_end(const struct fm_tcp_watch *watch, struct fm_bench_path *path);

#endif
