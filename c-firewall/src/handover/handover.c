// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close
#include "handover/handover.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/process.h"

void handover_init(struct handover *handover) {
    *handover = (struct handover){.rules = -1, .channel = {.fd = -1}};
    for (int i = 0; i < HANDOVER_FD_COUNT; i++)
        handover->fds[i] = -1;
}

int handover_values(const struct options *options, char *values[static HANDOVER_FD_COUNT]) {
    const struct {
        enum arguments_option option;
        const char *value;
    } given[] = {
        [HANDOVER_CONTROL] = {OPTION_CONTROL, options->control},
        [HANDOVER_EVENTS] = {OPTION_EVENTS, options->events},
    };
    char *made[HANDOVER_FD_COUNT] = {NULL};
    int result = 0;

    for (int i = 0; i < HANDOVER_FD_COUNT; i++) {
        if (!given[i].value)
            continue;
        made[i] = control_process_value_of(given[i].option, given[i].value);
        if (!made[i])
            result = -ENOMEM;
    }
    for (int i = 0; i < HANDOVER_FD_COUNT; i++) {
        if (result == 0)
            values[i] = made[i];
        else
            free(made[i]);
    }
    return result;
}

int handover_fail_classic(struct failure *failure) {
    failure_set(failure, LOG_EXIT_USAGE,
                "the backend classic cannot take a queue over, as libnetfilter_queue opens sockets "
                "of its own only: start the new firewall with --backend raw or mnl");
    return -EINVAL;
}

int handover_fail_line(const char *whose, struct failure *failure) {
    failure_set(failure, LOG_EXIT_CALL,
                "the %s firewall sent an unexpected message: check that it is a Twinwall firewall",
                whose);
    return -EPROTO;
}

bool handover_says(const char *line, const char *key, const char *value) {
    json_t *object = json_loads(line, 0, NULL);
    const json_t *said = json_object_get(object, key);
    const bool so = value ? json_is_string(said) && strcmp(json_string_value(said), value) == 0
                          : json_is_true(said);

    json_decref(object);
    return so;
}

void handover_free(struct handover *handover) {
    for (uint32_t i = 0; i < handover->queue_count; i++)
        if (handover->queues[i].handover.fd >= 0)
            close(handover->queues[i].handover.fd);
    for (int i = 0; i < HANDOVER_FD_COUNT; i++) {
        if (handover->fds[i] >= 0)
            close(handover->fds[i]);
        free(handover->options[i]);
    }
    if (handover->rules >= 0)
        close(handover->rules);
    handover_channel_close(&handover->channel);
    migration_side_free(&handover->side);
    migration_free(&handover->migration);
    free(handover->states.tokens);
    free(handover->states.used);
    free(handover->count_places.of);
    free(handover->stat_places.of);
    free(handover->queues);
    handover_init(handover);
}
