/* SPDX-License-Identifier: MIT */
/*
 * tls - TLS 1.3 over a non-blocking socket between nodes that know each other by their Ed25519
 * keys.
 *
 * Two uses: messages of control connections in a stream of their own, and the bytes of data
 * connections, gathered from and scattered to memory. For the latter the kernel does the work where
 * library and kernel have TLS for it; then the owner uses the socket as if it were plain, and bytes
 * are sealed and opened on their way.
 *
 * The one file that includes OpenSSL's headers. There is no certificate authority, and nothing of a
 * certificate counts but the key in it: each side shows a self-signed one made at start, and takes
 * only a key that it was told of. Sessions are never resumed and there is no early data, so every
 * connection proves its key anew. After the handshake no node sends a message of TLS itself
 * (another key, a ticket): the first one ends the connection, -EPROTO.
 *
 * Nothing here waits or calls back: the owner watches the descriptor for fm_tls_wants(). The
 * descriptor stays the owner's. One thread at a time.
 */
#ifndef FM_TRANSPORT_TLS_H
#define FM_TRANSPORT_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "mover/base/err.h"
#include "mover/transport/transport.h"

struct fm_tls;
struct fm_tls_node;

/* ---- this node ---- */

/*
 * Read the private key: Ed25519, PEM, a regular file of ours or root's that nobody else may read.
 * -EACCES, -EINVAL or -ENOENT with a text that says what to do about it.
 */
int fm_tls_node_new(const char *key_file, struct fm_tls_node **out, struct fm_err *err);

/* No connection left. NULL is allowed. */
void fm_tls_node_free(struct fm_tls_node *node);

const uint8_t *fm_tls_node_key(const struct fm_tls_node *node);

/* ---- one connection ---- */

struct fm_tls_opts {
	int fd;
	bool is_dialled;
	/* dialled: speak "fmove-join/1" in place of "fmove/1". Accepted: take that one, too */
	bool is_join;
	/* dialled: speak "fmove-data/1", a data connection. Accepted: that one is always taken */
	bool is_data;
	uint8_t key[FM_KEY_LEN];	/* dialled: the only one that will do */
	/* accepted; not asked in a join */
	bool (*is_known)(void *ctx, const uint8_t key[FM_KEY_LEN]);
	void *ctx;
};

int fm_tls_new(struct fm_tls_node *node, const struct fm_tls_opts *opts, struct fm_tls **out,
	       struct fm_err *err);
void fm_tls_free(struct fm_tls *tls);

/*
 * 0: done, the peer has proved its key. -EAGAIN: call again when fm_tls_wants() is ready. Else
 * over, and err says why: -EACCES a key that one side does not know, -EPROTO something that is not
 * an fmove node, -EPROTONOSUPPORT another version, -ECONNRESET.
 *
 * Of a dialled connection it is done before the other side has looked at our key; its refusal shows
 * in fm_tls_read().
 */
int fm_tls_handshake(struct fm_tls *tls, struct fm_err *err);

/* Bytes moved; -EAGAIN; 0 (read only): the peer closed it properly; else over, and err says why. */
ssize_t fm_tls_read(struct fm_tls *tls, void *buf, size_t len, struct fm_err *err);
ssize_t fm_tls_write(struct fm_tls *tls, const void *buf, size_t len, struct fm_err *err);

/* EPOLLIN or EPOLLOUT: what the call that returned -EAGAIN last waits for. */
uint32_t fm_tls_wants(const struct fm_tls *tls);

/* Whether bytes are waiting that epoll does not know of. */
bool fm_tls_has_pending(const struct fm_tls *tls);

/* Say that no more will come, if that goes without waiting. */
void fm_tls_end(struct fm_tls *tls);

/* After the handshake. */
const uint8_t *fm_tls_peer_key(const struct fm_tls *tls);
bool fm_tls_is_join(const struct fm_tls *tls);
bool fm_tls_is_data(const struct fm_tls *tls);

/* ---- the bytes of a data connection, is_data, after the handshake ---- */

#define FM_TLS_BROKEN_SEAL "what came was changed on the way: its seal is broken"
#define FM_TLS_RECORD_MAX 16384u	/* bytes that are sealed as one */
/*
 * So many records of one direction may be sealed with one key (AES-GCM: 2^24.5, RFC 8446,
 * section 5.5). Keys are not changed, since kernels cannot: whoever has sealed so many makes a new
 * connection.
 */
#define FM_TLS_RECORDS_MAX (1u << 24)

/* What the kernel does: send(2) seals, recv(2) opens. Where it does, the functions below are not
 * for that direction. */
bool fm_tls_is_kernel_sending(const struct fm_tls *tls);
bool fm_tls_is_kernel_receiving(const struct fm_tls *tls);

/* After set-up, before the first of the functions below: what came ahead of its turn, which the
 * kernel could not open, is an error. */
int fm_tls_begin_data(struct fm_tls *tls, struct fm_err *err);

/*
 * As sendmsg(2) and recvmsg(2): bytes moved, which may be fewer; -EAGAIN; 0 (receive only): the
 * peer closed it; else over, and err says why. What was not moved must come again in the next call,
 * with the same bytes, and perhaps more behind them. What was moved may be used again, though it
 * may not have left yet: then there is some unsent, to be flushed when the socket takes more.
 */
ssize_t fm_tls_sendv(struct fm_tls *tls, const struct iovec *iov, unsigned count,
		     struct fm_err *err);
ssize_t fm_tls_recvv(struct fm_tls *tls, const struct iovec *iov, unsigned count,
		     struct fm_err *err);
bool fm_tls_has_unsent(const struct fm_tls *tls);
int fm_tls_flush(struct fm_tls *tls, struct fm_err *err);

#endif
