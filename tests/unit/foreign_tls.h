/* SPDX-License-Identifier: MIT */
/*
 * foreign_tls - a peer that has a node's key and speaks TLS by OpenSSL itself, to send what no node
 * does.
 */
#ifndef FM_FOREIGN_TLS_H
#define FM_FOREIGN_TLS_H

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "net_test.h"

struct foreign {
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
};

static inline void foreign_show_key(SSL_CTX *ctx, uint8_t seed)
{
	FILE *f = fopen(key_file(seed), "re");
	EVP_PKEY *pkey = f ? PEM_read_PrivateKey(f, NULL, NULL, NULL) : NULL;
	X509 *cert = X509_new();

	if (!pkey || !cert || !X509_gmtime_adj(X509_getm_notBefore(cert), 0) ||
	    !X509_gmtime_adj(X509_getm_notAfter(cert), 3600) || !X509_set_pubkey(cert, pkey) ||
	    !X509_sign(cert, pkey, NULL) || SSL_CTX_use_certificate(ctx, cert) != 1 ||
	    SSL_CTX_use_PrivateKey(ctx, pkey) != 1)
		abort();
	X509_free(cert);
	EVP_PKEY_free(pkey);
	fclose(f);
}

/* Speaks whatever the dialler names first. */
static inline int foreign_alpn(SSL *ssl, const uint8_t **out, uint8_t *out_len, const uint8_t *in,
			       unsigned len, void *arg)
{
	(void)ssl;
	(void)len;
	(void)arg;
	*out = in + 1;
	*out_len = in[0];
	return SSL_TLSEXT_ERR_OK;
}

/* fd is its own from here on. alpn: what a dialler asks for; NULL: it accepts, and sends so many
 * tickets. */
static inline void foreign_new(struct foreign *f, int fd, uint8_t seed, const char *alpn,
			       size_t tickets)
{
	f->ctx = SSL_CTX_new(TLS_method());
	if (!f->ctx)
		abort();
	foreign_show_key(f->ctx, seed);
	SSL_CTX_set_num_tickets(f->ctx, tickets);
	SSL_CTX_set_alpn_select_cb(f->ctx, foreign_alpn, NULL);
	f->ssl = SSL_new(f->ctx);
	f->fd = fd;
	if (!f->ssl || fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || SSL_set_fd(f->ssl, fd) != 1)
		abort();
	if (alpn) {
		SSL_set_alpn_protos(f->ssl, (const uint8_t *)alpn, (unsigned)strlen(alpn));
		SSL_set_connect_state(f->ssl);
	} else {
		SSL_set_accept_state(f->ssl);
	}
}

static inline void foreign_free(struct foreign *f)
{
	SSL_free(f->ssl);
	SSL_CTX_free(f->ctx);
	close(f->fd);
}

/* kind: SSL_KEY_UPDATE_REQUESTED asks for the other end's key to be changed, too. */
static inline void foreign_change_key(struct foreign *f, int kind)
{
	CU_ASSERT_EQUAL(SSL_key_update(f->ssl, kind), 1);
	CU_ASSERT_EQUAL(SSL_do_handshake(f->ssl), 1);
}

#endif
