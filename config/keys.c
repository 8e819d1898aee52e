/* SPDX-License-Identifier: MIT */
/* keys - see keys.h. */
#include "config/keys.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/private_file.h"

#define KEY_FILE_BYTES_MAX 4096

static int public_of(EVP_PKEY *pair, uint8_t public_key[static FM_VALUE_KEY_LEN])
{
	size_t len = FM_VALUE_KEY_LEN;

	if (EVP_PKEY_get_id(pair) != EVP_PKEY_ED25519 ||
	    EVP_PKEY_get_raw_public_key(pair, public_key, &len) != 1)
		return -EINVAL;
	return len == FM_VALUE_KEY_LEN ? 0 : -EINVAL;
}

/* Writes the key as PEM, and closes fd. */
static int write_pem(int fd, EVP_PKEY *pair)
{
	FILE *f = fdopen(fd, "w");
	int ret = 0;

	if (!f) {
		ret = -errno;
		close(fd);
		return ret;
	}
	if (FM_FAULT("key.write") ||
	    PEM_write_PrivateKey(f, pair, NULL, NULL, 0, NULL, NULL) != 1 || fflush(f) != 0 ||
	    fsync(fileno(f)) < 0)
		ret = -EIO;
	if (fclose(f) != 0 && ret == 0)
		ret = -errno;
	return ret;
}

static int write_key_file(const char *file, EVP_PKEY *pair, struct fm_err *err)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	int ret;

	if (fd < 0 && errno == EEXIST)
		return fm_err_set(err, -EEXIST, "%s is there already; a key is never overwritten",
				  file);
	if (fd < 0)
		return fm_err_sys(err, -errno, "create %s", file);
	ret = write_pem(fd, pair);
	if (ret < 0) {
		/* it is worth nothing; the first error is the one to tell */
		(void)unlink(file);
		return fm_err_sys(err, ret, "write %s", file);
	}
	return 0;
}

int fm_key_generate(const char *file, uint8_t public_key[static FM_VALUE_KEY_LEN],
		    struct fm_err *err)
{
	uint8_t key[FM_VALUE_KEY_LEN];
	EVP_PKEY *pair = FM_FAULT("key.generate") ? NULL : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	int ret;

	assert(file);
	if (!pair || public_of(pair, key) < 0)
		ret = fm_err_set(err, -EIO, "generate a key: OpenSSL refuses");
	else
		ret = write_key_file(file, pair, err);
	EVP_PKEY_free(pair);
	ERR_clear_error();
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < sizeof(key); i++)
		public_key[i] = key[i];
	return 0;
}

/* Gives no password, so that an encrypted key is an error and no question on a terminal. */
static int no_password(char *buf, int size, int is_writing, void *ctx)
{
	(void)buf;
	(void)size;
	(void)is_writing;
	(void)ctx;
	return -1;
}

static int read_pem(int fd, const char *file, uint8_t public_key[static FM_VALUE_KEY_LEN],
		    struct fm_err *err)
{
	char text[KEY_FILE_BYTES_MAX];
	ssize_t len = read(fd, text, sizeof(text));
	EVP_PKEY *pair;
	BIO *bio;
	int ret;

	if (len < 0)
		return fm_err_sys(err, -errno, "read %s", file);
	bio = BIO_new_mem_buf(text, (int)len);
	pair = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
	ret = pair ? public_of(pair, public_key) : -EINVAL;
	EVP_PKEY_free(pair);
	BIO_free(bio);
	OPENSSL_cleanse(text, sizeof(text));
	ERR_clear_error();
	if (ret < 0)
		return fm_err_set(err, ret,
				  "%s: not an Ed25519 private key in PEM; fmove keygen makes one",
				  file);
	return 0;
}

/*
 * Whose a key may be, beside root: ours. Root also reads that of the service's user: whose the
 * directory is (files.c), or where only root can put files, who was given this one.
 */
static uid_t owner_of(int fd, const char *file)
{
	char path[PATH_MAX];
	struct stat dir, key;

	if (geteuid() != 0 || strlen(file) >= sizeof(path))
		return geteuid();
	(void)snprintf(path, sizeof(path), "%s", file);	/* it fits; dirname() changes it */
	if (stat(dirname(path), &dir) < 0)
		return 0;
	if (dir.st_uid == 0 && !(dir.st_mode & (S_IWGRP | S_IWOTH)) && fstat(fd, &key) == 0)
		return key.st_uid;
	return dir.st_uid;
}

int fm_key_read(const char *file, uint8_t public_key[static FM_VALUE_KEY_LEN], struct fm_err *err)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int ret;

	if (fd < 0)
		return fm_err_sys(err, -errno, "open %s", file);
	ret = fm_private_file_check(fd, file, owner_of(fd, file), err);
	if (ret == 0)
		ret = read_pem(fd, file, public_key, err);
	close(fd);
	return ret;
}
