/* SPDX-License-Identifier: MIT */
/*
 * tls - TLS 1.3 between nodes that know each other by key.
 *
 * How a refusal gets to the other side in words: the verify callback chooses X509 errors that OpenSSL turns into
 * alerts of which nothing else here makes use. "Your key is not known here" is unknown_ca (48), "you are not whom I
 * called" is bad_certificate (42), "no such version" is ALPN's no_application_protocol (120).
 *
 * The socket is behind a BIO of our own, since OpenSSL's uses write(2), which raises SIGPIPE.
 */
#include "mover/transport/tls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/fault.h"

#define KEY_FILE_MAX 16384
#define CERT_LEN_MAX 8192	/* ours has some 300 bytes */
#define KEY_SHOWN 8		/* bytes of a key in an error */

static const uint8_t alpn_peer[] = "\x07" "fmove/1";
static const uint8_t alpn_join[] = "\x0c" "fmove-join/1";
#define ALPN_LEN(alpn) ((unsigned)sizeof(alpn) - 1)

struct fm_tls_node {
	SSL_CTX *ctx;
	BIO_METHOD *bio_method;
	uint8_t key[FM_KEY_LEN];
};

struct fm_tls {
	SSL *ssl;
	struct fm_tls_opts opts;
	uint32_t wants;
	int sys_errno;			/* of the last call on the socket that failed */
	bool is_open;			/* the handshake is done */
	uint8_t peer_key[FM_KEY_LEN];
	struct fm_err refusal;		/* why we refused the peer; code 0: we did not */
};

/* ---- the private key ---- */

static int key_file_check(int fd, const char *path, struct fm_err *err)
{
	struct stat st;

	if (FM_FAULT("tls.key_stat") || fstat(fd, &st) < 0)
		return fm_err_set(err, -EIO, "%s: cannot be examined", path);
	if (!S_ISREG(st.st_mode))
		return fm_err_set(err, -EINVAL, "%s: not a regular file", path);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return fm_err_set(err, -EACCES, "%s: belongs to user %u, not to this one or root", path,
				  (unsigned)st.st_uid);
	if (st.st_mode & 077)
		return fm_err_set(err, -EACCES, "%s: others may use it (mode %04o); run: chmod 0400 %s", path,
				  (unsigned)st.st_mode & 07777, path);
	return 0;
}

/* No prompt: a daemon has nobody to ask. */
static int no_password(char *buf, int size, int is_write, void *ctx)
{
	(void)buf;
	(void)size;
	(void)is_write;
	(void)ctx;
	return -1;
}

static int key_parse(const char *text, int len, const char *path, EVP_PKEY **out, struct fm_err *err)
{
	EVP_PKEY *pkey = NULL;
	BIO *bio;

	bio = FM_FAULT("tls.key_bio") ? NULL : BIO_new_mem_buf(text, len);
	if (!bio)
		return fm_err_set(err, -ENOMEM, "read %s: no memory", path);
	if (!FM_FAULT("tls.key_parse"))
		pkey = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
	BIO_free(bio);
	ERR_clear_error();
	if (!pkey)
		return fm_err_set(err, -EINVAL, "%s: not a private key in PEM (make one with: fmove keygen)", path);
	if (!EVP_PKEY_is_a(pkey, "ED25519")) {
		fm_err_set(err, -EINVAL, "%s: a key, but not an Ed25519 one (make one with: fmove keygen)", path);
		EVP_PKEY_free(pkey);
		return -EINVAL;
	}
	*out = pkey;
	return 0;
}

static int key_load(const char *path, EVP_PKEY **out, struct fm_err *err)
{
	char text[KEY_FILE_MAX];
	ssize_t n;
	int fd, ret;

	/* O_NONBLOCK: a pipe in its place must not hang the start. */
	fd = FM_FAULT("tls.key_open") ? (errno = EMFILE, -1) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return fm_err_set(err, -ENOENT, "%s: there is no such file (make a key with: fmove keygen)", path);
	if (fd < 0)
		return fm_err_sys(err, -errno, "%s", path);
	ret = key_file_check(fd, path, err);
	if (ret < 0)
		goto close_fd;
	n = FM_FAULT("tls.key_read") ? (errno = EIO, -1) : read(fd, text, sizeof(text));
	if (n < 0)
		ret = fm_err_sys(err, -errno, "read %s", path);
	else
		ret = key_parse(text, (int)n, path, out, err);
	OPENSSL_cleanse(text, sizeof(text));

close_fd:
	close(fd);
	return ret;
}

static bool key_of(EVP_PKEY *pkey, uint8_t key[FM_KEY_LEN])
{
	size_t len = FM_KEY_LEN;

	return pkey && EVP_PKEY_is_a(pkey, "ED25519") && EVP_PKEY_get_raw_public_key(pkey, key, &len) == 1 &&
	       len == FM_KEY_LEN;
}

/* ---- the certificate: what TLS wants around a key ---- */

static bool cert_fill(X509 *cert, EVP_PKEY *pkey)
{
	X509_NAME *name = X509_get_subject_name(cert);

	return X509_set_version(cert, X509_VERSION_3) && ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"fmove", -1, -1, 0) &&
	       X509_set_issuer_name(cert, name) &&
	       ASN1_TIME_set_string(X509_getm_notBefore(cert), "19700101000000Z") &&
	       ASN1_TIME_set_string(X509_getm_notAfter(cert), "99991231235959Z") &&	/* RFC 5280: no end */
	       X509_set_pubkey(cert, pkey) && X509_sign(cert, pkey, NULL);
}

static bool ctx_set_identity(SSL_CTX *ctx, EVP_PKEY *pkey)
{
	X509 *cert = FM_FAULT("tls.cert") ? NULL : X509_new();
	bool is_set;

	is_set = cert && cert_fill(cert, pkey) && SSL_CTX_use_certificate(ctx, cert) &&
		 SSL_CTX_use_PrivateKey(ctx, pkey);
	X509_free(cert);
	return is_set;
}

/* ---- whom we take ---- */

static void key_text(const uint8_t key[FM_KEY_LEN], char out[2 * KEY_SHOWN + 3])
{
	for (unsigned i = 0; i < KEY_SHOWN; i++)
		snprintf(out + 2 * i, 3, "%02x", key[i]);
	memcpy(out + 2 * KEY_SHOWN, "..", 3);
}

static int refuse(struct fm_tls *tls, X509_STORE_CTX *store, int x509_error, int code, const char *text)
{
	fm_err_set(&tls->refusal, code, "%s", text);
	X509_STORE_CTX_set_error(store, x509_error);
	return 0;
}

static int refuse_called(struct fm_tls *tls, X509_STORE_CTX *store)
{
	char wanted[2 * KEY_SHOWN + 3], got[2 * KEY_SHOWN + 3], text[160];

	key_text(tls->opts.key, wanted);
	key_text(tls->peer_key, got);
	snprintf(text, sizeof(text), "its key is not the one in the configuration (expected %s, got %s)", wanted, got);
	return refuse(tls, store, X509_V_ERR_CERT_REJECTED, -EACCES, text);
}

static int refuse_caller(struct fm_tls *tls, X509_STORE_CTX *store)
{
	char got[2 * KEY_SHOWN + 3], text[160];

	key_text(tls->peer_key, got);
	snprintf(text, sizeof(text), "its key %s is not known here", got);
	return refuse(tls, store, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, -EACCES, text);
}

/*
 * In place of all of X.509's checks. That the peer has the private half, too, is OpenSSL's to check: it does so right
 * after this, and the handshake ends otherwise.
 */
static int verify(X509_STORE_CTX *store, void *arg)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct fm_tls *tls = SSL_get_app_data(ssl);
	X509 *cert = X509_STORE_CTX_get0_cert(store);

	(void)arg;
	if (!cert || FM_FAULT("tls.peer_key") || !key_of(X509_get0_pubkey(cert), tls->peer_key))
		return refuse(tls, store, X509_V_ERR_CERT_REJECTED, -EPROTO,
			      "not an fmove node (its certificate has no Ed25519 key)");
	if (tls->opts.is_dialled) {
		if (CRYPTO_memcmp(tls->peer_key, tls->opts.key, FM_KEY_LEN) != 0)
			return refuse_called(tls, store);
	} else if (!fm_tls_is_join(tls) && !tls->opts.is_known(tls->opts.ctx, tls->peer_key)) {
		return refuse_caller(tls, store);
	}
	X509_STORE_CTX_set_error(store, X509_V_OK);
	return 1;
}

static bool alpn_has(const uint8_t *in, unsigned len, const uint8_t *name, unsigned name_len)
{
	for (unsigned at = 0; at < len; at += 1u + in[at])
		if (len - at >= name_len && memcmp(in + at, name, name_len) == 0)
			return true;
	return false;
}

static int alpn_select(SSL *ssl, const uint8_t **out, uint8_t *out_len, const uint8_t *in, unsigned len, void *arg)
{
	struct fm_tls *tls = SSL_get_app_data(ssl);
	const uint8_t *name;

	(void)arg;
	if (alpn_has(in, len, alpn_peer, ALPN_LEN(alpn_peer)))
		name = alpn_peer;
	else if (tls->opts.is_join && alpn_has(in, len, alpn_join, ALPN_LEN(alpn_join)))
		name = alpn_join;
	else
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = name + 1;
	*out_len = name[0];
	return SSL_TLSEXT_ERR_OK;
}

/* ---- the socket as OpenSSL sees it ---- */

static int sock_result(BIO *bio, ssize_t n, int retry)
{
	struct fm_tls *tls = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	if (n >= 0)
		return (int)n;
	if (errno == EAGAIN || errno == EINTR)
		BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
	else
		tls->sys_errno = errno;
	return -1;
}

static int sock_write(BIO *bio, const char *buf, int len)
{
	struct fm_tls *tls = BIO_get_data(bio);
	ssize_t n;

	n = FM_FAULT("tls.send") ? (errno = EPIPE, -1)
				 : send(tls->opts.fd, buf, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sock_result(bio, n, BIO_FLAGS_WRITE);
}

static int sock_read(BIO *bio, char *buf, int len)
{
	struct fm_tls *tls = BIO_get_data(bio);
	ssize_t n;

	n = FM_FAULT("tls.recv") ? (errno = ECONNRESET, -1) : recv(tls->opts.fd, buf, (size_t)len, MSG_DONTWAIT);
	if (n == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return sock_result(bio, n, BIO_FLAGS_READ);
}

static long sock_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
	(void)num;
	(void)ptr;
	switch (cmd) {
	case BIO_CTRL_FLUSH:
		return 1;	/* nothing is kept back */
	case BIO_CTRL_EOF:
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	default:
		return 0;
	}
}

static BIO_METHOD *sock_method_new(void)
{
	BIO_METHOD *m = FM_FAULT("tls.bio_method") ? NULL : BIO_meth_new(BIO_TYPE_SOURCE_SINK, "fmove");

	if (m && BIO_meth_set_write(m, sock_write) && BIO_meth_set_read(m, sock_read) &&
	    BIO_meth_set_ctrl(m, sock_ctrl))
		return m;
	BIO_meth_free(m);
	return NULL;
}

/* ---- this node ---- */

static bool ctx_set_up(SSL_CTX *ctx)
{
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_cert_verify_callback(ctx, verify, NULL);
	SSL_CTX_set_alpn_select_cb(ctx, alpn_select, NULL);
	SSL_CTX_set_max_cert_list(ctx, CERT_LEN_MAX);
	return SSL_CTX_set_num_tickets(ctx, 0) && SSL_CTX_set_max_early_data(ctx, 0) &&
	       SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) && SSL_CTX_set1_groups_list(ctx, "X25519") &&
	       SSL_CTX_set1_sigalgs_list(ctx, "ed25519");
}

int fm_tls_node_new(const char *key_file, struct fm_tls_node **out, struct fm_err *err)
{
	struct fm_tls_node *node;
	EVP_PKEY *pkey = NULL;
	int ret;

	assert(key_file && out);
	ret = key_load(key_file, &pkey, err);
	if (ret < 0) {
		fm_err_wrap(err, "this node's key");
		return ret;
	}
	node = FM_FAULT("tls.alloc_node") ? NULL : calloc(1, sizeof(*node));
	if (!node)
		goto free_pkey;
	node->bio_method = sock_method_new();
	if (!node->bio_method || !key_of(pkey, node->key))
		goto free_node;
	node->ctx = FM_FAULT("tls.ctx") ? NULL : SSL_CTX_new(TLS_method());
	if (!node->ctx || !ctx_set_up(node->ctx) || !ctx_set_identity(node->ctx, pkey))
		goto free_node;
	EVP_PKEY_free(pkey);
	*out = node;
	return 0;

free_node:
	fm_tls_node_free(node);
	ERR_clear_error();
free_pkey:
	EVP_PKEY_free(pkey);
	return fm_err_set(err, -ENOMEM, "set up TLS");
}

void fm_tls_node_free(struct fm_tls_node *node)
{
	if (!node)
		return;
	SSL_CTX_free(node->ctx);
	BIO_meth_free(node->bio_method);
	free(node);
}

const uint8_t *fm_tls_node_key(const struct fm_tls_node *node)
{
	return node->key;
}

/* ---- one connection ---- */

static bool tls_attach(struct fm_tls *tls, struct fm_tls_node *node)
{
	const uint8_t *alpn = tls->opts.is_join ? alpn_join : alpn_peer;
	unsigned alpn_len = tls->opts.is_join ? ALPN_LEN(alpn_join) : ALPN_LEN(alpn_peer);
	BIO *bio = FM_FAULT("tls.bio") ? NULL : BIO_new(node->bio_method);

	if (!bio)
		return false;
	BIO_set_data(bio, tls);
	BIO_set_init(bio, 1);
	SSL_set_bio(tls->ssl, bio, bio);	/* the SSL owns it from here on */
	SSL_set_app_data(tls->ssl, tls);
	if (!tls->opts.is_dialled) {
		SSL_set_accept_state(tls->ssl);
		return true;
	}
	SSL_set_connect_state(tls->ssl);
	return SSL_set_alpn_protos(tls->ssl, alpn, alpn_len) == 0;	/* 0 is success, of this one alone */
}

int fm_tls_new(struct fm_tls_node *node, const struct fm_tls_opts *opts, struct fm_tls **out, struct fm_err *err)
{
	struct fm_tls *tls;

	assert(opts->fd >= 0 && (opts->is_dialled || opts->is_known));
	tls = FM_FAULT("tls.alloc") ? NULL : calloc(1, sizeof(*tls));
	if (!tls)
		return fm_err_set(err, -ENOMEM, "allocate TLS connection");
	tls->opts = *opts;
	tls->wants = EPOLLIN;
	tls->ssl = FM_FAULT("tls.ssl") ? NULL : SSL_new(node->ctx);
	if (!tls->ssl || !tls_attach(tls, node)) {
		fm_tls_free(tls);
		return fm_err_set(err, -ENOMEM, "allocate TLS connection");
	}
	*out = tls;
	return 0;
}

void fm_tls_free(struct fm_tls *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	ERR_clear_error();
	free(tls);
}

/* A fatal alert of the peer, or a record that makes no sense. */
static int err_of_reason(int reason, bool is_open, struct fm_err *err)
{
	const char *text;

	switch (reason) {
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
		return fm_err_set(err, -EACCES, "this node's key is not known there");
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
		return fm_err_set(err, -EACCES, "it expects another key than this node's");
	case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
	case SSL_R_NO_APPLICATION_PROTOCOL:
		return fm_err_set(err, -EPROTONOSUPPORT, "it speaks another version of fmove's protocol");
	case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
		return fm_err_set(err, -EACCES, "not an fmove node (it showed no key)");
	case SSL_R_UNEXPECTED_EOF_WHILE_READING:
		return is_open ? fm_err_set(err, -ECONNRESET, "the connection broke off")
			       : fm_err_set(err, -ECONNRESET, "it closed the connection during the handshake");
	}
	text = ERR_reason_error_string((unsigned long)ERR_PACK(ERR_LIB_SSL, 0, reason));
	return fm_err_set(err, -EPROTO, "%s (TLS: %s)", is_open ? "what it sent makes no sense" : "not an fmove node",
			  text ? text : "unknown error");
}

/* What SSL_get_error() says, as -EAGAIN, 0 for the proper end, or an error with its text. */
static int tls_result(struct fm_tls *tls, int ssl_error, struct fm_err *err)
{
	unsigned long first = ERR_peek_error();

	switch (ssl_error) {
	case SSL_ERROR_WANT_READ:
		tls->wants = EPOLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		tls->wants = EPOLLOUT;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	}
	ERR_clear_error();
	if (tls->refusal.code) {
		if (err)
			*err = tls->refusal;
		return tls->refusal.code;
	}
	if (tls->sys_errno == ECONNRESET || tls->sys_errno == EPIPE)
		return fm_err_set(err, -ECONNRESET, "it reset the connection%s",
				  tls->is_open ? "" : " during the handshake");
	if (tls->sys_errno == ETIMEDOUT)
		return fm_err_set(err, -ETIMEDOUT, "it does not answer any more");
	if (tls->sys_errno)
		return fm_err_sys(err, -tls->sys_errno, "connection");
	if (first && ERR_GET_LIB(first) == ERR_LIB_SSL)
		return err_of_reason(ERR_GET_REASON(first), tls->is_open, err);
	return fm_err_set(err, -EPROTO, "TLS: %s", first ? "a cryptographic check failed" : "unknown error");
}

/* The peer proved its key, but did it also name our protocol? A client may leave that out. */
static int handshake_end(struct fm_tls *tls, struct fm_err *err)
{
	const uint8_t *name;
	unsigned len;

	SSL_get0_alpn_selected(tls->ssl, &name, &len);
	if (len == 0)
		return fm_err_set(err, -EPROTONOSUPPORT, "it speaks another version of fmove's protocol");
	tls->is_open = true;
	tls->wants = EPOLLIN;
	return 0;
}

int fm_tls_handshake(struct fm_tls *tls, struct fm_err *err)
{
	int ret;

	assert(!tls->is_open);
	ERR_clear_error();
	ret = SSL_do_handshake(tls->ssl);
	if (ret == 1)
		return handshake_end(tls, err);
	ret = tls_result(tls, SSL_get_error(tls->ssl, ret), err);
	if (ret == 0)
		ret = fm_err_set(err, -ECONNRESET, "it closed the connection during the handshake");
	return ret;
}

ssize_t fm_tls_read(struct fm_tls *tls, void *buf, size_t len, struct fm_err *err)
{
	size_t n = 0;
	int ret;

	assert(tls->is_open && len > 0);
	ERR_clear_error();
	ret = SSL_read_ex(tls->ssl, buf, len, &n);
	return ret == 1 ? (ssize_t)n : tls_result(tls, SSL_get_error(tls->ssl, ret), err);
}

ssize_t fm_tls_write(struct fm_tls *tls, const void *buf, size_t len, struct fm_err *err)
{
	size_t n = 0;
	int ret;

	assert(tls->is_open && len > 0);
	ERR_clear_error();
	ret = SSL_write_ex(tls->ssl, buf, len, &n);
	if (ret == 1)
		return (ssize_t)n;
	ret = tls_result(tls, SSL_get_error(tls->ssl, ret), err);
	return ret == 0 ? fm_err_set(err, -ECONNRESET, "it closed the connection") : ret;
}

uint32_t fm_tls_wants(const struct fm_tls *tls)
{
	return tls->wants;
}

bool fm_tls_has_pending(const struct fm_tls *tls)
{
	return SSL_has_pending(tls->ssl) == 1;
}

void fm_tls_end(struct fm_tls *tls)
{
	if (!tls->is_open || tls->sys_errno)
		return;
	ERR_clear_error();
	(void)SSL_shutdown(tls->ssl);	/* a courtesy: if it does not go out now, it does not go out */
	ERR_clear_error();
}

const uint8_t *fm_tls_peer_key(const struct fm_tls *tls)
{
	return tls->peer_key;
}

bool fm_tls_is_join(const struct fm_tls *tls)
{
	const uint8_t *name;
	unsigned len;

	SSL_get0_alpn_selected(tls->ssl, &name, &len);
	return len == alpn_join[0] && memcmp(name, alpn_join + 1, len) == 0;
}
