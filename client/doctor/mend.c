/* SPDX-License-Identifier: MIT */
/* mend - see mend.h. */
#include "client/doctor/mend.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "client/doctor/lookup.h"

#define NETPLAN_FILE "/etc/netplan/60-fmove.yaml"

static void netplan(const struct fm_mend *m, bool has_addresses, struct fm_finding *f)
{
	fm_finding_mend(f, "# add to " NETPLAN_FILE ", mode 600; then: netplan apply");
	fm_finding_mend(f, "network:");
	fm_finding_mend(f, "  version: 2");
	fm_finding_mend(f, "  ethernets:");
	fm_finding_mend(f, "    %s:", m->interface);
	if (has_addresses && m->address)
		fm_finding_mend(f, "      addresses: [ %s ]", m->address);
	if (has_addresses)
		fm_finding_mend(f, "      link-local: [ ipv6 ]");
	if (m->mtu)
		fm_finding_mend(f, "      mtu: %u", m->mtu);
}

static void nmcli(const struct fm_mend *m, struct fm_finding *f)
{
	bool is_ipv6 = m->address && strchr(m->address, ':');
	char ip4[64] = "ipv4.method disabled", ip6[96] = "ipv6.method link-local", mtu[48] = "";

	if (is_ipv6)
		(void)snprintf(ip6, sizeof(ip6), "ipv6.method manual ipv6.addresses %s",
			       m->address);
	else if (m->address)
		(void)snprintf(ip4, sizeof(ip4), "ipv4.method manual ipv4.addresses %s",
			       m->address);
	if (m->mtu)
		(void)snprintf(mtu, sizeof(mtu), " 802-3-ethernet.mtu %u", m->mtu);
	fm_finding_mend(f,
			"nmcli connection add type ethernet con-name fmove-%s ifname %s %s %s%s",
			m->interface, m->interface, ip4, ip6, mtu);
	fm_finding_mend(f, "nmcli connection up fmove-%s", m->interface);
}

static void by_hand(const struct fm_mend *m, struct fm_finding *f)
{
	fm_finding_mend(f, "# until the next boot; nothing is known to manage the network here");
	if (m->mtu)
		fm_finding_mend(f, "ip link set dev %s mtu %u up", m->interface, m->mtu);
	else
		fm_finding_mend(f, "ip link set dev %s up", m->interface);
	if (m->address)
		fm_finding_mend(f, "ip address add %s dev %s", m->address, m->interface);
}

void fm_mend_address(const struct fm_facts *node, const struct fm_mend *mend, struct fm_finding *f)
{
	if (fm_fact_is_true(&node->node.netplan))
		netplan(mend, true, f);
	else if (fm_fact_is_true(&node->node.network_manager))
		nmcli(mend, f);
	else
		by_hand(mend, f);
}

void fm_mend_mtu(const struct fm_facts *node, const struct fm_mend *mend, struct fm_finding *f)
{
	const struct fm_mend only = { mend->interface, NULL, mend->mtu };

	if (fm_fact_is_true(&node->node.netplan)) {
		netplan(&only, false, f);
	} else if (fm_fact_is_true(&node->node.network_manager)) {
		fm_finding_mend(f,
				"nmcli connection modify \"$(nmcli -g GENERAL.CONNECTION device "
				"show %s)\" 802-3-ethernet.mtu %u",
				only.interface, only.mtu);
		fm_finding_mend(f, "nmcli device reapply %s", only.interface);
	} else {
		by_hand(&only, f);
	}
}

static bool is_taken(const struct fm_facts_set *set, const struct fm_network *net)
{
	struct fm_network other;

	for (size_t i = 0; i < set->count; i++) {
		for (size_t k = 0; k < set->at[i]->addresses_count; k++) {
			const struct fm_facts_address *a = &set->at[i]->addresses[k];

			if (fm_net_of(&a->address, &a->bits, &other) &&
			    (fm_net_has(net, &other) || fm_net_has(&other, net)))
				return true;
		}
		for (size_t k = 0; k < set->at[i]->routes_count; k++) {
			const struct fm_facts_route *r = &set->at[i]->routes[k];

			if (fm_net_of(&r->destination, &r->bits, &other) && other.bits > 0 &&
			    (fm_net_has(net, &other) || fm_net_has(&other, net)))
				return true;
		}
	}
	return false;
}

/*
 * One bit of the third byte turned: two networks that differ stay different, whichever end reckons.
 */
bool fm_mend_next_network(const struct fm_facts_set *set, const struct fm_facts_address *first,
			  char out[static 24])
{
	struct fm_network net;
	char text[INET_ADDRSTRLEN];
	uint8_t third;

	if (!first || !fm_net_of(&first->address, &first->bits, &net) || net.family != AF_INET ||
	    net.bits < 24)
		return false;
	third = net.address[2];
	for (unsigned turned = 0x80; turned > 0; turned >>= 1) {
		net.address[2] = (uint8_t)(third ^ turned);
		if (is_taken(set, &net))
			continue;
		(void)inet_ntop(AF_INET, net.address, text, sizeof(text)); /* always fits */
		(void)snprintf(out, 24, "%s/%u", text, net.bits);
		return true;
	}
	return false;
}
