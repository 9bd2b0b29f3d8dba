/* Sends prepared HTTP requests over keep-alive connections and measures the answers.

   contact_load FILE CONNECTIONS RATE PORT [PORT...]

   FILE holds requests, each after its length (4 bytes, little endian). With RATE 0 every connection
   sends its next request as soon as it has an answer; else requests are due at that rate (1/s), and
   a wait is counted from when a request was due, whether or not a connection was free. Prints one
   line: answers, answers other than 200, seconds, and the 50th, 99th and 100th percentile in ms. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_ANSWER 65536

struct line {
    int fd;
    int busy;
    double due_s;
    size_t have;
    char answer[MAX_ANSWER];
};

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(2);
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static int connected(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_all(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t done = send(fd, bytes, size, MSG_NOSIGNAL);
        if (done < 0) die("send");
        bytes += done;
        size -= (size_t)done;
    }
}

/* The status of the answer once it is whole, else 0. */
static int whole(struct line *line) {
    char *end = memmem(line->answer, line->have, "\r\n\r\n", 4);
    if (end == NULL) return 0;
    *end = 0;
    char *length = strcasestr(line->answer, "\r\ncontent-length:");
    size_t body = length ? strtoul(length + 17, NULL, 10) : 0;
    size_t size = (size_t)(end + 4 - line->answer) + body;
    *end = '\r';
    if (line->have < size) return 0;
    return atoi(line->answer + 9);
}

int main(int argc, char **argv) {
    if (argc < 5) die("contact_load FILE CONNECTIONS RATE PORT...");
    FILE *file = fopen(argv[1], "rb");
    if (file == NULL) die(argv[1]);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *all = malloc(size);
    if (all == NULL || fread(all, 1, size, file) != size) die("read");
    fclose(file);
    size_t total = 0, at = 0;
    for (; at + 4 <= size; total++) at += 4 + (size_t)(*(uint32_t *)(all + at));
    int count = atoi(argv[2]), ports = argc - 4;
    double rate = atof(argv[3]);
    double *waits = calloc(total + 1, sizeof *waits);
    struct line *lines = calloc((size_t)count, sizeof *lines);
    int poll = epoll_create1(0);
    if (waits == NULL || lines == NULL || poll < 0) die("start");
    for (int i = 0; i < count; i++) {
        lines[i].fd = connected(atoi(argv[4 + i % ports]));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &lines[i]};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, lines[i].fd, &event) != 0) die("epoll");
    }
    size_t sent = 0, done = 0, wrong = 0;
    at = 0;
    int next = 0;
    double began = now_s();
    while (done < total) {
        double now = now_s();
        for (int tried = 0; tried < count && sent < total; tried++) {
            struct line *line = &lines[next];
            double due = rate > 0 ? began + (double)sent / rate : now;
            if (due > now) break;
            next = (next + 1) % count;
            if (line->busy) continue;
            uint32_t length = *(uint32_t *)(all + at);
            line->busy = 1;
            line->due_s = due;
            line->have = 0;
            send_all(line->fd, all + at + 4, length);
            at += 4 + length;
            sent++;
        }
        struct epoll_event events[256];
        int found = epoll_wait(poll, events, 256, rate > 0 ? 1 : 1000);
        now = now_s();
        for (int i = 0; i < found; i++) {
            struct line *line = events[i].data.ptr;
            ssize_t got = recv(line->fd, line->answer + line->have, MAX_ANSWER - 1 - line->have, 0);
            if (got <= 0) die("recv");
            line->have += (size_t)got;
            line->answer[line->have] = 0;
            int status = whole(line);
            if (status == 0) continue;
            if (status != 200 && wrong++ == 0) fprintf(stderr, "%s\n", line->answer);
            waits[done++] = now - line->due_s;
            line->busy = 0;
        }
    }
    double took = now_s() - began;
    qsort(waits, done, sizeof *waits, by_size);
    printf("%zu %zu %.6f %.4f %.4f %.4f\n", done, wrong, took, 1e3 * waits[done / 2],
           1e3 * waits[done * 99 / 100], 1e3 * waits[done - 1]);
    return 0;
}
