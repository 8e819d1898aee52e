/* SPDX-License-Identifier: MIT */
/*
 * tls - TLS 1.3 over a non-blocking socket between nodes that know each other by their Ed25519 keys.
 *
 * The one file that includes OpenSSL's headers. There is no certificate authority, and nothing of a certificate
 * counts but the key in it: each side shows a self-signed one made at start, and takes only a key that it was told
 * of. Sessions are never resumed and there is no early data, so every connection proves its key anew.
 *
 * Nothing here waits or calls back: the owner watches the descriptor for fm_tls_wants(). The descriptor stays the
 * owner's. One thread at a time.
 */
#ifndef FM_TRANSPORT_TLS_H
#define FM_TRANSPORT_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/err.h"
#include "mover/transport/transport.h"

struct fm_tls;
struct fm_tls_node;

/* ---- this node ---- */

/*
 * Read the private key: Ed25519, PEM, a regular file of ours or root's that nobody else may read. -EACCES, -EINVAL or
 * -ENOENT with a text that says what to do about it.
 */
int fm_tls_node_new(const char *key_file, struct fm_tls_node **out, struct fm_err *err);

/* No connection left. NULL is allowed. */
void fm_tls_node_free(struct fm_tls_node *node);

const uint8_t *fm_tls_node_key(const struct fm_tls_node *node);

/* ---- one connection ---- */

struct fm_tls_opts {
	int fd;
	bool is_dialled;
	bool is_join;		/* dialled: speak "fmove-join/1" in place of "fmove/1". Accepted: take that one, too */
	uint8_t key[FM_KEY_LEN];	/* dialled: the only one that will do */
	bool (*is_known)(void *ctx, const uint8_t key[FM_KEY_LEN]);	/* accepted; not asked in a join */
	void *ctx;
};

int fm_tls_new(struct fm_tls_node *node, const struct fm_tls_opts *opts, struct fm_tls **out, struct fm_err *err);
void fm_tls_free(struct fm_tls *tls);

/*
 * 0: done, the peer has proved its key. -EAGAIN: call again when fm_tls_wants() is ready. Else over, and err says
 * why: -EACCES a key that one side does not know, -EPROTO something that is not an fmove node, -EPROTONOSUPPORT
 * another version, -ECONNRESET.
 *
 * Of a dialled connection it is done before the other side has looked at our key; its refusal shows in fm_tls_read().
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

#endif
