//go:build !linux

package proxydhcp

import (
	"errors"
	"os"
)

// memoryFile returns an error, because files in memory are supported on Linux only.
func memoryFile([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }
