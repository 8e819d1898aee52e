/* SPDX-License-Identifier: MIT */
/*
 * net - glue: struct fm_net_ops in terms of listen, ctl, tcp and rdma. It decides nothing but what
 * is to be had at all.
 */
#include "mover/transport/net.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/network.h"
#include "mover/transport/addr.h"
#include "mover/transport/ctl.h"
#include "mover/transport/listen.h"
#include "mover/transport/netlink.h"
#include "mover/transport/rdma.h"
#include "mover/transport/tcp.h"
#include "mover/transport/tls.h"

/*
 * So long one reading of our addresses serves all who ask: each costs the kernel a walk, and for
 * each address some files and an id of the connection manager, and every session asks at the same
 * tick. What changes meanwhile the kernel says at once.
 */
#define ADDRS_FRESH_NS (400 * FM_NS_PER_MS)

struct net {
	struct fm_net base;
	struct fm_loop *loop;
	struct fm_tls_node *node;
	struct fm_listener *listener;
	struct fm_ctls ctls;
	struct fm_tcp *tcp;
	struct fm_netlink *netlink;	/* NULL: not started, or the kernel gives none */
	struct fm_networks private_networks;
	struct fm_rdma *rdma;		/* NULL: no_rdma says why */
	bool is_started, is_stopped;
	bool is_tcp_allowed;
	char no_rdma[FM_ERR_TEXT_MAX];
	struct fm_addr addrs[FM_ADDR_SEEN_MAX];	/* as they were read last */
	size_t addr_count;
	uint64_t addrs_until_ns;	/* when to read them again; 0: at once */
	unsigned domains;
	struct fm_list refusals;
};

struct fm_domain {
	struct net *net;
	struct fm_rdma_domain *rdma;	/* NULL: no RDMA */
};

/* A dial that is refused at once: its done() must come later all the same. */
struct refusal {
	struct fm_list link;
	struct fm_loop *loop;
	struct fm_timer timer;
	struct fm_data_dial dial;
	char why[FM_ERR_TEXT_MAX];
};

static const struct fm_net_ops net_ops;

static struct net *net_of(struct fm_net *base)
{
	assert(base->ops == &net_ops);
	return fm_container_of(base, struct net, base);
}

/* ---- made and gone ---- */

static void net_begin_rdma(struct net *net, const struct fm_net_opts *opts)
{
	struct fm_err err = { 0 };

	if (!opts->is_rdma_allowed) {
		snprintf(net->no_rdma, sizeof(net->no_rdma),
			 "RDMA is switched off in the configuration");
		return;
	}
	if (fm_rdma_new(net->loop, fm_listener_port(net->listener), opts->dscp, &net->rdma, &err) ==
	    0)
		return;
	net->rdma = NULL;
	snprintf(net->no_rdma, sizeof(net->no_rdma), "%s", err.text);
	fm_log_info("no RDMA: %s", err.text);
}

static void on_tls_data(void *ctx, int fd, struct fm_tls *tls, const struct sockaddr_storage *peer);

int fm_net_new(struct fm_loop *loop, const struct fm_net_opts *opts, struct fm_net **out,
	       struct fm_err *err)
{
	struct fm_tcp_opts tcp_opts = { .loop = loop, .dscp = opts->dscp };
	struct net *net;
	int ret;

	assert(loop && opts->listen && opts->key_file && opts->dscp < 64 && out);
	net = FM_FAULT("net.alloc") ? NULL : calloc(1, sizeof(*net));
	if (!net)
		return fm_err_set(err, -ENOMEM, "allocate the network");
	net->base.ops = &net_ops;
	net->loop = loop;
	net->is_tcp_allowed = opts->is_tcp_allowed;
	fm_list_init(&net->refusals);
	ret = fm_tls_node_new(opts->key_file, &net->node, err);
	if (ret < 0)
		goto free_net;
	ret = fm_listener_new(loop, opts->listen, &net->listener, err);
	if (ret < 0)
		goto free_node;
	net_begin_rdma(net, opts);
	net->ctls = (struct fm_ctls){
		.loop = loop, .node = net->node, .listener = net->listener, .rdma = net->rdma};
	fm_list_init(&net->ctls.all);
	net->ctls.data = on_tls_data;
	net->ctls.data_ctx = net;
	tcp_opts.listener = net->listener;
	tcp_opts.node = net->node;
	tcp_opts.private_networks = &net->private_networks;
	ret = fm_tcp_new(&tcp_opts, &net->tcp, err);
	if (ret < 0)
		goto free_rdma;
	*out = &net->base;
	return 0;

free_rdma:
	fm_rdma_free(net->rdma);
	fm_listener_free(net->listener);
free_node:
	fm_tls_node_free(net->node);
free_net:
	free(net);
	return ret;
}

static void refusal_free(struct refusal *r)
{
	fm_list_del(&r->link);
	fm_timer_clear(r->loop, &r->timer);
	free(r);
}

void fm_net_free(struct fm_net *base)
{
	struct net *net;

	if (!base)
		return;
	net = net_of(base);
	assert(!net->is_started && net->domains == 0 && fm_list_is_empty(&net->ctls.all));
	fm_list_each(at, next, &net->refusals)
		refusal_free(fm_container_of(at, struct refusal, link));
	fm_tcp_free(net->tcp);
	fm_rdma_free(net->rdma);
	fm_listener_free(net->listener);
	fm_tls_node_free(net->node);
	free(net);
}

uint16_t fm_net_port(const struct fm_net *base)
{
	return fm_listener_port(fm_container_of(base, const struct net, base)->listener);
}

void fm_net_set_private(struct fm_net *base, const struct fm_networks *networks)
{
	net_of(base)->private_networks = *networks;
}

void fm_net_key(const struct fm_net *base, uint8_t key[FM_KEY_LEN])
{
	memcpy(key, fm_tls_node_key(fm_container_of(base, const struct net, base)->node),
	       FM_KEY_LEN);
}

/* ---- listening ---- */

/* Why this kind of data connection is not to be had; NULL if it is. */
static const char *why_not(const struct net *net, enum fm_kind kind)
{
	if (kind == FM_KIND_TCP)
		return net->is_tcp_allowed ? NULL : "TCP is switched off in the configuration";
	return net->rdma ? fm_rdma_why_not(net->rdma) : net->no_rdma;
}

static void on_tls(void *ctx, int fd, const struct sockaddr_storage *peer)
{
	struct net *net = ctx;

	fm_ctls_accept(&net->ctls, fd, peer);
}

static void on_tls_data(void *ctx, int fd, struct fm_tls *tls, const struct sockaddr_storage *peer)
{
	struct net *net = ctx;

	if (net->is_tcp_allowed && net->is_started) {
		fm_tcp_accept(net->tcp, fd, tls, peer);
		return;
	}
	fm_listener_refused(net->listener, peer, "no TCP data here");
	fm_tls_free(tls);
	close(fd);
}

static void on_data(void *ctx, int fd, const struct sockaddr_storage *peer)
{
	on_tls_data(ctx, fd, NULL, peer);
}

static const struct fm_listener_events listener_events = { .tls = on_tls, .data = on_data };

static void net_changed(void *ctx)
{
	struct net *net = ctx;

	net->addrs_until_ns = 0;
	net->ctls.events->changed(net->ctls.ctx);
}

static int net_start(struct fm_net *base, const struct fm_net_events *events, void *ctx,
		     struct fm_err *err)
{
	struct net *net = net_of(base);
	struct fm_err why = { 0 };
	int ret;

	assert(events && !net->is_started && !net->is_stopped && net->domains == 0);
	ret = fm_listener_start(net->listener, &listener_events, net, err);
	if (ret < 0)
		return ret;
	net->is_started = true;
	net->ctls.events = events;
	net->ctls.ctx = ctx;
	fm_tcp_start(net->tcp, events, ctx);
	if (net->rdma)
		fm_rdma_start(net->rdma, events, ctx);
	if (events->changed &&
	    fm_netlink_open(net->loop, net_changed, net, &net->netlink, &why) < 0)
		fm_log_warn("%s: what becomes of links is noticed every few seconds only",
			    why.text);
	return 0;
}

static void net_stop(struct fm_net *base)
{
	struct net *net = net_of(base);

	if (net->is_stopped)
		return;
	fm_netlink_close(net->netlink);
	net->netlink = NULL;
	net->ctls.events = NULL;
	net->ctls.join = NULL;
	fm_listener_stop(net->listener);
	fm_tcp_stop(net->tcp);
	if (net->rdma && net->is_started)
		fm_rdma_stop(net->rdma);
	net->is_started = false;
	net->is_stopped = true;
}

/* ---- control connections ---- */

static struct fm_ctl *net_ctl_dial(struct fm_net *base, const struct fm_ctl_dial *dial)
{
	return fm_ctl_dial(&net_of(base)->ctls, dial, false);
}

struct fm_ctl *fm_net_join_dial(struct fm_net *base, const struct fm_ctl_dial *dial)
{
	return fm_ctl_dial(&net_of(base)->ctls, dial, true);
}

void fm_net_set_join(struct fm_net *base, const struct fm_tls_join_events *events, void *ctx)
{
	struct net *net = net_of(base);

	net->ctls.join = events;
	net->ctls.join_ctx = ctx;
}

/* ---- data ---- */

/* A list that cannot be read, for want of a descriptor say, is not one without addresses: what was
 * read last stays. */
static void net_read_addrs(struct net *net)
{
	int count = fm_addr_list(net->rdma, net->addrs, FM_ADDR_SEEN_MAX);

	net->addrs_until_ns = fm_loop_now(net->loop) + ADDRS_FRESH_NS;
	if (count < 0) {
		fm_log_debug("read our addresses: %s", fm_err_name(count));
		return;
	}
	net->addr_count = (size_t)count;
}

static void net_refresh_addrs(struct net *net)
{
	if (fm_loop_now(net->loop) >= net->addrs_until_ns)
		net_read_addrs(net);
}

static size_t net_addrs(struct fm_net *base, struct fm_addr *out, size_t max)
{
	struct net *net = net_of(base);
	size_t count;

	net_refresh_addrs(net);
	count = max < net->addr_count ? max : net->addr_count;
	for (size_t i = 0; i < count; i++) {
		out[i] = net->addrs[i];
		out[i].private_bits = fm_networks_bits(&net->private_networks, &out[i].sa);
	}
	return count;
}

static bool net_has_addr(struct fm_net *base, const struct sockaddr_storage *sa)
{
	struct net *net = net_of(base);

	net_refresh_addrs(net);
	for (size_t i = 0; i < net->addr_count; i++)
		if (fm_network_is_same(&net->addrs[i].sa, sa))
			return true;
	return net->addr_count == FM_ADDR_SEEN_MAX;
}

size_t fm_net_list_addrs(struct fm_loop *loop, struct fm_addr *out, size_t max,
			 struct fm_err *no_rdma)
{
	const uint16_t no_port = 1;	/* nothing is bound to it, since nothing listens */
	struct fm_rdma *rdma = NULL;
	const char *why = NULL;
	int count;

	if (fm_rdma_new(loop, no_port, 0, &rdma, no_rdma) == 0)
		why = fm_rdma_why_not(rdma);
	if (why)
		fm_err_set(no_rdma, -ENODEV, "%s", why);
	count = fm_addr_list(rdma, out, max);
	fm_rdma_free(rdma);
	return count < 0 ? 0 : (size_t)count;
}

static uint16_t net_data_port(struct fm_net *base, enum fm_kind kind, const char **why)
{
	const struct net *net = net_of(base);
	const char *reason = why_not(net, kind);

	if (why)
		*why = !reason && kind == FM_KIND_RDMA ? fm_rdma_trouble(net->rdma) : reason;
	return reason ? 0 : fm_net_port(base);
}

static void refusal_fire(struct fm_timer *timer)
{
	struct refusal *r = fm_container_of(timer, struct refusal, timer);
	struct fm_data_dial dial = r->dial;
	struct fm_err err;

	fm_err_set(&err, -ENODEV, "%s", r->why);
	refusal_free(r);
	dial.done(dial.ctx, -ENODEV, NULL, &err);
}

static int net_data_dial(struct fm_net *base, const struct fm_data_dial *dial)
{
	struct net *net = net_of(base);
	const char *reason = why_not(net, dial->kind);
	struct refusal *r;

	if (!reason)
		return dial->kind == FM_KIND_TCP ? fm_tcp_dial(net->tcp, dial)
						 : fm_rdma_dial(net->rdma, dial);
	r = FM_FAULT("net.alloc_refusal") ? NULL : calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->loop = net->loop;
	r->dial = *dial;
	r->timer.fire = refusal_fire;
	snprintf(r->why, sizeof(r->why), "%s", reason);
	fm_list_append(&net->refusals, &r->link);
	fm_timer_set(net->loop, &r->timer, fm_loop_now(net->loop));
	return 0;
}

static int net_domain_new(struct fm_net *base, struct fm_domain **out, struct fm_err *err)
{
	struct net *net = net_of(base);
	struct fm_domain *domain;
	int ret;

	domain = FM_FAULT("net.alloc_domain") ? NULL : calloc(1, sizeof(*domain));
	if (!domain)
		return fm_err_set(err, -ENOMEM, "allocate a protection domain");
	domain->net = net;
	if (net->rdma) {
		ret = fm_rdma_domain_new(net->rdma, &domain->rdma);
		if (ret < 0) {
			free(domain);
			return fm_err_sys(err, ret, "make a protection domain");
		}
	}
	net->domains++;
	*out = domain;
	return 0;
}

static void net_domain_free(struct fm_domain *domain)
{
	if (!domain)
		return;
	domain->net->domains--;
	fm_rdma_domain_free(domain->rdma);
	free(domain);
}

struct fm_rdma_domain *fm_domain_rdma(struct fm_domain *domain)
{
	return domain->rdma;
}

static const struct fm_net_ops net_ops = {
	.start = net_start,
	.stop = net_stop,
	.ctl_dial = net_ctl_dial,
	.ctl_send = fm_ctl_send,
	.ctl_is_stuck = fm_ctl_is_stuck,
	.ctl_queued = fm_ctl_queued,
	.ctl_close = fm_ctl_close,
	.ctl_peer = fm_ctl_peer,
	.ctl_addrs = fm_ctl_addrs,
	.addrs = net_addrs,
	.has_addr = net_has_addr,
	.data_port = net_data_port,
	.data_dial = net_data_dial,
	.domain_new = net_domain_new,
	.domain_free = net_domain_free,
};
