// SPDX-License-Identifier: GPL-2.0-or-later
// Program with all tests: `all-tests GROUP` runs the tests of one file, whose `main` the Makefile
// has renamed to GROUP.
#include <stdio.h>
#include <string.h>

#define GROUP(name) int name(void);
#include "groups.inc"
#undef GROUP

static const struct {
    const char *name;
    int (*run)(void);
} groups[] = {
#define GROUP(name) {#name, name},
#include "groups.inc"
#undef GROUP
};

int main(int count, char **words) {
    for (size_t i = 0; count == 2 && i < sizeof groups / sizeof *groups; i++)
        if (strcmp(words[1], groups[i].name) == 0)
            return groups[i].run();
    fprintf(stderr, "usage: %s GROUP, a name of groups.inc\n", words[0]);
    return 2;
}
