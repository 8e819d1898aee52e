/* SPDX-License-Identifier: MIT */
/* leaky STATUS WORD...: loses memory and exits with that status. For leaks-test. */
#include <stdlib.h>

__attribute__((noinline)) static void lose(void)
{
	for (int i = 0; i < 64; i++) {
		char *volatile lost = malloc(64);

		if (lost)
			lost[0] = 'x';
	}
}

int main(int argc, char **argv)
{
	lose();
	return argc > 1 ? atoi(argv[1]) : 0;
}
