//go:build !linux

package proxydhcp

import (
	"errors"
	"os"
)

// memoryFile returns an error, because it is supported only on Linux.
func memoryFile([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }
