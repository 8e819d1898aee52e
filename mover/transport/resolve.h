/* SPDX-License-Identifier: MIT */
/*
 * resolve - the addresses of a host name, looked up on a thread of its own since getaddrinfo(3) may
 * take a minute.
 *
 * Numeric addresses need no thread. A look-up that is given up goes on in its thread and throws its
 * result away, so neither the loop nor the end of the process ever waits for a name server. Control
 * loop only.
 */
#ifndef FM_TRANSPORT_RESOLVE_H
#define FM_TRANSPORT_RESOLVE_H

#include <stdint.h>
#include <sys/socket.h>

#include "mover/base/err.h"

struct fm_loop;
struct fm_resolve;

#define FM_RESOLVE_ADDRS_MAX 8		/* of one name */
#define FM_RESOLVE_THREADS_MAX 16	/* in the process at once */

/* "10.0.0.2", "fe80::1%eth0": 0. -ENOENT when it is not an address, so perhaps a name. */
int fm_resolve_numeric(const char *host, uint16_t port, struct sockaddr_storage *out);

/*
 * done() comes in a later pass: count addresses (valid during the call only), or 0 and err. *out is
 * good until then, or until fm_resolve_cancel(). -EAGAIN when too many look-ups are under way.
 */
int fm_resolve_start(struct fm_loop *loop, const char *host, uint16_t port,
		     void (*done)(void *ctx, const struct sockaddr_storage *addrs, unsigned count,
				  const struct fm_err *err),
		     void *ctx, struct fm_resolve **out, struct fm_err *err);

/* No done(). NULL is allowed. */
void fm_resolve_cancel(struct fm_resolve *resolve);

#endif
