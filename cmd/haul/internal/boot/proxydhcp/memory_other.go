//go:build !linux

package proxydhcp

import (
	"errors"
	"os"
)

// memoryFile is only supported on Linux.
func memoryFile([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }
