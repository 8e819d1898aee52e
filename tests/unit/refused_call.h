/* SPDX-License-Identifier: MIT */
/* refused_call - a system call that fails as an older kernel, emulator or filter has it fail. */
#ifndef FM_TEST_REFUSED_CALL_H
#define FM_TEST_REFUSED_CALL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fm_test.h"

/* From now on this process hears code, an errno, for that call. -1: this kernel has no filters. */
static inline int refuse_call(long number, int code)
{
	struct sock_filter lines[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)code),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(lines) / sizeof(lines[0]), .filter = lines };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/*
 * What run() returns, 0 or -errno, in a process that hears code for that call; 1: there are no
 * filters here, which is said.
 */
static inline int with_refused_call(long number, int code, int (*run)(void))
{
	int status = -1;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(refuse_call(number, code) < 0 ? 255 : -run());
	CU_ASSERT_TRUE_FATAL(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) != 255)
		return -WEXITSTATUS(status);
	printf("SKIP: this kernel filters no system calls\n");
	return 1;
}

#endif
