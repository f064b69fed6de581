//go:build unix

package main

import "syscall"

// makeFIFO makes a named pipe.
func makeFIFO(path string) error { return syscall.Mkfifo(path, 0o600) }

// setUmask has new files be readable for all, whatever the user who runs the tests prefers.
func setUmask() { syscall.Umask(0o022) }
