/* SPDX-License-Identifier: MIT */
/*
 * fuzz_wire - any bytes as a control message of another node: refused with an error, or understood
 * as exactly what they say.
 *
 * What is accepted is written again and must give the same bytes (HELLO: but for what stands behind
 * its last field, which is ignored). So the decoder looks at every byte, accepts nothing that the
 * encoder would assert against, and strings stay inside the message.
 *
 * links: fm_wire
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fm_wire_msg m;
	static uint8_t again[FM_WIRE_MSG_MAX];
	int ret = fm_wire_decode(data, size, &m);
	size_t len;

	if (ret < 0) {
		check(ret == -EBADMSG || ret == -EPROTO || ret == -ERANGE);
		return 0;
	}
	check(fm_wire_type_name(m.type)[0] != '?');
	len = fm_wire_encode(&m, again);
	check(m.type == FM_WIRE_HELLO ? len <= size : len == size);
	check(memcmp(again, data, len) == 0);
	return 0;
}
