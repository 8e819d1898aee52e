/* SPDX-License-Identifier: MIT */
/*
 * tls - TLS 1.3 between nodes that know each other by key.
 *
 * How a refusal gets to the other side in words: the verify callback chooses X509 errors that
 * OpenSSL turns into alerts of which nothing else here makes use. "Your key is not known here" is
 * unknown_ca (48), "you are not whom I called" is bad_certificate (42), "no such version" is ALPN's
 * no_application_protocol (120).
 *
 * The socket is behind a BIO of our own, since OpenSSL's uses write(2), which raises SIGPIPE. For
 * data connections one of OpenSSL's is behind ours, and hands keys to the kernel if OpenSSL asks
 * for that.
 *
 * What a MiB of data costs where the library seals it: 64 records, each sealed in OpenSSL's buffer
 * and put behind the others in one of ours, and one send(2) for OUT_RECORDS of them: sent one by
 * one they would leave as segments of one record, which costs the network more than a copy of bytes
 * that are in the nearest cache. At the other end one recv(2) for each IN_RECORDS, and each is
 * opened in OpenSSL's buffer and copied into the slot.
 */
#include "mover/transport/tls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tls.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/base/private_file.h"

#define KEY_FILE_MAX 16384
#define CERT_LEN_MAX 8192	/* ours has some 300 bytes */
#define KEY_SHOWN 8		/* bytes of a key in an error */
#define RECORD_OVERHEAD 256u	/* header, tag, padding: 22 bytes and what the library aligns */
#define OUT_RECORDS 8u
#define IN_RECORDS 8u
#define OUT_BYTES (OUT_RECORDS * (FM_TLS_RECORD_MAX + RECORD_OVERHEAD))	/* of one send(2) of data */
#define IN_BYTES (IN_RECORDS * (FM_TLS_RECORD_MAX + RECORD_OVERHEAD))	/* of one recv(2) of data */
#define SMALL_MAX 4096u		/* bytes up to which neighbours are put into one record */

/* What OpenSSL tells a BIO of kernel TLS; of these its headers name GET_SEND and GET_RECV only
 * (openssl/bio.h, "internal BIO"). */
#define KTLS_SET 72
#define KTLS_SEND_CONTROL 74
#define KTLS_CLEAR_CONTROL 75

static const uint8_t alpn_peer[] = "\x07" "fmove/1";
static const uint8_t alpn_join[] = "\x0c" "fmove-join/1";
static const uint8_t alpn_data[] = "\x0c" "fmove-data/1";
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
	/* data: [out_at, out_len) is sealed and not sent; NULL: records are sent one by one */
	uint8_t *out;
	size_t out_at, out_len;
	bool is_drained;		/* data: the last recv(2) took all there was */
	BIO *kernel;			/* data: OpenSSL's own for the socket; NULL: none */
	/* the kernel seals: type of the record that is sent next, 0: data */
	uint8_t control;
	int over;			/* data: receiving ended with this, to be told next */
	struct fm_err over_err;
	uint8_t peer_key[FM_KEY_LEN];
	struct fm_err refusal;		/* why we refuse the peer; code 0: we do not */
};

/* ---- the private key ---- */

/* No prompt: a daemon has nobody to ask. */
static int no_password(char *buf, int size, int is_write, void *ctx)
{
	(void)buf;
	(void)size;
	(void)is_write;
	(void)ctx;
	return -1;
}

static int key_parse(const char *text, int len, const char *path, EVP_PKEY **out,
		     struct fm_err *err)
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
		return fm_err_set(err, -EINVAL,
				  "%s: not a private key in PEM (make one with: fmove keygen)",
				  path);
	if (!EVP_PKEY_is_a(pkey, "ED25519")) {
		fm_err_set(err, -EINVAL,
			   "%s: a key, but not an Ed25519 one (make one with: fmove keygen)", path);
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
	fd = FM_FAULT("tls.key_open") ? (errno = EMFILE, -1)
				      : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return fm_err_set(err, -ENOENT,
				  "%s: there is no such file (make a key with: fmove keygen)",
				  path);
	if (fd < 0)
		return fm_err_sys(err, -errno, "%s", path);
	ret = fm_private_file_check(fd, path, geteuid(), err);
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

	return pkey && EVP_PKEY_is_a(pkey, "ED25519") &&
	       EVP_PKEY_get_raw_public_key(pkey, key, &len) == 1 && len == FM_KEY_LEN;
}

/* ---- the certificate: what TLS wants around a key ---- */

static bool cert_fill(X509 *cert, EVP_PKEY *pkey)
{
	X509_NAME *name = X509_get_subject_name(cert);

	return X509_set_version(cert, X509_VERSION_3) &&
	       ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"fmove", -1,
					  -1, 0) &&
	       X509_set_issuer_name(cert, name) &&
	       ASN1_TIME_set_string(X509_getm_notBefore(cert), "19700101000000Z") &&
	       /* RFC 5280: no end */
	       ASN1_TIME_set_string(X509_getm_notAfter(cert), "99991231235959Z") &&
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

static int refuse(struct fm_tls *tls, X509_STORE_CTX *store, int x509_error, int code,
		  const char *text)
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
	snprintf(text, sizeof(text),
		 "its key is not the one in the configuration (expected %s, got %s)", wanted, got);
	return refuse(tls, store, X509_V_ERR_CERT_REJECTED, -EKEYREJECTED, text);
}

static int refuse_caller(struct fm_tls *tls, X509_STORE_CTX *store)
{
	char got[2 * KEY_SHOWN + 3], text[160];

	key_text(tls->peer_key, got);
	snprintf(text, sizeof(text), "its key %s is not known here", got);
	return refuse(tls, store, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, -EACCES, text);
}

/*
 * In place of all of X.509's checks. That the peer has the private half, too, is OpenSSL's to
 * check: it does so right after this, and the handshake ends otherwise.
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

/* Before the handshake has made the keys that data is sealed with. An acceptor may be here twice:
 * see alpn_select(). */
static bool prepare_data(struct fm_tls *tls)
{
	if (tls->kernel)
		return true;
	tls->kernel = FM_FAULT("tls.kernel_bio") ? NULL : BIO_new_socket(tls->opts.fd, BIO_NOCLOSE);
	if (!tls->kernel)
		return false;
	SSL_set_options(tls->ssl, SSL_OP_ENABLE_KTLS);
	SSL_set_default_read_buffer_len(tls->ssl, IN_BYTES);
	return true;
}

/* Comes twice if the dialler was asked for another key exchange. Then the second hello must ask for
 * what the first did. */
static int alpn_select(SSL *ssl, const uint8_t **out, uint8_t *out_len, const uint8_t *in,
		       unsigned len, void *arg)
{
	struct fm_tls *tls = SSL_get_app_data(ssl);
	const uint8_t *name;

	(void)arg;
	if (alpn_has(in, len, alpn_peer, ALPN_LEN(alpn_peer)))
		name = alpn_peer;
	else if (alpn_has(in, len, alpn_data, ALPN_LEN(alpn_data)))
		name = alpn_data;
	else if (tls->opts.is_join && alpn_has(in, len, alpn_join, ALPN_LEN(alpn_join)))
		name = alpn_join;
	else
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	if (name == alpn_data ? !prepare_data(tls) : tls->kernel != NULL)
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

/* The kernel seals what is sent, and must be told what is no data: an alert, say. */
static ssize_t send_control(const struct fm_tls *tls, const char *buf, size_t len)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(1)];
	} control = { .bytes = { 0 } };
	struct iovec iov = { .iov_base = (char *)(uintptr_t)buf, .iov_len = len };
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};

	control.head.cmsg_level = SOL_TLS;
	control.head.cmsg_type = TLS_SET_RECORD_TYPE;
	control.head.cmsg_len = CMSG_LEN(1);
	*CMSG_DATA(&control.head) = tls->control;
	return sendmsg(tls->opts.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* 0: all that was sealed has left. Else errno is set. */
static int out_flush(struct fm_tls *tls)
{
	ssize_t n;

	while (tls->out_at < tls->out_len) {
		n = FM_FAULT("tls.flush")
			    ? (errno = EPIPE, -1)
			    : send(tls->opts.fd, tls->out + tls->out_at, tls->out_len - tls->out_at,
				   MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return -1;
		tls->out_at += (size_t)n;
	}
	tls->out_at = tls->out_len = 0;
	return 0;
}

/* Behind the others. Full: what is there must leave first. */
static ssize_t out_add(struct fm_tls *tls, const char *buf, size_t len)
{
	if (OUT_BYTES - tls->out_len < len && out_flush(tls) < 0)
		return -1;
	if (len > OUT_BYTES)
		len = OUT_BYTES;
	memcpy(tls->out + tls->out_len, buf, len);
	tls->out_len += len;
	return (ssize_t)len;
}

static int sock_write(BIO *bio, const char *buf, int len)
{
	struct fm_tls *tls = BIO_get_data(bio);
	ssize_t n;

	if (tls->out)
		n = out_add(tls, buf, (size_t)len);
	else if (FM_FAULT("tls.send"))
		n = (errno = EPIPE, -1);
	else if (tls->control)
		n = send_control(tls, buf, (size_t)len);
	else
		n = send(tls->opts.fd, buf, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n >= 0)
		tls->control = 0;
	return sock_result(bio, n, BIO_FLAGS_WRITE);
}

static int sock_read(BIO *bio, char *buf, int len)
{
	struct fm_tls *tls = BIO_get_data(bio);
	ssize_t n;

	/* A short read emptied the socket: do not ask again only to hear EAGAIN. */
	if (tls->is_drained)
		n = (errno = EAGAIN, -1);
	else if (fm_tls_is_kernel_receiving(tls))
		/* a whole record, opened, with the header that OpenSSL wants before it */
		n = BIO_read(tls->kernel, buf, len);
	else
		n = FM_FAULT("tls.recv") ? (errno = ECONNRESET, -1)
					 : recv(tls->opts.fd, buf, (size_t)len, MSG_DONTWAIT);
	if (n == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	tls->is_drained = n > 0 && n < len && SSL_get_read_ahead(tls->ssl);
	return sock_result(bio, n, BIO_FLAGS_READ);
}

static long sock_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
	struct fm_tls *tls = BIO_get_data(bio);

	switch (cmd) {
	case KTLS_SET:
	case BIO_CTRL_GET_KTLS_SEND:
	case BIO_CTRL_GET_KTLS_RECV:
		return tls && tls->kernel ? BIO_ctrl(tls->kernel, cmd, num, ptr) : 0;
	case KTLS_SEND_CONTROL:
		tls->control = (uint8_t)num;
		return 0;
	case KTLS_CLEAR_CONTROL:
		tls->control = 0;
		return 0;
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
	BIO_METHOD *m =
		FM_FAULT("tls.bio_method") ? NULL : BIO_meth_new(BIO_TYPE_SOURCE_SINK, "fmove");

	if (m && BIO_meth_set_write(m, sock_write) && BIO_meth_set_read(m, sock_read) &&
	    BIO_meth_set_ctrl(m, sock_ctrl))
		return m;
	BIO_meth_free(m);
	return NULL;
}

/* ---- this node ---- */

#ifdef __aarch64__
static bool has_aes(void)
{
	return (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
}
#elif defined(__x86_64__)
static bool has_aes(void)
{
	return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}
#else
static bool has_aes(void)
{
	return false;
}
#endif

/*
 * The acceptor chooses by what it has, unless the dialler put ChaCha20 first, which says that it
 * has no instructions for AES. Keys of 128 bits: the key exchange and the nodes' keys are no
 * stronger.
 */
static bool ctx_set_ciphers(SSL_CTX *ctx)
{
	SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	return SSL_CTX_set_ciphersuites(
		ctx, has_aes() ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
			       : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256");
}

/*
 * No node says anything of TLS's own once the handshake is done, neither a new key nor a ticket.
 * SSL_read() would deal with such records for as long as they come, and none of them is data. So
 * the first one ends the connection, before the library looks into it: told that nothing more is
 * wanted, SSL_read() returns.
 */
static void message_seen(int is_sent, int version, int type, const void *buf, size_t len, SSL *ssl,
			 void *arg)
{
	struct fm_tls *tls = SSL_get_app_data(ssl);

	(void)version;
	(void)arg;
	if (type == SSL3_RT_INNER_CONTENT_TYPE && len > 0)
		type = *(const uint8_t *)buf;
	if (is_sent || !tls->is_open || type != SSL3_RT_HANDSHAKE)
		return;
	fm_err_set(&tls->refusal, -EPROTO, "it sent what no fmove node sends (TLS: a message after "
					   "the handshake)");
	SSL_set_shutdown(ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

static bool ctx_set_up(SSL_CTX *ctx)
{
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(ctx,
			    SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_msg_callback(ctx, message_seen);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_cert_verify_callback(ctx, verify, NULL);
	SSL_CTX_set_alpn_select_cb(ctx, alpn_select, NULL);
	SSL_CTX_set_max_cert_list(ctx, CERT_LEN_MAX);
	return ctx_set_ciphers(ctx) && SSL_CTX_set_num_tickets(ctx, 0) &&
	       SSL_CTX_set_max_early_data(ctx, 0) &&
	       SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set1_groups_list(ctx, "X25519") && SSL_CTX_set1_sigalgs_list(ctx, "ed25519");
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

/* What a dialler asks for. */
static const uint8_t *alpn_of(const struct fm_tls_opts *opts, unsigned *len)
{
	if (opts->is_data) {
		*len = ALPN_LEN(alpn_data);
		return alpn_data;
	}
	*len = opts->is_join ? ALPN_LEN(alpn_join) : ALPN_LEN(alpn_peer);
	return opts->is_join ? alpn_join : alpn_peer;
}

static bool tls_attach(struct fm_tls *tls, struct fm_tls_node *node)
{
	unsigned alpn_len;
	const uint8_t *alpn = alpn_of(&tls->opts, &alpn_len);
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
	if (tls->opts.is_data && !prepare_data(tls))
		return false;
	/* 0 is success, of this one alone */
	return SSL_set_alpn_protos(tls->ssl, alpn, alpn_len) == 0;
}

int fm_tls_new(struct fm_tls_node *node, const struct fm_tls_opts *opts, struct fm_tls **out,
	       struct fm_err *err)
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
	BIO_free(tls->kernel);
	free(tls->out);
	ERR_clear_error();
	free(tls);
}

/* A fatal alert of the peer, or a record that makes no sense. */
static int err_of_reason(const struct fm_tls *tls, int reason, struct fm_err *err)
{
	bool is_open = tls->is_open;
	const char *text;

	switch (reason) {
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
		return fm_err_set(err, -EACCES,
				  "this node's key is not known there; fmove invite there prints "
				  "the line that lets it in");
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
		return fm_err_set(err, -EACCES, "it expects another key than this node's");
	case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
	case SSL_R_NO_APPLICATION_PROTOCOL:
		if (tls->opts.is_dialled && tls->opts.is_join)
			return fm_err_set(err, -ENOKEY,
					  "no invitation is open there: one is good once, and for "
					  "minutes; \"fmove invite\" there "
					  "makes a new one");
		return fm_err_set(err, -EPROTONOSUPPORT,
				  "it speaks another version of fmove's protocol");
	case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
		return fm_err_set(err, -EACCES, "not an fmove node (it showed no key)");
	case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
	case SSL_R_SSLV3_ALERT_BAD_RECORD_MAC:
		return fm_err_set(err, -EBADMSG, FM_TLS_BROKEN_SEAL);
	case SSL_R_UNEXPECTED_EOF_WHILE_READING:
		return is_open ? fm_err_set(err, -ECONNRESET, "the connection broke off")
			       : fm_err_set(err, -ECONNRESET,
					    "it closed the connection during the handshake");
	}
	text = ERR_reason_error_string((unsigned long)ERR_PACK(ERR_LIB_SSL, 0, reason));
	return fm_err_set(err, -EPROTO, "%s (TLS: %s)",
			  is_open ? "what it sent makes no sense" : "not an fmove node",
			  text ? text : "unknown error");
}

/* What SSL_get_error() says, as -EAGAIN, 0 for the proper end, or an error with its text. */
static int tls_result(struct fm_tls *tls, int ssl_error, struct fm_err *err)
{
	unsigned long first = ERR_peek_error();

	if (tls->refusal.code) {
		ERR_clear_error();
		if (err)
			*err = tls->refusal;
		return tls->refusal.code;
	}
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
	if (tls->sys_errno == ECONNRESET && tls->is_open)
		return fm_err_set(err, -ECONNABORTED, "it reset the connection");
	if (tls->sys_errno == ECONNRESET || tls->sys_errno == EPIPE)
		return fm_err_set(err, -ECONNRESET, "it reset the connection%s",
				  tls->is_open ? "" : " during the handshake");
	if (tls->sys_errno == ETIMEDOUT)
		return fm_err_set(err, -ETIMEDOUT, "it does not answer any more");
	if (tls->sys_errno)
		return fm_err_sys(err, -tls->sys_errno, "connection");
	if (first && ERR_GET_LIB(first) == ERR_LIB_SSL)
		return err_of_reason(tls, ERR_GET_REASON(first), err);
	return fm_err_set(err, -EPROTO, "TLS: %s",
			  first ? "a cryptographic check failed" : "unknown error");
}

/* The peer proved its key, but did it also name our protocol? A client may leave that out. */
static int handshake_end(struct fm_tls *tls, struct fm_err *err)
{
	const uint8_t *name;
	unsigned len;

	SSL_get0_alpn_selected(tls->ssl, &name, &len);
	if (len == 0)
		return fm_err_set(err, -EPROTONOSUPPORT,
				  "it speaks another version of fmove's protocol");
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
	if (ret == 1 && !tls->refusal.code)
		return (ssize_t)n;
	return tls_result(tls, SSL_get_error(tls->ssl, ret), err);
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
	/* a courtesy: if it does not go out now, it does not go out */
	(void)SSL_shutdown(tls->ssl);
	ERR_clear_error();
}

const uint8_t *fm_tls_peer_key(const struct fm_tls *tls)
{
	return tls->peer_key;
}

static bool has_chosen(const struct fm_tls *tls, const uint8_t *alpn)
{
	const uint8_t *name;
	unsigned len;

	SSL_get0_alpn_selected(tls->ssl, &name, &len);
	return len == alpn[0] && memcmp(name, alpn + 1, len) == 0;
}

bool fm_tls_is_join(const struct fm_tls *tls)
{
	return has_chosen(tls, alpn_join);
}

bool fm_tls_is_data(const struct fm_tls *tls)
{
	return has_chosen(tls, alpn_data);
}

/* ---- data ---- */

bool fm_tls_is_kernel_sending(const struct fm_tls *tls)
{
	return tls->kernel && BIO_get_ktls_send(tls->kernel);
}

bool fm_tls_is_kernel_receiving(const struct fm_tls *tls)
{
	return tls->kernel && BIO_get_ktls_recv(tls->kernel);
}

int fm_tls_begin_data(struct fm_tls *tls, struct fm_err *err)
{
	assert(tls->is_open && fm_tls_is_data(tls));
	if (!fm_tls_is_kernel_sending(tls)) {
		tls->out = FM_FAULT("tls.alloc_out") ? NULL : malloc(OUT_BYTES);
		if (!tls->out)
			return fm_err_set(err, -ENOMEM, "no memory for a connection");
	}
	if (fm_tls_is_kernel_receiving(tls))
		return SSL_has_pending(tls->ssl)
			       ? fm_err_set(err, -EPROTO, "it sent data before its turn")
			       : 0;
	SSL_clear_mode(tls->ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_set_read_ahead(tls->ssl, 1);
	return 0;
}

/* One record of what is next: a piece of a long buffer, or as many short ones as come in a row. Its
 * length; 0: nothing is left. */
static size_t record_next(const struct iovec *iov, unsigned count, size_t skip,
			  uint8_t small[SMALL_MAX], const void **out)
{
	size_t len = 0, left;
	unsigned i = 0;

	while (i < count && skip >= iov[i].iov_len)
		skip -= iov[i++].iov_len;
	if (i == count)
		return 0;
	left = iov[i].iov_len - skip;
	if (left > SMALL_MAX) {
		*out = (const uint8_t *)iov[i].iov_base + skip;
		return left < FM_TLS_RECORD_MAX ? left : FM_TLS_RECORD_MAX;
	}
	for (; i < count && iov[i].iov_len - skip <= SMALL_MAX - len; i++, skip = 0) {
		memcpy(small + len, (const uint8_t *)iov[i].iov_base + skip, iov[i].iov_len - skip);
		len += iov[i].iov_len - skip;
	}
	*out = small;
	return len;
}

ssize_t fm_tls_sendv(struct fm_tls *tls, const struct iovec *iov, unsigned count,
		     struct fm_err *err)
{
	uint8_t small[SMALL_MAX];
	const void *record = NULL;
	size_t sent = 0, len;
	ssize_t n = 0;

	assert(tls->out);
	while (n >= 0 && (len = record_next(iov, count, sent, small, &record)) > 0) {
		n = fm_tls_write(tls, record, len, err);
		if (n > 0)
			sent += (size_t)n;
	}
	if (n >= 0)
		n = fm_tls_flush(tls, err);
	return n < 0 && (n != -EAGAIN || sent == 0) ? n : (ssize_t)sent;
}

bool fm_tls_has_unsent(const struct fm_tls *tls)
{
	return tls->out_at < tls->out_len;
}

int fm_tls_flush(struct fm_tls *tls, struct fm_err *err)
{
	if (out_flush(tls) == 0)
		return 0;
	if (errno == EAGAIN || errno == EINTR) {
		tls->wants = EPOLLOUT;
		return -EAGAIN;
	}
	tls->sys_errno = errno;
	ERR_clear_error();
	return tls_result(tls, SSL_ERROR_SYSCALL, err);
}

/* Until all is full, or nothing more is there: then tls->over says what that is. */
static size_t recv_fill(struct fm_tls *tls, const struct iovec *iov)
{
	size_t len = 0;

	while (len < iov->iov_len && !tls->over) {
		ssize_t n = fm_tls_read(tls, (uint8_t *)iov->iov_base + len, iov->iov_len - len,
					&tls->over_err);

		if (n > 0)
			len += (size_t)n;
		else
			tls->over = n < 0 ? (int)n : -ENODATA;
	}
	return len;
}

ssize_t fm_tls_recvv(struct fm_tls *tls, const struct iovec *iov, unsigned count,
		     struct fm_err *err)
{
	size_t got = 0;
	int over;

	assert(!fm_tls_is_kernel_receiving(tls));
	if (!tls->over || tls->over == -EAGAIN)
		tls->over = 0;
	for (unsigned i = 0; i < count && !tls->over; i++)
		got += recv_fill(tls, &iov[i]);
	over = tls->over;
	if (over == -EAGAIN)
		tls->is_drained = false;	/* epoll will tell */
	if (got > 0)
		return (ssize_t)got;
	if (over != -EAGAIN && over != -ENODATA && err)
		*err = tls->over_err;
	return over == -ENODATA ? 0 : over;
}
