/* SPDX-License-Identifier: MIT */
/*
 * collect_netlink - addresses, routes and rules, from the kernel's routing socket, and what becomes
 * of packets that the node forwards, from nf_tables. Only dumps are asked for. See collect_priv.h.
 */
#include "mover/facts/collect_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY_MAX                                                                                  \
	(64u << 10) /* one piece of a dump; the kernel makes none that is longer than 32 KiB */
#define PIECES_MAX 4096u
#define RULES_OF_KERNEL 3u /* of IPv4: local, main, default */
#define WAIT_S 2	   /* the kernel answers at once or not at all */

typedef void take_fn(struct fm_collect *c, const struct nlmsghdr *head);

/* What is dumped. Of either protocol the body of a request begins with a family. */
struct asked {
	int protocol; /* NETLINK_ROUTE, NETLINK_NETFILTER */
	int type;
	uint8_t family;
	take_fn *take;
};

static int ask(int fd, const struct asked *asked)
{
	struct {
		struct nlmsghdr head;
		struct rtmsg body; /* the routing socket takes it for a dump of anything */
	} request = {
		.head = { .nlmsg_len = NLMSG_LENGTH(asked->protocol == NETLINK_NETFILTER
							    ? sizeof(struct nfgenmsg)
							    : sizeof(request.body)),
			  .nlmsg_type = (uint16_t)asked->type,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.body = { .rtm_family = asked->family },
	};

	return send(fd, &request, request.head.nlmsg_len, 0) < 0 ? -errno : 0;
}

/* 1: there is more to come; 0: that was all. */
static int take_piece(struct fm_collect *c, char *piece, size_t len, take_fn *take)
{
	struct nlmsghdr *head = (struct nlmsghdr *)(void *)piece;

	for (; NLMSG_OK(head, len); head = NLMSG_NEXT(head, len)) {
		if (head->nlmsg_type == NLMSG_DONE)
			return 0;
		if (head->nlmsg_type == NLMSG_ERROR)
			return head->nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr))
				       ? -EBADMSG
				       : ((struct nlmsgerr *)NLMSG_DATA(head))->error;
		take(c, head);
	}
	return 1;
}

static int dump(struct fm_collect *c, const struct asked *asked)
{
	const struct timeval wait = { .tv_sec = WAIT_S };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, asked->protocol), ret;
	char *piece = malloc(REPLY_MAX);
	ssize_t n;

	ret = fd < 0 ? -errno : piece ? 0 : -ENOMEM;
	if (ret == 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0)
		ret = -errno;
	if (ret == 0)
		ret = ask(fd, asked);
	if (ret == 0)
		ret = 1;
	for (unsigned i = 0; ret == 1 && i < PIECES_MAX; i++) {
		n = recv(fd, piece, REPLY_MAX, 0);
		if (n > 0)
			ret = take_piece(c, piece, (size_t)n, asked->take);
		else if (errno != EINTR)
			ret = n < 0 ? -errno : -EBADMSG;
	}
	free(piece);
	if (fd >= 0)
		(void)close(fd); /* nothing was written */
	return ret == 1 ? -E2BIG : ret;
}

/* ---- pieces of messages ---- */

static const struct rtattr *attribute(const struct rtattr *at, size_t len, unsigned short type,
				      size_t size)
{
	for (; RTA_OK(at, len); at = RTA_NEXT(at, len))
		if (at->rta_type == type && RTA_PAYLOAD(at) >= size)
			return at;
	return NULL;
}

static uint32_t number(const struct rtattr *at, uint32_t otherwise)
{
	uint32_t n = otherwise;

	if (at)
		memcpy(&n, RTA_DATA(at), sizeof(n));
	return n;
}

static size_t ip_size(uint8_t family)
{
	return family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
}

static void ip(struct fm_fact *fact, uint8_t family, const void *bytes)
{
	char text[INET6_ADDRSTRLEN];

	if (inet_ntop(family, bytes, text, sizeof(text)))
		fm_fact_text(fact, FM_FACT_ADDRESS, text);
}

static void interface(struct fm_fact *fact, unsigned index)
{
	char name[IF_NAMESIZE];

	if (if_indextoname(index, name))
		fm_fact_text(fact, FM_FACT_NAME, name);
	else
		fm_fact_unknown(fact, "interface %u has gone", index);
}

/* ---- the three ---- */

static void take_address(struct fm_collect *c, const struct nlmsghdr *head)
{
	const struct ifaddrmsg *m = NLMSG_DATA(head);
	size_t len = head->nlmsg_len - NLMSG_LENGTH(sizeof(*m));
	struct fm_facts_address *a;
	const struct rtattr *at;
	uint32_t flags;

	if (head->nlmsg_type != RTM_NEWADDR || head->nlmsg_len < NLMSG_LENGTH(sizeof(*m)) ||
	    m->ifa_scope == RT_SCOPE_HOST)
		return;
	/* At the near end of a point-to-point link IFA_ADDRESS is the far one. */
	at = attribute(IFA_RTA(m), len, IFA_LOCAL, ip_size(m->ifa_family));
	if (!at)
		at = attribute(IFA_RTA(m), len, IFA_ADDRESS, ip_size(m->ifa_family));
	if (!at || !(a = fm_facts_add(c->facts, c->facts->addresses, &c->facts->addresses_count)))
		return;
	flags = number(attribute(IFA_RTA(m), len, IFA_FLAGS, sizeof(flags)), m->ifa_flags);
	interface(&a->interface, m->ifa_index);
	ip(&a->address, m->ifa_family, RTA_DATA(at));
	fm_fact_number(&a->bits, m->ifa_prefixlen);
	fm_fact_number(&a->link_local, m->ifa_scope == RT_SCOPE_LINK);
	fm_fact_number(&a->no_prefix_route, (flags & IFA_F_NOPREFIXROUTE) != 0);
	fm_fact_number(&a->duplicate, (flags & IFA_F_DADFAILED) != 0);
}

static void take_route(struct fm_collect *c, const struct nlmsghdr *head)
{
	static const struct in6_addr any;
	const struct rtmsg *m = NLMSG_DATA(head);
	size_t len = head->nlmsg_len - NLMSG_LENGTH(sizeof(*m));
	const struct rtattr *out, *to, *by;
	struct fm_facts_route *r;

	if (head->nlmsg_type != RTM_NEWROUTE || head->nlmsg_len < NLMSG_LENGTH(sizeof(*m)) ||
	    m->rtm_type != RTN_UNICAST || (m->rtm_flags & RTM_F_CLONED) != 0)
		return;
	out = attribute(RTM_RTA(m), len, RTA_OIF, sizeof(uint32_t));
	to = attribute(RTM_RTA(m), len, RTA_DST, ip_size(m->rtm_family));
	/* One over several ways has no interface of its own. */
	if (!out || !(r = fm_facts_add(c->facts, c->facts->routes, &c->facts->routes_count)))
		return;
	ip(&r->destination, m->rtm_family, to ? RTA_DATA(to) : &any);
	fm_fact_number(&r->bits, m->rtm_dst_len);
	interface(&r->interface, number(out, 0));
	by = attribute(RTM_RTA(m), len, RTA_GATEWAY, ip_size(m->rtm_family));
	if (by)
		ip(&r->gateway, m->rtm_family, RTA_DATA(by));
	fm_fact_number(&r->table, number(attribute(RTM_RTA(m), len, RTA_TABLE, sizeof(uint32_t)),
					 m->rtm_table));
	fm_fact_number(&r->metric,
		       number(attribute(RTM_RTA(m), len, RTA_PRIORITY, sizeof(uint32_t)), 0));
}

static void take_rule(struct fm_collect *c, const struct nlmsghdr *head)
{
	if (head->nlmsg_type == RTM_NEWRULE)
		c->facts->node.rules.n++;
}

/* A chain of the table of IPv4, or of both families, that packets come to which are forwarded. */
static bool is_of_forward(uint8_t family, const struct rtattr *hook)
{
	const struct rtattr *number_at;

	if ((family != NFPROTO_IPV4 && family != NFPROTO_INET) || !hook)
		return false;
	number_at = attribute(RTA_DATA(hook), RTA_PAYLOAD(hook), NFTA_HOOK_HOOKNUM,
			      sizeof(uint32_t));
	return number_at && ntohl(number(number_at, 0)) == NF_INET_FORWARD;
}

/* One that drops is enough. A nested attribute may have a flag in its type. */
static void take_chain(struct fm_collect *c, const struct nlmsghdr *head)
{
	const struct nfgenmsg *m = NLMSG_DATA(head);
	size_t len = head->nlmsg_len - NLMSG_LENGTH(sizeof(*m));
	const struct rtattr *at, *hook, *policy;

	if (head->nlmsg_type != (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN) ||
	    head->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return;
	at = (const struct rtattr *)(const void *)((const char *)m + NLMSG_ALIGN(sizeof(*m)));
	hook = attribute(at, len, NFTA_CHAIN_HOOK | NLA_F_NESTED, 0);
	if (!hook)
		hook = attribute(at, len, NFTA_CHAIN_HOOK, 0);
	policy = attribute(at, len, NFTA_CHAIN_POLICY, sizeof(uint32_t));
	if (is_of_forward(m->nfgen_family, hook) && policy &&
	    ntohl(number(policy, NF_ACCEPT)) == NF_DROP)
		fm_fact_text(&c->facts->node.forward_policy, FM_FACT_TEXT, "drop");
}

/* To ask loads what is a module, and nothing is to be changed. A kernel without modules has none.
 */
static bool would_load(const struct fm_collect *c)
{
	char *modules;
	bool is_missing = false;

	if (fm_collect_file(c, &modules, "/proc/modules") < 0)
		return false;
	is_missing = !strstr(modules, "nf_tables ");
	free(modules);
	return is_missing;
}

static void forward_policy(struct fm_collect *c)
{
	struct fm_fact *policy = &c->facts->node.forward_policy;
	char names[FM_COLLECT_LINE_MAX];
	int ret;

	if (*c->root) {
		fm_fact_unknown(policy, "read from files; only the kernel says it");
		return;
	}
	if (c->facts->node.forwards.is_known && !fm_fact_is_true(&c->facts->node.forwards)) {
		fm_fact_drop(policy); /* and nobody needs to know it */
		return;
	}
	if (c->options->is_within_daemon || geteuid() != 0) {
		fm_fact_unknown(policy, "the kernel tells root alone, so sudo fmove doctor there");
		return;
	}
	if (would_load(c)) {
		fm_fact_unknown(policy, "nf_tables is not loaded, and asking would load it");
		return;
	}
	if (fm_collect_line(c, names, "/proc/net/ip_tables_names") == 0 && names[0]) {
		fm_fact_unknown(policy, "iptables-legacy has tables, which are not read");
		return;
	}
	fm_fact_text(policy, FM_FACT_TEXT, "accept");
	ret = dump(c, &(struct asked){ NETLINK_NETFILTER,
				       NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN, AF_UNSPEC,
				       take_chain });
	if (ret < 0)
		fm_collect_failed(policy, ret, "the chains of nf_tables");
}

void fm_collect_netlink(struct fm_collect *c)
{
	struct fm_facts *f = c->facts;
	int ret;

	forward_policy(c);
	if (*c->root) {
		fm_fact_unknown(&f->addresses_read, "read from files; only the kernel says it");
		fm_fact_unknown(&f->routes_read, "read from files; only the kernel says it");
		fm_fact_unknown(&f->node.rules, "read from files; only the kernel says it");
		return;
	}
	ret = dump(c, &(struct asked){ NETLINK_ROUTE, RTM_GETADDR, AF_UNSPEC, take_address });
	fm_fact_number(&f->addresses_read, 1);
	if (ret < 0)
		fm_collect_failed(&f->addresses_read, ret, "addresses");
	ret = dump(c, &(struct asked){ NETLINK_ROUTE, RTM_GETROUTE, AF_UNSPEC, take_route });
	fm_fact_number(&f->routes_read, 1);
	if (ret < 0)
		fm_collect_failed(&f->routes_read, ret, "routes");
	fm_fact_number(&f->node.rules, 0);
	ret = dump(c, &(struct asked){ NETLINK_ROUTE, RTM_GETRULE, AF_INET, take_rule });
	if (ret < 0)
		fm_collect_failed(&f->node.rules, ret, "rules");
	else
		fm_fact_number(&f->node.rules, f->node.rules.n > RULES_OF_KERNEL
						       ? f->node.rules.n - RULES_OF_KERNEL
						       : 0);
}
