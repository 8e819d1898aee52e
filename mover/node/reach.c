/* SPDX-License-Identifier: MIT */
/* reach - see reach.h. */
#include "mover/node/reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/network.h"

/* ---- what there is ---- */

static bool is_same_end(const struct fm_endpoint *a, const struct fm_endpoint *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static int add(struct fm_reach *r, const struct fm_endpoint *to, bool is_learned,
	       struct fm_err *err)
{
	for (unsigned i = 0; i < r->count; i++)
		if (is_same_end(&r->way[i].to, to))
			return 0;
	if (r->count == sizeof(r->way) / sizeof(r->way[0]))
		return fm_err_set(err, -E2BIG, "more than %d addresses", FM_PEER_ADDRS_MAX);
	r->way[r->count++] = (struct fm_way){ .to = *to, .is_learned = is_learned };
	return 0;
}

static unsigned configured(const struct fm_reach *r)
{
	unsigned n = 0;

	while (n < r->count && !r->way[n].is_learned)
		n++;
	return n;
}

int fm_reach_init(struct fm_reach *r, const struct fm_peer_opts *o, struct fm_err *err)
{
	struct fm_endpoint first = { .port = o->port };

	*r = (struct fm_reach){ .count = 0 };
	if (o->host && strlen(o->host) >= sizeof(first.host))
		return fm_err_set(err, -EINVAL, "address is too long");
	if (o->more_count >= FM_PEER_ADDRS_MAX || o->learned_count > FM_PEER_ADDRS_MAX)
		return fm_err_set(err, -E2BIG, "more than %d addresses", FM_PEER_ADDRS_MAX);
	if (o->host && o->host[0]) {
		(void)snprintf(first.host, sizeof(first.host), "%s", o->host);
		/* the places are as many as the limits above allow */
		(void)add(r, &first, false, NULL);
	}
	for (unsigned i = 0; i < o->more_count; i++)
		(void)add(r, &o->more[i], false, NULL);
	for (unsigned i = 0; i < o->learned_count; i++)
		(void)add(r, &o->learned[i], true, NULL);
	return 0;
}

bool fm_reach_is_same(const struct fm_reach *r, const struct fm_peer_opts *o)
{
	struct fm_peer_opts named = *o;
	struct fm_reach now;
	unsigned n = configured(r);

	named.learned_count = 0;
	if (fm_reach_init(&now, &named, NULL) < 0 || now.count != n)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!is_same_end(&now.way[i].to, &r->way[i].to))
			return false;
	return true;
}

/* ---- which is next ---- */

static bool parse(const char *host, struct fm_addr *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&out->sa;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&out->sa;

	*out = (struct fm_addr){ .prefix_len = 0 };
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1)
		in->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, host, &in6->sin6_addr) == 1)
		in6->sin6_family = AF_INET6;
	return out->sa.ss_family != 0;
}

static bool is_ours(const struct fm_addr *addr, const struct fm_addr *own, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fm_network_is_same(&own[i].sa, &addr->sa))
			return true;
	return false;
}

/*
 * Our address in the subnet of `to`. If several ports are in it, each round takes the next one: the
 * kernel would always choose the same port, even one whose cable is cut.
 */
static bool find_local(const struct fm_addr *to, const struct fm_addr *own, size_t count,
		       unsigned round, struct fm_addr *out)
{
	size_t shared = 0, at;

	for (size_t i = 0; i < count; i++)
		shared += fm_network_is_shared(&own[i].sa, &to->sa, own[i].prefix_len);
	if (shared == 0)
		return false;
	at = round % shared;
	for (size_t i = 0; i < count; i++)
		if (fm_network_is_shared(&own[i].sa, &to->sa, own[i].prefix_len) && at-- == 0)
			*out = own[i];
	return true;
}

static bool may_dial(const struct fm_reach *r, const struct fm_way *way, const struct fm_addr *own,
		     size_t own_count, struct fm_reach_dial *out)
{
	struct fm_addr to;

	*out = (struct fm_reach_dial){ .to = &way->to };
	if (!parse(way->to.host, &to))
		return !way->is_learned;	/* a name: only a person gives those */
	if (way->is_learned && is_ours(&to, own, own_count))
		return false;
	return find_local(&to, own, own_count, r->rounds, &out->local) || !way->is_learned;
}

bool fm_reach_next(struct fm_reach *r, const struct fm_addr *own, size_t own_count,
		   struct fm_reach_dial *out)
{
	while (r->tried < r->count) {
		const struct fm_way *way = &r->way[r->at];

		r->tried++;
		r->at = (r->at + 1) % r->count;
		if (may_dial(r, way, own, own_count, out)) {
			r->last = way->to;
			return true;
		}
	}
	r->tried = 0;
	r->rounds++;
	return false;
}

void fm_reach_begin(struct fm_reach *r)
{
	r->tried = 0;
}

/* ---- what the peer says ---- */

/* The list of addresses has changed: go on behind the one that was dialled last. */
static void find_next(struct fm_reach *r)
{
	r->at = 0;
	for (unsigned i = 0; i < r->count; i++)
		if (is_same_end(&r->way[i].to, &r->last))
			r->at = (i + 1) % r->count;
}

bool fm_reach_learn(struct fm_reach *r, const struct fm_wire_addrs *said)
{
	struct fm_endpoint before[FM_PEER_ADDRS_MAX],
		to = {.port = said->tcp_port ? said->tcp_port : said->rdma_port};
	unsigned kept = configured(r), old = r->count - kept, taken = 0;
	bool is_same;

	for (unsigned i = 0; i < old; i++)
		before[i] = r->way[kept + i].to;
	r->count = kept;
	for (unsigned i = 0; to.port && i < said->count && taken < FM_PEER_ADDRS_MAX; i++) {
		const struct fm_wire_addr *a = &said->addr[i];
		int family = a->family == 4 ? AF_INET : AF_INET6;

		memset(to.host, 0, sizeof(to.host));
		if (!fm_network_is_unicast(family, a->address) ||
		    !inet_ntop(family, a->address, to.host, sizeof(to.host)))
			continue;
		taken++;
		(void)add(r, &to, true, NULL);
	}
	find_next(r);
	is_same = r->count - kept == old;
	for (unsigned i = 0; is_same && i < old; i++)
		is_same = is_same_end(&before[i], &r->way[kept + i].to);
	return !is_same;
}
