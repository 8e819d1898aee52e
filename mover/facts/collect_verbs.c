/* SPDX-License-Identifier: MIT */
/*
 * collect_verbs - what only the device says of its ports: the RDMA MTU. A query changes nothing.
 * See collect_priv.h.
 */
#include "mover/facts/collect_priv.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

static void mtu_fact(struct fm_fact *fact, enum ibv_mtu mtu)
{
	if (mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096)
		fm_fact_number(fact, 128u << mtu);
	else
		fm_fact_unknown(fact, "the device says %d", (int)mtu);
}

static void query(struct fm_facts *facts, struct ibv_context *context, const char *device)
{
	struct ibv_port_attr attr;

	for (size_t i = 0; i < facts->ports_count; i++) {
		struct fm_facts_port *p = &facts->ports[i];

		if (!fm_fact_is(&p->device, device) || !p->port.is_known || p->port.n > UINT8_MAX)
			continue;
		if (ibv_query_port(context, (uint8_t)p->port.n, &attr) != 0) {
			fm_collect_failed(&p->rdma_mtu, -errno, "query port");
			continue;
		}
		mtu_fact(&p->rdma_mtu, attr.active_mtu);
		mtu_fact(&p->rdma_mtu_max, attr.max_mtu);
	}
}

static void all_failed(struct fm_facts *facts, const char *device, int code)
{
	for (size_t i = 0; i < facts->ports_count; i++)
		if (!device || fm_fact_is(&facts->ports[i].device, device)) {
			fm_collect_failed(&facts->ports[i].rdma_mtu, code, "open the device");
			fm_collect_failed(&facts->ports[i].rdma_mtu_max, code, "open the device");
		}
}

void fm_collect_verbs(struct fm_collect *c)
{
	struct ibv_device **devices;
	struct ibv_context *context;
	int count = 0;

	if (*c->root || c->facts->ports_count == 0)
		return;
	devices = ibv_get_device_list(&count);
	if (!devices) {
		all_failed(c->facts, NULL, -errno);
		return;
	}
	for (int i = 0; i < count; i++) {
		context = ibv_open_device(devices[i]);
		if (!context) {
			all_failed(c->facts, ibv_get_device_name(devices[i]), -errno);
			continue;
		}
		query(c->facts, context, ibv_get_device_name(devices[i]));
		(void)ibv_close_device(context); /* nothing was made with it */
	}
	ibv_free_device_list(devices);
}
