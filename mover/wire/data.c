/* SPDX-License-Identifier: MIT */
/*
 * data - the 64-byte messages of data connections.
 *
 * One per chunk and direction, so it is on the data path: no allocation, one CRC over 60 bytes. The
 * message's own CRC is there because TCP's checksum is weak and because memory on the way (a NIC's,
 * a bridge's) is nobody's: a chunk whose descriptor was hit must not be written somewhere else.
 */
#include <errno.h>

#include "mover/base/block.h"
#include "mover/base/bytes.h"
#include "mover/base/crc32c.h"
#include "mover/wire/wire.h"

_Static_assert(FM_WIRE_CHUNK_MIN == FM_BLOCK, "the smallest chunk is a block");

#define CRC_AT 60
#define ZERO_LEN 20
_Static_assert(FM_DATA_MSG_SIZE == 1 + 1 + 2 + 4 + 8 + 8 + 8 + 4 + 4 + ZERO_LEN + 4,
	       "size and field table disagree");
_Static_assert(FM_WIRE_SLOTS_MAX <= UINT16_MAX, "slot is 16 bits wide");
_Static_assert(FM_WIRE_CHUNK_MAX <= UINT32_MAX, "length is 32 bits wide");

struct fm_grant fm_grant_of(const struct fm_data_msg *m)
{
	return (struct fm_grant){.generation = m->generation,
				 .slots = m->slot,
				 .slot_bytes = m->length,
				 .rkey = m->data_crc,
				 .remote = m->xfer};
}

struct fm_data_msg fm_grant_msg(const struct fm_grant *g)
{
	return (struct fm_data_msg){ .type = FM_DATA_GRANT, .generation = g->generation,
				     .slot = (uint16_t)g->slots, .length = g->slot_bytes,
				     .data_crc = g->rkey, .xfer = g->remote };
}

static int check_chunk(const struct fm_data_msg *m)
{
	if (m->status != 0 || m->slot >= FM_WIRE_SLOTS_MAX)
		return -ERANGE;
	if (m->length < 1 || m->length > FM_WIRE_CHUNK_MAX)
		return -ERANGE;
	return m->offset > FM_WIRE_SIZE_MAX - m->length ? -ERANGE : 0;
}

static int check_ack(const struct fm_data_msg *m)
{
	if (m->status > FM_ACK_BUSY || m->slot >= FM_WIRE_SLOTS_MAX)
		return -ERANGE;
	return m->offset || m->length || m->data_crc ? -ERANGE : 0;
}

/* The last byte of the last slot must have an address, too. */
static int check_grant(const struct fm_data_msg *m)
{
	struct fm_grant g = fm_grant_of(m);

	if (m->status || m->seq || m->offset)
		return -ERANGE;
	if (g.slots < 1 || g.slots > FM_WIRE_SLOTS_MAX)
		return -ERANGE;
	if (g.slot_bytes < FM_WIRE_CHUNK_MIN || g.slot_bytes > FM_WIRE_CHUNK_MAX ||
	    g.slot_bytes % FM_BLOCK != 0)
		return -ERANGE;
	return g.remote > UINT64_MAX - (uint64_t)g.slots * g.slot_bytes ? -ERANGE : 0;
}

static int check_bare(const struct fm_data_msg *m)
{
	bool is_bare = !m->status && !m->slot && !m->xfer && !m->seq && !m->offset && !m->length &&
		       !m->data_crc;

	return is_bare ? 0 : -ERANGE;
}

static int check(const struct fm_data_msg *m)
{
	if (m->type < FM_DATA_GRANT || m->type > FM_DATA_WANT)
		return -EPROTO;
	if ((m->generation == 0) != (m->type == FM_DATA_WANT))
		return -ERANGE;
	switch ((enum fm_data_type)m->type) {
	case FM_DATA_GRANT:
		return check_grant(m);
	case FM_DATA_CHUNK:
		return check_chunk(m);
	case FM_DATA_ACK:
		return check_ack(m);
	case FM_DATA_REVOKE:
	case FM_DATA_RETURN:
	case FM_DATA_WANT:
		break;
	}
	return check_bare(m);
}

int fm_data_encode(const struct fm_data_msg *msg, uint8_t buf[static FM_DATA_MSG_SIZE])
{
	static const uint8_t zeros[ZERO_LEN];
	struct fm_writer w = { buf, buf + FM_DATA_MSG_SIZE, false };

	if (check(msg) < 0)
		return -EINVAL;
	fm_put_u8(&w, msg->type);
	fm_put_u8(&w, msg->status);
	fm_put_le16(&w, msg->slot);
	fm_put_le32(&w, msg->generation);
	fm_put_le64(&w, msg->xfer);
	fm_put_le64(&w, msg->seq);
	fm_put_le64(&w, msg->offset);
	fm_put_le32(&w, msg->length);
	fm_put_le32(&w, msg->data_crc);
	fm_put_bytes(&w, zeros, ZERO_LEN);
	fm_put_le32(&w, fm_crc32c(0, buf, CRC_AT));
	return 0;
}

int fm_data_decode(const uint8_t buf[static FM_DATA_MSG_SIZE], struct fm_data_msg *msg)
{
	struct fm_reader r = { buf, buf + FM_DATA_MSG_SIZE, false };
	uint64_t zeros;

	msg->type = fm_get_u8(&r);
	msg->status = fm_get_u8(&r);
	msg->slot = fm_get_le16(&r);
	msg->generation = fm_get_le32(&r);
	msg->xfer = fm_get_le64(&r);
	msg->seq = fm_get_le64(&r);
	msg->offset = fm_get_le64(&r);
	msg->length = fm_get_le32(&r);
	msg->data_crc = fm_get_le32(&r);
	zeros = fm_get_le32(&r);
	zeros |= fm_get_le64(&r);
	zeros |= fm_get_le64(&r);
	if (fm_get_le32(&r) != fm_crc32c(0, buf, CRC_AT))
		return -EILSEQ;
	return zeros ? -ERANGE : check(msg);
}
