/* SPDX-License-Identifier: MIT */
/*
 * rdma_hello - what the two ends of an RDMA connection tell each other while it is made: the
 * private data of the connection manager's request, answer and refusal. Little-endian; hostile
 * until checked. Any thread.
 *
 *   request                                        answer, refusal
 *   off len field                                  off len field
 *     0   4 magic     RDMA_HELLO_MAGIC               0   4 magic     RDMA_HELLO_MAGIC
 *     4   1 version   RDMA_HELLO_VERSION             4   1 version   RDMA_HELLO_VERSION
 *     5   1 mtu       enum ibv_mtu of the port       5   1 mtu       enum ibv_mtu of the path;
 *                                                        refusal: 0
 *     6   2 flags     0                              6   2 reason    answer: 0; refusal: enum
 *                                                        rdma_refusal
 *     8  16 token
 * Anything may follow: the connection manager fills up with zeros, and later versions may add to
 * it.
 */
#ifndef FM_TRANSPORT_RDMA_HELLO_H
#define FM_TRANSPORT_RDMA_HELLO_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/transport/transport.h"

#define RDMA_HELLO_MAGIC UINT32_C(0x52444d46)	/* "FMDR" */
#define RDMA_HELLO_VERSION 1
#define RDMA_REQUEST_LEN 24
#define RDMA_ANSWER_LEN 8

enum rdma_refusal {
	RDMA_REFUSAL_NONE = 0,
	RDMA_REFUSAL_TOKEN = 1,		/* not known, used already, too old */
	RDMA_REFUSAL_VERSION = 2,	/* the refusal's version is the one spoken */
	RDMA_REFUSAL_GARBAGE = 3,
	RDMA_REFUSAL_BUSY = 4,
	RDMA_REFUSAL_FAILED = 5,
};

struct rdma_hello {
	enum ibv_mtu mtu;
	uint8_t token[FM_TOKEN_LEN];
};

struct rdma_answer {
	unsigned version;
	unsigned mtu;
	unsigned reason;
};

void fm_rdma_request_encode(uint8_t buf[static RDMA_REQUEST_LEN], const struct rdma_hello *hello);

/* RDMA_REFUSAL_NONE and *out, or what to refuse it with. */
enum rdma_refusal fm_rdma_request_decode(const uint8_t *buf, size_t len, struct rdma_hello *out);

/* mtu is 0 in a refusal, reason RDMA_REFUSAL_NONE in an answer. */
void fm_rdma_answer_encode(uint8_t buf[static RDMA_ANSWER_LEN], unsigned mtu,
			   enum rdma_refusal reason);

/*
 * -EPROTO if it is not of our kind, or accepts with values out of range. A refusal may have any
 * version and reason.
 */
int fm_rdma_answer_decode(const uint8_t *buf, size_t len, struct rdma_answer *out);

#endif
