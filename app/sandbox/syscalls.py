"""System call numbers of Linux on x86-64, and the layout of what seccomp sees.

Owns: names and numbers (Linux `arch/x86/entry/syscalls/syscall_64.tbl`). Must not: hold any rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["AUDIT_ARCH_X86_64", "NUMBERS", "X32_BIT"]

AUDIT_ARCH_X86_64: Final = 0xC000003E
X32_BIT: Final = 0x40000000
"""Calls of the x32 ABI carry this bit; the kernel runs them under the same architecture."""

_TABLE: Final = """
read=0 write=1 open=2 close=3 stat=4 fstat=5 lstat=6 poll=7 lseek=8 mmap=9 mprotect=10 munmap=11
brk=12 rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 ioctl=16 pread64=17 pwrite64=18 readv=19
writev=20 access=21 pipe=22 select=23 sched_yield=24 mremap=25 msync=26 mincore=27 madvise=28
shmget=29 shmat=30 dup=32 dup2=33 nanosleep=35 getitimer=36 getpid=39 sendfile=40 socket=41
connect=42 accept=43 sendto=44 recvfrom=45 sendmsg=46 recvmsg=47 bind=49 listen=50 socketpair=53
clone=56 fork=57 vfork=58 execve=59 exit=60 wait4=61 kill=62 uname=63 semget=64 msgget=68 fcntl=72
flock=73 truncate=76 ftruncate=77 getcwd=79 chdir=80 fchdir=81 rename=82 mkdir=83 rmdir=84
creat=85 link=86 unlink=87 symlink=88 readlink=89 chmod=90 fchmod=91 chown=92 umask=95
gettimeofday=96 getrlimit=97 getrusage=98 sysinfo=99 times=100 ptrace=101 getuid=102 syslog=103
getgid=104 setuid=105 setgid=106 geteuid=107 getegid=108 setpgid=109 getppid=110 getpgrp=111
setsid=112 setgroups=116 setresuid=117 getresuid=118 setresgid=119 getresgid=120 getpgid=121
capget=125 capset=126 rt_sigpending=127 rt_sigtimedwait=128 rt_sigqueueinfo=129 rt_sigsuspend=130
sigaltstack=131 mknod=133 uselib=134 personality=135 statfs=137 fstatfs=138 getpriority=140
setpriority=141 sched_getparam=143 sched_setscheduler=144 sched_getscheduler=145
sched_get_priority_max=146 sched_get_priority_min=147 mlock=149 munlock=150 mlockall=151
vhangup=153 modify_ldt=154 pivot_root=155 _sysctl=156 prctl=157 arch_prctl=158 adjtimex=159
setrlimit=160 chroot=161 sync=162 acct=163 settimeofday=164 mount=165 umount2=166 swapon=167
swapoff=168 reboot=169 sethostname=170 setdomainname=171 iopl=172 ioperm=173 init_module=175
delete_module=176 quotactl=179 nfsservctl=180 gettid=186 setxattr=188 tkill=200 time=201 futex=202
sched_setaffinity=203 sched_getaffinity=204 set_thread_area=205 io_setup=206 lookup_dcookie=212
epoll_create=213 remap_file_pages=216 getdents64=217 set_tid_address=218 restart_syscall=219
clock_settime=227 clock_gettime=228 clock_getres=229 clock_nanosleep=230 exit_group=231
epoll_wait=232 epoll_ctl=233 tgkill=234 mbind=237 set_mempolicy=238 get_mempolicy=239 mq_open=240
kexec_load=246 add_key=248 request_key=249 keyctl=250 ioprio_set=251 migrate_pages=256 openat=257
mkdirat=258 mknodat=259 newfstatat=262 linkat=265 symlinkat=266 readlinkat=267 faccessat=269
pselect6=270 ppoll=271 unshare=272 set_robust_list=273 get_robust_list=274 splice=275 tee=276
vmsplice=278 move_pages=279 utimensat=280 epoll_pwait=281 timerfd_create=283 eventfd=284
fallocate=285 signalfd4=289 eventfd2=290 epoll_create1=291 dup3=292 pipe2=293 inotify_init1=294
preadv=295 rt_tgsigqueueinfo=297 perf_event_open=298 fanotify_init=300 fanotify_mark=301
prlimit64=302 name_to_handle_at=303 open_by_handle_at=304 clock_adjtime=305 sendmmsg=307 setns=308
getcpu=309 process_vm_readv=310 process_vm_writev=311 kcmp=312 finit_module=313 sched_setattr=314
seccomp=317 getrandom=318 memfd_create=319 kexec_file_load=320 bpf=321 execveat=322
userfaultfd=323 membarrier=324 mlock2=325 copy_file_range=326 preadv2=327 pkey_mprotect=329
pkey_alloc=330 statx=332 rseq=334 pidfd_send_signal=424 io_uring_setup=425 io_uring_enter=426
io_uring_register=427 open_tree=428 move_mount=429 fsopen=430 fsconfig=431 fsmount=432 fspick=433
pidfd_open=434 clone3=435 close_range=436 openat2=437 pidfd_getfd=438 faccessat2=439
process_madvise=440 mount_setattr=442 quotactl_fd=443 landlock_create_ruleset=444
landlock_add_rule=445 landlock_restrict_self=446 memfd_secret=447 futex_waitv=449
"""

NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {name: int(number) for name, number in (word.split("=") for word in _TABLE.split())}
)
