//go:build dragonfly || linux || openbsd

package store

import "syscall"

func accessTime(st *syscall.Stat_t) *syscall.Timespec { return &st.Atim }
