/* SPDX-License-Identifier: MIT */
/* lookup - see lookup.h. */
#include "client/doctor/lookup.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

bool fm_net_of(const struct fm_fact *address, const struct fm_fact *bits, struct fm_network *out)
{
	unsigned all;

	memset(out, 0, sizeof(*out));
	if (!address->is_known)
		return false;
	out->family = strchr(address->text, ':') ? AF_INET6 : AF_INET;
	all = out->family == AF_INET ? 32 : 128;
	if (inet_pton(out->family, address->text, out->address) != 1 ||
	    (bits && (!bits->is_known || bits->n > all)))
		return false;
	out->bits = (uint8_t)(bits ? bits->n : all);
	return true;
}

const char *fm_net_text(const struct fm_fact *address, const struct fm_fact *bits,
			char out[static FM_NETWORK_TEXT_MAX])
{
	struct fm_network net;

	(void)snprintf(out, FM_NETWORK_TEXT_MAX, "/0"); /* of what is no network */
	if (fm_net_of(address, bits, &net)) {
		for (unsigned i = net.bits; i < sizeof(net.address) * 8; i++)
			net.address[i / 8] &= (uint8_t) ~(0x80u >> i % 8);
		fm_network_print(&net, out);
	}
	return out;
}

bool fm_net_has(const struct fm_network *net, const struct fm_network *address)
{
	return fm_network_has(net, address->family, address->address);
}

bool fm_net_is_same(const struct fm_network *a, const struct fm_network *b)
{
	return a->bits == b->bits && fm_net_has(a, b);
}

bool fm_net_is_equal(const struct fm_network *a, const struct fm_network *b)
{
	return a->family == b->family && memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

bool fm_gid_is_of(const struct fm_facts_gid *g, const struct fm_network *address)
{
	uint8_t ip[16], mapped[16] = { [10] = 0xff, [11] = 0xff };

	if (!g->gid.is_known || inet_pton(AF_INET6, g->gid.text, ip) != 1)
		return false;
	if (address->family == AF_INET6)
		return memcmp(ip, address->address, sizeof(ip)) == 0;
	memcpy(mapped + 12, address->address, 4);
	return memcmp(ip, mapped, sizeof(ip)) == 0;
}

const struct fm_facts_interface *fm_interface_of(const struct fm_facts *f,
						 const struct fm_fact *name)
{
	for (size_t i = 0; i < f->interfaces_count; i++)
		if (fm_fact_is_same(&f->interfaces[i].name, name))
			return &f->interfaces[i];
	return NULL;
}

const struct fm_facts_port *fm_port_of(const struct fm_facts *f, const struct fm_fact *interface)
{
	for (size_t i = 0; i < f->ports_count; i++)
		if (fm_fact_is_same(&f->ports[i].interface, interface))
			return &f->ports[i];
	return NULL;
}

const struct fm_facts_address *fm_address_next(const struct fm_facts *f,
					       const struct fm_fact *interface,
					       const struct fm_facts_address *after)
{
	const struct fm_facts_address *a = after ? after + 1 : f->addresses;

	for (; a < f->addresses + f->addresses_count; a++)
		if (fm_fact_is_same(&a->interface, interface))
			return a;
	return NULL;
}

bool fm_has_address(const struct fm_facts *f, const struct fm_fact *interface,
		    bool is_link_local_enough)
{
	for (size_t i = 0; i < f->addresses_count; i++) {
		const struct fm_facts_address *a = &f->addresses[i];

		if (a->interface.is_known && !fm_fact_is_same(&a->interface, interface))
			continue;
		if (is_link_local_enough || !fm_fact_is_true(&a->link_local))
			return true;
	}
	return false;
}

const struct fm_facts_address *fm_ipv4_of(const struct fm_facts *f, const struct fm_fact *interface)
{
	const struct fm_facts_address *a = fm_address_next(f, interface, NULL);
	struct fm_network net;

	while (a && !(fm_net_of(&a->address, &a->bits, &net) && net.family == AF_INET &&
		      !fm_fact_is_true(&a->link_local)))
		a = fm_address_next(f, interface, a);
	return a;
}

/*
 * Two ports of one device, as ConnectX-3 has them, share a PCIe link and have cages of their own.
 */
bool fm_is_sibling(const struct fm_facts_port *a, const struct fm_facts_port *b)
{
	return a != b && a->device.is_known && b->device.is_known &&
	       fm_fact_is_same(&a->card, &b->card) && fm_fact_is_same(&a->cage, &b->cage) &&
	       a->pci.is_known && b->pci.is_known && !fm_fact_is_same(&a->pci, &b->pci);
}

bool fm_is_active(const struct fm_facts_port *p)
{
	return fm_fact_is(&p->state, "ACTIVE");
}

/* 128b/130b, or 8b/10b up to 5 GT/s. */
double fm_pcie_raw_mbps(const struct fm_fact *mtps, const struct fm_fact *lanes)
{
	if (!mtps->is_known || !lanes->is_known)
		return 0;
	return (double)mtps->n * (double)lanes->n * (mtps->n > 5000 ? 128.0 / 130.0 : 0.8);
}

double fm_pcie_mbps(const struct fm_facts_port *p, bool is_max)
{
	double mbps = is_max ? fm_pcie_raw_mbps(&p->pcie_mtps_max, &p->pcie_lanes_max)
			     : fm_pcie_raw_mbps(&p->pcie_mtps, &p->pcie_lanes);

	return p->mps.is_known ? mbps * (double)p->mps.n / ((double)p->mps.n + FM_PCIE_HEADER)
			       : mbps;
}

double fm_roce_share(double rdma_mtu)
{
	return rdma_mtu / (rdma_mtu + FM_ROCE_OVERHEAD);
}
