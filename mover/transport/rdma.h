/* SPDX-License-Identifier: MIT */
/*
 * rdma - data connections over RDMA (librdmacm, libibverbs), the half of the net that needs a
 * device.
 *
 * Inside of transport/ only: net.c owns one struct fm_rdma and delegates to it; the engine never
 * sees this header. Control loop only, except for what a connection does on its lane once attached.
 */
#ifndef FM_TRANSPORT_RDMA_H
#define FM_TRANSPORT_RDMA_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/transport/transport.h"

struct fm_loop;
struct fm_rdma;
struct fm_rdma_domain;

/*
 * Binds nothing yet. Where there is no device, or no access to /dev/infiniband, that is looked for
 * again every few seconds, from now on: a driver may be loaded after us.
 */
int fm_rdma_new(struct fm_loop *loop, uint16_t port, uint8_t dscp, struct fm_rdma **out,
		struct fm_err *err);

/* Stopped; every connection and domain gone. NULL is allowed. */
void fm_rdma_free(struct fm_rdma *rdma);

/*
 * Accept connections on the port given to fm_rdma_new(); events->token and ->arrived come from now
 * on, with ctx. Where that fails, now or later, it is tried again until fm_rdma_stop().
 */
void fm_rdma_start(struct fm_rdma *rdma, const struct fm_net_events *events, void *ctx);

/* Why there is no RDMA here just now, in which case nothing may be dialled; NULL: there is, and it
 * stays. */
const char *fm_rdma_why_not(const struct fm_rdma *rdma);

/* Why no connection is accepted just now; NULL: they are. Those that exist go on, others can be
 * dialled. */
const char *fm_rdma_trouble(const struct fm_rdma *rdma);

/*
 * No events afterwards. Half-made accepted connections are dropped, without arrived(); a dial that
 * is under way ends with done(-ECANCELED) in a later pass (not at all if fm_rdma_free() comes
 * first). Connections that exist go on.
 */
void fm_rdma_stop(struct fm_rdma *rdma);

/*
 * Whether this local address sits on an active RDMA port; if so, its device's name and the link's
 * speed (0: unknown).
 */
bool fm_rdma_is_rail(struct fm_rdma *rdma, const struct fm_addr *addr, char name[FM_RAIL_NAME_MAX],
		     uint32_t *speed_mbps);

/* As data_dial of struct fm_net_ops. */
int fm_rdma_dial(struct fm_rdma *rdma, const struct fm_data_dial *dial);

/* One session's protection domains, made when a connection first needs one on a device. */
int fm_rdma_domain_new(struct fm_rdma *rdma, struct fm_rdma_domain **out);

/* Its connections are gone. NULL is allowed. */
void fm_rdma_domain_free(struct fm_rdma_domain *domain);

/*
 * The RDMA part of a domain that a data_dial or events->token gave; NULL when the net has no RDMA.
 * Implemented in net.c.
 */
struct fm_rdma_domain *fm_domain_rdma(struct fm_domain *domain);

#endif
