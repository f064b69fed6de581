//go:build darwin || freebsd || netbsd

package store

import "syscall"

func accessTime(st *syscall.Stat_t) *syscall.Timespec { return &st.Atimespec }
