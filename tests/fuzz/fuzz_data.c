/* SPDX-License-Identifier: MIT */
/*
 * fuzz_data - any 64 bytes as a message of a data connection: refused, or understood as exactly
 * what they say.
 *
 * The message's own CRC stops a fuzzer at once, so the same bytes are tried as they are and with
 * the CRC set right, as a hostile peer would. Shorter inputs are filled up with zeros.
 *
 * links: fm_wire
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/crc32c.h"
#include "mover/wire/wire.h"

#define CRC_AT 60

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void try_message(const uint8_t msg[FM_DATA_MSG_SIZE])
{
	uint8_t again[FM_DATA_MSG_SIZE];
	struct fm_data_msg m;
	int ret = fm_data_decode(msg, &m);

	if (ret < 0) {
		check(ret == -EILSEQ || ret == -EPROTO || ret == -ERANGE);
		return;
	}
	fm_data_encode(&m, again);
	check(memcmp(again, msg, sizeof(again)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t msg[FM_DATA_MSG_SIZE] = {0};
	uint32_t crc;

	memcpy(msg, data, size < sizeof(msg) ? size : sizeof(msg));
	try_message(msg);
	crc = fm_crc32c(0, msg, CRC_AT);
	for (unsigned i = 0; i < 4; i++)
		msg[CRC_AT + i] = (uint8_t)(crc >> (8 * i));
	try_message(msg);
	return 0;
}
