/* SPDX-License-Identifier: MIT */
/*
 * rdma_nodes - two nodes of one process with nothing in them but the RDMA transport, and ends of
 * connections that count what happens to them. Everything runs on one thread: step() gives each
 * loop its turn.
 */
#ifndef FM_LAB_RDMA_NODES_H
#define FM_LAB_RDMA_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/loop.h"
#include "mover/transport/rdma.h"
#include "tests/fm_test.h"

#define MIB (1u << 20)
#define PORT_A 7481
#define PORT_B 7482
#define WAIT_NS (FM_TEST_HANG_S * FM_NS_PER_S)
#define ARENA (8 * (size_t)MIB)
#define TOKEN "0123456789abcdef"

struct fm_domain {
	struct fm_rdma_domain *rdma;
};

struct node {
	struct fm_loop *ctl, *lane;
	struct fm_rdma *rdma;
	struct fm_domain domain;
	struct fm_domain *accept_domain;	/* which domain a token leads to */
	struct sockaddr_storage sa;
	uint16_t port;
	struct fm_conn *arrived;
	unsigned arrivals, arrivals_failed, tokens_seen;
	int dial_res;
	bool is_dialled;
	struct fm_conn *dialled;
	struct fm_err dial_err;
};

struct end {
	struct fm_conn *conn;
	void (*on_message)(struct end *end, const uint8_t *msg);
	unsigned messages, sends_good, sends_cancelled;
	unsigned failures, closes;
	uint64_t order_next, order_errors;
	struct fm_err err;
	struct fm_region rx, tx;
	uint64_t remote;	/* of the other end's rx */
	uint32_t rkey;
	void *user;
};

struct test_send {
	struct fm_send send;
	struct end *end;
	bool is_free;
};

extern struct node node_a, node_b;
extern uint8_t *arena_a, *arena_b;

/* Step until cond, or for WAIT_NS. Yields cond. */
#define UNTIL(cond) \
	__extension__({ \
		uint64_t until_end = now_ns() + WAIT_NS; \
		while (!(cond) && now_ns() < until_end) \
			step(); \
		(cond); \
	})

/* "10.1.0.1", "fe80::1%eth0". Ends the process if it is none. */
void parse_addr(const char *text, struct sockaddr_storage *out);
uint8_t *map_arena(size_t len);
uint64_t now_ns(void);

/* Listening on port; dials from addr. */
int node_try_open(struct node *n, const char *addr, uint16_t port, struct fm_err *err);

/* Ends the process if that fails. */
void node_open(struct node *n, const char *addr, uint16_t port);

/* The transport asserts that nothing is left. */
void node_close(struct node *n);

void node_step(struct node *n, uint64_t max_ns);
void step(void);

/* n->is_dialled follows. */
void node_dial(struct node *n, const struct sockaddr_storage *to, uint16_t port, const char *token,
	       uint64_t timeout_ns);

void end_attach(struct end *e, struct node *n, struct fm_conn *conn);

/* a dials b; both attached, memory lent both ways. */
void connect_ends(struct end *a, struct end *b);
void close_end(struct end *e);

/* len bytes from our tx memory at `from` to the other end's rx at `to`; no payload if len is 0. */
void send_to(struct end *e, struct test_send *s, uint64_t number, size_t from, size_t to,
	     uint32_t len);
void send_done(struct fm_send *send, int res);

void put_u64(uint8_t *msg, unsigned at, uint64_t v);
uint64_t get_u64(const uint8_t *msg, unsigned at);

/* A pattern that differs for each seed, and whether it is there. */
void fill(uint8_t *p, size_t len, uint64_t seed);
bool is_filled(const uint8_t *p, size_t len, uint64_t seed);

/* A receiver's on_message: messages must come in order, each with its pattern in place. */
void on_message_check(struct end *e, const uint8_t *msg);

/* rdma_failures.c */
extern const struct fm_test rdma_failure_tests[];
extern const size_t rdma_failure_count;

/* rdma_rate.c */
int serve_main(const char *addr, const char *port, bool is_waiting);
int send_main(const char *local, const char *addr, const char *port, const char *chunks);

#endif
