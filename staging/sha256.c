/* SPDX-License-Identifier: MIT */
/* sha256 - see sha256.h. */
#include "staging/sha256.h"

#include <assert.h>
#include <openssl/evp.h>

#include "mover/base/fault.h"

/* Opaque: a context of OpenSSL is all there is to it. */
static EVP_MD_CTX *ctx_of(struct fm_sha256 *s)
{
	return (EVP_MD_CTX *)s;
}

struct fm_sha256 *fm_sha256_new(void)
{
	EVP_MD_CTX *ctx = FM_FAULT("stage.sha256") ? NULL : EVP_MD_CTX_new();

	if (ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
		EVP_MD_CTX_free(ctx);
		ctx = NULL;
	}
	return (struct fm_sha256 *)ctx;
}

void fm_sha256_add(struct fm_sha256 *s, const void *bytes, size_t len)
{
	int ok = EVP_DigestUpdate(ctx_of(s), bytes, len);

	assert(ok == 1);	/* it computes; what it needs it has */
}

void fm_sha256_end(struct fm_sha256 *s, uint8_t out[FM_SHA256_LEN])
{
	int ok = EVP_DigestFinal_ex(ctx_of(s), out, NULL);

	assert(ok == 1);
}

void fm_sha256_free(struct fm_sha256 *s)
{
	EVP_MD_CTX_free(ctx_of(s));
}

void fm_sha256_hex(const uint8_t sum[FM_SHA256_LEN], char out[FM_SHA256_HEX + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < FM_SHA256_LEN; i++) {
		out[2 * i] = digits[sum[i] >> 4];
		out[2 * i + 1] = digits[sum[i] & 15];
	}
	out[FM_SHA256_HEX] = '\0';
}
