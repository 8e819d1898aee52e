/* SPDX-License-Identifier: MIT */
/* test_exit_code - what each errno means that occurs here. links: fm_base */
#include "mover/base/exit_code.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fm_test.h"

#define ERRNO_MAX 4095

/*
 * What the daemon and the client say of themselves. p: it may pass; l: what came is lost. Those
 * that are not here failed, do not pass and keep what came; a new one is to be put here, or to be
 * left out, on purpose.
 */
static const struct {
	enum fm_exit exit;
	const char *words;		/* "ENOENT EIO:p", ... */
} expected[] = {
	{FM_EXIT_FAILED, "EBUSY:p EAGAIN:p ENOMEM:p ENFILE:p EMFILE:p EPIPE:p ENOSPC:l EFBIG:l "
			 "ESTALE:l EPROTO:l ENOTDIR:l "
			 "ENOENT EINVAL EIO ERANGE ENAMETOOLONG E2BIG EOPNOTSUPP ENODEV ELOOP "
			 "EMSGSIZE ENOBUFS EALREADY EINTR ENOSYS EOVERFLOW ENODATA EADDRNOTAVAIL "
			 "ENOTUNIQ ENOTTY ENOTEMPTY EBADF EBADE EADDRINUSE ENOKEY ESPIPE ENXIO "
			 "EAFNOSUPPORT ESRCH EREMOTEIO ENOTBLK ENOLCK EMLINK EFAULT EDEADLK"},
	{FM_EXIT_UNREACHABLE, "ECONNREFUSED:p ECONNRESET:p ECONNABORTED:p ENOTCONN:p "
			      "EHOSTUNREACH:p EHOSTDOWN:p ENETUNREACH:p "
			      "ENETDOWN:p ENETRESET:p ETIMEDOUT:p ENONET ETIME EPROTONOSUPPORT"},
	{FM_EXIT_USAGE, "EISDIR:l"},
	{FM_EXIT_CORRUPT, "EBADMSG:l EILSEQ"},
	{FM_EXIT_REFUSED, "EACCES EPERM EROFS EXDEV EKEYREJECTED EKEYREVOKED EDQUOT:l EEXIST:l"},
	{FM_EXIT_CANCELLED, "ECANCELED:p"},
};

static void check(int code, enum fm_exit status, bool passes, bool keeps)
{
	CU_ASSERT_EQUAL(fm_api_exit(code), status);
	CU_ASSERT_EQUAL(fm_api_exit(-code), status);
	CU_ASSERT_EQUAL(fm_errno_may_pass(-code), passes);
	CU_ASSERT_EQUAL(fm_errno_keeps_partial(-code), keeps);
}

/* Goal: each errno of the table means what is written above, and no errno of the kernel's means
 * anything else than to have failed. */
static void test_each_errno(void)
{
	bool is_seen[ERRNO_MAX + 1] = { false };
	char buf[1024], *save;

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		(void)snprintf(buf, sizeof(buf), "%s", expected[i].words);
		for (char *word = strtok_r(buf, " ", &save); word;
		     word = strtok_r(NULL, " ", &save)) {
			char *mark = strchr(word, ':');
			int code;

			if (mark)
				*mark++ = '\0';
			code = -fm_api_errno(word);
			CU_ASSERT_STRING_EQUAL_FATAL(fm_api_errno_name(code), word);
			CU_ASSERT_FALSE(is_seen[code]);
			is_seen[code] = true;
			check(code, expected[i].exit, mark && *mark == 'p', !mark || *mark != 'l');
		}
	}
	for (int code = 1; code <= ERRNO_MAX; code++)
		if (!is_seen[code])
			check(code, FM_EXIT_FAILED, false, true);
}

/* Goal: what is no errno is a failure, but for 0. */
static void test_no_errno(void)
{
	CU_ASSERT_EQUAL(fm_api_exit(0), FM_EXIT_DONE);
	CU_ASSERT_FALSE(fm_errno_may_pass(0));
	CU_ASSERT_EQUAL(fm_api_exit(INT_MIN), FM_EXIT_FAILED);
	CU_ASSERT_FALSE(fm_errno_may_pass(INT_MIN));
	CU_ASSERT_EQUAL(fm_api_exit(INT_MAX), FM_EXIT_FAILED);
}

static const struct fm_test tests[] = {
	{ "what each errno means", test_each_errno },
	{ "what is no errno failed", test_no_errno },
};
FM_TEST_MAIN("exit_code", tests)
