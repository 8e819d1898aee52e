/* SPDX-License-Identifier: MIT */
/*
 * transport - how the engine reaches other nodes: control connections and data connections, as
 * tables of functions.
 *
 * A *control connection* carries whole messages in order, authenticated (TLS 1.3, keys pinned)
 * before the engine hears of it. It lives on the control loop. A *data connection* (a queue pair,
 * or a TCP connection) carries fixed-size messages, each with an optional payload that is in place
 * in the receiver's memory before the message is delivered. It is set up on the control loop and
 * then attached to one lane's loop, where everything of it happens from then on.
 * A *domain* is one session's protection domain (on every device): memory lent to a connection of
 * one session can be reached by that session's connections only.
 *
 * The engine uses nothing but struct fm_net; the simulator supplies its own. Callbacks are never
 * made from inside a call of this interface: they come in a later pass of the loop they belong to.
 */
#ifndef FM_TRANSPORT_H
#define FM_TRANSPORT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "mover/base/err.h"

struct fm_loop;
struct fm_ctl;
struct fm_conn;
struct fm_lender;
struct fm_domain;
struct fm_net;

#define FM_KEY_LEN 32			/* an Ed25519 public key, raw (RFC 8032) */
/* a one-time token that binds a data connection to a session */
#define FM_TOKEN_LEN 16
#define FM_CTL_MSG_MAX 65536		/* bytes of one control message */
#define FM_CTL_QUEUE_MAX (4u << 20)	/* bytes waiting to be sent on one control connection */
#define FM_DATA_MSG_LEN 64		/* every message of a data connection has this size */
/* messages of one direction of a data connection under way at once */
#define FM_DATA_MSGS_MAX 256
/*
 * What a data connection takes of the budget (mover/base/budget.h), about: TLS's buffers; a queue
 * pair's messages and rings.
 */
#define FM_TLS_DATA_BYTES (320u << 10)
#define FM_RDMA_DATA_BYTES (192u << 10)
#define FM_RAIL_NAME_MAX 32
#define FM_ADDRS_MAX 32			/* addresses of one node that may carry data */

/* The ways to carry data. */
enum fm_kind { FM_KIND_TCP, FM_KIND_RDMA, FM_KIND_COUNT };

/* ---- control connections ---- */

struct fm_ctl_events {
	/*
	 * Dialled connections only: the peer proved its key and wants ours. Accepted ones: see
	 * fm_net_events.accepted.
	 */
	void (*opened)(void *ctx);
	/* One whole message, 1 .. FM_CTL_MSG_MAX bytes; msg is valid during the call only. */
	void (*message)(void *ctx, const uint8_t *msg, size_t len);
	/*
	 * The connection failed, or the peer closed it; err says which in a line that can be shown.
	 * Once; then call close.
	 */
	void (*closed)(void *ctx, const struct fm_err *err);
};

/* ---- data connections ---- */

/* A local address that may carry data, or one that a peer told us of. */
struct fm_addr {
	/* AF_INET or AF_INET6; port unused. IPv6 link-local: sin6_scope_id is ours */
	struct sockaddr_storage sa;
	uint8_t prefix_len;		/* of its subnet, in bits */
	/* of the widest network of private_networks that has it, by the node whose it is; 0:
	 * none */
	uint8_t private_bits;
	bool is_rdma;			/* behind it is an RDMA device's active port */
	uint32_t speed_mbps;		/* of the link; 0: unknown */
	char name[FM_RAIL_NAME_MAX];	/* RDMA device, else network interface */
};

/*
 * Memory lent to a connection. `remote` and `rkey` are what a peer needs to write to it; opaque
 * outside the transport.
 */
struct fm_region {
	void *memory;
	size_t len;
	uint64_t remote;
	uint32_t rkey;
	uint32_t lkey;
	void *handle;
};

/* One message, with or without payload. The caller's until done(). */
struct fm_send {
	/* 0: it left, memory may be reused; -ECANCELED after close or failure */
	void (*done)(struct fm_send *send, int res);
	uint8_t msg[FM_DATA_MSG_LEN];
	const void *payload;		/* inside *region; NULL: message only */
	uint32_t payload_len;
	/* lent to the connection, or by its lender; NULL, over TCP: any memory that stays */
	const struct fm_region *region;
	uint64_t remote;		/* where in the peer's memory: granted address + offset */
	uint32_t rkey;
	/* The transport's: */
	uint32_t sent;
	unsigned posted;
	struct fm_send *next;
};

struct fm_conn_events {
	/* A message came, its payload (if any) is in place. msg is valid during the call only. */
	void (*message)(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN]);
	/* It broke. Once; every unfinished send is done with -ECANCELED before or after. Then call
	 * close. */
	void (*failed)(void *ctx, const struct fm_err *err);
	/* After close(): no peer can write to its regions any more, all sends are done, the
	 * connection is gone. */
	void (*closed)(void *ctx);
	/*
	 * TCP: a frame begins: whether len bytes may go to that place of the memory lent (as
	 * `remote` of struct fm_send), with this message behind them; len 0, remote 0: whether the
	 * message may come without any. Asked before the first of them is read; no: the connection
	 * breaks. What is written over RDMA nobody can be asked of. NULL: any place will do.
	 */
	bool (*may_write)(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN], uint64_t remote,
			  uint32_t len);
	/*
	 * TCP, asked after that: where the payload is to come instead, len bytes that stay until
	 * message(), divert() or close(). NULL: to the memory lent, where it may write. The event
	 * NULL: always.
	 */
	void *(*place)(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN], uint32_t len);
};

/* Who seals what a data connection carries. RDMA is plain. */
enum fm_encryption { FM_PLAIN, FM_TLS, FM_TLS_KERNEL, FM_ENCRYPTION_COUNT };

struct fm_conn_info {
	enum fm_kind kind;
	enum fm_encryption encryption;
	bool is_loopback;
	char local[FM_RAIL_NAME_MAX];	/* device or interface at our end, "" if not known */
	char local_addr[INET6_ADDRSTRLEN + 16];
	char remote_addr[INET6_ADDRSTRLEN + 16];
	/* RDMA: active path MTU; TCP: the interface's, 0 if not known */
	uint32_t mtu;
	uint32_t speed_mbps;		/* 0: not known */
	const char *note;		/* "RoCE v2", "RoCE v1", "TCP" */
};

/* Whether both are of one kind and leave through the same port of ours: by different addresses,
 * perhaps, but over the same cable. */
static inline bool fm_conn_is_same_way(const struct fm_conn_info *a, const struct fm_conn_info *b)
{
	if (a->kind != b->kind)
		return false;
	return a->local[0] ? strcmp(a->local, b->local) == 0
			   : strcmp(a->local_addr, b->local_addr) == 0;
}

/* Whether local_addr or remote_addr is that address, at whichever interface if it names none. */
static inline bool fm_conn_is_address(const char *shown, const char *address)
{
	size_t len = strlen(address);

	return strncmp(shown, address, len) == 0 && (shown[len] == '\0' || shown[len] == '%');
}

struct fm_conn_ops {
	/*
	 * Give the connection to the thread of loop and start delivery; messages that came before
	 * wait. Call on that thread. ctx and events serve until closed().
	 */
	void (*attach)(struct fm_conn *conn, struct fm_loop *loop,
		       const struct fm_conn_events *events, void *ctx);

	/* Lend memory (page-aligned). is_rx: the peer may write to it; else payloads are sent from
	 * it. Fills *out. */
	int (*lend)(struct fm_conn *conn, void *memory, size_t len, bool is_rx,
		    struct fm_region *out, struct fm_err *err);

	/* Take it back. The peer was asked first; a peer that writes there afterwards breaks its
	 * connection. */
	void (*take_back)(struct fm_conn *conn, struct fm_region *region);

	/*
	 * Who lends memory to send from to this connection and to every other one of its domain on
	 * the same device; as long as it is open. A reference, for the caller to put(). NULL: the
	 * transport sends from anywhere.
	 */
	struct fm_lender *(*lender)(struct fm_conn *conn);

	/*
	 * Attached: what is still to come of a payload goes to the memory lent, and nothing more to
	 * where place() said. NULL: the transport never asks that.
	 */
	void (*divert)(struct fm_conn *conn);

	/* At most FM_DATA_MSGS_MAX under way. On a broken connection done() comes with
	 * -ECANCELED. */
	void (*send)(struct fm_conn *conn, struct fm_send *send);

	/*
	 * Attached: closed() follows when the peer can no longer write. Not attached: at once, no
	 * callback, control thread.
	 */
	void (*close)(struct fm_conn *conn);

	/*
	 * Whether the far end's network has answered nothing at all for so long (several times as
	 * long where nothing is under way), neither data nor probes. Attached. NULL: the transport
	 * finds out by itself, and soon.
	 */
	bool (*is_silent)(const struct fm_conn *conn, uint64_t for_ns);

	/* Lives until close(). */
	const struct fm_conn_info *(*info)(const struct fm_conn *conn);
};

struct fm_conn {
	const struct fm_conn_ops *ops;
	/*
	 * The bytes of payloads that message() has looked at so far: whose events these are adds
	 * them. After some the connection's turn is over. Over TCP what came ends it sooner; over
	 * RDMA a message says of how many bytes it is, and costs its sender nothing.
	 */
	uint64_t looked;
	/* Over TCP, attached: bytes that left so far, those of a message that did not leave as a
	 * whole, too; of payloads that came so far likewise. 0 over RDMA. */
	uint64_t left;
	uint64_t came;
};

/*
 * What is lent by it is lent once, however many connections send from there, and outlives each of
 * them. Any thread, each of these.
 */
struct fm_lender_ops {
	/*
	 * Takes about as long as a copy of the memory, whose pages are then locked until
	 * take_back(). Nobody but we can reach them by it. memory stays mapped until this returns.
	 */
	int (*lend)(struct fm_lender *lender, const void *memory, size_t len,
		    struct fm_region *out, struct fm_err *err);

	/* No send from it is under way. Takes a while, too. */
	void (*take_back)(struct fm_lender *lender, struct fm_region *region);

	/* "mlx5_0"; lives as long as the reference. */
	const char *(*name)(const struct fm_lender *lender);

	/* Everything is taken back. Soon: its device is kept from being removed until then. */
	void (*put)(struct fm_lender *lender);
};

struct fm_lender {
	const struct fm_lender_ops *ops;
};

/* ---- the node's network ---- */

struct fm_ctl_dial {
	const char *host;		/* name or address; copied */
	uint16_t port;
	uint8_t key[FM_KEY_LEN];	/* the only key the far end may have */
	const struct fm_ctl_events *events;
	void *ctx;
	uint64_t timeout_ns;		/* for connecting and the handshake together */
	/* for connecting alone, which the far end's kernel answers at once; 0: no limit of its
	 * own */
	uint64_t connect_ns;
	/* Source bound to this address where the far end's is of that family; ss_family 0: the
	 * kernel's choice. */
	struct fm_addr local;
};

struct fm_data_dial {
	enum fm_kind kind;
	struct fm_addr local;		/* source bound to this address */
	struct fm_addr remote;
	uint16_t port;
	/* TCP: the peer's configuration takes it unencrypted between these addresses */
	bool is_plain_there;
	/* TCP: it said so, and then it did not: not even over loopback */
	bool needs_tls;
	uint8_t key[FM_KEY_LEN];	/* TCP: the only key the far end may have */
	uint8_t token[FM_TOKEN_LEN];
	struct fm_domain *domain;
	uint64_t timeout_ns;
	/*
	 * res 0: conn is ours, inert until attached. Else conn is NULL and err says why.
	 * -EOPNOTSUPP: only with TLS (is_plain_there was not so). Once.
	 */
	void (*done)(void *ctx, int res, struct fm_conn *conn, const struct fm_err *err);
	void *ctx;
};

struct fm_net_events {
	/*
	 * Which keys may connect: called during the handshake. A key that is not known gets nothing
	 * but the end of its connection.
	 */
	bool (*is_known)(void *ctx, const uint8_t key[FM_KEY_LEN]);

	/* A peer with a known key connected. Set *events and *ctl_ctx and keep ctl, or return
	 * false: it is closed. */
	bool (*accepted)(void *ctx, struct fm_ctl *ctl, const uint8_t key[FM_KEY_LEN],
			 const struct fm_ctl_events **events, void **ctl_ctx);

	/*
	 * A data connection presented a token. If it is one that was handed out and not used yet:
	 * use it up and return its session's domain, *tag for the next call. Else NULL: refused;
	 * *why is set only if the token was good, and there is no room for the connection.
	 * key: what it proved, which must be that of the session's peer; NULL: a plain connection
	 * proves none.
	 */
	struct fm_domain *(*token)(void *ctx, const uint8_t token[FM_TOKEN_LEN], enum fm_kind kind,
				   const uint8_t *key, void **tag, struct fm_err *why);

	/*
	 * It is established: conn is ours, inert until attached. Or it never will be: conn is NULL.
	 * Once per token() that was not NULL.
	 */
	void (*arrived)(void *ctx, void *tag, struct fm_conn *conn);

	/*
	 * A link, an address or a route of this machine is not what it was: look at addrs() again,
	 * dial again. As often as it happens. NULL: not wanted.
	 */
	void (*changed)(void *ctx);
};

/*
 * How a node that nobody knows yet comes in: a second protocol on the same port, "fmove-join/1",
 * with the same messages. The dialler still pins the key of the node that it joins; the acceptor
 * takes any key, and what the caller may do is for the messages to settle (a one-time token). Such
 * a connection never reaches fm_net_events.
 */
struct fm_tls_join_events {
	/* As fm_net_events.accepted, but key is only proved, not known. */
	bool (*accepted)(void *ctx, struct fm_ctl *ctl, const uint8_t key[FM_KEY_LEN],
			 const struct fm_ctl_events **events, void **ctl_ctx);
};

struct fm_net_ops {
	/* Start listening, on the control loop; events come from now on. */
	int (*start)(struct fm_net *net, const struct fm_net_events *events, void *ctx,
		     struct fm_err *err);

	/*
	 * Stop listening and drop half-made connections; no events afterwards, arrived() for a
	 * token just used up included. Connections that exist go on. Data dials under way end with
	 * done(-ECANCELED) in a later pass, or never if the net is freed before that pass.
	 */
	void (*stop)(struct fm_net *net);

	/* -> events->opened or ->closed. NULL: no memory. */
	struct fm_ctl *(*ctl_dial)(struct fm_net *net, const struct fm_ctl_dial *dial);

	/*
	 * Queue one message; before opened() it waits for that. -ENOBUFS over FM_CTL_QUEUE_MAX (the
	 * peer does not read: close it), -EPIPE when closed, -ENOMEM.
	 */
	int (*ctl_send)(struct fm_ctl *ctl, const uint8_t *msg, size_t len);

	/*
	 * Open, and what was sent is repeated and repeated, or waits for seconds, and nothing says
	 * that it arrives: a cable is cut, in this direction or in the other. A peer that is only
	 * busy is none of that. For who looks again and again, as twice a second. NULL: the
	 * transport finds out by itself, and soon.
	 */
	bool (*ctl_is_stuck)(struct fm_ctl *ctl);

	/* Bytes of the queue that are not sent yet. Who has much to say and can wait looks before
	 * ctl_send(). */
	size_t (*ctl_queued)(const struct fm_ctl *ctl);

	/* Flush what can be sent without waiting and free it. No events afterwards. NULL is
	 * allowed. */
	void (*ctl_close)(struct fm_ctl *ctl);

	/* "10.0.0.2:7471"; lives as long as ctl. */
	const char *(*ctl_peer)(const struct fm_ctl *ctl);

	/*
	 * Our addresses that may carry data, at most max; as they were, if they cannot be read just
	 * now. Those that serve best come first: a list that is full leaves out the last of them.
	 */
	size_t (*addrs)(struct fm_net *net, struct fm_addr *out, size_t max);

	/* Whether that is one of ours that may carry data, also where a list has no room for it;
	 * ports do not count. True where we have more than can be looked at. */
	bool (*has_addr)(struct fm_net *net, const struct sockaddr_storage *sa);

	/* The address at our end, at the peer's end, of a control connection: always worth trying
	 * for TCP. */
	void (*ctl_addrs)(const struct fm_ctl *ctl, struct fm_addr *local, struct fm_addr *remote);

	/*
	 * Where data connections of this kind are accepted; 0: nowhere, and *why says why (static
	 * or net's). With a port, why not just now; NULL: they are.
	 */
	uint16_t (*data_port)(struct fm_net *net, enum fm_kind kind, const char **why);

	/*
	 * dial is copied, and its done() comes in a later pass. -ENOMEM: it never comes, since
	 * there is no memory to remember it.
	 */
	int (*data_dial)(struct fm_net *net, const struct fm_data_dial *dial);

	int (*domain_new)(struct fm_net *net, struct fm_domain **out, struct fm_err *err);

	/* Every connection of it is gone. NULL is allowed. */
	void (*domain_free)(struct fm_domain *domain);
};

struct fm_net {
	const struct fm_net_ops *ops;
};

#endif
