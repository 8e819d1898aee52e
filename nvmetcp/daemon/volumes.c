/* SPDX-License-Identifier: MIT */
/* volumes - see volumes.h. */
#include "nvmetcp/daemon/volumes.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/options.h"
#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"

_Static_assert((int)FM_CONFIG_VOLUME_EXCLUSIVE == (int)FM_VOLUME_EXCLUSIVE &&
		       (int)FM_CONFIG_VOLUME_READ_ONLY == (int)FM_VOLUME_READ_ONLY &&
		       (int)FM_CONFIG_VOLUME_SHARED_READ == (int)FM_VOLUME_SHARED_READ,
	       "the same modes");
_Static_assert(FM_CONFIG_NEVER == FM_VOLUME_NEVER, "the same never");
_Static_assert(FM_CONFIG_VOLUMES_MAX <= FM_VOLUMES_MAX &&
		       FM_CONFIG_PATHS_MAX + 1 <= FM_VOLUME_PATHS_MAX &&
		       FM_CONFIG_NODES_MAX <= FM_VOLUME_NODES_MAX &&
		       FM_OPTION_NQN_MAX <= FM_VOLUME_NQN_MAX &&
		       FM_VALUE_NAME_MAX <= FM_VOLUME_NAME_MAX,
	       "what may be configured has room");

struct fm_volumes_address {
	char host[FM_VALUE_HOST_MAX];
	char port[6];
};

/* Loading has checked them: a volume has one of address and discovery, and its paths. */
static unsigned count_addresses(const struct fm_config_volume *from)
{
	unsigned count = 1;

	while (from->paths[count - 1])
		count++;
	return count;
}

static void take_apart(const char *from, struct fm_volumes_address *text,
		       struct fm_volume_address *to)
{
	uint16_t port = 0;
	int ret = fm_value_address(from, false, text->host, sizeof(text->host), &port);

	assert(ret == 0);
	(void)ret;
	snprintf(text->port, sizeof(text->port), "%u", port);
	*to = (struct fm_volume_address){ .host = text->host, .port = text->port };
}

/* Returns the text behind those that it used. */
static struct fm_volumes_address *set_addresses(struct fm_volume *v,
						const struct fm_config_volume *from,
						struct fm_volumes_address *text)
{
	v->is_discovered = !from->address[0];
	v->address_count = count_addresses(from);
	take_apart(v->is_discovered ? from->discovery : from->address, text++, &v->address[0]);
	for (unsigned i = 1; i < v->address_count; i++)
		take_apart(from->paths[i - 1], text++, &v->address[i]);
	return text;
}

static const char *iopolicy_of(unsigned iopolicy)
{
	switch ((enum fm_config_iopolicy)iopolicy) {
	case FM_CONFIG_IOPOLICY_NUMA:
		return "numa";
	case FM_CONFIG_IOPOLICY_ROUND_ROBIN:
		return "round-robin";
	case FM_CONFIG_IOPOLICY_QUEUE_DEPTH:
		return "queue-depth";
	}
	abort();
}

static void set_nodes(struct fm_volume *v, char *const *nodes)
{
	v->has_nodes = !nodes[0] || strcmp(nodes[0], "*") != 0;
	for (; v->has_nodes && nodes[v->node_count]; v->node_count++)
		v->node[v->node_count] = nodes[v->node_count];
}

static struct fm_volume volume_of(const struct fm_config_volume *from)
{
	return (struct fm_volume){
		.name = from->name,
		.subsystem = from->subsystem,
		.host_address = from->host_address,
		.host_interface = from->host_interface,
		.queues = from->queues,
		.queue_size = from->queue_size,
		.keep_alive_s = from->keep_alive_s,
		.reconnect_delay_s = from->reconnect_delay_s,
		.ctrl_loss_s = from->ctrl_loss_s,
		.fast_io_fail_s = from->fast_io_fail_s,
		.has_header_digest = from->has_header_digest,
		.has_data_digest = from->has_data_digest,
		.secret_file = from->secret_file,
		.controller_secret_file = from->controller_secret_file,
		.has_tls = from->has_tls,
		.iopolicy = iopolicy_of(from->iopolicy),
		.nsid = from->nsid,
		.uuid = from->uuid,
		.nguid = from->nguid,
		.mount_point = from->mount_point,
		.fs_type = from->fs_type,
		.mount_options = from->mount_options,
		.mode = (enum fm_volume_mode)from->mode,
		.writer = from->writer,
	};
}

int fm_volumes_make(const struct fm_config *cfg, struct fm_volumes *out, struct fm_err *err)
{
	struct fm_volumes_address *text;
	unsigned addresses = 0;

	*out = (struct fm_volumes){ 0 };
	for (unsigned i = 0; i < cfg->volume_count; i++)
		addresses += count_addresses(&cfg->volumes[i]);
	out->volume = FM_FAULT("volumes.alloc")
			      ? NULL
			      : calloc(cfg->volume_count + 1, sizeof(*out->volume));
	out->text = FM_FAULT("volumes.alloc") ? NULL : calloc(addresses + 1, sizeof(*out->text));
	if (!out->volume || !out->text) {
		fm_volumes_clear(out);
		return fm_err_set(err, -ENOMEM, "out of memory");
	}
	text = out->text;
	for (; out->count < cfg->volume_count; out->count++) {
		out->volume[out->count] = volume_of(&cfg->volumes[out->count]);
		set_nodes(&out->volume[out->count], cfg->volumes[out->count].nodes);
		text = set_addresses(&out->volume[out->count], &cfg->volumes[out->count], text);
	}
	return 0;
}

void fm_volumes_clear(struct fm_volumes *volumes)
{
	free(volumes->volume);
	free(volumes->text);
	*volumes = (struct fm_volumes){ 0 };
}
