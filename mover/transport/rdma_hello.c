/* SPDX-License-Identifier: MIT */
/* rdma_hello - see rdma_hello.h. */
#include "mover/transport/rdma_hello.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/base/bytes.h"

_Static_assert(RDMA_REQUEST_LEN == 4 + 1 + 1 + 2 + FM_TOKEN_LEN,
	       "the request and its table disagree");
_Static_assert(RDMA_ANSWER_LEN == 4 + 1 + 1 + 2, "the answer and its table disagree");

void fm_rdma_request_encode(uint8_t buf[static RDMA_REQUEST_LEN], const struct rdma_hello *hello)
{
	struct fm_writer w = { buf, buf + RDMA_REQUEST_LEN, false };

	assert(hello->mtu >= IBV_MTU_256 && hello->mtu <= IBV_MTU_4096);
	fm_put_le32(&w, RDMA_HELLO_MAGIC);
	fm_put_u8(&w, RDMA_HELLO_VERSION);
	fm_put_u8(&w, (uint8_t)hello->mtu);
	fm_put_le16(&w, 0);
	fm_put_bytes(&w, hello->token, FM_TOKEN_LEN);
	assert(!w.failed && w.at == w.end);
}

enum rdma_refusal fm_rdma_request_decode(const uint8_t *buf, size_t len, struct rdma_hello *out)
{
	struct fm_reader r = { buf, buf + len, false };
	uint32_t magic = fm_get_le32(&r);
	uint8_t version = fm_get_u8(&r);
	uint8_t mtu = fm_get_u8(&r);
	uint16_t flags = fm_get_le16(&r);
	uint8_t token[FM_TOKEN_LEN];

	fm_get_bytes(&r, token, sizeof(token));
	if (r.failed || magic != RDMA_HELLO_MAGIC)
		return RDMA_REFUSAL_GARBAGE;
	if (version != RDMA_HELLO_VERSION)
		return RDMA_REFUSAL_VERSION;
	if (flags != 0 || mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
		return RDMA_REFUSAL_GARBAGE;
	out->mtu = mtu;
	memcpy(out->token, token, sizeof(token));
	return RDMA_REFUSAL_NONE;
}

void fm_rdma_answer_encode(uint8_t buf[static RDMA_ANSWER_LEN], unsigned mtu,
			   enum rdma_refusal reason)
{
	struct fm_writer w = { buf, buf + RDMA_ANSWER_LEN, false };

	fm_put_le32(&w, RDMA_HELLO_MAGIC);
	fm_put_u8(&w, RDMA_HELLO_VERSION);
	fm_put_u8(&w, (uint8_t)mtu);
	fm_put_le16(&w, (uint16_t)reason);
	assert(!w.failed && w.at == w.end);
}

int fm_rdma_answer_decode(const uint8_t *buf, size_t len, struct rdma_answer *out)
{
	struct fm_reader r = { buf, buf + len, false };
	uint32_t magic = fm_get_le32(&r);
	uint8_t version = fm_get_u8(&r);
	uint8_t mtu = fm_get_u8(&r);
	uint16_t reason = fm_get_le16(&r);

	if (r.failed || magic != RDMA_HELLO_MAGIC)
		return -EPROTO;
	if (reason == RDMA_REFUSAL_NONE &&
	    (version != RDMA_HELLO_VERSION || mtu < IBV_MTU_256 || mtu > IBV_MTU_4096))
		return -EPROTO;
	*out = (struct rdma_answer){ .version = version, .mtu = mtu, .reason = reason };
	return 0;
}
