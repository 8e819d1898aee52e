/* SPDX-License-Identifier: MIT */
/*
 * fuzz_said - any bytes as what fmove-nvmed keeps for fmoved, and as what fmoved tells fmove-nvmed
 * of a peer: understood within limits, or refused whole.
 *
 * links: fm_services fm_nvmetcp
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/json.h"
#include "mover/services/volumes_file.h"
#include "nvmetcp/peers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void try_file(const uint8_t *data, size_t size)
{
	struct fm_volume_said *volumes;
	struct fm_err err = { 0 };
	unsigned count;

	if (fm_volumes_parse((const char *)data, size, &volumes, &count, &err) < 0) {
		check(err.text[0]);
		return;
	}
	check(count <= FM_VOLUMES_SAID_MAX);
	for (unsigned i = 0; i < count; i++)
		check(volumes[i].name[0] && volumes[i].subsystem[0] &&
		      strlen(volumes[i].wwid) < sizeof(volumes[i].wwid));
	free(volumes);
}

/* Twice: the second time the node is known. */
static void try_event(const uint8_t *data, size_t size)
{
	struct fm_peers peers = { 0 }, before = { 0 };
	struct fm_json *event = NULL;
	int ret, again;

	(void)fm_json_parse((const char *)data, size, &event, NULL);
	ret = fm_peers_add(&peers, event);
	again = fm_peers_add(&peers, event);
	check(ret == again);
	check(ret < 0 ? peers.node_count == 0 && peers.volume_count == 0 : peers.node_count == 1);
	(void)fm_peers_add(&before, event);
	check(fm_peers_keep(&before, &peers) == 0);
	check(fm_peers_are_equal(&peers, &peers));
	fm_peers_clear(&peers);
	fm_peers_clear(&before);
	fm_json_free(event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_file(data, size);
	try_event(data, size);
	return 0;
}
