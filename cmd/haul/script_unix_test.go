//go:build unix

package main

import "syscall"

// makeFIFO makes a named pipe.
func makeFIFO(path string) error { return syscall.Mkfifo(path, 0o600) }

// setUmask makes new files readable for all, whatever umask the user has.
func setUmask() { syscall.Umask(0o022) }
