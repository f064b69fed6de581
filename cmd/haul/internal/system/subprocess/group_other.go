//go:build !unix

package subprocess

import (
	"errors"
	"os/exec"
	"syscall"
)

func ownGroup(*exec.Cmd) bool { return false }

func signalGroup(int, syscall.Signal) error { return errors.ErrUnsupported }
