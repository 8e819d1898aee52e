/* SPDX-License-Identifier: MIT */
/*
 * job_only - which connections alone may carry a get: who asks names them by what it has, and tells
 * the source, which chooses, their addresses. The devices of one node say nothing to another.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "mover/data/flow.h"
#include "mover/services/transfer/job.h"

_Static_assert(FM_WIRE_WAYS_MAX == FM_ONLY_WAYS_MAX &&
		       FM_WIRE_ONLY_CONNS_MAX == FM_ONLY_CONNS_MAX,
	       "GET has room for what may be asked for, and no more");

/* Of "10.0.0.2" or "fe80::1%eth0"; what is behind '%' has a meaning at one node only. */
static bool to_wire(const char *shown, uint8_t *family, uint8_t out[static 16])
{
	char text[FM_ONLY_ADDRESS_MAX];

	(void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(shown, "%"), shown);
	memset(out, 0, 16);
	*family = strchr(text, ':') ? 6 : 4;
	return inet_pton(*family == 6 ? AF_INET6 : AF_INET, text, out) == 1;
}

static bool has_way(const struct fm_wire_get *g, const struct fm_wire_way *way)
{
	for (unsigned i = 0; i < g->way_count; i++)
		if (memcmp(&g->way[i], way, sizeof(*way)) == 0)
			return true;
	return false;
}

static bool may_carry(const struct fm_job *j, const struct fm_flow *f)
{
	enum fm_transport_want other = f->kind == FM_KIND_TCP ? FM_WANT_RDMA : FM_WANT_TCP;

	return j->want != other && atomic_load(&f->is_up) && fm_only_takes(&j->only, &f->info);
}

static int add_way(const struct fm_job *j, const struct fm_conn_info *info, struct fm_wire_get *g,
		   struct fm_err *err)
{
	struct fm_wire_way way;
	uint8_t family;

	if (!to_wire(info->local_addr, &way.family, way.sink) ||
	    !to_wire(info->remote_addr, &family, way.source) || family != way.family ||
	    has_way(g, &way))
		return 0;
	if (g->way_count == FM_WIRE_WAYS_MAX)
		return fm_err_set(err, -E2BIG,
				  "more than %d rails to %s are of %s: name one of them",
				  FM_WIRE_WAYS_MAX, j->peer_name, info->local);
	g->way[g->way_count++] = way;
	return 0;
}

int fm_job_tell_only(const struct fm_job *j, struct fm_wire_get *g, struct fm_err *err)
{
	const struct fm_only *only = &j->only;
	int ret = 0;

	if (fm_only_is_any(only))
		return 0;
	g->flags |= FM_WIRE_GET_ONLY;
	g->conns = (uint8_t)only->conns;
	if (!only->device[0] && only->way_count == 0)
		return 0;
	fm_list_each(at, next, &j->session->flows) {
		const struct fm_flow *f = fm_container_of(at, struct fm_flow, owner_at);

		if (ret == 0 && may_carry(j, f))
			ret = add_way(j, &f->info, g, err);
	}
	if (ret == 0 && g->way_count == 0)
		return fm_err_set(err, -EHOSTUNREACH,
				  "%s: the connections that were named are gone", j->peer_name);
	return ret;
}

static void from_wire(uint8_t family, const uint8_t address[static 16],
		      char out[static FM_ONLY_ADDRESS_MAX])
{
	/* It fits, and a family is 4 or 6: the codec looked. */
	(void)inet_ntop(family == 6 ? AF_INET6 : AF_INET, address, out, FM_ONLY_ADDRESS_MAX);
}

void fm_job_take_only(struct fm_job *j, const struct fm_wire_get *g)
{
	struct fm_only *only = &j->only;

	if (!(g->flags & FM_WIRE_GET_ONLY))
		return;
	only->conns = g->conns;
	only->way_count = g->way_count;
	for (unsigned i = 0; i < g->way_count; i++) {
		from_wire(g->way[i].family, g->way[i].source, only->way[i].local);
		from_wire(g->way[i].family, g->way[i].sink, only->way[i].remote);
	}
}
