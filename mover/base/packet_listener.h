/* SPDX-License-Identifier: MIT */
/*
 * packet_listener - where the local clients of a daemon knock: a SOCK_SEQPACKET socket with a name,
 * an owner and a mode, and who is there as the kernel says it (SO_PEERCRED). What becomes of a
 * client is packet_conn's. Loop thread.
 */
#ifndef FM_PACKET_LISTENER_H
#define FM_PACKET_LISTENER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "mover/base/log.h"
#include "mover/base/loop.h"

struct fm_err;

struct fm_packet_listener_opts {
	/* its directory must exist; what a dead daemon left there is replaced */
	const char *path;
	mode_t mode;			/* of the socket: who may connect, e.g. 0660 */
	gid_t gid;			/* owning group; (gid_t)-1: leave as it is */
	int backlog;
	const char *daemon;		/* for an error: "fmoved" */
	bool (*may_take)(void *ctx);	/* false: nobody is let in now; NULL: always */
	/* fd is the callee's, not blocking. From the loop only. */
	void (*accepted)(void *ctx, int fd, const struct ucred *who);
	void *ctx;
};

/* All of it is the listener's. */
struct fm_packet_listener {
	struct fm_loop *loop;
	bool (*may_take)(void *ctx);
	void (*accepted)(void *ctx, int fd, const struct ucred *who);
	void *ctx;
	struct fm_watch watch;
	struct fm_timer again;
	struct fm_log_limit lines;	/* of failures: clients may use up what is missing */
	struct sockaddr_un address;
};

/*
 * Listens at once; nobody gets in before owner and mode are right. `daemon` is not kept.
 * -ENAMETOOLONG; -EADDRINUSE: another one serves it, or it is no socket.
 */
int fm_packet_listener_open(struct fm_packet_listener *l, struct fm_loop *loop,
			    const struct fm_packet_listener_opts *opts, struct fm_err *err);

/* Removes the socket. Once, after a successful open. accepted() is called for those who wait there,
 * to be turned away. */
void fm_packet_listener_close(struct fm_packet_listener *l);

#endif
